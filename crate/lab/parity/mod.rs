//! Parity: a checkpoint against a golden file, tap by tap.
//!
//! Two ways to compare. *Layer by layer*: each layer alone gets the golden file's input, its global KV and its selection, so that an error
//! cannot travel; the first layer that fails is the one that is wrong. *End to end*: the prompt runs through the whole model. With quantised
//! caches a value on a rounding boundary may flip a 4-bit code, and many layers of random weights amplify that between any two correct engines;
//! so end to end is judged with f32 caches, and with quantised ones only for shallow models. Limits and reasons: [`limits`].

mod compare;
mod gpu;
mod layers;

pub use gpu::run as run_gpu;

use crate::blocks::b1a_input::Prompt;
use crate::blocks::b6b_head_dspark::{self as head, Draft};
use crate::blocks::tap::{Recorder, Silent, Tap};
use crate::config::{Config, VisionConfig};
use crate::error::{Error, Result};
use crate::image::{self, Patches, Rgb, TokenType};
use crate::lab::golden::{Golden, GoldenFile};
use crate::model::{Prefill, Reference};
use crate::numerics::ops::argmax;
use crate::numerics::precision::Precision;
use serde::Serialize;

/// How close is close, and why.
pub mod limits {
    /// Logits end to end, NMSE of each position. Two independent f32 implementations were seen within 2e-12.
    pub const END_TO_END: f64 = 1e-8;
    /// A tensor of a layer that ran alone on golden input. FP8 window rows may flip a code on a boundary.
    pub const LAYER: f64 = 1e-6;
    /// Share of 4-bit codes that may differ from the golden ones, each by one step at most.
    pub const CODES: f64 = 0.005;
    /// Scores closer than this, relative to the largest, may be chosen in either order.
    pub const SCORE: f32 = 1e-4;
    /// Layers up to which a run with quantised caches is judged end to end.
    pub const QUANTISED_LAYERS: usize = 12;
}

/// One comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Case of the golden file.
    pub case: String,
    /// Tap, or what is compared.
    pub tap: String,
    /// Layer, where there is one.
    pub layer: Option<usize>,
    /// The error: NMSE, or a count or share of differences.
    pub error: f64,
    /// What the error is.
    pub measure: &'static str,
    /// Largest error that passes; `None` if the comparison is shown but not judged.
    pub limit: Option<f64>,
    /// Where the worst value is, both values side by side.
    pub worst: String,
}

impl Check {
    /// Whether the error is within its limit. An error that is not a number never is.
    pub fn passed(&self) -> bool {
        self.limit.is_none_or(|limit| self.error <= limit)
    }
}

/// All comparisons of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// In the order of the forward pass, case by case.
    pub checks: Vec<Check>,
}

impl Report {
    /// The first comparison that failed: where to look.
    pub fn first_failure(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.passed())
    }

    /// Comparisons that were judged, and how many of them failed.
    pub fn counts(&self) -> (usize, usize) {
        let judged = self.checks.iter().filter(|check| check.limit.is_some()).count();
        (judged, self.checks.iter().filter(|check| !check.passed()).count())
    }
}

/// Runs the named cases of a golden file, or all. `short` and the like, and `greedy`, `dspark`, `vision`.
///
/// # Errors
/// A case that the file does not have, a file that does not fit the checkpoint, or whatever the run itself says.
pub async fn run(model: &mut Reference, golden: &GoldenFile, cases: &[String]) -> Result<Report> {
    let mut report = Report::default();
    for case in &named(golden, cases)? {
        model.context.kv = kv(case);
        match case.as_str() {
            "greedy" => greedy(model, golden, &mut report).await?,
            "dspark" => draft(model, golden, &mut report)?,
            "vision" => vision(model, golden, &mut report)?,
            _ => {
                let prompt = prompt(model.config(), golden, case)?;
                if has_layers(golden, case) {
                    layers::compare(model, golden, case, &prompt, &mut report).await?;
                }
                end_to_end(model, golden, case, &prompt, &mut report).await?;
            }
        }
    }
    Ok(report)
}

