//! How probable a token was, and what else might have come.

use crate::numerics::ops::argmax;

/// A chosen token with the natural logarithm of its probability. Probabilities are the model's own: temperature and top-p do not change them.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The token.
    pub id: u32,
    /// Logarithm of its probability.
    pub logprob: f64,
    /// The most probable tokens in its place, best first, of equals the lower id first.
    pub top: Vec<(u32, f64)>,
}

impl Score {
    /// The score of `id` among `logits` `[vocab]`, with the `top` best tokens. In f64, with an exponential from `libm`: the same on every host.
    pub(super) fn of(logits: &[f32], id: u32, top: usize) -> Score {
        let largest = logits.get(argmax(logits)).copied().map_or(0.0, f64::from);
        let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit) - largest)).sum();
        let logprob =
            |id: u32| logits.get(id as usize).map_or(f64::NEG_INFINITY, |&l| f64::from(l) - largest) - libm::log(sum);
        let mut best: Vec<u32> = (0..logits.len() as u32).collect();
        best.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        best.truncate(top);
        Score { id, logprob: logprob(id), top: best.into_iter().map(|id| (id, logprob(id))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_by_hand() {
        let logits = [0.2f32, 0.4, 0.1, 0.3].map(|p| (8.0 * p).ln());
        let score = Score::of(&logits, 0, 3);
        assert!((score.logprob - 0.2f64.ln()).abs() < 1e-6, "{}", score.logprob);
        assert_eq!(score.top.iter().map(|&(id, _)| id).collect::<Vec<_>>(), [1, 3, 0]);
        assert!((score.top[0].1 - 0.4f64.ln()).abs() < 1e-6);
        // Equal logits: the lower id first; huge ones: no overflow.
        let score = Score::of(&[500.0, 500.0], 1, 9);
        assert_eq!(score.top.iter().map(|&(id, _)| id).collect::<Vec<_>>(), [0, 1]);
        assert!((score.logprob - 0.5f64.ln()).abs() < 1e-12);
    }
}
