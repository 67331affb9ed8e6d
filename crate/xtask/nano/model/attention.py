"""3B, 3C and 4A: compressor, window, indexer and the attention core (specification, sections 5 to 7)."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config
from ..formats import ste_fp8, ste_idx4, ste_kv4
from .common import Linear, Norm, Rope, inverse_powers, rotate, yarn


@dataclass
class Run:
    """What the layers of one forward pass share: rotations, and what sources leave for the layers after them."""

    c: Config
    ropes: tuple[Rope, Rope]
    quantise: bool = True
    learn_index: bool = False
    entries: Tensor | None = None
    keys: Tensor | None = None
    chosen: Tensor | None = None
    pool: Tensor | None = None
    index_scores: Tensor | None = None
    index_loss: list[Tensor] = field(default_factory=list)

    def rope(self, ratio: int) -> Rope:
        return self.ropes[1 if ratio else 0]

    def cache(self, x: Tensor, quantise) -> Tensor:
        return quantise(x) if self.quantise else x


def ropes_of(c: Config) -> tuple[Rope, Rope]:
    """Window-only layers and drafts; layers with a ratio (5.4)."""
    return Rope(inverse_powers(c.qk_rope_head_dim, c.rope_theta)), Rope(yarn(c))


class Compressor(nn.Module):
    """Latents of the global KV: of pairs with a softmax per channel, or of single tokens (5.1, 5.2)."""

    def __init__(self, c: Config, ratio: int):
        super().__init__()
        self.wkv = Linear(c.head_dim, c.hidden_size)
        if ratio == 2:
            self.wgate = Linear(c.head_dim, c.hidden_size)
        self.norm = Norm(c.head_dim, c.rms_norm_eps)
        self.ratio = ratio

    def forward(self, x: Tensor) -> Tensor:
        values = self.wkv(x)
        if self.ratio == 2:
            whole = x.shape[1] // 2 * 2
            pairs = lambda y: y[:, :whole].unflatten(1, (-1, 2))  # noqa: E731
            values = (pairs(values) * pairs(self.wgate(x)).softmax(2)).sum(2)
        return self.norm(values)


class Indexer(nn.Module):
    """Index queries; a KV source also makes the keys (5.5, 6.3)."""

    def __init__(self, c: Config, source: bool):
        super().__init__()
        self.c = c
        self.wq_b = Linear(c.index_n_heads * c.index_head_dim, c.q_lora_rank)
        self.weights_proj = Linear(c.index_n_heads, c.hidden_size)
        if source:
            self.wk = Linear(c.index_head_dim, c.head_dim)
            self.k_norm = Norm(c.index_head_dim, c.rms_norm_eps)

    def scores(self, x: Tensor, qr: Tensor, keys: Tensor, run: Run, positions: Tensor) -> Tensor:
        """`[batch, token, entry]`, not yet masked."""
        c = self.c
        cos, sin = run.rope(1).at(positions)
        q = self.wq_b(qr).unflatten(-1, (c.index_n_heads, c.index_head_dim))
        q = run.cache(rotate(q, (cos[:, None], sin[:, None])), ste_idx4)
        w = self.weights_proj(x) / math.sqrt(c.index_n_heads * c.index_head_dim)
        return torch.einsum("bthe,bth->bte", torch.relu(torch.einsum("bthd,bed->bthe", q, keys)), w)


def top(scores: Tensor, k: int) -> Tensor:
    """Mask of the `k` best of the last axis; of equals the lower index; -inf is never chosen (6.6)."""
    order = scores.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, True) & (scores > -math.inf)


def candidate_blocks(scores: Tensor, visible: Tensor, c: Config) -> Tensor:
    """Level 1 as a mask over entries: the best blocks, the newest visible one always (6.5)."""
    size, total = c.candidate_block_size, scores.shape[-1]
    blocks = F.pad(scores, (0, -total % size), value=-math.inf).unflatten(-1, (-1, size)).amax(-1)
    newest = (visible.sum(-1) - 1).clamp(min=0) // size
    blocks = blocks.scatter(-1, newest.expand(blocks.shape[:-1])[..., None], math.inf)
    return top(blocks, c.candidate_topk_blocks).repeat_interleave(size, -1)[..., :total]


class Attention(nn.Module):
    def __init__(self, c: Config, layer: int, gain: float):
        super().__init__()
        self.c, self.ratio = c, c.ratio(layer) if layer < c.num_hidden_layers else 0
        heads = c.num_attention_heads
        self.wq_a = Linear(c.q_lora_rank, c.hidden_size)
        self.q_norm = Norm(c.q_lora_rank, c.rms_norm_eps)
        self.wq_b = Linear(heads * c.head_dim, c.q_lora_rank)
        self.wkv = Linear(c.head_dim, c.hidden_size)
        self.kv_norm = Norm(c.head_dim, c.rms_norm_eps)
        self.wo_a = Linear(c.o_groups * c.o_lora_rank, heads // c.o_groups * c.head_dim)
        self.wo_b = Linear(c.hidden_size, c.o_groups * c.o_lora_rank, gain)
        self.attn_sink = nn.Parameter(torch.zeros(heads))
        self.source = self.ratio > 0 and layer in c.kv_source_layer_ids
        self.indexes = self.ratio > 0 and layer in c.index_source_layer_ids
        self.candidates = layer == c.candidate_source_layer_id
        self.reindexes = layer > c.candidate_source_layer_id
        if self.source:
            self.compressor = Compressor(c, self.ratio)
        if self.indexes:
            self.indexer = Indexer(c, self.source)

    def low_rank(self, x: Tensor) -> Tensor:
        return self.q_norm(self.wq_a(x))

    def queries(self, qr: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Rotated heads `[..., heads, head_dim]`; there is no norm per head (7.1)."""
        q = self.wq_b(qr).unflatten(-1, (self.c.num_attention_heads, self.c.head_dim))
        return rotate(q, tuple(a.unsqueeze(-2) for a in angles))

    def window_rows(self, x: Tensor, angles: tuple[Tensor, Tensor], run: Run) -> Tensor:
        """One row per token, key and value in one (6.1)."""
        return run.cache(rotate(self.kv_norm(self.wkv(x)), angles), ste_fp8)

    def output(self, o: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Heads `[..., heads, head_dim]` rotated back and projected group by group (7.3)."""
        c = self.c
        o = rotate(o, tuple(a.unsqueeze(-2) for a in angles), back=True)
        groups = o.reshape(-1, c.o_groups, c.num_attention_heads // c.o_groups * c.head_dim).transpose(0, 1)
        low = torch.bmm(groups, self.wo_a.weight.unflatten(0, (c.o_groups, -1)).transpose(1, 2))
        return self.wo_b(low.transpose(0, 1).reshape(*o.shape[:-2], -1))

    def weigh(self, z: Tensor) -> Tensor:
        """Softmax of `[..., heads, rows]` with the head's sink in the denominator only (7.2)."""
        sink = self.attn_sink[:, None].expand(*z.shape[:-1], 1)
        return torch.cat([z, sink], dim=-1).softmax(-1)[..., :-1]

    def forward(self, x: Tensor, run: Run) -> Tensor:
        """`x` `[batch, token, dim]` from position 0 on."""
        c, t = self.c, x.shape[1]
        positions = torch.arange(t, device=x.device)
        angles = run.rope(self.ratio).at(positions)
        qr = self.low_rank(x)
        q = self.queries(qr, angles)
        rows = self.window_rows(x, angles, run)
        back = positions[:, None] - positions[None]
        seen = ((back >= 0) & (back < c.sliding_window))[None]
        if self.ratio:
            entries, visible = self._entries(x, qr, run, positions)
            rows = torch.cat([rows, entries], dim=1)
            seen = torch.cat([seen.expand(visible.shape[0], -1, -1), visible], dim=-1)
        z = torch.matmul(q.flatten(1, 2), rows.transpose(1, 2)).unflatten(1, (t, -1)) / math.sqrt(c.head_dim)
        p = self.weigh(z.masked_fill(~seen[:, :, None], -math.inf))
        if run.learn_index and self.indexes:
            run.index_loss.append(self._index_loss(p[..., t:], run))
        return self.output(torch.matmul(p.flatten(1, 2), rows).unflatten(1, (t, -1)), angles)

    def _entries(self, x: Tensor, qr: Tensor, run: Run, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The entries of this layer's source, and which of them each token sees `[batch or 1, token, entry]`."""
        if self.source:
            latents = self.compressor(x)
            angles = run.rope(1).at(torch.arange(latents.shape[1], device=x.device) * self.ratio)
            run.entries = run.cache(rotate(latents, angles), ste_kv4)
            # Index keys learn from their own loss only, and do not pull at the latents.
            keys = self.indexer.k_norm(self.indexer.wk(latents.detach()))
            run.keys = run.cache(rotate(keys, angles), ste_idx4)
        total = run.entries.shape[1]
        visible = (torch.arange(total, device=x.device) < ((positions + 1) // self.ratio)[:, None])[None]
        if self.indexes:
            self._select(x, qr, run, positions, visible)
        return run.entries, visible if run.chosen is None else visible & run.chosen

    def _select(self, x: Tensor, qr: Tensor, run: Run, positions: Tensor, visible: Tensor) -> None:
        """Chooses entries for this layer and those that reuse its list. With at most `index_topk` entries that is all of them (6.6)."""
        few = run.entries.shape[1] <= min(self.c.index_topk, self.c.candidate_topk_blocks * self.c.candidate_block_size)
        run.chosen = None
        if few and not run.learn_index:
            return
        scores = self.indexer.scores(x.detach(), qr.detach(), run.keys, run, positions).masked_fill(~visible, -math.inf)
        run.index_scores = scores
        if few:
            return
        if self.reindexes:
            scores = scores.masked_fill(~run.pool, -math.inf)
        if self.candidates:
            run.pool = candidate_blocks(scores, visible, self.c)
        run.chosen = top(scores, self.c.index_topk)

    def _index_loss(self, p: Tensor, run: Run) -> Tensor:
        """How far the scores' softmax is from where attention went (KL), over tokens that see at least two entries."""
        target = p.detach().sum(2)
        scores = run.index_scores
        ok = (scores > -math.inf).sum(-1) > 1
        target = (target / target.sum(-1, keepdim=True).clamp(min=1e-9))[ok]
        log_q = scores.log_softmax(-1)[ok].clamp(min=-50)
        return (target * (target.clamp(min=1e-9).log() - log_q)).sum(-1).mean()