/// The named cases that the file has, or all.
fn named(golden: &GoldenFile, cases: &[String]) -> Result<Vec<String>> {
    let mut all: Vec<String> = golden.cases().into_iter().map(String::from).collect();
    all.extend(["greedy", "dspark", "vision"].into_iter().filter(|name| has(golden, name)).map(String::from));
    if let Some(unknown) = cases.iter().find(|name| !all.contains(name)) {
        return Err(Error::Usage(format!("no case {unknown} in {}; it has {}", golden.file, all.join(", "))));
    }
    all.retain(|name| cases.is_empty() || cases.contains(name));
    Ok(all)
}

/// Roundings of the caches in a case.
fn kv(case: &str) -> Precision {
    if case.ends_with("_f32kv") { Precision::F32 } else { Precision::Released }
}

/// Taps that are compared end to end.
fn end_to_end_tap(tap: Tap) -> bool {
    matches!(tap, Tap::EngramRows | Tap::TopkIds | Tap::Streams)
}

/// Whether the file holds what the layers of a case read and give.
fn has_layers(golden: &GoldenFile, case: &str) -> bool {
    golden.get(&format!("{case}.layers.0.streams")).is_some()
}

fn has(golden: &GoldenFile, case: &str) -> bool {
    let key = match case {
        "greedy" => "greedy.ids",
        "dspark" => "dspark.anchor_id",
        _ => "image.rgb",
    };
    golden.get(key).is_some()
}

/// The prompt of a case; the `image` case brings its own token types, and the golden aligner rows, so that vision errors stay in `vision`.
fn prompt(config: &Config, golden: &GoldenFile, case: &str) -> Result<Prompt> {
    let mut prompt = Prompt::text(golden.need(&format!("{case}.input_ids"))?.ids());
    if let Some(types) = golden.get(&format!("{case}.types")) {
        let unknown =
            |code| Error::Golden { file: golden.file.clone(), problem: format!("{case}.types has a code {code}") };
        prompt.types = (types.i64.iter())
            .map(|&code| TokenType::from_code(code as i32).ok_or_else(|| unknown(code)))
            .collect::<Result<_>>()?;
        prompt.image_rows = golden.need(&format!("{case}.aligned"))?.f32.clone();
    }
    if !prompt.image_rows.len().is_multiple_of(config.dim) || prompt.types.len() != prompt.ids.len() {
        let problem = format!("case {case} does not fit a model of width {}", config.dim);
        return Err(Error::Golden { file: golden.file.clone(), problem });
    }
    Ok(prompt)
}

/// Whether a case is judged end to end (see the module's head).
fn judged_end_to_end(config: &Config, case: &str) -> bool {
    case.ends_with("_f32kv") || (case == "short" && config.n_layers <= limits::QUANTISED_LAYERS)
}

async fn end_to_end(
    model: &Reference,
    golden: &GoldenFile,
    case: &str,
    prompt: &Prompt,
    report: &mut Report,
) -> Result<()> {
    let mut recorder = Recorder::new(|tap, _| end_to_end_tap(tap));
    let how = Prefill { all_logits: true, ..Prefill::default() };
    let output = model.prefill(&mut model.state(), prompt, how, &mut recorder).await?;
    judge_end_to_end(model.config(), golden, case, (&recorder, &output.logits), report)
}

