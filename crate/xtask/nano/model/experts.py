"""5A: the mixture of experts (specification, section 9)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config
from .common import Linear


class Gate(nn.Module):
    """Router. The biases choose and do not weigh; they are moved by load, not by gradient (see :meth:`Experts.balance`)."""

    def __init__(self, experts: int, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, dim) / math.sqrt(dim))
        self.bias = nn.Parameter(torch.zeros(experts), requires_grad=False)
        self.bias_vl = nn.Parameter(torch.zeros(experts), requires_grad=False)


class Shared(nn.Module):
    def __init__(self, c: Config, gain: float):
        super().__init__()
        self.w1 = Linear(c.moe_intermediate_size, c.hidden_size)
        self.w2 = Linear(c.hidden_size, c.moe_intermediate_size, gain)
        self.w3 = Linear(c.moe_intermediate_size, c.hidden_size)


class Stack(nn.Module):
    """Routed experts, one tensor for all: `w1`, `w3` `[experts, inter, dim]`, `w2` `[experts, dim, inter]`; files have them apart."""

    def __init__(self, c: Config, experts: int, gain: float):
        super().__init__()
        make = lambda out, inp, g: nn.Parameter(torch.randn(experts, out, inp) * g / math.sqrt(inp))  # noqa: E731
        self.w1 = make(c.moe_intermediate_size, c.hidden_size, 1.0)
        self.w2 = make(c.hidden_size, c.moe_intermediate_size, gain)
        self.w3 = make(c.moe_intermediate_size, c.hidden_size, 1.0)


class Experts(nn.Module):
    def __init__(self, c: Config, experts: int, top_k: int, gain: float):
        super().__init__()
        self.c, self.top_k = c, top_k
        self.gate = Gate(experts, c.hidden_size)
        self.experts = Stack(c, experts, gain)
        self.shared_experts = Shared(c, gain)
        self.load = torch.zeros(2, experts)

    def _swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        limit = self.c.swiglu_limit
        return F.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)

    def route(self, x: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        """Chosen experts and their weights `[n, top_k]` (9.1)."""
        scores = F.softplus(F.linear(x, self.gate.weight)).sqrt()
        bias = torch.where(image[:, None], self.gate.bias_vl, self.gate.bias)
        ids = (scores.detach() + bias).topk(self.top_k, dim=-1).indices
        if self.training:
            for kind in (0, 1):
                chosen = ids[image == bool(kind)].flatten()
                self.load[kind] += torch.bincount(chosen, minlength=scores.shape[-1]).cpu()
        chosen = scores.gather(1, ids)
        return ids, self.c.routed_scaling_factor * chosen / (chosen.sum(-1, keepdim=True) + 1e-20)

    def forward(self, x: Tensor, image: Tensor) -> Tensor:
        ids, weights = self.route(x, image)
        order = ids.flatten().argsort(stable=True)
        token = order // self.top_k
        counts = torch.bincount(ids.flatten(), minlength=self.gate.bias.numel()).tolist()
        inputs, shares = x[token].split(counts), weights.flatten()[order, None].split(counts)
        stack, parts = self.experts, []
        for rows, share, w1, w2, w3 in zip(inputs, shares, stack.w1.unbind(), stack.w2.unbind(), stack.w3.unbind()):
            # The weight enters before w2 (9.2).
            parts.append((self._swiglu(rows @ w1.t(), rows @ w3.t()) * share) @ w2.t())
        routed = torch.zeros_like(x).index_add(0, token, torch.cat(parts))
        s = self.shared_experts
        return routed + s.w2(self._swiglu(s.w1(x), s.w3(x)))

    @torch.no_grad()
    def balance(self, speed: float) -> None:
        """Moves each bias towards an even load, without a loss term, and forgets the load."""
        for bias, load in zip((self.gate.bias, self.gate.bias_vl), self.load):
            if load.sum() > 0:
                bias += speed * torch.sign(load.mean() - load).to(bias.device)
        self.load.zero_()
