//! Decoding with drafts and without: acceptance and speed-up. The lab checkpoint's weights are random, so its drafts are seldom right: what shows is
//! the cost of drafting and verifying. Nano is trained and answers a question.

use super::super::nano;
use super::{WRITTEN, prompt};
use crate::Result;
use crate::blocks::b1a_input::Prompt;
use crate::generate::speculate::{self, Speculation};
use crate::generate::{Sampler, Sampling};
use crate::gpu::Gpu;
use crate::model::gpu::GpuModel;
use crate::model::{Engine, Prefill, Reference};
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::text::prompt::{Message, Mode, Role, SpecialIds, flatten, render};
use crate::weights::Checkpoint;
use serde::Serialize;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Tokens of the lab checkpoint's prompt.
const BEFORE: usize = 16;
/// What nano is asked, and the tokens of its answer that count.
const QUESTION: &str = "How do the 890 bytes add up?";
const ANSWER: usize = 32;

/// One way to decode.
#[derive(Debug, Serialize)]
pub(super) struct Drafts {
    model: &'static str,
    drafts: &'static str,
    tokens_per_s: f64,
    rounds: usize,
    drafted: usize,
    accepted: usize,
    /// `tokens_per_s` divided by that without drafts.
    speed_up: f64,
}

/// The lab checkpoint on `lab`, and nano beside it: on a GPU, or on the CPU.
///
/// # Errors
/// What loading and running say.
pub(super) async fn measure(lab: &Engine, gpu: Option<&Gpu>) -> Result<Vec<Drafts>> {
    let mut rows = written(lab, "lab", &prompt(BEFORE), WRITTEN).await?;
    let checkpoint = Arc::new(nano::open().await?);
    let question = question(&checkpoint)?;
    let (numerics, kv) = (Precision::F32, Precision::Released);
    let mut silent = |_: usize, _: usize, _: &str| {};
    let engine: Engine = match gpu {
        Some(gpu) => Engine::Gpu(Rc::new(GpuModel::load(gpu.clone(), checkpoint, numerics, kv, &mut silent).await?)),
        None => Arc::new(Reference::load(checkpoint, numerics, kv, &mut silent).await?).into(),
    };
    rows.extend(written(&engine, "nano", &question, ANSWER).await?);
    Ok(rows)
}

/// The question in the chat form.
fn question(checkpoint: &Checkpoint) -> Result<Prompt> {
    let tokenizer = Tokenizer::from_json(checkpoint.tokenizer_json()?)?;
    let asked = [Message::text(Role::User, QUESTION)];
    let pieces = render(&asked, Mode::Chat, &SpecialIds::find(&tokenizer), &tokenizer)?;
    Ok(Prompt::text(flatten(&pieces, 0, &[])?))
}

/// Writes the same tokens without drafts, with those that the drafter is sure of, and with all.
async fn written(engine: &Engine, model: &'static str, before: &Prompt, count: usize) -> Result<Vec<Drafts>> {
    let sampler = Sampler::new(Sampling::GREEDY)?;
    let mut rows: Vec<Drafts> = Vec::new();
    for (drafts, how) in [
        ("none", None),
        ("default confidence", Some(Speculation::default())),
        ("all", Some(Speculation { confidence: 0.0 })),
    ] {
        let mut row = Drafts { model, drafts, tokens_per_s: 0.0, rounds: 0, drafted: 0, accepted: 0, speed_up: 1.0 };
        let mut state = engine.state()?;
        let read = engine.prefill(&mut state, before, Prefill::default()).await?;
        let mut anchor = sampler.sample(&read.logits, state.position())?;
        let (mut written, mut begin) = (0, Instant::now());
        // One round before the clock starts: recording and compiling belong to no token.
        for round in 0.. {
            if round == 1 {
                (written, begin) = (0, Instant::now());
                (row.rounds, row.drafted, row.accepted) = (0, 0, 0);
            } else if written >= count {
                break;
            }
            let start = state.position();
            let made = speculate::round(engine, &mut state, anchor, &sampler, how, count).await?;
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
    let mut out = String::from(
        "\n| model | drafts | tokens/s | speed-up | rounds | drafted | accepted |\n|---|---|---|---|---|---|---|\n",
    );
    for Drafts { model, drafts, tokens_per_s, rounds, drafted, accepted, speed_up } in rows {
        let _ = writeln!(
            out,
            "| {model} | {drafts} | {tokens_per_s:.1} | {speed_up:.2} | {rounds} | {drafted} | {accepted} |"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::tiny;
    use pollster::block_on;

    #[test]
    fn a_trained_model_accepts_what_it_drafts() {
        let mut silent = |_: usize, _: usize, _: &str| {};
        let checkpoint = Arc::new(block_on(tiny::lab()).unwrap());
        let lab = Reference::load(checkpoint, Precision::F32, Precision::Released, &mut silent);
        let rows = block_on(measure(&Arc::new(block_on(lab).unwrap()).into(), None)).unwrap();
        let [_, _, _, none, sure, all] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((none.drafted, none.accepted), (0, 0));
        assert!(all.accepted >= all.rounds && all.rounds < none.rounds, "{all:?}");
        assert!(sure.accepted > 0 && sure.drafted <= all.drafted, "{sure:?}");
        assert_eq!(as_markdown(&rows).lines().count(), 3 + rows.len());
    }
}
