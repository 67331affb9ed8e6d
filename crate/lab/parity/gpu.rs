//! The GPU against a golden file: end to end, with the same comparisons and limits as the reference.
//!
//! Teacher forcing, layer by layer on golden input, is the reference's; the GPU is compared with the reference at every tap by `tests/gpu`.

use super::{NotRun, Report, blind, end_to_end_tap, greedy_check, judge_end_to_end, judge_vision, kv, named};
use super::{patches_of_picture, prompt};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::tap::{Recorder, Tap};
use crate::error::Result;
use crate::lab::golden::GoldenFile;
use crate::model::Prefill;
use crate::model::gpu::{GpuModel, Trace};
use crate::numerics::ops::argmax;

/// Taps that are read back.
const TAPS: [Tap; 2] = [Tap::TopkIds, Tap::Streams];

/// Runs the named cases of a golden file, or all. What only the reference can do is listed in the report as not run.
///
/// # Errors
/// As [`super::run`].
pub async fn run(model: &mut GpuModel, golden: &GoldenFile, cases: &[String]) -> Result<Report> {
    let mut report = Report::default();
    for case in &named(golden, cases)? {
        model.context.kv = kv(case);
        let skipped = match case.as_str() {
            "greedy" => {
                greedy(model, golden, &mut report).await?;
                None
            }
            "dspark" => Some(("the draft", "golden taps can be given to the CPU reference's drafter only")),
            "vision" => {
                vision(model, golden, &mut report).await?;
                None
            }
            _ => {
                end_to_end(model, golden, case, &mut report).await?;
                let layered = golden.get(&format!("{case}.layers.0.streams")).is_some();
                layered.then_some(("layer by layer", "golden input can be given to layers of the CPU reference only"))
            }
        };
        report.not_run.extend(skipped.map(|(what, why)| NotRun { case: case.clone(), what, why }));
    }
    Ok(report)
}

async fn end_to_end(model: &GpuModel, golden: &GoldenFile, case: &str, report: &mut Report) -> Result<()> {
    let prompt = prompt(model.config(), golden, case)?;
    let (mut state, mut trace) = (model.state()?, Trace::default());
    let how = Prefill { all_logits: true, ..Prefill::default() };
    let names = TAPS.map(Tap::name);
    let output = model.prefill_traced(&mut state, &prompt, how, &names, &mut trace).await?;
    let mut recorder = Recorder::new(|tap, _| end_to_end_tap(tap));
    trace.replay(model.config(), &mut recorder);
    judge_end_to_end(model.config(), golden, case, (&recorder, &output.logits), report)
}

/// The picture's way, with ViT and aligner on the GPU.
async fn vision(model: &GpuModel, golden: &GoldenFile, report: &mut Report) -> Result<()> {
    let Some(config) = &model.config().vision else { return Err(blind(golden)) };
    let patches = patches_of_picture(config, golden, report)?;
    let mut trace = Trace::default();
    let aligned = model.image_rows_traced(&patches, &["vit"], &mut trace).await?;
    let vit = trace.tensors.first().map_or(&[][..], |traced| &traced.values);
    judge_vision(model.config(), golden, (vit, &aligned), report)
}

/// Greedy decoding token by token from the short prompt.
async fn greedy(model: &GpuModel, golden: &GoldenFile, report: &mut Report) -> Result<()> {
    let expected = golden.need("greedy.ids")?.ids();
    let mut ids = golden.need("short.input_ids")?.ids();
    let mut state = model.state()?;
    let mut logits = model.prefill(&mut state, &Prompt::text(ids.clone()), Prefill::default()).await?.logits;
    while ids.len() < expected.len() {
        let id = argmax(&logits) as u32;
        ids.push(id);
        logits = model.decode(&mut state, id).await?;
    }
    report.checks.push(greedy_check(model.config(), &ids, &expected));
    Ok(())
}
