"""`python -m nano COMMAND`, from the folder above."""

import argparse
import os
import sys
from pathlib import Path

import torch

DEFAULT = Path(__file__).parent / "out"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nano", description="A small trained checkpoint of the architecture.")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="CPU threads")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train, or go on training, and export")
    train.add_argument("--hours", type=float, default=2.0, help="time for all of it; the steps follow from how long the first ones take")
    train.add_argument("--steps", type=int, help="in place of --hours: the same steps on every machine")
    train.add_argument("--again", type=float, metavar="RATE", help="what is trained already is trained once more, from its weights, with this peak")
    train.add_argument("--tokens", type=int, help="places in a batch")
    train.add_argument("--out", type=Path, default=DEFAULT)
    train.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    evaluate = commands.add_parser("evaluate", help="held-out phrasings through the PyTorch model, or through the engine")
    evaluate.add_argument("--model", type=Path, default=DEFAULT / "model")
    evaluate.add_argument("--every", type=int, default=1, help="only every n-th conversation")
    evaluate.add_argument("--engine", type=Path, help="flash890: ask the command line instead")
    evaluate.add_argument("--show", type=int, default=10, help="wrong answers to print")
    evaluate.add_argument("--phrasings", choices=["all", "blind", "old"], default="all", help="blind: those that nobody tuned anything on")
    parity = commands.add_parser("parity", help="this model against golden checkpoints, or against the engine")
    parity.add_argument("--golden", type=Path, nargs="*", default=[])
    parity.add_argument("--model", type=Path, default=DEFAULT / "model")
    parity.add_argument("--engine", type=Path)
    commands.add_parser("check", help="the knowledge: duplicates, numbers, both languages, counts")
    show = commands.add_parser("show", help="print some conversations of the training mix")
    show.add_argument("--count", type=int, default=20)
    export = commands.add_parser("untrained", help="write an untrained checkpoint, to check the export")
    export.add_argument("--out", type=Path, default=DEFAULT / "untrained")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    torch.set_num_threads(args.threads)
    good = True
    if args.command == "check":
        from .data.check import run

        problems = run()
        print("\n".join(problems) or "no problems")
        good = not problems
    elif args.command == "train":
        from .train import TOKENS, Trainer

        Trainer(args.out, args.hours, args.steps, args.device, args.tokens or TOKENS, args.again).run()
    elif args.command == "evaluate":
        from .evaluate import run

        good = run(args.model, args.every, args.engine, args.show, phrasings=args.phrasings)
    elif args.command == "parity":
        from .parity import against_engine, compare

        good = all([compare(folder) for folder in args.golden] + ([against_engine(args.engine, args.model)] if args.engine else []))
    elif args.command == "show":
        _show(args.count)
    elif args.command == "untrained":
        _untrained(args.out)
    return 0 if good else 1


def _show(count: int) -> None:
    import numpy as np

    from .data.dialogues import Source

    source, rng = Source(), np.random.default_rng(0)
    for _ in range(count):
        dialogue = source.sample(rng)
        for turn in dialogue.turns:
            picture = "" if turn.picture is None else f" [picture {turn.picture.shape[1]}x{turn.picture.shape[0]}]"
            print(f"{dialogue.kind:10} {dialogue.lang}  {turn.question}{picture}\n               -> {turn.answer}")


def _untrained(folder: Path) -> None:
    from . import checkpoint, setup
    from . import tokenizer as bpe
    from .data.dialogues import Source
    from .model.network import Network

    torch.manual_seed(0)
    c, tokenizer, tables = setup.make(Source())
    size = checkpoint.write(folder, c, dict(Network(c).named_parameters()), bpe.to_json(tokenizer), tables.to_json(c))
    print(f"wrote {folder}, {size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
