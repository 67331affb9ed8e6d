//! The GPU against a golden file: the same cases, comparisons and limits as the reference's.

use super::{
    Report, blind, end_to_end_tap, greedy_check, has_layers, judge_draft, judge_end_to_end, judge_vision, kv, layers,
    named, no_drafter, patches_of_picture, prompt,
};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::tap::{Recorder, Tap};
use crate::error::Result;
use crate::lab::golden::GoldenFile;
use crate::model::Prefill;
use crate::model::gpu::{GpuModel, Trace};
use crate::numerics::ops::argmax;

/// Taps that are read back end to end.
const TAPS: [Tap; 2] = [Tap::TopkIds, Tap::Streams];

/// Runs the named cases of a golden file, or all.
///
/// # Errors
/// As [`super::run`].
pub async fn run(model: &mut GpuModel, golden: &GoldenFile, cases: &[String]) -> Result<Report> {
    let mut report = Report::default();
    for case in &named(golden, cases)? {
        model.context.kv = kv(case);
        match case.as_str() {
            "greedy" => greedy(model, golden, &mut report).await?,
            "dspark" => draft(model, golden, &mut report).await?,
            "vision" => vision(model, golden, &mut report).await?,
            _ => {
                let prompt = prompt(model.config(), golden, case)?;
                if has_layers(golden, case) {
                    layers::compare_gpu(model, golden, case, &prompt, &mut report).await?;
                }
                end_to_end(model, golden, case, &prompt, &mut report).await?;
            }
        }
    }
    Ok(report)
}

/// DSpark alone: rings from the golden taps, one draft, corrected on the CPU with every logit to see and on the GPU as decoding does it.
async fn draft(model: &GpuModel, golden: &GoldenFile, report: &mut Report) -> Result<()> {
    let taps = golden.need("dspark.target_hidden")?;
    let anchor = golden.need("dspark.anchor_id")?.ids()[0];
    let Some(mut state) = model.drafter_alone(&taps.f32).await? else { return Err(no_drafter(golden)) };
    let Some(draft) = model.draft(&mut state, anchor).await? else { return Err(no_drafter(golden)) };
    let proposed = model.propose(&mut state, anchor, 0.0, 0).await?.map(|proposal| proposal.ids);
    judge_draft(model.config(), golden, &draft, proposed.as_deref(), report)
}

async fn end_to_end(
    model: &GpuModel,
    golden: &GoldenFile,
    case: &str,
    prompt: &Prompt,
    report: &mut Report,
) -> Result<()> {
    let (mut state, mut trace) = (model.state()?, Trace::default());
    let how = Prefill { all_logits: true, ..Prefill::default() };
    let names = TAPS.map(Tap::name);
    let output = model.prefill_traced(&mut state, prompt, how, &names, &mut trace).await?;
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
