"""Token map, primes, multipliers and row ids of the n-gram memory (specification, sections 2.1 to 2.3)."""

import json
import unicodedata
from dataclasses import dataclass

import numpy as np

from .config import Config


def is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def primes_of(c: Config) -> list[list[int]]:
    """Ascending primes from `engram_vocab_size - 1` on, each used once over all layers."""
    last, out = c.engram_vocab_size - 1, []
    for _ in c.engram_layer_ids:
        column = []
        for _ in range(c.engram_columns):
            last = next(n for n in range(last + 1, 2 * last + 3) if is_prime(n))
            column.append(last)
        out.append(column)
    return out


def normalise(text: str) -> str:
    """NFKC, NFD, no marks, no case, white space as one space, stripped unless it is all there is (2.1)."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    text = "".join(ch.lower() for ch in text if not unicodedata.category(ch).startswith("M"))
    pieces, space = [], False
    for ch in text:
        if ch not in " \t\r\n":
            pieces.append(ch)
        elif not space:
            pieces.append(" ")
        space = ch in " \t\r\n"
    text = "".join(pieces)
    return text if text == " " else text.strip()


def token_map(decoded: list[str], spellings: list[str]) -> list[int]:
    """Compressed id of each token, in order of first appearance. Fragments of characters count by their spelling (2.1)."""
    seen: dict[str, int] = {}
    keys = (spelling if "\ufffd" in text else normalise(text) or text for text, spelling in zip(decoded, spellings))
    return [seen.setdefault(key, len(seen)) for key in keys]


@dataclass(frozen=True)
class Tables:
    map: np.ndarray
    primes: list[list[int]]
    multipliers: list[list[int]]

    @staticmethod
    def of(c: Config, map: list[int]) -> "Tables":
        bound = (2**63 - 1) // c.engram_compressed_vocab_size // 2
        draw = lambda layer: np.random.default_rng(10007 * layer).integers(0, bound, c.engram_max_ngram_size, dtype=np.int64)  # noqa: E731
        return Tables(np.array(map), primes_of(c), [[2 * int(m) + 1 for m in draw(layer)] for layer in c.engram_layer_ids])

    @staticmethod
    def from_json(text: str) -> "Tables":
        d = json.loads(text)
        return Tables(np.array(d["token_map"]), d["primes"], [[int(m) for m in layer] for layer in d["multipliers"]])

    def to_json(self, c: Config) -> str:
        offsets = [[sum(column[:k]) for k in range(len(column))] for column in self.primes]
        return json.dumps({
            "n_compressed": int(self.map.max()) + 1, "pad_id": int(self.map[c.engram_pad_token_id]), "primes": self.primes,
            "offsets": offsets, "multipliers": [[str(m) for m in layer] for layer in self.multipliers], "token_map": self.map.tolist(),
        })

    def rows(self, c: Config, ids: np.ndarray, types: np.ndarray) -> list[np.ndarray]:
        """Row ids `[token, column]` per Engram layer; a picture blocks the view of everything before it (2.3)."""
        pad, n = int(self.map[c.engram_pad_token_id]), len(ids)
        history = np.where(types >= 0, -1, self.map[ids])
        out = []
        for primes, multipliers in zip(self.primes, self.multipliers):
            offsets = np.cumsum([0] + primes[:-1])
            blocked, mixed, columns = np.zeros(n, bool), np.zeros(n, np.int64), []
            for back, multiplier in enumerate(multipliers):
                past = np.concatenate([np.full(min(back, n), -1), history[: max(n - back, 0)]])
                blocked = blocked | (past < 0)
                mixed = mixed ^ (np.where(blocked, pad, past) * np.int64(multiplier))
                if back:
                    heads = slice((back - 1) * c.engram_n_heads, back * c.engram_n_heads)
                    columns.append(mixed[:, None] % np.array(primes[heads]) + offsets[heads])
            out.append(np.concatenate(columns, axis=1))
        return out
