//! The numbers behind a chapter's picture: one struct per block, computed here, drawn by whoever shows it.
//!
//! A page only draws: everything that needs knowledge of the architecture happens on this side, where it is tested. JSON has camelCase keys
//! and a `block` field with the code.

use serde::Serialize;

/// The picture of one chapter, for the chosen token in the chosen layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "block")]
pub enum Figure {
    /// 1A.
    #[serde(rename = "1A")]
    Input(InputFigure),
    /// 1B.
    #[serde(rename = "1B")]
    Engram(EngramFigure),
    /// 2A.
    #[serde(rename = "2A")]
    Streams(StreamsFigure),
    /// 3A.
    #[serde(rename = "3A")]
    Schedule(ScheduleFigure),
    /// 3B.
    #[serde(rename = "3B")]
    Compressor(CompressorFigure),
    /// 3C.
    #[serde(rename = "3C")]
    Window(WindowFigure),
    /// 4A.
    #[serde(rename = "4A")]
    Attention(AttentionFigure),
    /// 6A.
    #[serde(rename = "6A")]
    Cache(CacheFigure),
    /// 5A.
    #[serde(rename = "5A")]
    Experts(ExpertsFigure),
    /// 6B.
    #[serde(rename = "6B")]
    Head(HeadFigure),
}

/// 1A: the picture in patches and cells, and the row of the followed token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputFigure {
    /// The picture, if there is one.
    pub picture: Option<PictureFigure>,
    /// The followed token's row `[dim]`.
    pub row: Vec<f32>,
    /// Euclidean length of the row of each position `[n]`.
    pub lengths: Vec<f32>,
}

/// How a picture became tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PictureFigure {
    /// Whether the lab drew it.
    pub generated: bool,
    /// Pixels as given: width, height.
    pub given: [usize; 2],
    /// Pixels of the canvas on which the resized picture lies: width, height, whole patches.
    pub fitted: [usize; 2],
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Patches per cell, in each direction.
    pub merge: usize,
    /// Patches: columns, rows.
    pub patches: [usize; 2],
    /// Cells, of which each is one IMAGE token: columns, rows.
    pub cells: [usize; 2],
    /// Position of START; rows of cells with a NEW_LINE each follow, then END.
    pub start: usize,
    /// A reduced copy of the canvas to draw, at most 192 by 384 pixels: width, height.
    pub thumb: [usize; 2],
    /// Its pixels, RGB row by row, base64.
    pub rgb: String,
}

/// 1B: from the last tokens to rows of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngramFigure {
    /// The Engram layer that is shown: the chosen layer, or else the nearest one before it, or the first.
    pub layer: usize,
    /// Whether the followed token is part of a picture: then all ids are pads, the gates are 0, and nothing is added to its streams.
    pub blocked: bool,
    /// The hash as a machine, one step per token that it takes in, nearest token first.
    pub steps: Vec<HashStep>,
    /// The rows found, by n-gram size and head.
    pub rows: Vec<HashRow>,
    /// Gate per stream of each Engram layer.
    pub gates: Vec<LayerGates>,
}

/// One step of the n-gram hash. 64-bit numbers are hex strings, in lower case without prefix: JavaScript's numbers are too short for them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashStep {
    /// Places back from the followed token.
    pub back: usize,
    /// Its position; `None` where the pad id stands: before the beginning, and from a picture on that blocks the view.
    pub position: Option<usize>,
    /// The token in readable form; `(pad)` without one.
    pub label: String,
    /// Its compressed id.
    pub compressed: u32,
    /// The odd multiplier of this place.
    pub multiplier: String,
    /// Compressed id times multiplier.
    pub product: String,
    /// XOR of all products so far: the hash of the n-gram of `back + 1` tokens.
    pub hash: String,
}

/// One row that is read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashRow {
    /// Tokens in the n-gram.
    pub size: usize,
    /// Hash head.
    pub head: usize,
    /// Prime modulus.
    pub prime: u64,
    /// Hash modulo prime.
    pub remainder: u64,
    /// Where the stretch of this size and head begins in the table.
    pub offset: u64,
    /// Row of the table.
    pub row: u64,
}

