"""What is minimised: answers token by token; then drafts, their confidence, and index scores."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .batches import Examples
from .model.dspark import draft_logits, draft_states
from .model.network import Network


def answers(network: Network, examples: Examples, quantise: bool) -> tuple[Tensor, float]:
    """Cross-entropy over answer tokens, and the share of them that greedy would get right."""
    out = network(examples.batch, quantise)
    logits = network.head(out.hidden[examples.learn])
    labels = examples.labels[examples.learn]
    return F.cross_entropy(logits, labels), float((logits.argmax(-1) == labels).float().mean())


def drafts(network: Network, examples: Examples, rng: np.random.Generator, anchors: int = 10) -> tuple[Tensor, float, float]:
    """Loss, mean accepted drafts, and the loss of the index scores. The backbone is frozen."""
    c = network.c
    out = network(examples.batch, quantise=True, learn_index=True)
    # A position whose next token is an answer's: there the main model has just chosen the anchor.
    places = [np.flatnonzero(row) for row in examples.learn.cpu().numpy()]
    at = torch.from_numpy(np.stack([rng.choice(row, anchors) for row in places])).to(examples.labels.device)
    ahead = (at[..., None] + 1 + torch.arange(c.dspark_block_size, device=at.device)).clamp(max=examples.labels.shape[1] - 1)
    rows = torch.arange(len(places), device=at.device)[:, None, None]
    targets, real = examples.labels[rows, ahead], examples.learn[rows, ahead]
    # Nothing counts once the answer has ended.
    real = real.cumprod(-1).bool()
    anchor = examples.labels.gather(1, at)
    before = torch.cat([anchor[..., None], targets[..., :-1]], -1)
    logits, confidence = draft_logits(network, draft_states(network, out.taps, anchor, at, out.run), before)
    right = (logits.argmax(-1) == targets) & real
    accepted = right.int().cumprod(-1).sum(-1).float()
    # Confidence: does this one survive if those before it did?
    asked = real & F.pad(right, (1, -1), value=True).cumprod(-1).bool()
    # A draft counts only if all before it were right, so the first ones matter most.
    weight = (0.8 ** torch.arange(c.dspark_block_size, device=at.device)).expand(real.shape)[real]
    loss = (F.cross_entropy(logits[real], targets[real], reduction="none") * weight).sum() / weight.sum()
    loss = loss + 0.1 * F.binary_cross_entropy_with_logits(confidence[asked], right[asked].float())
    index = torch.stack(out.run.index_loss).mean() if out.run.index_loss else loss.new_zeros(())
    return loss + 0.1 * index, float(accepted.mean()), float(index.detach())
