"""Questions from templates, with a fixed rule for what is held out: the 5th of every five entries of every list is never trained."""

import re
import unicodedata
from pathlib import Path

import numpy as np

from .facts import Fact, local

HERE = Path(__file__).parent
NUMERIC = re.compile(r"^(kích thước|độ dài|dung lượng|tổng|hạng|hệ số|tỉ lệ KV|epsilon|cạnh|ngưỡng|con số)")
COUNTED = re.compile(r"^(the number of |số )")
PLURAL = re.compile(
    r"^(the )?(\w+[ -]){0,2}?(layers|parameters|bytes|entries|tokens|heads|rows|ratios|settings|bases|experts|stages|ids|numbers|"
    r"lengths|pixels|lanes|weights|shards|levels|kinds|types|dims|positions|taps)\b"
)


# Held-out phrasings that were written for a later training and that nobody has tuned anything on: the blind test.
BLIND = frozenset((HERE / "blind.txt").read_text(encoding="utf-8").splitlines())


def split(entries: list[str], held: bool, blind: bool | None = None) -> list[str]:
    """The trained entries of a list, or those held out; of these all, or only the blind ones, or only the others."""
    chosen = [entry for i, entry in enumerate(entries) if (i % 5 == 4) == held]
    return chosen if blind is None else [entry for entry in chosen if (entry in BLIND) == blind]


