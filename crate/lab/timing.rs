//! How long reading a prompt and writing a token take, with the conditions, since a time without them cannot be compared.

use super::content::Text;
use crate::blocks::b1a_input::Prompt;
use crate::error::Result;
use crate::model::{Engine, Prefill};
use crate::numerics::ops::argmax;
use serde::Serialize;

/// Times that a prompt is read.
const PREFILLS: usize = 7;

/// Tokens that are written.
const DECODES: usize = 24;

/// Percentiles of repeated measurements, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half of the runs took at most this.
    pub p50: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
    /// Runs measured; one more went before them.
    pub runs: usize,
}

/// Reading a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PrefillTime {
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Of the whole prompt.
    #[serde(flatten)]
    pub time: Quantiles,
}

/// Both phases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timings {
    /// Reading.
    pub prefill: PrefillTime,
    /// Writing one token.
    pub decode: Quantiles,
    /// Always `ms`.
    pub unit: &'static str,
    /// What was measured on what.
    pub conditions: Vec<Text>,
}

/// Measures both phases on `prompt`. `clock` gives seconds.
///
/// # Errors
/// As [`Engine::prefill`].
pub async fn measure(engine: &Engine, prompt: &Prompt, clock: &dyn Fn() -> f64) -> Result<Timings> {
    let how = Prefill { all_logits: false, ..Prefill::default() };
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    let mut state = engine.state()?;
    let mut next = 0;
    for _ in 0..=PREFILLS {
        state = engine.state()?;
        let begin = clock();
        next = argmax(&engine.prefill(&mut state, prompt, how).await?.logits) as u32;
        prefill.push(1e3 * (clock() - begin));
    }
    let room = engine.config().max_position_embeddings.saturating_sub(state.position());
    for _ in 0..=DECODES.min(room.saturating_sub(1)) {
        let begin = clock();
        next = argmax(&engine.decode(&mut state, next).await?) as u32;
        decode.push(1e3 * (clock() - begin));
    }
    let n = prompt.len();
    Ok(Timings {
        prefill: PrefillTime { tokens: n, time: quantiles(&prefill[1..]) },
        decode: quantiles(&decode[1..]),
        unit: "ms",
        conditions: vec![
            Text::same(engine.describe()),
            Text::of(
                format!("{n} token trong prompt, một chuỗi, một lượt chạy nháp không tính"),
                format!("{n} tokens of prompt, one sequence, one warm-up run not counted"),
            ),
            Text::new("logit được đọc về sau mỗi lượt", "logits are read back after each run"),
        ],
    })
}

fn quantiles(times: &[f64]) -> Quantiles {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let at = |q: f64| times.get(((times.len() as f64 * q).ceil() as usize).max(1) - 1).copied().unwrap_or(0.0);
    Quantiles { p50: at(0.5), p95: at(0.95), p99: at(0.99), runs: times.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let Quantiles { p50, p95, p99, runs } = quantiles(&times);
        assert_eq!((p50, p95, p99, runs), (50.0, 95.0, 99.0, 100));
        let Quantiles { p50, p99, .. } = quantiles(&[3.0]);
        assert_eq!((p50, p99), (3.0, 3.0));
    }
}