/// What a run through the whole model showed and gave, `all` its logits `[n, vocab]`.
fn judge_end_to_end<F: Fn(Tap, usize) -> bool>(
    config: &Config,
    golden: &GoldenFile,
    case: &str,
    (recorder, all): (&Recorder<F>, &[f32]),
    report: &mut Report,
) -> Result<()> {
    let judged = judged_end_to_end(config, case);
    if let Some(expected) = golden.get(&format!("{case}.engram_ids")) {
        let columns = config.engram_columns();
        for (which, &layer) in config.engram_layer_ids.iter().enumerate() {
            let own = recorder.get(Tap::EngramRows, layer).map_or(&[][..], |rows| &rows.i64);
            let expected: Vec<i64> = (expected.i64.chunks_exact(expected.row()))
                .flat_map(|row| &row[which * columns..][..columns])
                .copied()
                .collect();
            report.checks.push(compare::equal(case, Tap::EngramRows.name(), Some(layer), own, &expected));
        }
    }
    for layer in 0..config.n_layers {
        let key = format!("{case}.layers.{layer}.topk_indices");
        if let (Some(expected), Some(own)) = (golden.get(&key), recorder.get(Tap::TopkIds, layer)) {
            let width = own.shape[1];
            let mut check = compare::sets(case, layer, &own.i64, width, &expected.i64, expected.row());
            check.limit = check.limit.filter(|_| judged);
            report.checks.push(check);
        }
        let key = format!("{case}.layers.{layer}.streams");
        if let (Some(expected), Some(own)) = (golden.get(&key), recorder.get(Tap::Streams, layer)) {
            let (width, limit) = (expected.row(), judged.then_some(limits::END_TO_END));
            let tap = "2a.streams end to end";
            report.checks.push(compare::worst_row(case, tap, Some(layer), &own.f32, &expected.f32, width, limit));
        }
    }
    let rows = golden.need(&format!("{case}.logit_rows"))?;
    let own: Vec<f32> = (rows.i64.iter())
        .flat_map(|&row| &all[row as usize * config.vocab_size..][..config.vocab_size])
        .copied()
        .collect();
    logits(report, case, "logits end to end", config, &own, golden.need(&format!("{case}.logits"))?, judged);
    Ok(())
}

/// Compares logits `[rows, vocab]`: the worst row's NMSE, and the rows whose best token differs.
fn logits(report: &mut Report, case: &str, what: &str, config: &Config, own: &[f32], golden: &Golden, judged: bool) {
    let limit = judged.then_some(limits::END_TO_END);
    report.checks.push(compare::worst_row(case, what, None, own, &golden.f32, config.vocab_size, limit));
    let best = |rows: &[f32]| rows.chunks_exact(config.vocab_size).map(|row| argmax(row) as i64).collect::<Vec<_>>();
    let mut check = compare::equal(case, "argmax", None, &best(own), &best(&golden.f32));
    check.limit = check.limit.filter(|_| judged);
    report.checks.push(check);
}

/// Greedy decoding token by token from the short prompt.
async fn greedy(model: &Reference, golden: &GoldenFile, report: &mut Report) -> Result<()> {
    let expected = golden.need("greedy.ids")?.ids();
    let prompt = golden.need("short.input_ids")?.ids();
    let mut state = model.state();
    let mut ids = prompt.clone();
    let mut logits = model.prefill(&mut state, &Prompt::text(prompt), Prefill::default(), &mut Silent).await?.logits;
    while ids.len() < expected.len() {
        let id = argmax(&logits) as u32;
        ids.push(id);
        logits = model.decode(&mut state, id, &mut Silent).await?;
    }
    report.checks.push(greedy_check(model.config(), &ids, &expected));
    Ok(())
}

fn greedy_check(config: &Config, own: &[u32], expected: &[u32]) -> Check {
    let wide = |ids: &[u32]| ids.iter().map(|&id| i64::from(id)).collect::<Vec<_>>();
    let mut check = compare::equal("greedy", "ids", None, &wide(own), &wide(expected));
    check.limit = check.limit.filter(|_| judged_end_to_end(config, "short"));
    check
}

/// DSpark alone: rings from the golden taps, one draft.
fn draft(model: &Reference, golden: &GoldenFile, report: &mut Report) -> Result<()> {
    let Some(drafter) = &model.drafter else { return Err(no_drafter(golden)) };
    let config = model.config();
    let taps = golden.need("dspark.target_hidden")?;
    let mut state = model.state();
    let first = taps.rows().saturating_sub(config.window_size);
    let recent = &taps.f32[first * taps.row()..];
    head::seed(&model.context, drafter, &mut state.draft_windows, recent, first);
    state.position = taps.rows();
    let anchor = golden.need("dspark.anchor_id")?.ids()[0];
    let Some(draft) = model.draft(&state, anchor) else { return Ok(()) };
    judge_draft(config, golden, &draft, None, report)
}

