//! What must hold for every source layer of the run.

use super::Again;
use crate::blocks::tap::Tap;
use crate::lab::again::{SAME, distance, narrow, rms, rms_norm, wide, worse};
use crate::lab::content::{Check, Text};
use crate::lab::run::Run;

/// Entries and keys after the whole prompt.
pub(super) fn entry_counts(run: &Run) -> Check {
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
pub(super) fn latents(run: &Run) -> Vec<Check> {
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
pub(super) fn waiting(run: &Run) -> Option<Check> {
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
