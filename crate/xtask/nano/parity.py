"""The PyTorch model against a golden checkpoint of tests/golden: its own formulas are checked before anything is trained with them."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from . import checkpoint
from .config import Config
from .hashing import Tables
from .model.attention import Run
from .model.dspark import draft_greedy, draft_logits, draft_states
from .model.network import Batch, Network

# Sum of squared differences over sum of squares, per position. Cases without cache quantisation have no codes that could flip.
LIMIT_EXACT, LIMIT_CACHES = 1e-8, 5e-2


def load(folder: Path) -> tuple[Network, Tables]:
    """A checkpoint as a network with its exact values."""
    c = Config.from_json(folder / "config.json")
    network = Network(c).eval()
    names = [name for name, _ in network.named_parameters()]
    network.load_state_dict(checkpoint.read(folder, names))
    return network, Tables.from_json((folder / "engram_tables.json").read_text())


def nmse(found: Tensor, expected: Tensor) -> float:
    return float(((found - expected).square().sum(-1) / expected.square().sum(-1)).max())


def batch_of(network: Network, tables: Tables, ids: Tensor, types: Tensor, pictures=()) -> Batch:
    """One prompt as a batch."""
    rows = [torch.from_numpy(r)[None] for r in tables.rows(network.c, ids.numpy(), types.numpy())]
    return Batch(ids[None], types[None], rows, list(pictures))


@torch.no_grad()
def compare(folder: Path) -> bool:
    """Prints a line per case; whether all are within their limit."""
    network, tables = load(folder)
    golden = load_file(folder / "golden.safetensors")
    good = True

    def line(case: str, error: float, limit: float, equal: float) -> None:
        nonlocal good
        good &= error <= limit
        print(f"{folder.name:8} {case:14} nmse {error:9.2e}  limit {limit:.0e}  argmax equal {equal:.3f}")

    for case in ("short", "long", "image", "short_f32kv", "long_f32kv"):
        if f"{case}.input_ids" not in golden:
            continue
        ids = golden[f"{case}.input_ids"].flatten()
        types, pictures = torch.full_like(ids, -1), []
        if case == "image":
            types = golden["image.types"].flatten().to(ids.dtype)
            rows, cols = golden["image.grid"].flatten().tolist()[:2]
            pictures = [(golden["image.patches"].reshape(rows * cols, -1).float(), rows, cols)]
        exact = case.endswith("f32kv")
        out = network(batch_of(network, tables, ids, types, pictures), quantise=not exact)
        expected = golden[f"{case}.logits"].float()
        logits = network.head(out.hidden)[0, golden[f"{case}.logit_rows"].flatten().long()]
        line(case, nmse(logits, expected), LIMIT_EXACT if exact else LIMIT_CACHES, float((logits.argmax(-1) == expected.argmax(-1)).float().mean()))
    if "dspark.target_hidden" in golden:
        line("dspark", *_draft(network, golden))
    return good


def _draft(network: Network, golden: dict[str, Tensor]) -> tuple[float, float, float]:
    taps = golden["dspark.target_hidden"].float()[None]
    anchor = golden["dspark.anchor_id"].reshape(1, 1).long()
    at = torch.tensor([[taps.shape[1] - 1]])
    run = Run(network.c, network.ropes)
    drafts = draft_greedy(network, taps, anchor, at, run)[0, 0]
    expected = golden["dspark.draft_ids"].flatten()
    before = torch.cat([anchor[0], expected[:-1].long()])
    logits, _ = draft_logits(network, draft_states(network, taps, anchor, at, run)[0, 0], before)
    return nmse(logits, golden["dspark.step_logits"].float()), LIMIT_CACHES, float((drafts == expected).float().mean())


def against_engine(engine: Path, folder: Path, count: int = 6, most: int = 24) -> bool:
    """The same greedy ids from this model and from `flash890 generate`, for questions of the test with and without a picture."""
    from tokenizers import Tokenizer

    from .batches import Encoder
    from .data.dialogues import Source, held_out
    from .generate import by_engine, greedy

    network, tables = load(folder)
    encoder = Encoder(Tokenizer.from_file(str(folder / "tokenizer.json")), network.c, tables)
    single = [d for d in held_out(Source()) if len(d.turns) == 1]
    pictures = [d for d in single if d.kind == "picture"]
    chosen = [d for d in single if d.kind != "picture"][:: max(len(single) // count, 1)][:count] + pictures[: max(count // 3, 1)]
    good = True
    for kv in ("f32", "released"):
        for dialogue in chosen:
            turn = dialogue.turns[0]
            mine = greedy(network, encoder, [encoder.encode(dialogue, open_end=True)], most, quantise=kv == "released")[0]
            other = by_engine(engine, folder, turn.question, turn.picture, most, ("--kv", kv))["ids"]
            other = [id for id in other if id != network.c.eos_token_id]
            same = next((i for i, (a, b) in enumerate(zip(mine, other)) if a != b), min(len(mine), len(other)))
            good &= mine == other
            print(f"kv {kv:8} {'same' if mine == other else 'DIFFERENT'} {same}/{len(mine)} ids  {turn.question!r}")
    return good
