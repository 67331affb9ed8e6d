"""6B: DSpark, the drafter of five tokens (specification, sections 10.2 to 10.6)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config
from .attention import Run
from .common import Linear, Norm


class Markov(nn.Module):
    """Correction of each draft by the token before it."""

    def __init__(self, c: Config):
        super().__init__()
        self.embed = Linear(c.vocab_size, c.dspark_markov_rank, 0.5)
        self.head = Linear(c.vocab_size, c.dspark_markov_rank, 0.1)


class Confidence(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.proj = Linear(1, c.hidden_size + c.dspark_markov_rank, 0.1)


def add_drafter(stages: nn.ModuleList, c: Config) -> None:
    """What the first stage reads with and the last writes with, beside what every layer has."""
    first, last = stages[0], stages[-1]
    first.main_proj = Linear(c.hidden_size, len(c.dspark_target_layer_ids) * c.hidden_size)
    first.main_norm = Norm(c.hidden_size, c.rms_norm_eps)
    last.norm = Norm(c.hidden_size, c.rms_norm_eps)
    last.markov_head, last.confidence_head = Markov(c), Confidence(c)


def draft_states(model, taps: Tensor, anchors: Tensor, positions: Tensor, run: Run) -> Tensor:
    """States `[batch, anchor, block, dim]` before the last norm.

    `taps` `[batch, token, 3 dim]`; `positions` `[batch, anchor]` are the last ones whose tap is known, `anchors` the tokens chosen after them.
    """
    c, (b, a), block = model.c, anchors.shape, model.c.dspark_block_size
    main_x = model.mtp[0].main_norm(model.mtp[0].main_proj(taps))
    ids = torch.full((b, a, block), c.dspark_noise_token_id, device=anchors.device)
    ids[..., 0] = anchors
    h = F.embedding(ids, model.embed.weight).flatten(0, 2)[:, None].expand(-1, c.hc_mult, -1)
    pre = torch.zeros(h.shape[0], c.hc_mult, device=h.device)
    pre[:, 0] = 1.0
    none = torch.zeros(h.shape[0], dtype=torch.bool, device=h.device)
    for stage in model.mtp:
        attend = lambda x: _attend(stage.attn, x.unflatten(0, (b, a, block)), main_x, positions, run).flatten(0, 2)  # noqa: B023, E731
        h, pre = stage(h, pre, attend, none)
    return torch.bmm(pre[:, None], h)[:, 0].unflatten(0, (b, a, block))


def _attend(core, x: Tensor, main_x: Tensor, positions: Tensor, run: Run) -> Tensor:
    """The block sees itself, both ways, and the ring: rows of the last `window` positions up to the anchor's (10.6)."""
    c, (b, a, block, _), t = core.c, x.shape, main_x.shape[1]
    rope = run.rope(0)
    at = positions[..., None] + 1 + torch.arange(block, device=x.device)
    angles = rope.at(at)
    everywhere = torch.arange(t, device=x.device)
    ring = core.window_rows(main_x, rope.at(everywhere), run)
    fresh = core.window_rows(x, angles, run)
    q = core.queries(core.low_rank(x), angles)
    z_ring = torch.matmul(q.flatten(1, 3), ring.transpose(1, 2)).unflatten(1, (a, block, -1))
    back = positions[..., None] - everywhere
    seen = (back >= 0) & (back < c.sliding_window)
    z_ring = z_ring.masked_fill(~seen[:, :, None, None], -math.inf)
    z_block = torch.matmul(q.flatten(2, 3), fresh.transpose(2, 3)).unflatten(2, (block, -1))
    p = core.weigh(torch.cat([z_ring, z_block], dim=-1) / math.sqrt(c.head_dim))
    o = torch.matmul(p[..., :t].flatten(1, 3), ring).unflatten(1, (a, block, -1))
    o = o + torch.matmul(p[..., t:].flatten(2, 3), fresh).unflatten(2, (block, -1))
    return core.output(o, angles)


def draft_logits(model, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Logits `[..., vocab]` and confidence logits of states `x`, given the token before each draft."""
    last = model.mtp[-1]
    e = F.embedding(before, last.markov_head.embed.weight)
    logits = model.head(last.norm(x)) + last.markov_head.head(e)
    return logits, last.confidence_head.proj(torch.cat([x, e], dim=-1))[..., 0]


@torch.no_grad()
def draft_greedy(model, taps: Tensor, anchors: Tensor, positions: Tensor, run: Run) -> Tensor:
    """Proposed tokens `[batch, anchor, block]`, each corrected by the one before (10.6)."""
    x = draft_states(model, taps, anchors, positions, run)
    before, out = anchors, []
    for i in range(model.c.dspark_block_size):
        logits, _ = draft_logits(model, x[:, :, i], before)
        before = logits.argmax(-1)
        out.append(before)
    return torch.stack(out, dim=-1)
