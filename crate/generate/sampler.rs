//! Logits to a token.
//!
//! A draw is an argmax over logits with noise that a hash of seed, position and token gives ([`gumbel`]): the same seed gives the same tokens
//! however they are computed, on the GPU or here, one by one or several verified at once. Which tokens top-p keeps is decided in f64, with an
//! exponential from `libm`.

use crate::numerics::gumbel::{self, COLDEST};
use crate::numerics::ops::argmax;
use crate::{Error, Result};

/// How a token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; 0 always takes the largest, the first of equals.
    pub temperature: f64,
    /// Only the smallest set of tokens with at least this probability together is drawn from; 1 keeps all.
    pub top_p: f64,
    /// Seed of the noise. Greedy choice draws nothing.
    pub seed: u64,
}

impl Sampling {
    /// Always the largest logit.
    pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0 };

    /// # Errors
    /// [`Error::Usage`] if the temperature is negative or not finite, or top-p is outside (0, 1].
    pub fn check(&self) -> Result<()> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return Err(Error::Usage(format!("temperature: needed 0 or more, found {}", self.temperature)));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(Error::Usage(format!("top-p: needed more than 0 and at most 1, found {}", self.top_p)));
        }
        Ok(())
    }
}

/// Chooses tokens.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
}

impl Sampler {
    /// A sampler with these settings.
    ///
    /// # Errors
    /// As [`Sampling::check`].
    pub fn new(sampling: Sampling) -> Result<Self> {
        sampling.check()?;
        Ok(Sampler { sampling })
    }

    /// Temperature as the noise's sum has it.
    pub fn temperature(&self) -> f32 {
        self.sampling.temperature as f32
    }

    /// Seed of the noise.
    pub fn seed(&self) -> u64 {
        self.sampling.seed
    }

    /// Whether the choice is an argmax over all logits, with or without noise. Top-p orders them first.
    pub fn is_argmax(&self) -> bool {
        self.temperature() < COLDEST || self.sampling.top_p >= 1.0
    }

    /// Chooses the id of one of `logits` `[vocab]` for the token at `position`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are no logits, [`Error::NotFiniteActivation`] if one is NaN or positive infinity, or all are negative infinity.
    pub fn sample(&self, logits: &[f32], position: usize) -> Result<u32> {
        let largest = largest(logits)?;
        let (temperature, seed) = (self.temperature(), self.sampling.seed);
        if temperature < COLDEST {
            return Ok(argmax(logits) as u32);
        }
        if self.is_argmax() {
            return Ok(gumbel::choose(logits, temperature, seed, position as u32));
        }
        let mut masked = vec![f32::NEG_INFINITY; logits.len()];
        for (id, _) in self.candidates(logits, largest) {
            masked[id as usize] = logits[id as usize];
        }
        Ok(gumbel::choose(&masked, temperature, seed, position as u32))
    }

    /// The tokens that top-p keeps, most probable first, of equals the lower id first, with `exp((logit - largest) / temperature)`.
    fn candidates(&self, logits: &[f32], largest: f32) -> Vec<(u32, f64)> {
        let weight = |&logit: &f32| libm::exp((f64::from(logit) - f64::from(largest)) / self.sampling.temperature);
        let mut candidates: Vec<(u32, f64)> = (0..).zip(logits.iter().map(weight)).collect();
        candidates.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if self.sampling.top_p < 1.0 {
            let total: f64 = candidates.iter().map(|&(_, weight)| weight).sum();
            let mut sum = 0.0;
            let enough = candidates.iter().position(|&(_, weight)| {
                sum += weight;
                sum >= self.sampling.top_p * total
            });
            candidates.truncate(enough.map_or(candidates.len(), |last| last + 1));
        }
        candidates
    }
}