/// Gates of one Engram layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerGates {
    /// The layer.
    pub layer: usize,
    /// One per stream, 0 to 1.
    pub gates: Vec<f32>,
}

/// 2A: both sub-layers of the chosen layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamsFigure {
    /// The layer.
    pub layer: usize,
    /// Lengths of the streams that enter the layer, before its n-gram memory if it has one `[h]`.
    pub before: Vec<f32>,
    /// Lengths of the streams after the layer `[h]`.
    pub after: Vec<f32>,
    /// Mixing around attention.
    pub attn: MixFigure,
    /// Mixing around the FFN.
    pub ffn: MixFigure,
}

/// The mixing numbers of one sub-layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MixFigure {
    /// Collapse weights that this sub-layer's mixes produced, used by the next sub-layer `[h]`.
    pub pre: Vec<f32>,
    /// What each stream takes of the output `[h]`.
    pub post: Vec<f32>,
    /// From stream i (row) to stream j (column) `[h * h]`.
    pub comb: Vec<f32>,
    /// The softmax, and the matrix after each Sinkhorn step: `steps + 1` matrices `[h * h]`, computed again in f64. The last equals `comb`.
    pub sinkhorn: Vec<Vec<f32>>,
    /// Largest distance of a row sum from one after each of them.
    pub row_error: Vec<f32>,
}

/// 3A: which layers ran for which position.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleFigure {
    /// Positions of the prompt.
    pub positions: usize,
    /// Decoder rows of the run with a tail.
    pub tail: usize,
    /// First decoder layer.
    pub decoder: usize,
    /// Per layer, the first position that ran through it in the run with a tail; `positions` if none did `[layers]`.
    pub first: Vec<usize>,
    /// Parameters that are active for a token that only the encoder reads, in this model.
    pub read: u64,
    /// Parameters that are active for a token that is written, in this model.
    pub write: u64,
    /// The same for the released config: about 8 and 16 billion.
    pub released: [u64; 2],
    /// Per layer, parameters that are active in it, in this model `[layers]`.
    pub by_layer: Vec<u64>,
}

/// 3B: two tokens become one entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompressorFigure {
    /// The chosen layer.
    pub layer: usize,
    /// The source layer whose entries it reads and whose compressor is shown; `None` for a layer with a window alone.
    pub source: Option<usize>,
    /// `window`, `full`, `reindex` or `reuse`: what the chosen layer does.
    pub role: &'static str,
    /// Tokens per entry; 0 for a layer with a window alone.
    pub ratio: usize,
    /// The newest whole entry at the followed token; `None` if no group is full yet, or there are none.
    pub entry: Option<usize>,
    /// Positions of its tokens `[ratio]`.
    pub tokens: Vec<usize>,
    /// Softmax weight of each token per channel `[ratio][head_dim]`; sums to one over the tokens, all one with ratio 1.
    pub weights: Vec<Vec<f32>>,
    /// What is pooled `[ratio][head_dim]`.
    pub values: Vec<Vec<f32>>,
    /// The pooled and normalised entry `[head_dim]`.
    pub pooled: Vec<f32>,
}

/// 3C: the ring and the selection.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowFigure {
    /// The chosen layer.
    pub layer: usize,
    /// Position in each slot of the ring `[window]`; `None` if it is empty.
    pub slots: Vec<Option<usize>>,
    /// Slot of the followed token.
    pub head: usize,
    /// The layer whose selection the chosen layer reads; `None` for a layer with a window alone.
    pub index_source: Option<usize>,
    /// Tokens per entry.
    pub ratio: usize,
    /// Score of each visible entry; `None` outside the candidate blocks.
    pub scores: Vec<Option<f32>>,
    /// Entries per candidate block.
    pub block_size: usize,
    /// Candidate blocks kept, ascending; empty for a selection made before the candidate source, where nothing limits the search.
    pub blocks: Vec<usize>,
    /// Chosen entries, ascending.
    pub chosen: Vec<usize>,
    /// At most this many are chosen.
    pub top_k: usize,
}

