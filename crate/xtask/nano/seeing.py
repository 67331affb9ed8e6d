"""The vision tower's start: before the language model can use picture rows, they have to say something.

A linear probe reads every aligned row and names what lies in its cell of 42 pixels: how much of it is covered, by which shape, in which colour,
and where in the picture a single shape is. The place takes longest: the tower knows no absolute positions, and learns it from how near the borders are.
The probe is thrown away; the tower and the aligner keep what they learnt. Without this, answers about pictures are guessed for thousands of steps,
since a guess that follows the question alone is nearly as likely as the truth.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .data import pictures
from .model.network import Network

CELL = 42
SHAPES, COLOURS = list(pictures.SHAPES), list(pictures.COLOURS)


def cells(picture: pictures.Picture) -> tuple[np.ndarray, int, int]:
    """Covered share of each cell, row by row; and the grid."""
    ground = np.zeros(picture.pixels.shape[:2], bool)
    for colour in pictures.BACKGROUNDS:
        ground |= (picture.pixels == np.array(colour, np.uint8)).all(-1)
    rows, cols = ground.shape[0] // CELL, ground.shape[1] // CELL
    return (~ground).reshape(rows, CELL, cols, CELL).mean((1, 3)).flatten(), rows, cols


def learn_to_see(network: Network, steps: int, rng: np.random.Generator, batch: int = 48, rate: float = 3e-3) -> None:
    """Trains tower, aligner and probe; prints how many covered cells are named right."""
    size = network.c.vision.patch_size
    probe = nn.Linear(network.c.hidden_size, 1 + len(SHAPES) + len(COLOURS) + 6).to(network.embed.weight.device)
    trained = [*network.vision.parameters(), *network.aligner.parameters(), *probe.parameters()]
    for parameter in trained:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 30, (steps - step) / (0.3 * steps))
        drawn = [pictures.draw(rng) for _ in range(batch)]
        loss, shape, colour, place = _loss(network, probe, drawn, size)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0:
            print(f"seeing {step + 1}/{steps}  loss {float(loss.detach()):.3f}  shape {shape:.3f}  colour {colour:.3f}  place {place:.3f}", flush=True)


def _loss(network: Network, probe: nn.Linear, drawn: list[pictures.Picture], size: int) -> tuple[Tensor, float, float, float]:
    patches = [pictures.patches(picture.pixels, size) for picture in drawn]
    aligned = network.image_rows([(torch.from_numpy(values).bfloat16().float(), r, c) for values, r, c in patches])
    covered = [cells(picture)[0] for picture in drawn]
    share = torch.from_numpy(np.concatenate(covered)).float()
    of = lambda names, get: torch.tensor([names.index(get(p)) for p, c in zip(drawn, covered) for _ in c])  # noqa: E731
    shapes, colours = of(SHAPES, lambda p: p.shape), of(COLOURS, lambda p: p.colour)
    said = probe(aligned)
    seen, clear = share > 0.02, share > 0.25
    cover = F.mse_loss(said[:, 0], share)
    shape, colour, down, across = said[:, 1:].split([len(SHAPES), len(COLOURS), 3, 3], dim=1)
    placed = seen & (of([False, True], lambda p: p.place is not None) == 1)
    rows, cols = (of([0, 1, 2], lambda p: p.place[axis] if p.place else 0)[placed] for axis in (0, 1))
    where = F.cross_entropy(down[placed], rows) + F.cross_entropy(across[placed], cols)
    loss = where + 4 * cover + F.cross_entropy(shape[seen], shapes[seen]) + F.cross_entropy(colour[seen], colours[seen])
    right = lambda logits, truth: float((logits[clear].argmax(-1) == truth[clear]).float().mean())  # noqa: E731
    found = float(((down[placed].argmax(-1) == rows) & (across[placed].argmax(-1) == cols)).float().mean())
    return loss, right(shape, shapes), right(colour, colours), found
