"""What nano knows: facts with an id, a block, the section they come from, ways to name their subject, and an answer in both languages."""

import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
LANGS = ("vi", "en")
NUMBER = re.compile(r"(?<![\w.,])\d[\d.,]*\d|(?<![\w.,])\d")


def local(text: str, lang: str) -> str:
    """Numbers are written the English way in the data: 129,280 and 0.5. Vietnamese swaps the signs; names such as V4.1 stay."""
    if lang == "en":
        return text
    return NUMBER.sub(lambda m: m.group().translate(str.maketrans(",.", ".,")), text)


@dataclass(frozen=True)
class Fact:
    id: str
    block: str
    section: str
    # Which templates ask for it: value, thing, why, how, or a family of its own.
    kind: str
    subjects: dict[str, list[str]]
    answer: dict[str, str]
    # Whole questions beside the templates.
    asks: dict[str, list[str]] = field(default_factory=dict)
    # What else fills a template of its kind, and what the next question could be about.
    extra: dict[str, str] = field(default_factory=dict)


def hand_written() -> list[Fact]:
    """Lines `id|block|section|kind|subjects|question|answer|subjects|question|answer`: Vietnamese first, `/` between subjects."""
    facts = []
    for path in sorted(HERE.glob("facts_*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                id, block, section, kind, *rest = line.split("|")
                parts = dict(zip(LANGS, (rest[:3], rest[3:])))
                facts.append(Fact(
                    id, block, section, kind,
                    {lang: subjects.split("/") for lang, (subjects, _, _) in parts.items()},
                    {lang: local(answer, lang) for lang, (_, _, answer) in parts.items()},
                    {lang: [ask] for lang, (_, ask, _) in parts.items()},
                ))
    return facts


ORDER = ["1A", "1B", "2A", "3A", "3B", "3C", "4A", "6A", "5A", "6B"]


def _both(id, block, section, kind, subject, vi, en) -> Fact:
    subjects = subject if isinstance(subject, dict) else {"vi": [subject], "en": [subject]}
    return Fact(id, block, section, kind, subjects, {"vi": local(vi, "vi"), "en": local(en, "en")})


def _blocks(rows: list[list[str]]) -> list[Fact]:
    facts, names = [], {row[0]: (row[2], row[3]) for row in rows}
    for code, section, vi, en, *aspects in rows:
        named = lambda word, name: [f"{word} {code}", code, f"{word} {code} ({name})"]  # noqa: B023, E731
        subject = {"vi": named("khối", vi), "en": named("block", en)}
        add = lambda kind, v, e: facts.append(_both(f"block.{code}.{kind}", code, section, f"block_{kind}", subject, v, e))  # noqa: B023, E731
        add("name", f"Khối {code} là {vi}.", f"Block {code} is the {en}.")
        verbs = {"receives": ("nhận", "receives"), "does": ("", ""), "returns": ("trả ra", "returns"), "why": ("", "")}
        for (kind, verb), v, e in zip(verbs.items(), aspects[0::2], aspects[1::2]):
            if kind == "why":
                add(kind, f"Cần khối {code} vì {v}.", f"Block {code} is needed because {e}.")
            else:
                add(kind, f"Khối {code} {verb[0]} {v}.".replace("  ", " "), f"Block {code} {verb[1]} {e}.".replace("  ", " "))
        at = ORDER.index(code)
        if at + 1 < len(ORDER):
            after = ORDER[at + 1]
            add("next", f"Sau khối {code} là khối {after}, {names[after][0]}.", f"After block {code} comes block {after}, the {names[after][1]}.")
    return facts


RATIOS = [0, 0] + [2] * 18 + [1] * 20
KV, INDEX = [2, 8, 14, 20], [2, 8, 14, 20, 24, 28, 32, 36]


def role_of(layer: int) -> str:
    if RATIOS[layer] == 0:
        return "window"
    return "full" if layer in KV else "reindex" if layer in INDEX else "reuse"


def _layers() -> list[Fact]:
    """Table 4.1: what each of the 40 layers does and reads."""
    facts = []
    for layer in range(40):
        subject = {"vi": [f"lớp {layer}", f"layer {layer}"], "en": [f"layer {layer}"]}
        half = ("encoder", "encoder") if layer < 20 else ("decoder", "decoder")
        engram = layer in (1, 14)
        role = {
            "window": ("chỉ có cửa sổ trượt", "window only"),
            "full": (f"Full, tự ghi KV với ratio {RATIOS[layer]}", f"Full, writes its own KV at ratio {RATIOS[layer]}"),
            "reindex": ("Reindex, tự chọn entry trên KV của lớp 20", "Reindex, selects anew over layer 20's KV"),
            "reuse": ("Reuse, dùng lại KV và danh sách có sẵn", "Reuse, takes KV and list as they are"),
        }[role_of(layer)]
        more = (", có Engram", ", with Engram") if engram else ("", "")
        facts.append(_both(
            f"layer.{layer}.role", "3A", "4.1", "layer_role", subject,
            f"Lớp {layer} thuộc {half[0]}: {role[0]}{more[0]}.", f"Layer {layer} is in the {half[1]}: {role[1]}{more[1]}.",
        ))
        if RATIOS[layer] == 0:
            vi, en = f"Lớp {layer} không đọc KV toàn cục, chỉ đọc cửa sổ.", f"Layer {layer} reads no global KV, only its window."
        else:
            kv, index = (max(s for s in sources if s <= layer) for sources in (KV, INDEX))
            vi = f"Lớp {layer} đọc KV của lớp {kv} và danh sách 512 của lớp {index}."
            en = f"Layer {layer} reads the KV of layer {kv} and the top-512 list of layer {index}."
        facts.append(_both(f"layer.{layer}.reads", "3A", "4.1", "layer_reads", subject, vi, en))
    return facts


def families() -> list[Fact]:
    """Facts that come in tables."""
    rows: dict[str, list[list[str]]] = {}
    for line in (HERE / "families.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            family, *values = line.split("|")
            rows.setdefault(family, []).append(values)
    facts = _blocks(rows["block"]) + _layers()
    for name, section, dtype, shape in rows["tensor"]:
        block = next((b for piece, b in {
            "attn.": "4A", "hc_": "2A", "ffn": "5A", "experts": "5A", "compressor": "3B", "indexer": "3C", "engram": "1B", "vision": "1A",
            "aligner": "1A",
        }.items() if piece in name), "6B")
        facts.append(_both(
            f"tensor.{name}", block, section, "tensor", name,
            f"Tensor {name} có dạng {shape}, kiểu {dtype}.", f"Tensor {name} has the shape {shape} and type {dtype}.",
        ))
    for vi, en, section, count in rows["params"]:
        facts.append(_both(
            f"params.{en}", "3A", section, "params", {"vi": [vi], "en": [en]},
            f"Số tham số của {vi} là {count}.", f"The parameter count of {en} is {count}.",
        ))
    return facts


def all_facts() -> list[Fact]:
    return hand_written() + families()


def tokens_table() -> list[int]:
    """Round token counts, all even, so that 890 bytes per token is exact (8.2)."""
    tens = [k * 10**e for e in range(1, 6) for k in range(1, 10)] + [10**6]
    halves = [k * 10**e for e in range(2, 6) for k in (15, 25)]
    return sorted({n for n in tens + halves + [2**e for e in range(7, 21)] if n <= 2**20})


def kv_answer(n: int, lang: str) -> str:
    """`n` tokens at 890 bytes, with a rounded size."""
    total = 890 * n
    unit, name = next((u, m) for u, m in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")) if total >= u)
    size = f"{total / unit:.3g}"
    text = {
        "vi": f"{n:,} token tốn {total:,} byte KV (890 × {n:,}), khoảng {size} {name}.",
        "en": f"{n:,} tokens take {total:,} bytes of KV (890 × {n:,}), about {size} {name}.",
    }[lang]
    return local(text, lang)
