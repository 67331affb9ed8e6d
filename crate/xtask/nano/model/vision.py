"""1A: vision tower and aligner (specification, sections 1.5 and 1.6). Linear layers of the tower mostly have a bias."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config, Vision

EPS = 1e-6


def _norm(width: int) -> nn.RMSNorm:
    return nn.RMSNorm(width, eps=EPS)


def grid_angles(v: Vision, rows: int, cols: int) -> tuple[Tensor, Tensor]:
    """`(cos, sin)` `[patches, pairs]`: the first half of a head's pairs turns with the row, the second with the column."""
    width = v.hidden_size // v.num_attention_heads
    f = 1.0 / torch.tensor([v.rope_theta ** (4 * i / width) for i in range(width // 4)], dtype=torch.float64).float()
    turn = lambda n: torch.arange(n).float()[:, None] * f  # noqa: E731
    both = torch.cat([turn(rows).repeat_interleave(cols, 0), turn(cols).repeat(rows, 1)], dim=-1).double()
    return both.cos().float(), both.sin().float()


def rotate_halves(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Element `i` turns with element `i + half`: the tower's convention, not the text model's."""
    a, b = x.chunk(2, dim=-1)
    cos, sin = (part.to(x.device) for part in angles)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class VitAttention(nn.Module):
    def __init__(self, v: Vision):
        super().__init__()
        self.heads = v.num_attention_heads
        self.wqkv = nn.Linear(v.hidden_size, 3 * v.hidden_size)
        self.wo = nn.Linear(v.hidden_size, v.hidden_size)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        q, k, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.wqkv(x).chunk(3, dim=-1))
        o = F.scaled_dot_product_attention(rotate_halves(q, angles), rotate_halves(k, angles), value)
        return self.wo(o.transpose(1, 2).flatten(2))


class VitMlp(nn.Module):
    def __init__(self, v: Vision):
        super().__init__()
        self.w1 = nn.Linear(v.hidden_size, 2 * v.intermediate_size, bias=False)
        self.w2 = nn.Linear(v.intermediate_size, v.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.w1(x).chunk(2, dim=-1)
        return self.w2(F.silu(gate) * up)


class VitBlock(nn.Module):
    def __init__(self, v: Vision):
        super().__init__()
        self.norm1, self.norm2 = _norm(v.hidden_size), _norm(v.hidden_size)
        self.attn, self.mlp = VitAttention(v), VitMlp(v)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attn(self.norm1(x), angles)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, v: Vision):
        super().__init__()
        self.proj = nn.Linear(3 * v.patch_size**2, v.hidden_size)


class Tower(nn.Module):
    def __init__(self, v: Vision):
        super().__init__()
        self.v = v
        self.patch_embed = PatchEmbed(v)
        self.blocks = nn.ModuleList(VitBlock(v) for _ in range(v.num_hidden_layers))
        self.norm = _norm(v.hidden_size)

    def forward(self, patches: Tensor, rows: int, cols: int) -> Tensor:
        """Pictures of one size: `[pictures, rows * cols, 3 P^2]` to `[pictures, rows * cols, width]`."""
        x, angles = self.patch_embed.proj(patches), grid_angles(self.v, rows, cols)
        for block in self.blocks:
            x = block(x, angles)
        return self.norm(x)


class Aligner(nn.Module):
    """Folds 3 x 3 patches, channel by channel, into one row of the model's width; zeros right and below (1.6)."""

    def __init__(self, c: Config, v: Vision):
        super().__init__()
        self.ratio = v.downsample_ratio
        self.w1 = nn.Linear(v.hidden_size * self.ratio**2, c.hidden_size)
        self.w2 = nn.Linear(c.hidden_size, c.hidden_size)

    def forward(self, x: Tensor, rows: int, cols: int) -> Tensor:
        r = self.ratio
        grid = F.pad(x.unflatten(1, (rows, cols)), (0, 0, 0, -cols % r, 0, -rows % r))
        cells = grid.unflatten(1, (-1, r)).unflatten(3, (-1, r)).permute(0, 1, 3, 5, 2, 4)
        return self.w2(F.gelu(self.w1(cells.flatten(3).flatten(1, 2))))


def picture_tokens(v: Vision, rows: int, cols: int) -> list[int]:
    """Types of a picture's positions: 0 START, 1 IMAGE, 2 NEW_LINE, 3 END (1.4)."""
    across, down = math.ceil(cols / v.downsample_ratio), math.ceil(rows / v.downsample_ratio)
    return [0] + ([1] * across + [2]) * down + [3]
