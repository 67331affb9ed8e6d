"""Nano's own tokenizer: byte-level BPE with the release's splits and special tokens (specification, sections 12.1 and 0.4)."""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .hashing import token_map

FIRST = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"]
LAST = [
    "<｜System｜>", "<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜",
    "<｜latest_reminder｜>", "<｜action｜>", "<｜query｜>", "<｜authority｜>", "<｜domain｜>", "<｜title｜>", "<｜read_url｜>",
    "<｜deepseek_image｜>",
]
SPLITS = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
]


def train(texts: list[str], vocab_size: int) -> Tokenizer:
    """A tokenizer of exactly `vocab_size` ids: specials, 256 bytes, merges, chat tokens."""
    tokenizer = Tokenizer(models.BPE())
    splits = [pre_tokenizers.Split(Regex(split), "isolated") for split in SPLITS]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    first = [AddedToken(token, normalized=False, special=True) for token in FIRST]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(LAST), special_tokens=first, initial_alphabet=alphabet, min_frequency=2, show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    image = LAST[-1]
    tokenizer.add_tokens([AddedToken(token, normalized=token != image, special=False) for token in LAST])
    if tokenizer.get_vocab_size() != vocab_size:
        raise SystemExit(f"the corpus gives {tokenizer.get_vocab_size()} tokens, needed {vocab_size}: set a smaller vocab_size")
    return tokenizer


def to_json(tokenizer: Tokenizer) -> str:
    """tokenizer.json in the released form: an empty normaliser, a byte-level post-processor, merges as strings."""
    document = json.loads(tokenizer.to_str())
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    document |= {"normalizer": {"type": "Sequence", "normalizers": []}, "post_processor": byte_level}
    document["model"]["merges"] = [" ".join(m) if isinstance(m, list) else m for m in document["model"]["merges"]]
    document["model"].pop("ignore_merges", None)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def engram_map(tokenizer: Tokenizer) -> list[int]:
    """Compressed id of every token (section 2.1)."""
    ids = range(tokenizer.get_vocab_size())
    return token_map([tokenizer.decode([i], skip_special_tokens=False) for i in ids], [tokenizer.id_to_token(i) for i in ids])
