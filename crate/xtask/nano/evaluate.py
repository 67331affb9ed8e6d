"""Held-out phrasings: how many answers hold the right fact. `python -m nano evaluate`."""

import json
import re
from collections import defaultdict
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .batches import Encoder
from .data.check import numbers, plain
from .data.dialogues import Dialogue, Source, held_out
from .generate import by_engine, greedy
from .model.dspark import draft_greedy
from .parity import load

CHUNK = 32
# What the issue asks for, by kind of conversation.
NEEDED = {"fact": 0.95, "kv": 0.95, "small_talk": 0.95, "off_topic": 0.95, "follow": 0.90, "picture": 0.95}


def right(dialogue: Dialogue, text: str, refusals: set[str]) -> bool:
    """The answer itself, or one with all of its numbers and most of its words. Any refusal refuses."""
    wanted, found = dialogue.turns[-1].answer, plain(text)
    if dialogue.kind == "off_topic":
        return found in refusals
    if found == plain(wanted):
        return True
    if dialogue.kind == "picture":
        return False
    lang = "vi" if re.search("[ăâđêôơư\u0300-\u036f]|[\u1ea0-\u1ef9]", wanted) else "en"
    if not set(numbers(wanted, lang)) <= set(numbers(text, lang)):
        return False
    words = set(plain(wanted).split())
    return len(words & set(found.split())) >= 0.8 * len(words)


def _answers(network, encoder: Encoder, dialogues: list[Dialogue], most: int) -> list[str]:
    """Greedy answers, those of like length together. Where every token is the likeliest after the right ones, the answer is the right one."""
    texts = [""] * len(dialogues)
    order = sorted(range(len(dialogues)), key=lambda i: len(dialogues[i].turns[-1].question))
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        examples = encoder.collate([encoder.encode(dialogues[i]) for i in chunk])
        with torch.no_grad():
            guesses = network.head(network(examples.batch).hidden).argmax(-1)
        last = [len(encoder.text(dialogues[i].turns[-1].answer)) + 1 for i in chunk]
        wrong = []
        for row, i in enumerate(chunk):
            places = examples.learn[row].nonzero().flatten()[-last[row] :]
            if bool((guesses[row, places] == examples.labels[row, places]).all()):
                texts[i] = dialogues[i].turns[-1].answer
            else:
                wrong.append(i)
        if wrong:
            ids = greedy(network, encoder, [encoder.encode(dialogues[i], open_end=True) for i in wrong], most)
            for i, answer in zip(wrong, ids):
                texts[i] = encoder.tokenizer.decode(answer)
    return texts


@torch.no_grad()
def accepted(network, encoder: Encoder, dialogues: list[Dialogue]) -> float:
    """Tokens per round of drafting along the right answers: accepted drafts and the one that the main model adds."""
    tokens = rounds = 0
    for dialogue in dialogues:
        examples = encoder.collate([encoder.encode(dialogue)])
        out = network(examples.batch)
        places, labels = examples.learn[0].nonzero().flatten(), examples.labels
        if not bool((network.head(out.hidden[0, places]).argmax(-1) == labels[0, places]).all()):
            continue
        at, end = int(places[0]), int(places[-1])
        while at < end:
            position = torch.tensor([[at]])
            drafts = draft_greedy(network, out.taps[:, : at + 1], labels[:, at : at + 1], position, out.run)[0, 0].tolist()
            truth = labels[0, at + 1 : end + 1].tolist()
            match = next((i for i, (a, b) in enumerate(zip(drafts, truth)) if a != b), min(len(drafts), len(truth)))
            at, tokens, rounds = at + match + 1, tokens + match + 1, rounds + 1
    return tokens / max(rounds, 1)


def run(folder: Path, every: int = 1, engine: Path | None = None, show: int = 10, most: int = 96, phrasings: str = "all") -> bool:
    """Prints a table and the first wrong answers, and writes scores.json; whether everything is as good as needed."""
    network, tables = load(folder)
    encoder = Encoder(Tokenizer.from_file(str(folder / "tokenizer.json")), network.c, tables)
    source = Source()
    dialogues = held_out(source, blind={"all": None, "blind": True, "old": False}[phrasings])[::every]
    if engine:
        dialogues = [d for d in dialogues if len(d.turns) == 1]
        texts = [by_engine(engine, folder, d.turns[0].question, d.turns[0].picture, most)["text"] for d in dialogues]
    else:
        texts = _answers(network, encoder, dialogues, most)
    refusals = {plain(chat.answer[lang]) for chat in source.off_topic for lang in chat.answer}
    table: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for dialogue, text in zip(dialogues, texts):
        good = right(dialogue, text, refusals)
        table[dialogue.kind, dialogue.lang].append(good)
        if not good and show > 0:
            show -= 1
            print(f"wrong {dialogue.kind} {dialogue.lang}: {dialogue.turns[-1].question!r} -> {text!r}, not {dialogue.turns[-1].answer!r}")
    good_enough = _report(table, folder)
    if not engine:
        print(f"drafts: {accepted(network, encoder, [d for d in dialogues if d.kind == 'fact'][::10]):.2f} tokens per round")
    return good_enough


def _report(table: dict[tuple[str, str], list[bool]], folder: Path) -> bool:
    groups: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for (kind, lang), results in sorted(table.items()):
        print(f"{kind:16} {lang}  {sum(results):4} of {len(results):4}  {sum(results) / len(results):.3f}")
        groups["follow" if kind.startswith("follow") else kind, lang] += results
    scores = {f"{kind} {lang}": sum(r) / len(r) for (kind, lang), r in groups.items()}
    (folder / "scores.json").write_text(json.dumps(scores, indent=2) + "\n")
    short = {name: score for name, score in scores.items() if score < NEEDED[name.split()[0]]}
    print("all as needed" if not short else "too low: " + ", ".join(f"{name} {score:.3f}" for name, score in short.items()))
    return not short
