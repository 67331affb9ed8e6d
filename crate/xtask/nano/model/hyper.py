"""2A: hyper-connections of four residual streams (specification, section 3)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config


class Sinkhorn(torch.autograd.Function):
    """Rows and columns of `[source, target, token]` sum to one: softmax and a column step, then alternating (3.1).

    Written out because forty small steps cost more in bookkeeping than in arithmetic. A step is `y = x / (sum x + eps)`, its gradient
    `(g - sum(g y)) / (sum x + eps)`.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, iterations: int, eps: float) -> Tensor:
        soft = logits.softmax(1)
        m, steps = soft + eps, []
        for axis in [0] + [1, 0] * (iterations - 1):
            total = m.sum(axis, keepdim=True) + eps
            m = m / total
            steps.append((m, total, axis))
        ctx.steps, ctx.soft = steps, soft
        return m

    @staticmethod
    def backward(ctx, g: Tensor):
        for y, total, axis in reversed(ctx.steps):
            g = (g - (g * y).sum(axis, keepdim=True)) / total
        soft = ctx.soft
        # The last step is the output itself: a node that keeps its output is never freed.
        del ctx.steps, ctx.soft
        return soft * (g - (g * soft).sum(1, keepdim=True)), None, None


def add_mixes(layer: nn.Module, name: str, c: Config, favourite: int) -> None:
    """Adds `{name}_fn`, `_scale` and `_base` to a layer. At first each stream mostly keeps to itself and `favourite` is read most."""
    lanes = c.hc_mult
    base = torch.zeros(2 * lanes + lanes * lanes)
    base[:lanes], base[favourite % lanes] = -1.0, 1.0
    base[2 * lanes :] = (4.0 * torch.eye(lanes)).flatten()
    layer.register_parameter(f"{name}_fn", nn.Parameter(0.02 * torch.randn(base.numel(), lanes * c.hidden_size) / lanes))
    layer.register_parameter(f"{name}_scale", nn.Parameter(torch.full((3,), 0.5)))
    layer.register_parameter(f"{name}_base", nn.Parameter(base))


def mixes(layer: nn.Module, name: str, c: Config, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`pre` `[n, h]`, `post` `[n, h]`, `comb` `[n, source, target]` from the residual `[n, h, dim]`."""
    fn, scale, base = (getattr(layer, f"{name}_{part}") for part in ("fn", "scale", "base"))
    lanes, f = c.hc_mult, h.flatten(1)
    mean_square = torch.linalg.vector_norm(f, dim=-1, keepdim=True).square() / f.shape[-1]
    m = F.linear(f, fn) * torch.rsqrt(mean_square + c.rms_norm_eps)
    pre = torch.sigmoid(m[:, :lanes] * scale[0] + base[:lanes]) + c.hc_eps
    post = 2 * torch.sigmoid(m[:, lanes : 2 * lanes] * scale[1] + base[lanes : 2 * lanes])
    logits = (m[:, 2 * lanes :] * scale[2] + base[2 * lanes :]).t().contiguous().unflatten(0, (lanes, lanes))
    comb = Sinkhorn.apply(logits, c.hc_sinkhorn_iters, c.hc_eps)
    return pre, post, comb.permute(2, 0, 1).contiguous()


def collapse(h: Tensor, pre: Tensor) -> Tensor:
    """`[n, dim]`, the streams weighted by `pre` (3.2)."""
    return torch.bmm(pre[:, None], h)[:, 0]


def expand(h: Tensor, y: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """Writes `y` `[n, dim]` back: the sum runs over the first index of `comb` (3.2)."""
    return torch.addcmul(torch.bmm(comb.transpose(1, 2), h), post[..., None], y[:, None])