/// 4A: who looks where.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttentionFigure {
    /// The layer.
    pub layer: usize,
    /// Positions of the window rows that are read.
    pub window: Vec<usize>,
    /// Entries that are read, with the tokens per entry in `ratio`.
    pub entries: Vec<usize>,
    /// Tokens per entry; 0 without entries.
    pub ratio: usize,
    /// Weights per head over window, entries, sink `[heads][rows + 1]`.
    pub weights: Vec<Vec<f32>>,
    /// The rotated dims of each head's output before the inverse rotation `[heads][rope dims]`.
    pub tail_before: Vec<Vec<f32>>,
    /// The same after it.
    pub tail_after: Vec<Vec<f32>>,
    /// Output groups: heads are projected in groups of `heads / groups`.
    pub groups: usize,
}

/// 6A: one entry as bytes, and the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheFigure {
    /// The source layer that is shown.
    pub layer: usize,
    /// The entry that is shown: the newest; `None` if there is none yet or the cache is not quantised.
    pub entry: Option<EntryBytes>,
    /// One line per source layer.
    pub ledger: Vec<LedgerLine>,
    /// Tokens in the cache.
    pub tokens: usize,
    /// All bytes of global KV.
    pub bytes: usize,
    /// Bytes per token that the config gives: 890 with the released geometry.
    pub per_token: f64,
    /// Bytes of the window rings, which do not grow.
    pub rings: usize,
    /// Bytes of groups that are still open.
    pub open: usize,
}

/// One entry as it lies in memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryBytes {
    /// Index of the entry.
    pub index: usize,
    /// E2M1 codes, two to a byte, low nibble first `[head_dim / 2]`.
    pub codes: Vec<u8>,
    /// E4M3 scales `[head_dim / 16]`.
    pub scales: Vec<u8>,
    /// E2M1 codes of the index key `[index_head_dim / 2]`.
    pub key_codes: Vec<u8>,
    /// E8M0 scales of the index key `[index_head_dim / 32]`.
    pub key_scales: Vec<u8>,
    /// The numbers that a reader sees `[head_dim]`.
    pub stored: Vec<f32>,
    /// The numbers before quantisation `[head_dim]`.
    pub exact: Vec<f32>,
}

/// Bytes of one source layer, counted in its buffers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerLine {
    /// The layer.
    pub layer: usize,
    /// Tokens per entry.
    pub ratio: usize,
    /// Entries.
    pub entries: usize,
    /// Bytes: KV codes, KV scales, key codes, key scales.
    pub parts: [usize; 4],
    /// Bytes per token.
    pub per_token: f64,
}

/// 5A: the router's choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpertsFigure {
    /// The layer.
    pub layer: usize,
    /// Raw scores `[experts]`.
    pub scores: Vec<f32>,
    /// Bias that is added for the choice alone: that of text or of pictures, after the followed token `[experts]`.
    pub bias: Vec<f32>,
    /// Whether the followed token is part of a picture.
    pub picture: bool,
    /// Chosen experts, best first.
    pub chosen: Vec<usize>,
    /// Their weights.
    pub weights: Vec<f32>,
    /// Chosen experts of the followed token in every layer `[layers][k]`.
    pub paths: Vec<Vec<usize>>,
}

/// 6B: what comes next.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadFigure {
    /// The ten best tokens after the followed one.
    pub top: Vec<Candidate>,
    /// The draft after the prompt's next token, if the model drafts.
    pub draft: Option<DraftFigure>,
}

/// A token with its score.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Token id.
    pub id: u32,
    /// In readable form.
    pub label: String,
    /// Logit.
    pub logit: f32,
    /// Probability at temperature one.
    pub probability: f32,
}

/// A draft and its verdicts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftFigure {
    /// The token that the draft follows: what the prompt was answered with.
    pub anchor: Candidate,
    /// The draft.
    pub tokens: Vec<DraftToken>,
    /// Tokens accepted, from the first on.
    pub accepted: usize,
}

/// One draft token.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftToken {
    /// Token id.
    pub id: u32,
    /// In readable form.
    pub label: String,
    /// How sure the draft is, 0 to 1.
    pub confidence: f32,
    /// What the draft would have said without the Markov correction.
    pub without_markov: String,
    /// What the main network says at this place, given the draft tokens before.
    pub main: String,
    /// Whether both agree; tokens after the first that does not are rolled back.
    pub agrees: bool,
}
