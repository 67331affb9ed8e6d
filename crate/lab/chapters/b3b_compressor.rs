//! 3B: two tokens become one entry.

mod checks;

use super::begin;
use crate::blocks::tap::Tap;
use crate::config::Role;
use crate::lab::again::{narrow, wide};
use crate::lab::content::{Badge, Cell, Chapter, Table, Tensor, Text};
use crate::lab::figure::{CompressorFigure, Figure};
use crate::lab::labels;
use crate::lab::run::Run;
use std::ops::Range;

const LOOK_FOR: Text = Text::new(
    "Mỗi kênh tự quyết định tin token nào trong hai token nhiều hơn: trọng số softmax khác nhau từ kênh này sang kênh khác.",
    "Each channel decides for itself which of the two tokens to trust more: the softmax weights differ from channel to channel.",
);
const HAPPENS: Text = Text::new(
    "Ở lớp nguồn của encoder, hai token liền nhau gộp thành một entry (mục): mỗi token đưa ra một giá trị a và một điểm g cho mỗi kênh, \
     softmax giữa hai điểm là tỷ lệ pha trộn. Ở lớp nguồn của decoder không gộp, mỗi token một entry. Latent (vectơ ẩn) sau chuẩn hoá \
     cho ra cả entry lẫn khoá chỉ mục. Nếu số token lẻ, token cuối phải chờ token ghép cặp với nó.",
    "At a source layer of the encoder two neighbouring tokens become one entry: each brings a value a and a score g per channel, and a \
     softmax over the two scores mixes them. At the decoder's source nothing is pooled: one entry per token. The normalised latent gives \
     both the entry and its index key. After an odd number of tokens the last one waits for its partner.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "a_t = W_kv x_t      g_t = W_gate x_t             từng kênh",
        "a_t = W_kv x_t      g_t = W_gate x_t             per channel",
    ),
    Text::new(
        "w = exp(g_2j) / (exp(g_2j) + exp(g_2j+1))        tỷ lệ 2",
        "w = exp(g_2j) / (exp(g_2j) + exp(g_2j+1))        ratio 2",
    ),
    Text::new(
        "latent_j = rms_norm(w a_2j + (1 - w) a_2j+1)     tỷ lệ 2",
        "latent_j = rms_norm(w a_2j + (1 - w) a_2j+1)     ratio 2",
    ),
    Text::new(
        "latent_t = rms_norm(W_kv x_t)                    tỷ lệ 1",
        "latent_t = rms_norm(W_kv x_t)                    ratio 1",
    ),
];

/// Values, scores and pooled values of all groups of one source, computed again from the attention input.
struct Again {
    /// `[positions, width]`
    values: Vec<f32>,
    /// `[positions, width]`; empty with ratio 1.
    scores: Vec<f32>,
    /// `[entries, width]`, before the norm.
    pooled: Vec<f64>,
}

impl Again {
    fn of(run: &Run, layer: usize) -> Option<Self> {
        let weights = run.model.layers[layer].compressor.as_ref()?;
        let x = run.seen.values(Tap::AttnInput, layer);
        let (n, width) = (run.n(), run.config().head_dim);
        let values = weights.wkv.matmul(x, n);
        let Some(wgate) = &weights.wgate else {
            return Some(Again { pooled: wide(&values), values, scores: Vec::new() });
        };
        let scores = wgate.matmul(x, n);
        let mut pooled = Vec::new();
        for pair in 0..n / 2 {
            for d in 0..width {
                let (first, second) = (2 * pair * width + d, (2 * pair + 1) * width + d);
                let w = first_weight(scores[first], scores[second]);
                pooled.push(f64::from(values[first]) * w + f64::from(values[second]) * (1.0 - w));
            }
        }
        Some(Again { values, scores, pooled })
    }
}

/// Softmax weight of the first of two scores.
fn first_weight(first: f32, second: f32) -> f64 {
    1.0 / (1.0 + f64::from(second - first).exp())
}

/// The newest whole group at the followed token, in the source that the chosen layer reads.
struct Newest {
    source: usize,
    entry: usize,
    /// Positions of its tokens.
    tokens: Range<usize>,
    again: Again,
}

impl Newest {
    /// `None` in a layer that sees its window alone, and until the first group is full.
    fn of(run: &Run) -> Option<Self> {
        let (source, ratio) = (run.config().kv_source(run.layer)?, run.config().ratio(run.layer));
        let entry = (run.n() / ratio).checked_sub(1)?;
        Some(Newest { source, entry, tokens: entry * ratio..(entry + 1) * ratio, again: Again::of(run, source)? })
    }

    /// Softmax weight of each token per channel `[ratio][width]`.
    fn weights(&self, width: usize) -> Vec<Vec<f64>> {
        let score = |p: usize, d: usize| self.again.scores[p * width + d];
        if self.again.scores.is_empty() {
            return vec![vec![1.0; width]; self.tokens.len()];
        }
        let first: Vec<f64> =
            (0..width).map(|d| first_weight(score(self.tokens.start, d), score(self.tokens.start + 1, d))).collect();
        let second = first.iter().map(|w| 1.0 - w).collect();
        vec![first, second]
    }
}

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, n, layer) = (run.config(), run.n(), run.layer);
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let (source, ratio) = (config.kv_source(layer), config.ratio(layer));
    let shown = source.unwrap_or(layer);
    let about = Text::of(format!("đầu vào attention của lớp {shown}"), format!("attention input of layer {shown}"));
    chapter.inputs.push(Tensor::new(Tap::AttnInput.name(), &[n, config.dim], about));
    if let Some(source) = source {
        let about = Text::of(format!("lớp {source}, tỷ lệ {ratio}"), format!("layer {source}, ratio {ratio}"));
        chapter.outputs.push(Tensor::new(Tap::Latent.name(), &[n / ratio, config.head_dim], about));
    }
    let newest = Newest::of(run);
    chapter.tables.push(sources(run));
    chapter.tables.extend(newest.as_ref().map(|newest| group_table(run, newest)));
    chapter.notes.extend(notes(run, newest.is_some()));
    chapter.checks.push(checks::entry_counts(run));
    chapter.checks.extend(checks::latents(run));
    chapter.checks.extend(checks::waiting(run));
    chapter.figure = Some(Figure::Compressor(figure(run, newest.as_ref())));
    chapter
}

