//! Sampling by argmax: `softmax(z)` has the distribution of `argmax(z + g)` where every `g` is independent Gumbel noise.
//!
//! ```text
//! g = -ln(-ln(1 - v))        v in (0, 1) from a hash of (seed, position, id)
//! ```
//!
//! The noise is addressed, not drawn in turn: any backend can compute that of any token of any position, in any order. The shader
//! `shaders/include/gumbel.wgsl` computes the same function; both round to f32, and a driver's logarithm may differ in the last bits, which
//! changes a token only where two sums are as close as that.

/// Temperatures below this count as zero: `logit / T` would leave the range of f32.
pub const COLDEST: f32 = 1e-6;

/// Four words in, four well-mixed words out: the hash pcg4d of Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9 (2020) 3.
fn mixed(counter: [u32; 4]) -> [u32; 4] {
    let stir = |[mut x, mut y, mut z, mut w]: [u32; 4]| {
        x = x.wrapping_add(y.wrapping_mul(w));
        y = y.wrapping_add(z.wrapping_mul(x));
        z = z.wrapping_add(x.wrapping_mul(y));
        w = w.wrapping_add(y.wrapping_mul(z));
        [x, y, z, w]
    };
    let v = stir(counter.map(|c| c.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)));
    stir(v.map(|c| c ^ (c >> 16)))
}

/// The noise of token `id` at `position`.
pub fn noise(seed: u64, position: u32, id: u32) -> f32 {
    let bits = mixed([seed as u32, (seed >> 32) as u32, position, id])[0];
    let v = ((bits as f32 + 0.5) / 4_294_967_296.0).min(0.999_999_94);
    // Small v decides who wins: there 1 - v would round, and the series keeps v.
    let waiting = if v < 0.01 { v * (1.0 + v * (0.5 + v * (1.0 / 3.0))) } else { -libm::logf(1.0 - v) };
    -libm::logf(waiting)
}

/// The token for `position`: a draw from `softmax(logits / temperature)`, or the largest of `logits` `[vocab]` below [`COLDEST`]. Of equal
/// values the lower id; 0 without logits.
pub fn choose(logits: &[f32], temperature: f32, seed: u64, position: u32) -> u32 {
    let value = |(id, &logit): (u32, &f32)| {
        if temperature < COLDEST { logit } else { logit * (1.0 / temperature) + noise(seed, position, id) }
    };
    let mut best = (f32::NEG_INFINITY, 0);
    for (id, value) in (0..).zip((0..).zip(logits).map(value)) {
        if value > best.0 {
            best = (value, id);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of draws at 20,000 positions.
    fn chi_square(seed: u64, temperature: f32, expected: &[f64; 4]) -> f64 {
        let logits = [0.2f32, 0.4, 0.1, 0.3].map(f32::ln);
        let n = 20_000;
        let mut counts = [0usize; 4];
        (0..n).for_each(|position| counts[choose(&logits, temperature, seed, position) as usize] += 1);
        let term = |(&count, p): (&usize, &f64)| (count as f64 - p * f64::from(n)).powi(2) / (p * f64::from(n));
        counts.iter().zip(expected).map(term).sum()
    }

    /// 99.9 % of correct samplers stay below 16.3, with 3 degrees of freedom.
    #[test]
    fn draws_follow_the_softmax() {
        for seed in [1, 2, u64::MAX / 3] {
            assert!(chi_square(seed, 1.0, &[0.2, 0.4, 0.1, 0.3]) < 16.3);
            assert!(chi_square(seed, 0.5, &[0.04, 0.16, 0.01, 0.09].map(|p| p / 0.3)) < 16.3);
        }
        // The check itself can fail.
        assert!(chi_square(1, 1.0, &[0.25; 4]) > 1000.0);
    }

    /// Mean 0.5772 (Euler's constant) and variance pi^2 / 6, along ids, positions and seeds alike.
    #[test]
    fn noise_is_gumbel_along_every_counter() {
        let n = 50_000;
        for which in 0..3 {
            let draw = |i: u32| match which {
                0 => noise(5, 7, i),
                1 => noise(5, i, 7),
                _ => noise(u64::from(i) << 20, 5, 7),
            };
            let values: Vec<f64> = (0..n).map(|i| f64::from(draw(i))).collect();
            let mean = values.iter().sum::<f64>() / f64::from(n);
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
            // Five standard errors: 1.28 / sqrt(n), and 3.5 / sqrt(n) for the variance, whose fourth moment is heavy.
            assert!((mean - 0.577_216).abs() < 0.029, "{which}: {mean}");
            assert!((variance - 1.644_934).abs() < 0.08, "{which}: {variance}");
        }
    }

    #[test]
    fn the_hash_and_the_choice_are_fixed() {
        assert_eq!(choose(&[1.0, 3.0, 3.0], 0.0, 9, 4), 1);
        assert_eq!(choose(&[], 1.0, 0, 0), 0);
        let ids: Vec<u32> = (0..8).map(|position| choose(&[0.0; 10], 1.0, 42, position)).collect();
        assert_eq!(ids, (0..8).map(|position| choose(&[0.0; 10], 0.5, 42, position)).collect::<Vec<_>>());
        assert_ne!(ids, (0..8).map(|position| choose(&[0.0; 10], 1.0, 43, position)).collect::<Vec<_>>());
    }
}
