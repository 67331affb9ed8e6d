//! 3B: two tokens become one entry.

use super::begin;
use crate::blocks::tap::Tap;
use crate::lab::again::{SAME, distance, narrow, rms, rms_norm, wide, worse};
use crate::lab::content::{Badge, Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::labels;
use crate::lab::run::Run;

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

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, n) = (run.config(), run.n());
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let about = Text::new("đầu vào attention của lớp nguồn", "attention input of the source layer");
    chapter.inputs.push(Tensor::new(Tap::AttnInput.name(), &[n, config.dim], about));
    for &layer in &config.kv_source_layers {
        let entries = n / config.ratio(layer);
        let about = Text::of(
            format!("lớp {layer}, tỷ lệ {}", config.ratio(layer)),
            format!("layer {layer}, ratio {}", config.ratio(layer)),
        );
        chapter.outputs.push(Tensor::new(Tap::Latent.name(), &[entries, config.head_dim], about));
    }
    chapter.tables.extend(pair_table(run));
    chapter.checks.push(entry_counts(run));
    chapter.checks.extend(latents(run));
    chapter.checks.extend(waiting(run));
    chapter
}

/// The pair of the followed token, channel by channel.
fn pair_table(run: &Run) -> Option<Table> {
    let config = run.config();
    let layer = *config.kv_source_layers.iter().find(|&&layer| config.ratio(layer) == 2)?;
    let (pair, again) = ((run.n() / 2).checked_sub(1)?, Again::of(run, layer)?);
    let (a, b) = (labels::position(run, 2 * pair), labels::position(run, 2 * pair + 1));
    let named = |label: &crate::lab::content::TokenLabel| format!("{} {}", label.position, label.label);
    let title = Text::of(
        format!("Lớp {layer}, entry {pair}: token {} và {}, vài kênh đầu", named(&a), named(&b)),
        format!("Layer {layer}, entry {pair}: tokens {} and {}, first channels", named(&a), named(&b)),
    );
    let columns = vec![
        Text::new("kênh", "channel"),
        Text::same(format!("a_{}", a.position)),
        Text::same(format!("a_{}", b.position)),
        Text::same(format!("g_{}", a.position)),
        Text::same(format!("g_{}", b.position)),
        Text::new("w đầu", "w first"),
        Text::new("gộp", "pooled"),
        Text::same("latent"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let width = config.head_dim;
    let latent = run.seen.row(Tap::Latent, layer, pair);
    for d in 0..6.min(width) {
        let at = |values: &[f32], token: usize| values[(2 * pair + token) * width + d];
        let w = first_weight(at(&again.scores, 0), at(&again.scores, 1));
        let mut row: Vec<Cell> = vec![d.into(), at(&again.values, 0).into(), at(&again.values, 1).into()];
        row.extend([at(&again.scores, 0), at(&again.scores, 1)].map(Cell::from));
        row.extend([w, again.pooled[pair * width + d]].map(Cell::from));
        row.extend(latent.get(d).map(|&v| Cell::from(v)));
        table.push(row);
    }
    Some(table)
}

fn entry_counts(run: &Run) -> Check {
    let (config, n) = (run.config(), run.prompt.len());
    let mut passed = true;
    let mut parts = Vec::new();
    for &layer in &config.kv_source_layers {
        let (found, keys) = run.state.sources[layer].as_ref().map_or((0, 0), |s| (s.entries.len(), s.keys.len()));
        passed &= found == n / config.ratio(layer) && keys == found;
        parts.push(format!("{layer}: {found}"));
    }
    let what = Text::new(
        "Số entry là ⌊n / tỷ lệ⌋ ở mỗi lớp nguồn, và mỗi entry có một khoá",
        "Each source has ⌊n / ratio⌋ entries, and one key per entry",
    );
    let list = parts.join(", ");
    Check::new(what, passed, Text::of(format!("n = {n}; lớp {list}"), format!("n = {n}; layer {list}")))
}

/// Norm rule, formula, and that pooling stays between its two tokens.
fn latents(run: &Run) -> Vec<Check> {
    let config = run.config();
    let width = config.head_dim;
    let (mut unit, mut formula, mut outside, mut channels) = (f64::NEG_INFINITY, f64::NEG_INFINITY, 0, 0);
    for &layer in &config.kv_source_layers {
        let (Some(again), Some(weights)) = (Again::of(run, layer), &run.model.layers[layer].compressor) else {
            continue;
        };
        for (entry, pooled) in again.pooled.chunks_exact(width).enumerate() {
            let latent = run.seen.row(Tap::Latent, layer, entry);
            let expected = rms_norm(pooled, &weights.norm, config.norm_eps);
            formula = worse(formula, distance(latent, &expected));
            let plain: Vec<f64> = (latent.iter().zip(&weights.norm))
                .filter(|(_, w)| w.abs() > 1e-3)
                .map(|(&v, &w)| f64::from(v) / f64::from(w))
                .collect();
            unit = worse(unit, (rms(&plain, 0.0) - 1.0).abs());
            if again.scores.is_empty() || plain.len() != width {
                continue;
            }
            let size = rms(pooled, f64::from(config.norm_eps));
            for (d, v) in plain.iter().enumerate() {
                let [a, b] = [0, 1].map(|token| f64::from(again.values[(2 * entry + token) * width + d]));
                let room = SAME * size.max(a.abs()).max(b.abs());
                outside += usize::from(!(a.min(b) - room..=a.max(b) + room).contains(&(v * size)));
                channels += 1;
            }
        }
    }
    let mut checks = Vec::new();
    if formula >= 0.0 || formula.is_nan() {
        checks.push(Check::within(
            Text::new(
                "Latent tính lại được từ W_kv, W_gate, softmax và chuẩn hoá (mọi entry, mọi lớp nguồn)",
                "Latents, computed again from W_kv, W_gate, softmax and norm (all entries, all sources)",
            ),
            formula,
            SAME,
        ));
        checks.push(Check::within(
            Text::new(
                "Latent chia cho trọng số chuẩn hoá có căn trung bình bình phương bằng 1",
                "A latent divided by its norm weight has a root mean square of one",
            ),
            unit,
            1e-4,
        ));
    }
    if channels > 0 {
        let what = Text::new(
            "Giá trị gộp của mỗi kênh nằm giữa giá trị của hai token",
            "Each channel's pooled value lies between those of its two tokens",
        );
        checks.push(Check::none_wrong(what, outside, channels));
    }
    checks
}

/// The open group after the followed token.
fn waiting(run: &Run) -> Option<Check> {
    let config = run.config();
    let width = config.head_dim;
    let odd = run.n() % 2 == 1;
    let (mut passed, mut open, mut layers) = (true, 0, 0);
    for &layer in config.kv_source_layers.iter().filter(|&&layer| config.ratio(layer) == 2) {
        let partial = &run.state_at.sources[layer].as_ref()?.partial;
        let weights = run.model.layers[layer].compressor.as_ref()?;
        layers += 1;
        open += usize::from(partial.is_open());
        passed &= partial.is_open() == odd;
        if odd {
            let value = wide(&weights.wkv.matvec(run.seen.row(Tap::AttnInput, layer, run.at)));
            passed &= distance(&partial.value, &value) <= SAME && narrow(&value).len() == width;
        }
    }
    let what = Text::new(
        "Sau số token lẻ, token cuối chờ trong nhóm mở; sau số chẵn không có gì chờ",
        "After an odd number of tokens the last one waits in an open group; after an even number none does",
    );
    let numbers = Text::of(
        format!("{} token, {open} nhóm mở ở {layers} lớp tỷ lệ 2", run.n()),
        format!("{} tokens, {open} open groups in {layers} layers of ratio 2", run.n()),
    );
    (layers > 0).then(|| Check::new(what, passed, numbers))
}
