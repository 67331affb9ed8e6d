//! Elementwise functions, norms and selections (sections N.8, 1.6, 9.1 and E.1 of the specification).
//!
//! f32 in and out. Sums and transcendental functions are f64 inside, so that results do not depend on the order of a vectorised sum and hardly
//! on the platform's mathematical library.

use std::cmp::Ordering;

/// RMSNorm of one row: `weight * (x * rstd)` with `rstd = 1 / sqrt(mean(x^2) + eps)` rounded to f32 (N.8).
///
/// `x`, `weight` and `out` have one length.
///
/// # Panics
///
/// When the three lengths differ.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    assert!(x.len() == weight.len() && x.len() == out.len(), "one weight and one output per element");
    let squares: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    let rstd = (1.0 / (squares / x.len() as f64 + f64::from(eps)).sqrt()) as f32;
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = weight * (x * rstd);
    }
}

/// Logistic sigmoid, `1 / (1 + e^-x)`.
pub fn sigmoid(x: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(x)).exp())) as f32
}

/// `x * sigmoid(x)`.
pub fn silu(x: f32) -> f32 {
    let x = f64::from(x);
    (x / (1.0 + (-x).exp())) as f32
}

/// `ln(1 + e^x)`; `x` itself above 20, as PyTorch has it.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { f64::from(x).exp().ln_1p() as f32 }
}

/// Exact GELU, `x / 2 * (1 + erf(x / sqrt 2))`, not the tanh approximation (1.6).
pub fn gelu(x: f32) -> f32 {
    // erfc keeps the digits of the left tail, where 1 + erf would cancel.
    let x = f64::from(x);
    (0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)) as f32
}

/// Softmax in place. Entries of negative infinity get 0; where all are, so do all.
pub fn softmax(x: &mut [f32]) {
    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if largest == f32::NEG_INFINITY {
        x.fill(0.0);
        return;
    }
    let mut sum = 0.0;
    for value in x.iter_mut() {
        let exp = (f64::from(*value) - f64::from(largest)).exp();
        sum += exp;
        *value = exp as f32;
    }
    for value in x {
        *value = (f64::from(*value) / sum) as f32;
    }
}

/// Index of the largest entry, the first of equals; 0 where there is none.
pub fn argmax(x: &[f32]) -> usize {
    let mut best = 0;
    let mut largest = f32::NEG_INFINITY;
    for (i, &value) in x.iter().enumerate() {
        if value > largest {
            (best, largest) = (i, value);
        }
    }
    best
}

/// Indices of the `k` best scores, best first; of equals the lower index first (E.1). Negative infinity and NaN are never chosen, so there may
/// be fewer than `k`.
pub fn top_k(scores: &[f32], k: usize) -> Vec<usize> {
    let better = |&a: &usize, &b: &usize| scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b));
    let mut best: Vec<usize> = (0..scores.len()).filter(|&i| scores[i] > f32::NEG_INFINITY).collect();
    if k == 0 {
        return Vec::new();
    }
    if best.len() > k {
        best.select_nth_unstable_by(k - 1, better);
        best.truncate(k);
    }
    best.sort_unstable_by(better);
    best
}

/// Normalised mean squared error, `sum (actual - expected)^2 / sum expected^2`; infinite where lengths differ or where only `expected` is zero.
pub fn nmse(actual: &[f32], expected: &[f32]) -> f64 {
    if actual.len() != expected.len() {
        return f64::INFINITY;
    }
    let square = |v: f64| v * v;
    let error: f64 = actual.iter().zip(expected).map(|(&a, &e)| square(f64::from(a) - f64::from(e))).sum();
    let power: f64 = expected.iter().map(|&e| square(f64::from(e))).sum();
    if error == 0.0 { 0.0 } else { error / power }
}

#[cfg(test)]
mod tests;
