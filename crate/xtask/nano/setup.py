"""What training starts from: tokenizer, hash tables and the complete config, all of them made from the knowledge alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from . import tokenizer as bpe
from .config import Config
from .data.dialogues import Source
from .hashing import Tables, primes_of

# Conversations that the tokenizer is trained on.
CORPUS = 8_000


def make(source: Source, seed: int = 890, kept: Path | None = None):
    """`(config, tokenizer, tables)`; `kept` is a tokenizer.json to use in place of a new one."""
    c = Config()
    if kept:
        tokenizer = Tokenizer.from_file(str(kept))
    else:
        rng = np.random.default_rng(seed)
        texts = [text for _ in range(CORPUS) for turn in source.sample(rng).turns for text in (turn.question, turn.answer)]
        tokenizer = bpe.train(texts, c.vocab_size)
    map = bpe.engram_map(tokenizer)
    c = replace(
        c,
        engram_compressed_vocab_size=max(map) + 1,
        engram_num_embeddings=[sum(column) for column in primes_of(c)],
        image_token_id=tokenizer.token_to_id("<｜deepseek_image｜>"),
        dspark_noise_token_id=tokenizer.token_to_id("<｜System｜>"),
    )
    return c, tokenizer, Tables.of(c, map)
