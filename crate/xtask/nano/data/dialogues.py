"""Conversations: single questions, follow-ups that need the turn before, several topics in a row, small talk, refusals, pictures."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import pictures
from .facts import LANGS, Fact, all_facts, kv_answer, tokens_table
from .phrasings import TEMPLATES, bent, count_forms, fill, pick, question, split, typed

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Turn:
    question: str
    answer: str
    picture: np.ndarray | None = None


@dataclass(frozen=True)
class Dialogue:
    kind: str
    lang: str
    turns: list[Turn]


@dataclass(frozen=True)
class Chat:
    """A topic of small talk or a topic that is refused."""

    id: str
    asks: dict[str, list[str]] = field(default_factory=dict)
    answer: dict[str, str] = field(default_factory=dict)


def _chats(name: str) -> list[Chat]:
    chats: list[Chat] = []
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            chats.append(Chat(line[2:]))
        elif line.startswith(("? ", "! ")):
            lang, *rest = line[2:].split("|")
            (chats[-1].asks if line[0] == "?" else chats[-1].answer)[lang] = rest if line[0] == "?" else rest[0]
    return chats


# Share of each kind of conversation while training.
MIX = {"fact": 0.32, "kv": 0.04, "follow": 0.15, "mixed": 0.04, "small_talk": 0.08, "off_topic": 0.07, "picture": 0.30}


class Source:
    """Everything that can be asked, and a generator of conversations about it. The same generator gives the same conversations."""

    def __init__(self):
        self.facts = all_facts()
        self.by_id = {fact.id: fact for fact in self.facts}
        self.small_talk, self.off_topic = _chats("small_talk.txt"), _chats("off_topic.txt")
        lines = (HERE / "links.txt").read_text(encoding="utf-8").splitlines()
        self.why = [line.split("|") for line in lines if line and not line.startswith("#")]
        self.counts = tokens_table()
        # Which of the held-out phrasings are drawn: all, the blind ones or the others.
        self.blind: bool | None = None
        self.layers = {kind: [f for f in self.facts if f.kind == kind] for kind in ("layer_role", "layer_reads")}

    def sample(self, rng: np.random.Generator) -> Dialogue:
        """One conversation of the training mix."""
        lang, kind = pick(rng, LANGS), rng.choice(list(MIX), p=list(MIX.values()))
        turns = self.make(str(kind), lang, rng, held=False)
        return Dialogue(str(kind), lang, [Turn(typed(t.question, lang, rng), t.answer, t.picture) for t in turns])

    def make(self, kind: str, lang: str, rng: np.random.Generator, held: bool) -> list[Turn]:
        """The turns of one conversation; with `held` its last question is a held-out one."""
        if kind == "follow":
            return self.follow(lang, rng, held)
        if kind == "mixed":
            # Now and then a long talk, so that late positions are known too.
            turns = rng.integers(6, 11) if rng.random() < 0.1 else rng.integers(2, 5)
            kinds = rng.choice(["fact", "kv", "small_talk", "off_topic"], turns, p=[0.7, 0.1, 0.1, 0.1])
            return [turn for one in kinds for turn in self.make(str(one), lang, rng, held)]
        if kind == "picture" and not held:
            return self.about_picture(lang, rng)
        return [getattr(self, f"one_{kind}")(lang, rng, held)]

    def one_fact(self, lang: str, rng: np.random.Generator, held: bool, fact: Fact | None = None) -> Turn:
        fact = fact or pick(rng, self.facts)
        return Turn(question(fact, lang, rng, held, self.blind), fact.answer[lang])

    def _way(self, kind: str, lang: str, rng: np.random.Generator, held: bool) -> str:
        """A template: a held-out one as it is, a trained one bent."""
        template = pick(rng, split(TEMPLATES[kind, lang], held, self.blind if held else None))
        return template if held else bent(template, kind, lang, rng)

    def one_kv(self, lang: str, rng: np.random.Generator, held: bool, n: int | None = None) -> Turn:
        n = n or pick(rng, self.counts)
        return Turn(fill(self._way("kv", lang, rng, held), pick(rng, count_forms(n, lang))), kv_answer(n, lang))

    def _asks(self, chat: Chat, lang: str, held: bool) -> list[str]:
        return split(chat.asks[lang], held, self.blind if held else None)

    def one_small_talk(self, lang: str, rng: np.random.Generator, held: bool, chat: Chat | None = None) -> Turn:
        chat = chat or pick(rng, self.small_talk)
        return Turn(pick(rng, self._asks(chat, lang, held)), chat.answer[lang])

    def one_off_topic(self, lang: str, rng: np.random.Generator, held: bool, chat: Chat | None = None) -> Turn:
        """Held out: unknown topics in known words, the hard case."""
        chat = chat or pick(rng, self.off_topic)
        return Turn(fill(self._way("off_topic", lang, rng, False), pick(rng, self._asks(chat, lang, held))), chat.answer[lang])

    def one_picture(self, lang: str, rng: np.random.Generator, held: bool) -> Turn:
        picture = pictures.draw(rng)
        kind = pick(rng, pictures.kinds(picture))
        asks = split(pictures.QUESTIONS[kind][lang], held, self.blind if held else None)
        return Turn(pick(rng, asks), pictures.answer(picture, kind, lang), picture.pixels)

    def about_picture(self, lang: str, rng: np.random.Generator) -> list[Turn]:
        """A picture and up to four questions about it."""
        picture = pictures.draw(rng)
        kinds = list(rng.permutation(pictures.kinds(picture)))[: rng.integers(1, 5)]
        # Where something is takes longest to learn.
        if "place" not in kinds and picture.place and rng.random() < 0.5:
            kinds[0] = "place"
        ask = lambda kind: pick(rng, split(pictures.QUESTIONS[kind][lang], False))  # noqa: E731
        turns = [Turn(ask(kind), pictures.answer(picture, kind, lang)) for kind in kinds]
        # An empty question needs the picture beside it.
        later = [turn for turn in turns[1:] if turn.question]
        return [Turn(turns[0].question, turns[0].answer, picture.pixels)] + later

    def follow(self, lang: str, rng: np.random.Generator, held: bool, kind: str | None = None) -> list[Turn]:
        """A question and one that means nothing without it."""
        kind = kind or str(rng.choice(["block", "language", "repeat", "why", "layer", "kv"], p=[0.25, 0.25, 0.1, 0.15, 0.15, 0.1]))
        again = lambda subject="": fill(self._way(f"follow_{kind}", lang, rng, held), subject)  # noqa: E731
        if kind == "kv":
            first, second = pick(rng, self.counts), pick(rng, self.counts)
            return [self.one_kv(lang, rng, False, first), Turn(again(pick(rng, count_forms(second, lang)[:3])), kv_answer(second, lang))]
        if kind == "layer":
            family = self.layers[pick(rng, list(self.layers))]
            first, second = pick(rng, family), pick(rng, family)
            return [self.one_fact(lang, rng, False, first), Turn(again(second.subjects[lang][0]), second.answer[lang])]
        if kind == "why":
            first, second = (self.by_id[id] for id in pick(rng, self.why))
            return [self.one_fact(lang, rng, False, first), Turn(again(), second.answer[lang])]
        fact = pick(rng, self.facts)
        other = "en" if lang == "vi" else "vi"
        name = self.by_id[f"block.{fact.block}.name"].answer[lang]
        answer = {"block": name, "language": fact.answer[other], "repeat": fact.answer[lang]}[kind]
        return [self.one_fact(lang, rng, False, fact), Turn(again(), answer)]


def held_out(source: Source, seed: int = 890, blind: bool | None = None) -> list[Dialogue]:
    """The fixed test: every fact and count in both languages, and samples of the rest. Half of the Vietnamese has no marks."""
    from .phrasings import without_marks

    source.blind = blind
    rng, out = np.random.default_rng(seed), []

    def add(kind: str, lang: str, turns: list[Turn]) -> None:
        if lang == "vi" and rng.random() < 0.5:
            turns = [Turn(without_marks(t.question), t.answer, t.picture) for t in turns]
        out.append(Dialogue(kind, lang, turns))

    for lang in LANGS:
        for fact in source.facts:
            add("fact", lang, [source.one_fact(lang, rng, True, fact)])
        for n in source.counts:
            add("kv", lang, [source.one_kv(lang, rng, True, n)])
        for chat in source.small_talk:
            for _ in range(5):
                add("small_talk", lang, [source.one_small_talk(lang, rng, True, chat)])
        # A topic of a later training has blind entries only.
        for chat in [chat for chat in source.off_topic if source._asks(chat, lang, True)] * 3:
            add("off_topic", lang, [source.one_off_topic(lang, rng, True, chat)])
        for kind in ("block", "language", "repeat", "why", "layer", "kv"):
            for _ in range(20):
                add(f"follow_{kind}", lang, source.follow(lang, rng, True, kind))
        for _ in range(60):
            add("picture", lang, [source.one_picture(lang, rng, True)])
    source.blind = None
    return out
