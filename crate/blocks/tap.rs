//! Taps: the named tensors that a run can show.
//!
//! One list serves the CPU reference, golden files, the lab's tables and parity reports. A run passes each tensor to an [`Observer`] where it
//! arises; an observer that wants nothing costs one virtual call per tap.

use std::collections::BTreeMap;

/// A named tensor of the forward pass. `n` tokens, `h` streams, `E` compressed entries; sizes per [`crate::config::Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tap {
    /// Rows that enter the model `[n, dim]`.
    Embedding,
    /// Table rows of each position `[n, columns]`.
    EngramRows,
    /// Gate of each stream `[n, h]`.
    EngramGate,
    /// Collapse weights that the attention's mixes produced `[n, h]`.
    AttnPre,
    /// How much of the attention output each stream takes `[n, h]`.
    AttnPost,
    /// Stream mixing matrix of the attention `[n, h, h]`.
    AttnComb,
    /// Normalised input of attention `[n, dim]`.
    AttnInput,
    /// Collapse weights that the FFN's mixes produced, used by the next layer `[n, h]`.
    FfnPre,
    /// How much of the FFN output each stream takes `[n, h]`.
    FfnPost,
    /// Stream mixing matrix of the FFN `[n, h, h]`.
    FfnComb,
    /// Normalised input of the FFN `[n, dim]`.
    FfnInput,
    /// Residual streams after the layer `[n, h, dim]`.
    Streams,
    /// Positions that ran through the layer `[n]`.
    Rows,
    /// Pooled and normalised latents, before rotation `[new entries, head_dim]`.
    Latent,
    /// New compressed entries as a reader sees them `[new entries, head_dim]`.
    CompressedKv,
    /// New index keys as a reader sees them `[new entries, index_head_dim]`.
    IndexKeys,
    /// New window rows as a reader sees them `[n, head_dim]`.
    WindowKv,
    /// Index scores, -inf where not visible `[n, E]`.
    IndexScores,
    /// Candidate blocks kept per query, -1 padded `[n, blocks]`.
    CandidateBlocks,
    /// Selected entries, ascending, -1 padded `[n, k]`.
    TopkIds,
    /// Rotated queries `[n, heads, head_dim]`.
    Query,
    /// Attention weights of the last row, sink last `[heads, rows + 1]`.
    AttnWeights,
    /// Last row's heads before the inverse rotation `[heads, head_dim]`.
    HeadsRotated,
    /// Heads after the inverse rotation `[n, heads, head_dim]`.
    Heads,
    /// Attention output `[n, dim]`.
    AttnOut,
    /// Unbiased router scores `[n, experts]`.
    RouterScores,
    /// Chosen experts, best first `[n, k]`.
    ExpertIds,
    /// Routing weights of the chosen experts `[n, k]`.
    ExpertWeights,
    /// Output of experts and shared expert together `[n, dim]`.
    FfnOut,
    /// Normalised input of the head `[rows, dim]`.
    FinalNorm,
    /// Logits `[rows, vocab]`.
    Logits,
    /// Mean over the streams of the tapped layers' inputs `[n, targets * dim]`.
    TargetHidden,
}

impl Tap {
    /// Every tap, in the order in which a token meets them.
    pub const ALL: [Tap; 32] = [
        Tap::Embedding,
        Tap::EngramRows,
        Tap::EngramGate,
        Tap::AttnPre,
        Tap::AttnPost,
        Tap::AttnComb,
        Tap::AttnInput,
        Tap::Query,
        Tap::Rows,
        Tap::Latent,
        Tap::CompressedKv,
        Tap::IndexKeys,
        Tap::WindowKv,
        Tap::IndexScores,
        Tap::CandidateBlocks,
        Tap::TopkIds,
        Tap::AttnWeights,
        Tap::HeadsRotated,
        Tap::Heads,
        Tap::AttnOut,
        Tap::FfnPre,
        Tap::FfnPost,
        Tap::FfnComb,
        Tap::FfnInput,
        Tap::RouterScores,
        Tap::ExpertIds,
        Tap::ExpertWeights,
        Tap::FfnOut,
        Tap::Streams,
        Tap::TargetHidden,
        Tap::FinalNorm,
        Tap::Logits,
    ];

