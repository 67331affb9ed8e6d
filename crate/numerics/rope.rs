//! Rotary position embedding: frequencies, angles, rotations (sections N.9, N.10, 5.4 and 1.5 of the specification).
//!
//! Position `p` turns pair `i` by the angle `p * frequency[i]`. The angle is an f32 product, as in the released model: at a million tokens it
//! is wrong by up to 1/32 rad, and the model was trained with that. Cosine and sine of it are then taken in f64, so that they are right for
//! every angle.

use std::f64::consts::TAU;

/// Frequencies of one rotation, one per pair of rotating dims, in radians per position.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    /// `base^(-2i/dims)` for pair `i` of `dims / 2`.
    pub fn plain(dims: usize, base: f64) -> Self {
        Rope { frequencies: inverse_powers(dims, base) }
    }

    /// YaRN: frequencies that turn less than `beta_slow` times within `original_len` positions are divided by `factor`, those that turn more
    /// than `beta_fast` times stay, and a linear ramp over the pair index joins the two (5.4).
    pub fn yarn(dims: usize, base: f64, factor: f64, original_len: usize, beta_fast: f64, beta_slow: f64) -> Self {
        // The pair index, not rounded, whose frequency turns `turns` times within the original length.
        let pair_of = |turns: f64| dims as f64 * (original_len as f64 / (turns * TAU)).ln() / (2.0 * base.ln());
        let low = pair_of(beta_fast).floor().max(0.0) as f32;
        let mut high = pair_of(beta_slow).ceil().min(dims as f64 - 1.0) as f32;
        if low == high {
            high += 0.001;
        }
        let mut frequencies = inverse_powers(dims, base);
        for (i, frequency) in frequencies.iter_mut().enumerate() {
            let interpolated = ((i as f32 - low) / (high - low)).clamp(0.0, 1.0);
            *frequency = *frequency / factor as f32 * interpolated + *frequency * (1.0 - interpolated);
        }
        Rope { frequencies }
    }

    /// One frequency per pair.
    pub fn frequencies(&self) -> &[f32] {
        &self.frequencies
    }

    /// `(cos, sin)` of every pair at `position`.
    pub fn angles(&self, position: usize) -> Vec<(f32, f32)> {
        self.frequencies.iter().map(|frequency| cos_sin(position as f32 * frequency)).collect()
    }
}

/// Frequencies of the vision tower's 2-D rotation: `head_dim / 4` values `base^(-2i / (head_dim / 2))`, used once with the patch's row and
/// once with its column (1.5).
pub fn vision_frequencies(head_dim: usize, base: f64) -> Vec<f32> {
    // The printed table is the f32 reciprocal of the rounded power; this order of rounding gives all its bits.
    (0..head_dim / 4).map(|i| 1.0 / base.powf(4.0 * i as f64 / head_dim as f64) as f32).collect()
}

/// `(cos, sin)` of an f32 angle in radians, evaluated in f64 and rounded.
pub fn cos_sin(angle: f32) -> (f32, f32) {
    let (sin, cos) = f64::from(angle).sin_cos();
    (cos as f32, sin as f32)
}

/// Turns every adjacent pair `(x[2i], x[2i+1])` by `angles[i]` = (cos, sin).
///
/// # Panics
///
/// When `x` has another length than `2 * angles.len()`: pass the rotating part only.
pub fn rotate(x: &mut [f32], angles: &[(f32, f32)]) {
    assert_eq!(x.len(), 2 * angles.len(), "two elements per angle");
    for (pair, &(cos, sin)) in x.chunks_exact_mut(2).zip(angles) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * cos - b * sin;
        pair[1] = a * sin + b * cos;
    }
}

/// The inverse of [`rotate`]: turns by the negative angles.
///
/// # Panics
///
/// When `x` has another length than `2 * angles.len()`.
pub fn rotate_back(x: &mut [f32], angles: &[(f32, f32)]) {
    assert_eq!(x.len(), 2 * angles.len(), "two elements per angle");
    for (pair, &(cos, sin)) in x.chunks_exact_mut(2).zip(angles) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * cos + b * sin;
        pair[1] = b * cos - a * sin;
    }
}

/// `base^(-2i/dims)` for `i` in `0..dims / 2`, rounded as the released code rounds: the f32 reciprocal of the f32 power. One rounding less
/// would be nearer to the truth, and flips FP8 codes against the golden files from layer 6 on.
fn inverse_powers(dims: usize, base: f64) -> Vec<f32> {
    (0..dims / 2).map(|i| 1.0 / base.powf(2.0 * i as f64 / dims as f64) as f32).collect()
}

#[cfg(test)]
mod tests;
