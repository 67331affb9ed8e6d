"""What several blocks need: linear layers without bias, RMSNorm, and rotations (specification, sections N.7 to N.10 and 5.4)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config


class Linear(nn.Module):
    """`y = W x`, `W` `[out, in]`. Weights arrive already quantised (see train/master.py), so this is a plain product."""

    def __init__(self, out: int, inp: int, gain: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, inp) * gain / math.sqrt(inp))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class Norm(nn.Module):
    """RMSNorm with the model's tiny epsilon (N.8)."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1]
        return x * torch.rsqrt(mean_square + self.eps) * self.weight


def inverse_powers(dims: int, base: float) -> Tensor:
    """`base^(-2i/dims)`: the f32 reciprocal of the f32 power, as the release rounds."""
    powers = torch.tensor([base ** (2 * i / dims) for i in range(dims // 2)], dtype=torch.float64).float()
    return 1.0 / powers


def yarn(c: Config) -> Tensor:
    """Frequencies of every layer with a ratio (5.4), at every length."""
    dims, base = c.qk_rope_head_dim, c.compress_rope_theta
    pair_of = lambda turns: dims * math.log(c.rope_original_length / (turns * 2 * math.pi)) / (2 * math.log(base))  # noqa: E731
    low = max(math.floor(pair_of(c.rope_beta_fast)), 0)
    high = min(math.ceil(pair_of(c.rope_beta_slow)), dims - 1)
    high = high + 0.001 if low == high else high
    plain = inverse_powers(dims, base)
    ramp = ((torch.arange(dims // 2).float() - low) / (high - low)).clamp(0, 1)
    return plain / c.rope_factor * ramp + plain * (1 - ramp)


class Rope:
    """Cosines and sines of positions; angles are f32 products, their cosines exact (N.9)."""

    def __init__(self, frequencies: Tensor):
        self.frequencies, self.table = frequencies, None

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """`(cos, sin)` `[..., pairs]` of integer positions."""
        most = int(positions.max()) + 1 if positions.numel() else 1
        if self.table is None or self.table.shape[1] < most:
            angles = torch.arange(max(most, 256)).float()[:, None] * self.frequencies
            self.table = torch.stack([angles.double().cos(), angles.double().sin()]).float()
        cos, sin = self.table.to(positions.device)[:, positions]
        return cos, sin


def rotate(x: Tensor, angles: tuple[Tensor, Tensor], back: bool = False) -> Tensor:
    """Turns the last dims of `x` by adjacent pairs; `angles` broadcast over the axes before the last."""
    cos, sin = angles
    sin = -sin if back else sin
    head, tail = x[..., : x.shape[-1] - 2 * cos.shape[-1]], x[..., x.shape[-1] - 2 * cos.shape[-1] :]
    a, b = tail[..., 0::2], tail[..., 1::2]
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    return torch.cat([head, turned], dim=-1)
