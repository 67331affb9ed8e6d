"""The whole forward pass, in the order of section R.5, for prompts from position 0 on."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config
from .attention import Attention, Run, ropes_of
from .common import Linear, Norm
from .dspark import add_drafter
from .engram import Engram
from .experts import Experts
from .hyper import add_mixes, collapse, expand, mixes
from .vision import Aligner, Tower


@dataclass
class Batch:
    """Prompts `[batch, token]`, shorter ones padded behind: what comes later is never seen by what comes before."""

    ids: Tensor
    # -1 text, 0 START, 1 IMAGE, 2 NEW_LINE, 3 END.
    types: Tensor
    # Engram row ids per Engram layer, `[batch, token, column]`.
    rows: list[Tensor]
    # (patches `[patch, 3 P^2]`, rows, cols) of all pictures, in the order of their positions.
    pictures: list[tuple[Tensor, int, int]] = field(default_factory=list)


@dataclass
class Output:
    # After the final norm `[batch, token, dim]`.
    hidden: Tensor
    # Lane means of the tapped layers' inputs `[batch, token, 3 dim]`.
    taps: Tensor
    run: Run


class Layer(nn.Module):
    """What backbone layers and draft stages have in common; `attend` reads what the layer may see."""

    def __init__(self, c: Config, layer: int):
        super().__init__()
        self.c = c
        draft = layer >= c.num_hidden_layers
        gain = 1 / math.sqrt(2 * c.num_hidden_layers)
        self.attn = Attention(c, layer, gain)
        self.attn_norm = Norm(c.hidden_size, c.rms_norm_eps)
        self.ffn_norm = Norm(c.hidden_size, c.rms_norm_eps)
        add_mixes(self, "hc_attn", c, 2 * layer)
        add_mixes(self, "hc_ffn", c, 2 * layer + 1)
        experts = (c.dspark_n_routed_experts, c.dspark_num_experts_per_tok) if draft else (c.n_routed_experts, c.num_experts_per_tok)
        self.ffn = Experts(c, *experts, gain)
        if not draft and layer in c.engram_layer_ids:
            self.engram = Engram(c, c.engram_num_embeddings[c.engram_layer_ids.index(layer)])

    def forward(self, h: Tensor, pre: Tensor, attend, image: Tensor) -> tuple[Tensor, Tensor]:
        """Streams `[n, h, dim]` and the collapse weights of the sub-layer before: each sub-layer reads with those (3.3)."""
        attn_pre, post, comb = mixes(self, "hc_attn", self.c, h)
        y = attend(self.attn_norm(collapse(h, pre)))
        h = expand(h, y, post, comb)
        ffn_pre, post, comb = mixes(self, "hc_ffn", self.c, h)
        y = self.ffn(self.ffn_norm(collapse(h, attn_pre)), image)
        return expand(h, y, post, comb), ffn_pre


class Network(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c, self.ropes = c, ropes_of(c)
        self.embed, self.head = Linear(c.vocab_size, c.hidden_size), Linear(c.vocab_size, c.hidden_size)
        nn.init.normal_(self.embed.weight, std=0.5)
        self.norm = Norm(c.hidden_size, c.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(c, layer) for layer in range(c.num_hidden_layers))
        self.mtp = nn.ModuleList(Layer(c, c.num_hidden_layers + k) for k in range(c.num_nextn_predict_layers))
        add_drafter(self.mtp, c)
        if c.vision:
            self.vision, self.aligner = Tower(c.vision), Aligner(c, c.vision)
            for name in ("image_start", "image_newline", "image_end"):
                self.register_parameter(name, nn.Parameter(0.5 * torch.randn(c.hidden_size)))

    def forward(self, batch: Batch, quantise: bool = True, learn_index: bool = False) -> Output:
        """`quantise`: caches as released; without, f32 rows. `learn_index`: also the loss of the index scores."""
        c, (b, t) = self.c, batch.ids.shape
        run = Run(c, self.ropes, quantise, learn_index)
        image = (batch.types >= 0).flatten()
        h = self._embed(batch).flatten(0, 1)[:, None].expand(-1, c.hc_mult, -1)
        pre = torch.zeros(b * t, c.hc_mult, device=h.device)
        pre[:, 0] = 1.0
        taps = []
        for index, layer in enumerate(self.layers):
            if index in c.engram_layer_ids:
                h = layer.engram(h, batch.rows[c.engram_layer_ids.index(index)].flatten(0, 1), image)
            if index in c.dspark_target_layer_ids:
                taps.append(h.mean(1))
            h, pre = layer(h, pre, lambda x: layer.attn(x.unflatten(0, (b, t)), run).flatten(0, 1), image)
        hidden = self.norm(collapse(h, pre)).unflatten(0, (b, t))
        return Output(hidden, torch.cat(taps, dim=-1).unflatten(0, (b, t)), run)

    def _embed(self, batch: Batch) -> Tensor:
        """Embedding rows, replaced at pictures (1.1, 1.4)."""
        x = F.embedding(batch.ids, self.embed.weight)
        if not batch.pictures:
            return x
        for kind, name in ((0, "image_start"), (2, "image_newline"), (3, "image_end")):
            x = torch.where((batch.types == kind)[..., None], getattr(self, name), x)
        return x.masked_scatter((batch.types == 1)[..., None], self.image_rows(batch.pictures))

    def image_rows(self, pictures: list[tuple[Tensor, int, int]]) -> Tensor:
        """Rows of all IMAGE positions in order; pictures of one size go through the tower together."""
        rows: list[Tensor | None] = [None] * len(pictures)
        for size in {picture[1:] for picture in pictures}:
            which = [i for i, picture in enumerate(pictures) if picture[1:] == size]
            seen = self.vision(torch.stack([pictures[i][0] for i in which]), *size)
            for i, aligned in zip(which, self.aligner(seen, *size)):
                rows[i] = aligned
        return torch.cat(rows)
