"""1B: the n-gram memory (specification, section 2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config
from .common import Linear


class Table(nn.Module):
    def __init__(self, rows: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(rows, width))


class Engram(nn.Module):
    def __init__(self, c: Config, rows: int):
        super().__init__()
        self.c = c
        self.embed = Table(rows, c.engram_head_dim)
        self.wkv = Linear((c.hc_mult + 1) * c.hidden_size, c.engram_columns * c.engram_head_dim, 0.5)
        self.q_weight = nn.Parameter(torch.ones(c.hc_mult, c.hidden_size))
        self.k_weight = nn.Parameter(torch.ones(c.hc_mult, c.hidden_size))

    def forward(self, h: Tensor, rows: Tensor, image: Tensor) -> Tensor:
        """Adds the memory of row ids `[n, columns]` to the streams `[n, h, dim]` (2.4)."""
        c = self.c
        projected = self.wkv(F.embedding(rows, self.embed.weight).flatten(1))
        key, value = projected.split([c.hc_mult * c.hidden_size, c.hidden_size], dim=-1)
        key = key.unflatten(-1, (c.hc_mult, c.hidden_size))
        rstd = lambda x: torch.rsqrt(x.square().mean(-1) + c.rms_norm_eps)  # noqa: E731
        dot = (h * (self.q_weight * self.k_weight) * key).sum(-1) * rstd(h) * rstd(key) / c.hidden_size**0.5
        gate = torch.sigmoid(torch.copysign(dot.abs().clamp(min=1e-6).sqrt(), dot))
        gate = gate.masked_fill(image[:, None], 0.0)
        return h + gate[..., None] * value[:, None]
