//! What it costs to hold a part of the experts only: the lab checkpoint with slots, its experts read from memory.

use super::prompt;
use crate::Result;
use crate::blocks::context::Context;
use crate::gpu::Gpu;
use crate::model::gpu::{GpuModel, SlotWish};
use crate::model::slots::{SlotUse, Slots};
use crate::model::{Engine, Prefill, Reference};
use crate::numerics::precision::Precision;
use crate::weights::{Checkpoint, tiny};
use serde::Serialize;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Shares of the routed experts that have a slot, in percent.
const PERCENT: [usize; 3] = [10, 50, 100];
/// Tokens of the prompt, and tokens written behind it, of which the first few warm up.
const READ: usize = 16;
const WRITTEN: u32 = 8;
const WARM: u32 = 2;

/// One budget on one engine.
#[derive(Debug, Serialize)]
pub(super) struct Budget {
    backend: &'static str,
    percent: usize,
    slots: usize,
    decode_tokens_per_s: f64,
    used: SlotUse,
}

/// Every budget on the processor, unless it is left out, and on the GPU that `open` gives, if it gives one.
///
/// # Errors
/// What loading and running say.
pub(super) fn measure(with_cpu: bool, open: &dyn Fn() -> Option<Gpu>) -> Result<Vec<Budget>> {
    pollster::block_on(async {
        let checkpoint = Arc::new(tiny::lab().await?);
        let mut budgets = Vec::new();
        for percent in PERCENT {
            if with_cpu {
                budgets.push(write(cpu(&checkpoint, percent).await?, percent, &checkpoint).await?);
            }
            if let Some(gpu) = open() {
                budgets.push(write(on_gpu(gpu, &checkpoint, percent).await?, percent, &checkpoint).await?);
            }
        }
        Ok(budgets)
    })
}

fn count(checkpoint: &Checkpoint, percent: usize) -> usize {
    (checkpoint.config.n_layers * checkpoint.config.n_routed_experts * percent).div_ceil(100)
}

async fn cpu(checkpoint: &Arc<Checkpoint>, percent: usize) -> Result<Engine> {
    let context = Context::new(&checkpoint.config, Precision::Released, Precision::Released);
    let begin = Instant::now();
    let slots = Slots::new(count(checkpoint, percent), Box::new(move || begin.elapsed().as_secs_f64()));
    let mut silent = |_: usize, _: usize, _: &str| {};
    let model = Reference::load_slotted(checkpoint.clone(), context, Some(Arc::new(slots)), &mut silent).await?;
    Ok(Arc::new(model).into())
}

async fn on_gpu(gpu: Gpu, checkpoint: &Arc<Checkpoint>, percent: usize) -> Result<Engine> {
    let begin = Instant::now();
    let clock = Rc::new(move || begin.elapsed().as_secs_f64());
    let wish = SlotWish { count: count(checkpoint, percent), clock };
    let precision = (Precision::Released, Precision::Released);
    let mut silent = |_: usize, _: usize, _: &str| {};
    Ok(GpuModel::load_slotted(gpu, checkpoint.clone(), precision, Some(wish), &mut silent).await?.into())
}

async fn write(engine: Engine, percent: usize, checkpoint: &Checkpoint) -> Result<Budget> {
    let mut state = engine.state()?;
    engine.prefill(&mut state, &prompt(READ), Prefill::default()).await?;
    let mut begin = Instant::now();
    for id in 0..WRITTEN {
        if id == WARM {
            begin = Instant::now();
        }
        engine.decode(&mut state, 65 + id).await?;
    }
    Ok(Budget {
        backend: engine.name(),
        percent,
        slots: count(checkpoint, percent),
        decode_tokens_per_s: f64::from(WRITTEN - WARM) / begin.elapsed().as_secs_f64(),
        used: engine.slots().unwrap_or_default(),
    })
}

/// The table.
pub(super) fn as_markdown(budgets: &[Budget]) -> String {
    let mut out =
        "\nExpert budget\n\n| backend | budget | slots | t/s | were there | read early | read | GB/s |\n".to_string();
    out += "|---|---|---|---|---|---|---|---|\n";
    for Budget { backend, percent, slots, decode_tokens_per_s, used } in budgets {
        let (hits, rate) = (100.0 * used.hit_rate().unwrap_or(0.0), used.rate().unwrap_or(0.0) / 1e9);
        let (early, mb) = (used.early, used.bytes as f64 / 1e6);
        let _ = writeln!(
            out,
            "| {backend} | {percent} % | {slots} | {decode_tokens_per_s:.1} | {hits:.1} % | {early} | {mb:.1} MB | {rate:.2} |"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_per_budget() {
        let used = SlotUse { hits: 3, misses: 1, early: 2, bytes: 5_000_000, seconds: 0.01 };
        let budget = Budget { backend: "cpu", percent: 10, slots: 32, decode_tokens_per_s: 12.5, used };
        let row = "| cpu | 10 % | 32 | 12.5 | 75.0 % | 2 | 5.0 MB | 0.50 |";
        assert!(as_markdown(&[budget]).lines().any(|line| line == row));
    }
}
