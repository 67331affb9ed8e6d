"""Conversations as token ids in the release's chat form, and batches of them (specification, sections 12.3 and 1.4)."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from .config import Config
from .data.dialogues import Dialogue
from .data.pictures import patches
from .hashing import Tables
from .model.network import Batch
from .model.vision import picture_tokens


@dataclass(frozen=True)
class Encoded:
    ids: np.ndarray
    types: np.ndarray
    # Whether the token at this place belongs to an answer, its end included.
    answer: np.ndarray
    pictures: list[tuple[np.ndarray, int, int]]


@dataclass
class Examples:
    batch: Batch
    answer: Tensor
    # Token at the next place, and whether it is to be learnt.
    labels: Tensor
    learn: Tensor


class Encoder:
    def __init__(self, tokenizer: Tokenizer, c: Config, tables: Tables):
        self.tokenizer, self.c, self.tables = tokenizer, c, tables
        spell = tokenizer.token_to_id
        self.user, self.assistant, self.end_think = spell("<｜User｜>"), spell("<｜Assistant｜>"), spell("</think>")

    def text(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode(self, dialogue: Dialogue, open_end: bool = False) -> Encoded:
        """With `open_end` the last answer is left out: a prompt."""
        ids, types, answer, pictures = [self.c.bos_token_id], [-1], [False], []

        def add(new: list[int], kinds: list[int] | None = None, learn: bool = False) -> None:
            ids.extend(new)
            types.extend(kinds or [-1] * len(new))
            answer.extend([learn] * len(new))

        for number, turn in enumerate(dialogue.turns):
            add([self.user])
            text = turn.question
            if turn.picture is not None:
                values, rows, cols = patches(turn.picture, self.c.vision.patch_size)
                pictures.append((values, rows, cols))
                kinds = picture_tokens(self.c.vision, rows, cols)
                add([self.c.image_token_id] * len(kinds), kinds)
                text = f"\n\n{text}" if text else ""
            add(self.text(text))
            add([self.assistant, self.end_think])
            if not (open_end and number + 1 == len(dialogue.turns)):
                add(self.text(turn.answer) + [self.c.eos_token_id], learn=True)
        return Encoded(np.array(ids), np.array(types), np.array(answer), pictures)

    def collate(self, encoded: list[Encoded]) -> Examples:
        """Padded behind; row ids of the n-gram memory are found here, once."""
        c, longest = self.c, max(len(e.ids) for e in encoded)

        def pad(values: list[np.ndarray], fill) -> np.ndarray:
            widths = [[(0, longest - len(v))] + [(0, 0)] * (v.ndim - 1) for v in values]
            return np.stack([np.pad(v, width, constant_values=fill) for v, width in zip(values, widths)])

        ids = torch.from_numpy(pad([e.ids for e in encoded], c.engram_pad_token_id))
        answer = torch.from_numpy(pad([e.answer for e in encoded], False))
        rows = [self.tables.rows(c, e.ids, e.types) for e in encoded]
        batch = Batch(
            ids, torch.from_numpy(pad([e.types for e in encoded], -1)),
            [torch.from_numpy(pad([r[k] for r in rows], 0)) for k in range(len(c.engram_layer_ids))],
            [(torch.from_numpy(v).bfloat16().float(), r, w) for e in encoded for v, r, w in e.pictures],
        )
        nothing = torch.zeros_like(ids[:, :1])
        return Examples(batch, answer, torch.cat([ids[:, 1:], nothing], 1), torch.cat([answer[:, 1:], nothing.bool()], 1))


def blurred(examples: Examples, rng: np.random.Generator, share: float = 0.3) -> Examples:
    """As if some n-grams of the questions were new: their rows are those of another place. So the memory is not leant on for how one asks."""
    batch = examples.batch
    question = ((batch.types < 0) & ~examples.answer).numpy()
    orders = batch.rows[0].shape[-1]
    rows, columns = np.nonzero(question)
    chosen = rng.random(len(rows)) < share
    rows, columns = rows[chosen], columns[chosen]
    # From some length of n-gram on: where a pair is new, what contains it is new too.
    first = rng.integers(0, 3, len(rows)) * (orders // 3)
    new = torch.from_numpy(np.arange(orders)[None, :] >= first[:, None])
    other = rng.permutation(len(rows))
    out = []
    for layer in batch.rows:
        layer = layer.clone()
        here = layer[rows, columns]
        layer[rows, columns] = torch.where(new, here[other], here)
        out.append(layer)
    return Examples(replace(batch, rows=out), examples.answer, examples.labels, examples.learn)


def to(examples: Examples, device: str) -> Examples:
    b = examples.batch
    batch = Batch(b.ids.to(device), b.types.to(device), [r.to(device) for r in b.rows], [(v.to(device), r, c) for v, r, c in b.pictures])
    return Examples(batch, examples.answer.to(device), examples.labels.to(device), examples.learn.to(device))


def stream(source, encoder: Encoder, seed: int, tokens: int, pool: int = 512):
    """Endless batches of about `tokens` places: conversations of like length together, batches of a pool in random order."""
    rng = np.random.default_rng(seed)
    while True:
        ready = sorted((encoder.encode(source.sample(rng)) for _ in range(pool)), key=lambda e: len(e.ids))
        groups, current = [], []
        for one in ready:
            if current and len(one.ids) * (len(current) + 1) > tokens:
                groups.append(current)
                current = []
            current.append(one)
        groups.append(current)
        for i in rng.permutation(len(groups)):
            yield encoder.collate(groups[i])