fn no_drafter(golden: &GoldenFile) -> Error {
    Error::Golden { file: golden.file.clone(), problem: "has a draft, but the checkpoint no DSpark".into() }
}

/// Compares a draft's logits and ids, and the ids that the same rings `proposed` without showing logits.
fn judge_draft(
    config: &Config,
    golden: &GoldenFile,
    draft: &Draft,
    proposed: Option<&[u32]>,
    report: &mut Report,
) -> Result<()> {
    let width = config.vocab_size;
    for (what, own, key) in [
        ("6b.draft_base_logits", &draft.base_logits, "dspark.base_logits"),
        ("6b.draft_logits", &draft.logits, "dspark.step_logits"),
    ] {
        let expected = &golden.need(key)?.f32;
        report.checks.push(compare::worst_row("dspark", what, None, own, expected, width, Some(limits::LAYER)));
    }
    let expected = &golden.need("dspark.draft_ids")?.i64;
    for (what, own) in [("6b.draft_ids", Some(&draft.ids[..])), ("6b.proposed_ids", proposed)] {
        let own: Option<Vec<i64>> = own.map(|ids| ids.iter().map(|&id| i64::from(id)).collect());
        report.checks.extend(own.map(|own| compare::equal("dspark", what, None, &own, expected)));
    }
    Ok(())
}

/// The picture's way: pixels to patches, token layout, ViT, aligner.
fn vision(model: &Reference, golden: &GoldenFile, report: &mut Report) -> Result<()> {
    let (Some(config), Some(weights)) = (&model.config().vision, &model.input.vision) else {
        return Err(blind(golden));
    };
    let patches = patches_of_picture(config, golden, report)?;
    let seen = crate::blocks::b1a_input::see(model.context.numerics, config, weights, &patches);
    judge_vision(model.config(), golden, (&seen.vit, &seen.aligned), report)
}

fn blind(golden: &GoldenFile) -> Error {
    Error::Golden { file: golden.file.clone(), problem: "has a picture, but the checkpoint no vision".into() }
}

/// What happens to a picture before the vision tower, compared on the way.
fn patches_of_picture(config: &VisionConfig, golden: &GoldenFile, report: &mut Report) -> Result<Patches> {
    let rgb = golden.need("image.rgb")?;
    let picture = Rgb::new(rgb.shape[1], rgb.shape[0], rgb.i64.iter().map(|&v| v as u8).collect())?;
    let plan = image::plan(picture.width, picture.height, config)?;
    let grid = [plan.patch_rows, plan.patch_cols, plan.token_rows, plan.token_cols].map(|size| size as i64);
    report.checks.push(compare::equal("vision", "1a.grid", None, &grid, &golden.need("image.grid")?.i64));
    let types: Vec<i64> = image::token_types(&plan).iter().map(|t| i64::from(t.code())).collect();
    let expected: Vec<i64> = golden.need("image.types")?.i64.iter().copied().filter(|&code| code >= 0).collect();
    report.checks.push(compare::equal("vision", "1a.types", None, &types, &expected));
    let patches = image::patches(&image::fit(&picture, &plan), config, true);
    let row = patches.values.len() / (plan.patch_rows * plan.patch_cols);
    let expected = &golden.need("image.patches")?.f32;
    report.checks.push(compare::worst_row("vision", "1a.patches", None, &patches.values, expected, row, Some(0.0)));
    Ok(patches)
}

/// Compares the ViT's and the aligner's output.
fn judge_vision(
    config: &Config,
    golden: &GoldenFile,
    (vit, aligned): (&[f32], &[f32]),
    report: &mut Report,
) -> Result<()> {
    let width = config.vision.as_ref().map_or(config.dim, |vision| vision.dim);
    for (what, own, key, width) in
        [("1a.vit", vit, "image.vit", width), ("1a.aligned", aligned, "image.aligned", config.dim)]
    {
        let expected = &golden.need(key)?.f32;
        report.checks.push(compare::worst_row("vision", what, None, own, expected, width, Some(limits::LAYER)));
    }
    Ok(())
}
