//! A draft is judged, and what it wrote is taken back (section 10.8): what the state held before, after, and after going back.

use super::content::Text;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b6a_kv_cache::{Plane, Ring, SourceCache, State};
use crate::blocks::b6b_head_dspark::Draft;
use crate::config::Config;
use crate::numerics::ops::argmax;
use std::ops::Range;

/// The parts of a state, in the order of table 10.8.
pub const PARTS: [Text; 7] = [
    Text::new("vòng cửa sổ, vị trí", "window rings, positions"),
    Text::new("entry KV theo nguồn", "KV entries by source"),
    Text::new("khoá chỉ mục theo nguồn", "index keys by source"),
    Text::new("nhóm đang mở", "open groups"),
    Text::new("lịch sử Engram, id nén", "Engram history, ids"),
    Text::new("vòng DSpark, vị trí", "DSpark rings, positions"),
    Text::new("vị trí kế tiếp", "next position"),
];

/// What one part of the state held: ranges of positions, counts or ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Behind the prompt.
    pub before: String,
    /// After the pass over the anchor and the draft.
    pub judged: String,
    /// After going back to the tokens that are kept.
    pub kept: String,
    /// Whether it is then, bit for bit, what decoding the kept tokens one by one leaves.
    pub same: bool,
}

/// What judges a draft: the anchor and the draft tokens, fed in one call behind `position`, of which row `i` judges draft token `i` and the row
/// after the last gives a token for free. `None` where the model has no position left.
pub(super) fn judge(config: &Config, position: usize, draft: &Draft) -> Option<Prompt> {
    let rows = (draft.ids.len() + 1).min(config.max_position_embeddings.saturating_sub(position));
    let ids = std::iter::once(draft.anchor).chain(draft.ids.iter().copied()).take(rows);
    (rows > 0).then(|| Prompt::text(ids.collect()))
}

/// Tokens of `prompt` that are kept: the anchor, and draft tokens up to the first that the main network would not have said; `logits` are those
/// of all rows `[prompt, vocab]`.
pub(super) fn kept(prompt: &Prompt, logits: &[f32], vocab: usize) -> usize {
    let chosen = logits.chunks_exact(vocab).map(|row| argmax(row) as u32);
    1 + prompt.ids[1..].iter().zip(chosen).take_while(|&(&id, chosen)| id == chosen).count()
}

/// What the parts of a state hold, in words.
pub(super) fn held(state: &State) -> [String; 7] {
    let sources = || state.sources.iter().flatten();
    let counts = |plane: fn(&SourceCache) -> &Plane| {
        sources().map(|source| plane(source).len().to_string()).collect::<Vec<_>>().join(" + ")
    };
    let ids = state.engram_history.iter().map(|id| id.map_or("–".into(), |id| id.to_string()));
    let ring = |rings: &[Ring]| span(rings.first().map_or(0..0, |ring| ring.positions()));
    [
        ring(&state.windows),
        counts(|source| &source.entries),
        counts(|source| &source.keys),
        sources().filter(|source| source.partial.is_open()).count().to_string(),
        ids.collect::<Vec<_>>().join(" "),
        ring(&state.draft_windows),
        state.position.to_string(),
    ]
}

/// The parts before and after; `plain` is the state that decoding the kept tokens one by one leaves.
pub(super) fn parts(before: [String; 7], judged: [String; 7], kept: &State, plain: &State) -> Vec<Part> {
    let same = |equal: fn(&SourceCache, &SourceCache) -> bool| {
        kept.sources.iter().flatten().zip(plain.sources.iter().flatten()).all(|(a, b)| equal(a, b))
    };
    let same = [
        kept.windows == plain.windows,
        same(|a, b| a.entries == b.entries),
        same(|a, b| a.keys == b.keys),
        same(|a, b| a.partial == b.partial),
        kept.engram_history == plain.engram_history,
        kept.draft_windows == plain.draft_windows,
        kept.position == plain.position,
    ];
    let rows = before.into_iter().zip(judged).zip(held(kept)).zip(same);
    rows.map(|(((before, judged), kept), same)| Part { before, judged, kept, same }).collect()
}

/// First and last of some positions.
pub(super) fn span(positions: Range<usize>) -> String {
    match positions.len() {
        0 => "–".into(),
        1 => positions.start.to_string(),
        _ => format!("{}–{}", positions.start, positions.end - 1),
    }
}