    /// Block code and tensor name, for example `3c.topk_ids`.
    pub fn name(self) -> &'static str {
        match self {
            Tap::Embedding => "1a.embedding",
            Tap::EngramRows => "1b.row_ids",
            Tap::EngramGate => "1b.gate",
            Tap::AttnPre => "2a.attn_pre",
            Tap::AttnPost => "2a.attn_post",
            Tap::AttnComb => "2a.attn_comb",
            Tap::AttnInput => "2a.attn_input",
            Tap::FfnPre => "2a.ffn_pre",
            Tap::FfnPost => "2a.ffn_post",
            Tap::FfnComb => "2a.ffn_comb",
            Tap::FfnInput => "2a.ffn_input",
            Tap::Streams => "2a.streams",
            Tap::Rows => "3a.rows",
            Tap::Latent => "3b.latent",
            Tap::CompressedKv => "6a.compressed_kv",
            Tap::IndexKeys => "6a.index_keys",
            Tap::WindowKv => "3c.window_kv",
            Tap::IndexScores => "3c.index_scores",
            Tap::CandidateBlocks => "3c.candidate_blocks",
            Tap::TopkIds => "3c.topk_ids",
            Tap::Query => "4a.query",
            Tap::AttnWeights => "4a.weights",
            Tap::HeadsRotated => "4a.heads_rotated",
            Tap::Heads => "4a.heads",
            Tap::AttnOut => "4a.out",
            Tap::RouterScores => "5a.router_scores",
            Tap::ExpertIds => "5a.expert_ids",
            Tap::ExpertWeights => "5a.expert_weights",
            Tap::FfnOut => "5a.out",
            Tap::FinalNorm => "6b.final_norm",
            Tap::Logits => "6b.logits",
            Tap::TargetHidden => "6b.target_hidden",
        }
    }
}

/// The values of a tap: real numbers or indices.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Real numbers.
    F32(&'a [f32]),
    /// Indices; -1 means none.
    I64(&'a [i64]),
}

/// Someone who looks at a run.
pub trait Observer {
    /// Whether [`Observer::see`] should be called for this tensor. Asked first, so that nobody prepares what nobody wants.
    fn wants(&self, tap: Tap, layer: usize) -> bool;

    /// Takes a tensor. `layer` is 0 for taps outside the layers.
    fn see(&mut self, tap: Tap, layer: usize, shape: &[usize], values: Values<'_>);
}

/// Looks at nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn wants(&self, _: Tap, _: usize) -> bool {
        false
    }

    fn see(&mut self, _: Tap, _: usize, _: &[usize], _: Values<'_>) {}
}

/// A tensor that a [`Recorder`] kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// Real numbers; empty for indices.
    pub f32: Vec<f32>,
    /// Indices; empty for real numbers.
    pub i64: Vec<i64>,
}

/// Keeps every tensor that a filter lets through. Chunks of one run are appended along the first axis.
pub struct Recorder<F: Fn(Tap, usize) -> bool> {
    filter: F,
    /// What was kept, by tap and layer.
    pub tensors: BTreeMap<(Tap, usize), Recorded>,
}

impl<F: Fn(Tap, usize) -> bool> Recorder<F> {
    /// A recorder of the tensors for which `filter(tap, layer)` holds.
    pub fn new(filter: F) -> Self {
        Recorder { filter, tensors: BTreeMap::new() }
    }

    /// The tensor of a tap and layer, if it was recorded.
    pub fn get(&self, tap: Tap, layer: usize) -> Option<&Recorded> {
        self.tensors.get(&(tap, layer))
    }
}

impl<F: Fn(Tap, usize) -> bool> Observer for Recorder<F> {
    fn wants(&self, tap: Tap, layer: usize) -> bool {
        (self.filter)(tap, layer)
    }

    fn see(&mut self, tap: Tap, layer: usize, shape: &[usize], values: Values<'_>) {
        let kept = self.tensors.entry((tap, layer)).or_insert_with(|| Recorded {
            shape: std::iter::once(0).chain(shape[1..].iter().copied()).collect(),
            f32: Vec::new(),
            i64: Vec::new(),
        });
        // Rows of a later chunk may be wider (scores over more entries): then the last chunk stands for itself.
        if kept.shape[1..] != shape[1..] {
            *kept = Recorded { shape: shape.to_vec(), f32: Vec::new(), i64: Vec::new() };
        } else {
            kept.shape[0] += shape[0];
        }
        match values {
            Values::F32(values) => kept.f32.extend_from_slice(values),
            Values::I64(values) => kept.i64.extend_from_slice(values),
        }
    }
}
