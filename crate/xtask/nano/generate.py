"""Greedy answers: by the PyTorch model, which recomputes everything for every token, and by the command line, which does not."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch

from .batches import Encoded, Encoder
from .model.network import Network


@torch.no_grad()
def greedy(network: Network, encoder: Encoder, prompts: list[Encoded], most: int = 96, quantise: bool = True) -> list[list[int]]:
    """Ids of each answer, without the end token."""
    network.eval()
    eos, done = network.c.eos_token_id, [False] * len(prompts)
    answers: list[list[int]] = [[] for _ in prompts]
    for _ in range(most):
        rest = [i for i in range(len(prompts)) if not done[i]]
        if not rest:
            break
        extended = [_extend(prompts[i], answers[i]) for i in rest]
        out = network(encoder.collate(extended).batch, quantise)
        last = torch.tensor([len(e.ids) - 1 for e in extended])
        ids = network.head(out.hidden[torch.arange(len(rest)), last]).argmax(-1).tolist()
        for i, id in zip(rest, ids):
            if id == eos:
                done[i] = True
            else:
                answers[i].append(id)
    return answers


def _extend(prompt: Encoded, answer: list[int]) -> Encoded:
    more = np.array(answer, dtype=prompt.ids.dtype)
    return Encoded(
        np.concatenate([prompt.ids, more]), np.concatenate([prompt.types, np.full(len(more), -1)]),
        np.concatenate([prompt.answer, np.ones(len(more), bool)]), prompt.pictures,
    )


def by_engine(engine: Path, model: Path, question: str, picture: np.ndarray | None = None, most: int = 96, options: tuple[str, ...] = ()) -> dict:
    """The report of `flash890 generate --chat --greedy --json` for one question."""
    command = [str(engine), "generate", "--model", str(model), "--chat", "--greedy", "--json", "--max-tokens", str(most), "--prompt", question]
    with tempfile.TemporaryDirectory() as folder:
        if picture is not None:
            path = Path(folder) / "picture.png"
            path.write_bytes(png(picture))
            command += ["--image", str(path)]
        done = subprocess.run([*command, "--backend", "cpu", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def png(pixels: np.ndarray) -> bytes:
    """An RGB picture as PNG, without a library."""
    import struct
    import zlib

    height, width, _ = pixels.shape
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
