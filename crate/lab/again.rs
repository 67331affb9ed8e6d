//! The arithmetic of the checks, written a second time: f64, from the formulas, without the functions that it judges.

use crate::config::Config;

/// Largest error of a value that one block computed, relative to the largest value beside it. Sums of a few hundred products in f32 against
/// f64 stay below 1e-6; a wrong formula is off by 1e-2 and more.
pub(super) const SAME: f64 = 2e-5;

/// [`SAME`] for what was rotated: the released model's angle is an f32 product of position and frequency, off by a few roundings of its size
/// (1e-4 rad at position 1000).
pub(super) fn turned(position: usize) -> f64 {
    SAME + 2.0 * f64::from(f32::EPSILON) * position as f64
}

/// The largest difference, relative to the largest expected value. Infinite if the lengths differ or nothing is there.
pub(super) fn distance(actual: &[f32], expected: &[f64]) -> f64 {
    if actual.len() != expected.len() || actual.is_empty() {
        return f64::INFINITY;
    }
    let size = expected.iter().fold(f64::MIN_POSITIVE, |max, v| max.max(v.abs()));
    let off = |(a, e): (&f32, &f64)| (f64::from(*a) - e).abs();
    // Not `f64::max` alone, which would swallow a NaN.
    actual.iter().zip(expected).map(off).fold(0.0, worse) / size
}

/// The larger of two errors; NaN counts as largest.
pub(super) fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Wider numbers.
pub(super) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// Narrower numbers.
pub(super) fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// Euclidean length.
pub(super) fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt()
}

/// Root of the mean square, with the epsilon inside.
pub(super) fn rms(values: &[f64], eps: f64) -> f64 {
    (values.iter().map(|v| v * v).sum::<f64>() / values.len().max(1) as f64 + eps).sqrt()
}

/// `x / rms(x) * weight`.
pub(super) fn rms_norm(x: &[f64], weight: &[f32], eps: f32) -> Vec<f64> {
    let rms = rms(x, f64::from(eps));
    x.iter().zip(weight).map(|(x, &w)| x / rms * f64::from(w)).collect()
}

/// Turns the last dims of `x` by adjacent pairs as position `position` does; `back` turns the other way. `compressed` layers have the long base
/// and YaRN (section 5.4).
pub(super) fn turn(config: &Config, compressed: bool, position: usize, back: bool, x: &mut [f64]) {
    let tail = x.len() - config.rope_head_dim;
    for (i, pair) in x[tail..].chunks_exact_mut(2).enumerate() {
        let angle = position as f64 * frequency(config, compressed, i);
        let (sin, cos) = if back { (-angle).sin_cos() } else { angle.sin_cos() };
        (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos);
    }
}

/// Radians per position of pair `i`.
pub(super) fn frequency(config: &Config, compressed: bool, i: usize) -> f64 {
    let dims = config.rope_head_dim as f64;
    let base: f64 = if compressed { config.compress_rope_theta } else { config.rope_theta };
    let plain = base.powf(-2.0 * i as f64 / dims);
    if !compressed {
        return plain;
    }
    // Pair whose wave turns `turns` times within the original context.
    let pair =
        |turns: f64| dims * (config.original_seq_len as f64 / (turns * std::f64::consts::TAU)).ln() / (2.0 * base.ln());
    let low = pair(config.beta_fast).floor().max(0.0);
    let high = pair(config.beta_slow).ceil().min(dims - 1.0);
    let ramp = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
    plain / config.rope_factor * ramp + plain * (1.0 - ramp)
}

/// Square root of ln(1 + e^x): a router score.
pub(super) fn router_score(logit: f64) -> f64 {
    (logit.max(0.0) + (-logit.abs()).exp().ln_1p()).sqrt()
}

/// 1 / (1 + e^-x).
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Sinkhorn: softmax of each row, then columns and rows divided by their sums in turn, a column step last (section 3.1). `steps + 1` matrices
/// `[lanes * lanes]`: the softmax, and what each step makes of it.
pub(super) fn balance(logits: &[f64], lanes: usize, steps: usize, eps: f64) -> Vec<Vec<f64>> {
    let mut m = vec![0.0; lanes * lanes];
    for i in 0..lanes {
        let row = &logits[i * lanes..][..lanes];
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
        (0..lanes).for_each(|j| m[i * lanes + j] = (row[j] - max).exp() / sum + eps);
    }
    let mut all = vec![m.clone()];
    for step in 0..steps {
        for i in 0..lanes {
            let sum: f64 = m[i * lanes..][..lanes].iter().sum::<f64>() + eps;
            if step > 0 {
                (0..lanes).for_each(|j| m[i * lanes + j] /= sum);
            }
        }
        for j in 0..lanes {
            let sum: f64 = (0..lanes).map(|i| m[i * lanes + j]).sum::<f64>() + eps;
            (0..lanes).for_each(|i| m[i * lanes + j] /= sum);
        }
        all.push(m.clone());
    }
    all
}