def templates() -> dict[tuple[str, str], list[str]]:
    """Lists by kind and language."""
    out: dict[tuple[str, str], list[str]] = {}
    for line in (HERE / "templates.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            _, kind, lang = line.split()
            current = out.setdefault((kind, lang), [])
        elif line and not line.startswith("#"):
            current.append(line)
    return out


TEMPLATES = templates()
# Kinds that ask for the subject itself: every way to ask for one serves for the others.
PLAIN_KINDS = ("number", "value", "thing", "how")
# Kinds where most words of the template say what is asked for.
TELLING_KINDS = ("block_", "layer_", "tensor", "params", "follow_", "why")


def _any(lang: str) -> list[str]:
    """Templates for any plain subject: a list of their own, and what is trained of the others and held out of none."""
    held = {entry for (_, one), entries in TEMPLATES.items() if one == lang for entry in split(entries, True)}
    pool = TEMPLATES["any", lang] + [e for kind in PLAIN_KINDS for e in TEMPLATES.get((kind, lang), []) if "là bao nhiêu" not in e]
    return sorted(set(pool) - (held - set(TEMPLATES["any", lang])))


ANY = {lang: _any(lang) for lang in ("vi", "en")}
WORDS = {
    lang: sorted({w for (_, one), es in TEMPLATES.items() if one == lang for e in split(es, False) for w in e.split() if "{" not in w})
    for lang in ("vi", "en")
}


def pick(rng: np.random.Generator, entries: list):
    return entries[rng.integers(len(entries))]


# Words that say nothing, anywhere in a question.
FILLERS = {
    "vi": "vậy thế nhỉ nhé ạ à đó này thì là mà ơi cụ_thể thật_ra rốt_cuộc chính_xác giúp mình bạn xin hãy được cho_biết nói luôn thử nào".split(),
    "en": "so then now please really exactly just well actually here the a it that is in this you me to can would say tell know".split(),
}


def bent(template: str, kind: str, lang: str, rng: np.random.Generator) -> str:
    """A template as hurried people write it: a word left out, put in or moved. So the subject is learnt, not the words around it."""
    words = template.split()
    if kind.startswith(TELLING_KINDS) and rng.random() < 0.25:
        for _ in range(1 + int(rng.random() < 0.4)):
            words.insert(rng.integers(len(words) + 1), pick(rng, FILLERS[lang]).replace("_", " "))
        return " ".join(words)
    loose = [i for i, word in enumerate(words) if "{" not in word]
    if not loose or rng.random() > (0.15 if kind.startswith(TELLING_KINDS) else 0.45):
        return template
    for _ in range(1 + int(rng.random() < 0.3)):
        loose = [i for i, word in enumerate(words) if "{" not in word]
        if not loose:
            break
        at, how = pick(rng, loose), rng.random()
        if how < 0.45 and len(words) > 1:
            del words[at]
        elif how < 0.8:
            words.insert(at, pick(rng, WORDS[lang]))
        elif at > 0 and "{" not in words[at - 1]:
            words[at - 1], words[at] = words[at], words[at - 1]
    return " ".join(words)


def fill(template: str, subject: str) -> str:
    """A question with its first letter large. `{n}` is what is counted: the subject without "the number of"."""
    plural = bool(PLURAL.match(subject)) and not subject.startswith(("the size", "the number"))
    counted = COUNTED.sub("", subject)
    text = template.replace("{s}", subject).replace("{n}", counted).replace("{is}", "are" if plural else "is")
    return text[0].upper() + text[1:]


def template_kind(kind: str, subject: str, lang: str) -> str:
    """Numbers are asked for with words of their own."""
    if kind == "value" and COUNTED.match(subject):
        return "countable"
    return "number" if (kind, lang) == ("value", "vi") and NUMERIC.match(subject) else kind


def question(fact: Fact, lang: str, rng: np.random.Generator, held: bool, blind: bool | None = None) -> str:
    """One way to ask for a fact. Whole written questions belong to the trained ones."""
    asks = fact.asks.get(lang, [])
    if not held and asks and rng.random() < 0.25:
        return pick(rng, asks)
    subject = pick(rng, fact.subjects[lang])
    kind = template_kind(fact.kind, subject, lang)
    if held:
        return fill(pick(rng, split(TEMPLATES[kind, lang], True, blind)), subject)
    pool = ANY[lang] if kind in PLAIN_KINDS and rng.random() < 0.5 else split(TEMPLATES[kind, lang], False)
    return fill(bent(pick(rng, pool), kind, lang, rng), subject)


def every_question(fact: Fact, lang: str, held: bool) -> list[str]:
    """All ways to ask for a fact."""
    asks = [] if held else fact.asks.get(lang, [])
    filled = (
        fill(template, subject)
        for subject in fact.subjects[lang]
        for template in split(TEMPLATES[template_kind(fact.kind, subject, lang), lang], held)
    )
    return asks + list(filled)


def count_forms(n: int, lang: str) -> list[str]:
    """Ways to write a token count."""
    forms = [local(f"{n:,}", lang), str(n)]
    words = {"vi": ("nghìn", "triệu"), "en": ("thousand", "million")}[lang]
    for unit, word, letter in ((1000, words[0], "k"), (10**6, words[1], "M")):
        if n % (unit // 10) == 0 and unit <= n < unit * 1000:
            amount = local(f"{n / unit:g}", lang)
            forms += [f"{amount} {word}", f"{amount}{letter}"]
    return forms


def without_marks(text: str) -> str:
    """Vietnamese as typed on a keyboard without marks."""
    text = unicodedata.normalize("NFD", text.replace("đ", "d").replace("Đ", "D"))
    return "".join(ch for ch in text if unicodedata.category(ch) != "Mn")


GREETINGS = {
    "vi": [
        "Cho mình hỏi, ", "Bạn ơi, ", "Chào bạn, ", "Ê, ", "À, ", "Vậy ", "Ok, ", "Nano ơi, ", "Cho hỏi ", "Cho mình hỏi chút, ", "Thế ",
        "Xin hỏi ", "Bạn cho mình hỏi ", "Này bạn, ", "Ừm, ", "Mình hỏi chút: ",
    ],
    "en": [
        "Hi, ", "Hello, ", "Please, ", "Quick question: ", "So, ", "OK, ", "And ", "Well, ", "Hey, ", "Now ", "Tell me, ", "May I ask, ",
        "One question: ", "Nano, ", "Um, ", "I wonder, ",
    ],
}
CLOSINGS = {
    "vi": [" nhé", " vậy bạn", " với", ", cảm ơn", " hả bạn", " ạ", " nhỉ", " đi"],
    "en": [" please", ", thanks", ", please", " then", " now", " exactly", ", thank you", " again"],
}


def typed(text: str, lang: str, rng: np.random.Generator) -> str:
    """The same question as people type it: without marks, without capitals, without the last sign, after a greeting."""
    if text and rng.random() < 0.1:
        text = pick(rng, GREETINGS[lang]) + text[0].lower() + text[1:]
    if text and rng.random() < 0.12:
        sign = text[-1] if text[-1] in "?." else ""
        text = text.rstrip("?.") + pick(rng, CLOSINGS[lang]) + sign
    if lang == "vi" and rng.random() < 0.35:
        text = without_marks(text)
    if rng.random() < 0.3:
        text = text.lower()
    if rng.random() < 0.2:
        text = text.rstrip("?.")
    return text