/// The largest logit, if a token can be chosen at all.
fn largest(logits: &[f32]) -> Result<f32> {
    let not_finite = |index| Error::NotFiniteActivation { tap: "6b.logits", layer: 0, index };
    if let Some(index) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
        return Err(not_finite(index));
    }
    match logits.iter().copied().reduce(f32::max) {
        None => Err(Error::Usage("logits: needed at least one, found none".into())),
        Some(f32::NEG_INFINITY) => Err(not_finite(0)),
        Some(largest) => Ok(largest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Softmax: 0.4, 0.3, 0.2, 0.1 at temperature 1, in another order.
    fn logits() -> Vec<f32> {
        [0.2f32, 0.4, 0.1, 0.3].map(f32::ln).to_vec()
    }

    fn draws(sampling: Sampling, logits: &[f32], n: usize) -> Vec<u32> {
        let sampler = Sampler::new(sampling).unwrap();
        (0..n).map(|position| sampler.sample(logits, position).unwrap()).collect()
    }

    /// Pearson's statistic of 40,000 draws against `expected` probabilities; tokens of probability 0 must not come.
    fn chi_square(sampling: Sampling, logits: &[f32], expected: &[f64]) -> f64 {
        let n = 40_000;
        let mut counts = vec![0usize; logits.len()];
        draws(sampling, logits, n).into_iter().for_each(|id| counts[id as usize] += 1);
        let term = |(&count, &p): (&usize, &f64)| {
            if p == 0.0 {
                assert_eq!(count, 0);
                return 0.0;
            }
            (count as f64 - p * n as f64).powi(2) / (p * n as f64)
        };
        counts.iter().zip(expected).map(term).sum()
    }

    /// 0.1 % of correct samplers pass these limits of the chi-square distribution: 16.3 for 3 degrees of freedom, 13.8 for 2, 10.8 for 1.
    #[test]
    fn distributions() {
        let sampling = |temperature, top_p| Sampling { temperature, top_p, seed: 11 };
        assert!(chi_square(sampling(1.0, 1.0), &logits(), &[0.2, 0.4, 0.1, 0.3]) < 16.3);
        // Halving the temperature squares the probabilities: 0.04, 0.16, 0.01, 0.09 of 0.3.
        let squared = [0.04, 0.16, 0.01, 0.09].map(|p| p / 0.3);
        assert!(chi_square(sampling(0.5, 1.0), &logits(), &squared) < 16.3);
        // 0.4 + 0.3 is not yet 0.75, with 0.2 it is.
        assert!(chi_square(sampling(1.0, 0.75), &logits(), &[2.0 / 9.0, 4.0 / 9.0, 0.0, 3.0 / 9.0]) < 13.8);
        // 0.4 + 0.3 passes 0.65.
        assert!(chi_square(sampling(1.0, 0.65), &logits(), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]) < 10.8);
        // The check itself can fail.
        assert!(chi_square(sampling(1.0, 1.0), &logits(), &[0.25; 4]) > 1000.0);
    }

    #[test]
    fn top_p_keeps_the_smallest_set_and_the_lower_id() {
        let kept = |top_p, logits: &[f32]| {
            let sampler = Sampler::new(Sampling { temperature: 1.0, top_p, seed: 0 }).unwrap();
            sampler.candidates(logits, largest(logits).unwrap()).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        // Four equal tokens: exactly half of the probability is two of them.
        assert_eq!(kept(0.5, &[1.0; 4]), [0, 1]);
        assert_eq!(kept(0.500001, &[1.0; 4]), [0, 1, 2]);
        assert_eq!(kept(1e-9, &[0.0, 2.0, 2.0]), [1]);
        assert_eq!(kept(1.0, &[0.0, 2.0, 2.0]), [1, 2, 0]);
    }

    #[test]
    fn greedy_takes_the_first_maximum_and_any_seed() {
        for seed in 0..4 {
            assert_eq!(draws(Sampling { seed, ..Sampling::GREEDY }, &[0.0, 3.0, -1.0, 3.0], 3), [1, 1, 1]);
        }
        // A vanishing temperature is greedy without dividing by zero.
        let cold = Sampling { temperature: f64::MIN_POSITIVE, top_p: 1.0, seed: 5 };
        assert_eq!(draws(cold, &[0.0, 3.0, f32::NEG_INFINITY, 2.0], 3), [1, 1, 1]);
    }

    /// Seed and position fix a token: neither the tokens before it nor the way in which the noise is added matter.
    #[test]
    fn a_seed_fixes_the_tokens() {
        let sampling = |seed| Sampling { temperature: 1.0, top_p: 1.0, seed };
        let logits: Vec<f32> = (0..10).map(|id| id as f32 * 0.1).collect();
        let chosen: Vec<u32> = (0..64).map(|position| gumbel::choose(&logits, 1.0, 42, position)).collect();
        assert_eq!(draws(sampling(42), &logits, 64), chosen);
        // A top-p that keeps all tokens but one draws the same token wherever that one was not drawn.
        let most = draws(Sampling { top_p: 0.95, ..sampling(42) }, &logits, 64);
        assert!(most.iter().zip(&chosen).all(|(kept, all)| kept == all || *all == 0), "{most:?} {chosen:?}");
        assert_eq!(draws(sampling(42), &logits, 64), draws(sampling(42), &logits, 64));
        assert_ne!(draws(sampling(42), &logits, 64), draws(sampling(43), &logits, 64));
    }

    #[test]
    fn wrong_settings_are_refused() {
        for temperature in [-0.1, f64::NAN, f64::INFINITY] {
            let error = Sampler::new(Sampling { temperature, ..Sampling::GREEDY }).unwrap_err();
            assert!(matches!(&error, Error::Usage(text) if text.starts_with("temperature")), "{error}");
        }
        for top_p in [0.0, -1.0, 1.1, f64::NAN] {
            let error = Sampler::new(Sampling { top_p, ..Sampling::GREEDY }).unwrap_err();
            assert!(matches!(&error, Error::Usage(text) if text.starts_with("top-p")), "{error}");
        }
    }

    #[test]
    fn logits_without_a_choice_are_refused() {
        for sampling in [Sampling::GREEDY, Sampling { temperature: 1.0, top_p: 0.9, seed: 1 }] {
            let sampler = Sampler::new(sampling).unwrap();
            assert!(matches!(sampler.sample(&[], 0), Err(Error::Usage(_))));
            assert!(matches!(sampler.sample(&[0.0, f32::NAN], 0), Err(Error::NotFiniteActivation { index: 1, .. })));
            assert!(matches!(sampler.sample(&[f32::INFINITY], 0), Err(Error::NotFiniteActivation { index: 0, .. })));
            assert!(matches!(sampler.sample(&[f32::NEG_INFINITY; 2], 0), Err(Error::NotFiniteActivation { .. })));
        }
    }
}
