"""Quantisation-aware training: full-precision master weights beside the network, whose own weights are always those of the exported file.

A step loads the quantised masters into the network, and gives the network's gradients to the masters unchanged (straight through).
"""

import torch
from torch import Tensor

from .checkpoint import quantised
from .model.network import Network

PHASES = {
    # What is trained: the backbone; then what only reads it, drafts and index scores.
    "backbone": lambda name: not _reads(name),
    "drafts": lambda name: _reads(name),
}


def _reads(name: str) -> bool:
    return name.startswith("mtp.") or ".indexer." in name


def _decays(name: str, value: Tensor) -> bool:
    """Matrices shrink a little; norms, biases, mixes and tables do not."""
    return value.dim() >= 2 and ".hc_" not in name and "engram" not in name and "embed" not in name


class Master:
    def __init__(self, network: Network, phase: str, decay: float):
        self.network = network
        # Router biases follow the load, not a gradient.
        self.named = {n: p for n, p in network.named_parameters() if PHASES[phase](n) and not n.endswith(("gate.bias", "gate.bias_vl"))}
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(name in self.named)
        self.values = {name: parameter.detach().clone() for name, parameter in self.named.items()}
        decayed = [v for n, v in self.values.items() if _decays(n, v)]
        others = [v for n, v in self.values.items() if not _decays(n, v)]
        groups = [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-8, fused=True)

    @torch.no_grad()
    def load(self, quantise: bool = True) -> None:
        """Puts the masters into the network, as a file would hold them."""
        values = quantised(self.values) if quantise else self.values
        torch._foreach_copy_(list(self.named.values()), [values[name] for name in self.named])

    @torch.no_grad()
    def take(self) -> None:
        """The network's values become the masters: after something else than a step has changed them."""
        for name, parameter in self.named.items():
            self.values[name].copy_(parameter)

    @torch.no_grad()
    def step(self, rate: float, clip: float = 1.0) -> float:
        """One step of AdamW from the network's gradients; their norm before clipping."""
        for name, parameter in self.named.items():
            self.values[name].grad = parameter.grad
        gradients = [v.grad for v in self.values.values() if v.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, torch.clamp(clip / (norm + 1e-6), max=1.0).item())
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        for parameter in self.named.values():
            parameter.grad = None
        return float(norm)

    def state(self) -> dict:
        return {"values": self.values, "optimiser": self.optimiser.state_dict()}

    def restore(self, state: dict) -> None:
        for name, value in state["values"].items():
            self.values[name].copy_(value)
        self.optimiser.load_state_dict(state["optimiser"])


def all_values(network: Network, master: Master) -> dict[str, Tensor]:
    """Masters where there are some, the network's own values elsewhere: what is exported."""
    return {name: master.values.get(name, parameter.detach()) for name, parameter in network.named_parameters()}