fn figure(run: &Run, newest: Option<&Newest>) -> CompressorFigure {
    let (config, layer) = (run.config(), run.layer);
    let width = config.head_dim;
    let values = |newest: &Newest| {
        let row = |p: usize| newest.again.values[p * width..][..width].to_vec();
        newest.tokens.clone().map(row).collect()
    };
    let weights = |newest: &Newest| newest.weights(width).iter().map(|w| narrow(w)).collect();
    CompressorFigure {
        layer,
        source: config.kv_source(layer),
        role: match config.role(layer) {
            Role::Window => "window",
            Role::Full => "full",
            Role::Reindex => "reindex",
            Role::Reuse => "reuse",
        },
        ratio: config.ratio(layer),
        entry: newest.map(|newest| newest.entry),
        tokens: newest.map_or_else(Vec::new, |newest| newest.tokens.clone().collect()),
        weights: newest.map_or_else(Vec::new, weights),
        values: newest.map_or_else(Vec::new, values),
        pooled: newest.map_or_else(Vec::new, |n| run.seen.row(Tap::Latent, n.source, n.entry).to_vec()),
    }
}

/// Whose compressor is shown, and why there may be nothing to see.
fn notes(run: &Run, found: bool) -> Option<Text> {
    let layer = run.layer;
    match run.config().kv_source(layer) {
        None => Some(Text::of(
            format!("Lớp {layer} chỉ nhìn cửa sổ của nó: không nén gì và không đọc entry nào."),
            format!("Layer {layer} sees its window alone: it compresses nothing and reads no entries."),
        )),
        Some(source) if !found => Some(Text::of(
            format!("Nhóm đầu tiên của lớp nguồn {source} chưa đủ token, nên chưa có entry nào."),
            format!("The first group of source layer {source} is not full yet, so there is no entry."),
        )),
        Some(source) if source != layer => Some(Text::of(
            format!("Lớp {layer} không nén gì: nó đọc entry của lớp {source}, và các số ở đây là của lớp {source}."),
            format!(
                "Layer {layer} compresses nothing: it reads the entries of layer {source}, whose numbers these are."
            ),
        )),
        Some(_) => None,
    }
}

/// Who writes, and who reads it.
fn sources(run: &Run) -> Table {
    let config = run.config();
    let columns = vec![
        Text::new("lớp nguồn", "source layer"),
        Text::new("tỷ lệ", "ratio"),
        Text::new("entry", "entries"),
        Text::new("token đang chờ", "tokens waiting"),
        Text::new("các lớp đọc nó", "layers that read it"),
    ];
    let title = Text::new("Các lớp nguồn sau token đang theo", "The source layers after the followed token");
    let mut table = Table::new(title, run.badge(), columns);
    for &layer in &config.kv_source_layers {
        let source = run.state_at.sources[layer].as_ref();
        let readers = (0..config.n_layers).filter(|&reader| config.kv_source(reader) == Some(layer));
        let last = readers.max().unwrap_or(layer);
        table.push(vec![
            layer.into(),
            config.ratio(layer).into(),
            source.map_or(Cell::Empty, |source| source.entries.len().into()),
            source.map_or(Cell::Empty, |source| usize::from(source.partial.is_open()).into()),
            if last > layer { format!("{layer}–{last}") } else { layer.to_string() }.into(),
        ]);
    }
    table
}

/// The newest group, channel by channel.
fn group_table(run: &Run, newest: &Newest) -> Table {
    let width = run.config().head_dim;
    let (source, entry, tokens) = (newest.source, newest.entry, newest.tokens.clone());
    let named = |p: usize| format!("{p} {}", labels::position(run, p).label);
    let names: Vec<String> = tokens.clone().map(named).collect();
    let title = Text::of(
        format!("Lớp {source}, entry {entry}: token {}, vài kênh đầu", names.join(" và ")),
        format!("Layer {source}, entry {entry}: token {}, first channels", names.join(" and ")),
    );
    let scored = !newest.again.scores.is_empty();
    let mut columns = vec![Text::new("kênh", "channel")];
    columns.extend(tokens.clone().map(|p| Text::same(format!("a_{p}"))));
    if scored {
        columns.extend(tokens.clone().map(|p| Text::same(format!("g_{p}"))));
        columns.extend([Text::new("w đầu", "w first"), Text::new("gộp", "pooled")]);
    }
    columns.push(Text::same("latent"));
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let first = &newest.weights(width)[0];
    let latent = run.seen.row(Tap::Latent, source, entry);
    for (d, &w) in first.iter().enumerate().take(6) {
        let mut row: Vec<Cell> = vec![d.into()];
        row.extend(tokens.clone().map(|p| Cell::from(newest.again.values[p * width + d])));
        if scored {
            row.extend(tokens.clone().map(|p| Cell::from(newest.again.scores[p * width + d])));
            row.extend([w, newest.again.pooled[entry * width + d]].map(Cell::from));
        }
        row.extend(latent.get(d).map(|&v| Cell::from(v)));
        table.push(row);
    }
    table
}
