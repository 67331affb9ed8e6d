//! Decoding with drafts and without: acceptance and speed-up of the lab checkpoint. Its weights are random, so its drafts are seldom right; what
//! shows is the cost of drafting and verifying.

use super::{WRITTEN, prompt};
use crate::Result;
use crate::generate::speculate::{self, Speculation};
use crate::generate::{Sampler, Sampling};
use crate::model::{Engine, Prefill};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Instant;

/// Tokens of the prompt in front.
const BEFORE: usize = 16;

/// One way to decode.
#[derive(Debug, Serialize)]
pub(super) struct Drafts {
    drafts: &'static str,
    tokens_per_s: f64,
    rounds: usize,
    drafted: usize,
    accepted: usize,
    /// `tokens_per_s` divided by that without drafts.
    speed_up: f64,
}

/// Writes the same tokens without drafts, with those that the drafter is sure of, and with all.
///
/// # Errors
/// What running says.
pub(super) async fn measure(engine: &Engine) -> Result<Vec<Drafts>> {
    let sampler = Sampler::new(Sampling::GREEDY)?;
    let mut rows: Vec<Drafts> = Vec::new();
    for (drafts, how) in [
        ("none", None),
        ("default confidence", Some(Speculation::default())),
        ("all", Some(Speculation { confidence: 0.0 })),
    ] {
        let mut row = Drafts { drafts, tokens_per_s: 0.0, rounds: 0, drafted: 0, accepted: 0, speed_up: 1.0 };
        let mut state = engine.state()?;
        let read = engine.prefill(&mut state, &prompt(BEFORE), Prefill::default()).await?;
        let mut anchor = sampler.sample(&read.logits, state.position())?;
        let (mut written, mut begin) = (0, Instant::now());
        // One round before the clock starts: recording and compiling belong to no token.
        for round in 0.. {
            if round == 1 {
                (written, begin) = (0, Instant::now());
                (row.rounds, row.drafted, row.accepted) = (0, 0, 0);
            } else if written >= WRITTEN {
                break;
            }
            let start = state.position();
            let made = speculate::round(engine, &mut state, anchor, &sampler, how, WRITTEN).await?;
            speculate::settle(engine, &mut state, start + made.tokens.len())?;
            anchor = made.tokens.last().copied().unwrap_or(anchor);
            written += made.tokens.len();
            row.rounds += 1;
            row.drafted += made.drafted;
            row.accepted += made.tokens.len() - 1;
        }
        row.tokens_per_s = written as f64 / begin.elapsed().as_secs_f64();
        row.speed_up = row.tokens_per_s / rows.first().map_or(row.tokens_per_s, |plain| plain.tokens_per_s);
        rows.push(row);
    }
    Ok(rows)
}

/// The rows as a table.
pub(super) fn as_markdown(rows: &[Drafts]) -> String {
    let mut out =
        String::from("\n| drafts | tokens/s | speed-up | rounds | drafted | accepted |\n|---|---|---|---|---|---|\n");
    for Drafts { drafts, tokens_per_s, rounds, drafted, accepted, speed_up } in rows {
        let _ = writeln!(out, "| {drafts} | {tokens_per_s:.1} | {speed_up:.2} | {rounds} | {drafted} | {accepted} |");
    }
    out
}
