"""The checker of the knowledge: `python -m nano check`."""

import re
from collections import Counter
from pathlib import Path

from .dialogues import Source, held_out
from .facts import LANGS, NUMBER
from .phrasings import TEMPLATES, count_forms, every_question, fill, split, without_marks

HERE = Path(__file__).parent


def plain(text: str) -> str:
    """What makes two questions the same: letters and digits, without case and marks."""
    return re.sub(r"[^0-9a-z]+", " ", without_marks(text).lower()).strip()


def numbers(text: str, lang: str) -> list[str]:
    """Numbers of an answer in one spelling: no thousands sign, a point before decimals."""
    found = (m.group() for m in NUMBER.finditer(text))
    return [(n.replace(",", "") if lang == "en" else n.replace(".", "").replace(",", ".")) for n in found]


def table() -> dict[str, str]:
    """Numbers that answers may hold, with the section of the specification that has them."""
    lines = (HERE / "numbers.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("|") for line in lines if line and not line.startswith("#"))


def run() -> list[str]:
    """Prints counts; the problems."""
    source, problems = Source(), []
    known = table()
    questions: dict[bool, dict[str, str]] = {False: {}, True: {}}

    def note(held: bool, text: str, owner: str) -> None:
        before = questions[held].setdefault(plain(text), owner)
        if before != owner:
            problems.append(f"one question, two answers: {text!r} of {owner} and {before}")

    if len({fact.id for fact in source.facts}) != len(source.facts):
        problems.append("two facts have one id")
    for fact in source.facts:
        if not fact.section:
            problems.append(f"{fact.id} has no section")
        for lang in LANGS:
            if not fact.answer[lang].strip():
                problems.append(f"{fact.id} has no answer in {lang}")
            ways = {held: every_question(fact, lang, held) for held in (False, True)}
            if len(set(ways[False])) < 8 or not ways[True]:
                problems.append(f"{fact.id} {lang}: {len(set(ways[False]))} trained phrasings, {len(ways[True])} held out")
            for held, texts in ways.items():
                for text in texts:
                    note(held, text, fact.id)
            for number in numbers(fact.answer[lang], lang):
                if number not in known:
                    problems.append(f"{fact.id} {lang}: number {number} is not in numbers.txt")
        vi, en = (sorted(numbers(fact.answer[lang], lang)) for lang in LANGS)
        if vi != en:
            problems.append(f"{fact.id}: the languages give different numbers: {vi} and {en}")
    for lang in LANGS:
        for n in source.counts:
            for held in (False, True):
                for template in split(TEMPLATES["kv", lang], held):
                    for form in count_forms(n, lang):
                        note(held, fill(template, form), f"kv {n}")
        for chat in source.small_talk:
            for held in (False, True):
                for text in split(chat.asks[lang], held):
                    note(held, text, f"talk {chat.id}")
    both = questions[False].keys() & questions[True].keys()
    problems += [f"trained and held out: {text!r}" for text in sorted(both)]
    _report(source, questions, len(known))
    return problems


def _report(source: Source, questions: dict[bool, dict[str, str]], known: int) -> None:
    kinds = Counter(d.kind.split("_")[0] if d.kind.startswith("follow") else d.kind for d in held_out(source))
    print(f"facts {len(source.facts)}, by block {dict(sorted(Counter(f.block for f in source.facts).items()))}")
    print(f"token counts {len(source.counts)}, small talk {len(source.small_talk)}, refused topics {len(source.off_topic)}, links {len(source.why)}")
    print(f"different questions: trained {len(questions[False])}, held out {len(questions[True])}; numbers in the table {known}")
    print(f"test conversations {dict(kinds)}")
