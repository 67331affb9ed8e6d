"""Checkpoints in the released layout: names, formats, shards and their index (specification, section 11)."""

import json
import re
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from .config import Config
from .formats import CODECS, fake

FP8 = re.compile(r"(attn\.(wq_a|wq_b|wkv|wo_a|wo_b|indexer\.wq_b)|shared_experts\.w[123]|engram\.wkv|main_proj)\.weight$")
FP4 = re.compile(r"ffn\.experts\.w[123]$")
F32 = re.compile(r"(hc_(attn|ffn)_(fn|base|scale)|attn_sink|gate\.bias(_vl)?)$")


def format_of(name: str) -> str:
    """Storage format of a parameter of :class:`~nano.model.network.Network`."""
    if FP4.search(name):
        return "fp4"
    if name.endswith("engram.embed.weight"):
        return "rows"
    if FP8.search(name):
        return "fp8"
    return "f32" if F32.search(name) else "bf16"


def released(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters to the tensors of a file: experts apart, codes and scales."""
    out: dict[str, Tensor] = {}
    for name, value in values.items():
        kind, value = format_of(name), value.detach().float().cpu()
        if kind in ("f32", "bf16"):
            out[name] = value.bfloat16() if kind == "bf16" else value
            continue
        codes, scale = CODECS[kind][0](value)
        scale = scale.view(torch.float8_e8m0fnu)
        if kind == "fp4":
            stem, which = name.rsplit(".", 1)
            for e in range(codes.shape[0]):
                out[f"{stem}.{e}.{which}.weight"] = codes[e].view(torch.int8)
                out[f"{stem}.{e}.{which}.scale"] = scale[e]
        else:
            out[name], out[name.removesuffix("weight") + "scale"] = codes, scale
    return {name: tensor.contiguous() for name, tensor in out.items()}


def parameters(stored: dict[str, Tensor], names: list[str]) -> dict[str, Tensor]:
    """Inverse of :func:`released`: exact values of the parameters called `names`."""
    out: dict[str, Tensor] = {}
    byte = lambda name: stored[name].view(torch.uint8)  # noqa: E731
    for name in names:
        kind = format_of(name)
        if kind in ("f32", "bf16"):
            out[name] = stored[name].float()
        elif kind == "fp4":
            stem, which = name.rsplit(".", 1)
            count = sum(1 for key in stored if re.fullmatch(rf"{re.escape(stem)}\.\d+\.{which}\.scale", key))
            part = lambda e: CODECS[kind][1](byte(f"{stem}.{e}.{which}.weight"), byte(f"{stem}.{e}.{which}.scale"))  # noqa: B023, E731
            out[name] = torch.stack([part(e) for e in range(count)])
        else:
            out[name] = CODECS[kind][1](stored[name], byte(name.removesuffix("weight") + "scale"))
    return out


def quantised(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values that the exported model will have."""
    return {name: fake(format_of(name), value) for name, value in values.items()}


def write(folder: Path, c: Config, values: dict[str, Tensor], tokenizer: str, tables: str) -> int:
    """Writes a checkpoint; the bytes of all its files."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = released(values)
    vision = {n: t for n, t in tensors.items() if n.startswith(("vision.", "aligner.", "image_"))}
    rest = {n: t for n, t in tensors.items() if n not in vision}
    shards = [shard for shard in (vision, rest) if shard]
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / name)
        weight_map |= {tensor: name for tensor in shard}
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    texts = {
        "config.json": c.to_json(), "tokenizer.json": tokenizer, "engram_tables.json": tables,
        "model.safetensors.index.json": json.dumps(index, separators=(",", ":")),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return sum(path.stat().st_size for path in folder.iterdir())


def read(folder: Path, names: list[str]) -> dict[str, Tensor]:
    """Exact values of the parameters called `names`."""
    stored: dict[str, Tensor] = {}
    for path in sorted(Path(folder).glob("model-*.safetensors")):
        stored |= load_file(path)
    return parameters(stored, names)
