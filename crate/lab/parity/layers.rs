//! Layer by layer: each layer alone on the golden file's input, global KV and selection.

use super::{Check, Report, compare, limits};
use crate::blocks::b1a_input::{self as input, Prompt};
use crate::blocks::b6a_kv_cache::{Format, Plane, Ring};
use crate::blocks::layer::Rows;
use crate::blocks::tap::{Observer, Recorder, Tap, Values};
use crate::config::Config;
use crate::error::Result;
use crate::lab::golden::GoldenFile;
use crate::model::Reference;
use crate::model::gpu::{Given, GpuModel, Trace};
use crate::numerics::precision::Precision;

/// Compares every layer of a case that holds streams. Where the file leaves layers out, the rows run on through them, still with the golden
/// global KV and selections, until the next layer that it holds; what such a layer gives is shown but not judged, since a window row may have
/// flipped a code on the way.
pub(super) async fn compare(
    model: &Reference,
    golden: &GoldenFile,
    case: &str,
    prompt: &Prompt,
    report: &mut Report,
) -> Result<()> {
    let embedding = input::embed(&model.input, prompt, 0..prompt.len(), 0)?;
    let mut rows = Rows::enter(&model.context, &embedding, prompt.types.clone(), 0);
    let mut pool = None;
    let given = given(model.config(), golden, case)?;
    for layer in 0..model.config().n_layers {
        let forced = given.forced(model.config(), layer);
        let mut seen = Recorder::new(|_, _| true);
        model.layer_alone(layer, &mut rows, &prompt.ids, forced.as_ref(), &mut pool, &mut seen).await?;
        judge(golden, case, layer, &seen, &given, report);
        if let Some([streams, pre]) = given.outputs.get(&layer) {
            rows.streams.clone_from(streams);
            rows.pre.clone_from(pre);
        }
    }
    Ok(())
}

/// Taps that the comparisons of a layer read.
const TAPS: [Tap; 10] = [
    Tap::IndexScores,
    Tap::TopkIds,
    Tap::AttnComb,
    Tap::AttnOut,
    Tap::RouterScores,
    Tap::ExpertIds,
    Tap::ExpertWeights,
    Tap::FfnOut,
    Tap::FfnPre,
    Tap::Streams,
];

/// [`compare()`] for layers on the GPU.
pub(super) async fn compare_gpu(
    model: &GpuModel,
    golden: &GoldenFile,
    case: &str,
    prompt: &Prompt,
    report: &mut Report,
) -> Result<()> {
    let (config, given) = (model.config(), given(model.config(), golden, case)?);
    let mut trace = Trace::default();
    let state = model.layers_alone(prompt, &given, &TAPS.map(Tap::name), &mut trace).await?;
    let mut seen = Recorder::new(|_, _| true);
    trace.replay(config, &mut seen);
    for &layer in &config.kv_source_layers {
        // Readers decode what is stored, and so is it compared.
        let stored = state.stored(&model.gpu, layer).await?;
        for (tap, plane) in [Tap::CompressedKv, Tap::IndexKeys].into_iter().zip(stored.into_iter().flatten()) {
            let rows = prompt.len() / config.ratio(layer).max(1);
            let values = &plane.read_from(0)[..rows * plane.width];
            seen.see(tap, layer, &[rows, plane.width], Values::F32(values));
        }
    }
    let before = report.checks.len();
    for layer in 0..config.n_layers {
        judge(golden, case, layer, &seen, &given, report);
    }
    if report.checks[before..].iter().any(|check| !check.passed()) {
        let on_border = on_border(model, prompt, &given).await?;
        report.checks[before..].iter_mut().for_each(|check| forgive(check, &on_border));
    }
    Ok(())
}

/// Window rows of each layer that hold an element on the border between two codes, of those that the rings still have: they are computed once
/// more with f32 caches, where they are not quantised.
async fn on_border(model: &GpuModel, prompt: &Prompt, given: &Given) -> Result<Vec<Vec<usize>>> {
    let model = model.with_kv(Precision::F32);
    let state = model.layers_alone(prompt, given, &[], &mut Trace::default()).await?;
    let codes = |row: &[f32], factor: f32| {
        let mut plane = Plane::new(Format::Fp8, row.len());
        plane.extend(&row.iter().map(|v| v * factor).collect::<Vec<_>>());
        plane
    };
    let is_on_border = |row: &[f32]| codes(row, 1.0 + limits::BORDER_WIDTH) != codes(row, 1.0 - limits::BORDER_WIDTH);
    let rows_of = |ring: &Ring| {
        let (positions, width) = (ring.positions(), ring.shape().1);
        let rows = ring.read(positions.clone());
        positions.zip(rows.chunks_exact(width)).filter(|(_, row)| is_on_border(row)).map(|(at, _)| at).collect()
    };
    Ok(model.download(&state).await?.windows.iter().map(rows_of).collect())
}

/// Gives a layer's NMSE the limit of rows on a border, if it has one, and says so.
fn forgive(check: &mut Check, on_border: &[Vec<usize>]) {
    let rows = check.layer.map_or(&[][..], |layer| &on_border[layer]);
    if let Some(row) = rows.first().filter(|_| !check.passed() && check.limit == Some(limits::LAYER)) {
        check.limit = Some(limits::BORDER);
        check.worst += &format!("; window row {row} has an element on the border between two codes");
    }
}

/// What a layer that ran alone showed. It is judged if its own input was golden.
fn judge<F: Fn(Tap, usize) -> bool>(
    golden: &GoldenFile,
    case: &str,
    layer: usize,
    seen: &Recorder<F>,
    given: &Given,
    report: &mut Report,
) {
    let before = report.checks.len();
    caches(golden, case, layer, seen, report);
    selection(golden, case, layer, seen, report);
    values(golden, case, layer, seen, report);
    if layer > 0 && !given.outputs.contains_key(&(layer - 1)) {
        report.checks[before..].iter_mut().for_each(|check| check.limit = None);
    }
}

/// The golden global KV, selections, and outputs of the layers that the file holds.
fn given(config: &Config, golden: &GoldenFile, case: &str) -> Result<Given> {
    let mut given = Given::default();
    for layer in 0..config.n_layers {
        let need = |name: &str| golden.need(&format!("{case}.layers.{layer}.{name}"));
        if config.kv_source(layer) == Some(layer) {
            let plane = |name: &str, width: usize| -> Result<Plane> {
                let mut plane = Plane::new(Format::F32, width);
                plane.extend(&need(name)?.f32);
                Ok(plane)
            };
            let caches = [plane("compressed_kv", config.head_dim)?, plane("index_keys", config.index_head_dim)?];
            given.caches.insert(layer, caches);
        }
        if config.index_source(layer) == Some(layer) {
            let topk = need("topk_indices")?;
            let chosen = |row: &[i64]| compare::chosen(row).into_iter().map(|j| j as u32).collect();
            given.selections.insert(layer, topk.i64.chunks_exact(topk.row()).map(chosen).collect());
        }
        if golden.get(&format!("{case}.layers.{layer}.streams")).is_some() {
            given.outputs.insert(layer, [need("streams")?.f32.clone(), need("pre_mix")?.f32.clone()]);
        }
    }
    Ok(given)
}

/// 3B and 6A: the entries and keys that a source wrote.
fn caches<F: Fn(Tap, usize) -> bool>(
    golden: &GoldenFile,
    case: &str,
    layer: usize,
    seen: &Recorder<F>,
    report: &mut Report,
) {
    for (tap, name) in [(Tap::CompressedKv, "compressed_kv"), (Tap::IndexKeys, "index_keys")] {
        if let (Some(own), Some(expected)) =
            (seen.get(tap, layer), golden.get(&format!("{case}.layers.{layer}.{name}")))
        {
            report.checks.push(compare::codes(case, tap.name(), layer, &own.f32, &expected.f32));
        }
    }
}

/// 3C: what an index source chose from the golden keys.
fn selection<F: Fn(Tap, usize) -> bool>(
    golden: &GoldenFile,
    case: &str,
    layer: usize,
    seen: &Recorder<F>,
    report: &mut Report,
) {
    let key = format!("{case}.layers.{layer}.topk_indices");
    if let (Some(own), Some(scores), Some(expected)) =
        (seen.get(Tap::TopkIds, layer), seen.get(Tap::IndexScores, layer), golden.get(&key))
    {
        let check = compare::sets(case, layer, &own.i64, own.shape[1], &expected.i64, expected.row());
        report.checks.push(compare::sets_by_score(check, &own.i64, &expected.i64, expected.row(), &scores.f32));
    }
}

/// 2A, 4A, 5A: mixes, outputs, routes, and the residual.
fn values<F: Fn(Tap, usize) -> bool>(
    golden: &GoldenFile,
    case: &str,
    layer: usize,
    seen: &Recorder<F>,
    report: &mut Report,
) {
    let named = |name: &str| golden.get(&format!("{case}.layers.{layer}.{name}"));
    let nmse = |tap: Tap, name: &str| {
        let (own, expected) = (seen.get(tap, layer)?, named(name)?);
        let limit = Some(limits::LAYER);
        Some(compare::worst_row(case, tap.name(), Some(layer), &own.f32, &expected.f32, expected.row(), limit))
    };
    report.checks.extend(nmse(Tap::AttnComb, "attn_comb"));
    report.checks.extend(nmse(Tap::AttnOut, "attn_out"));
    if let (Some(ids), Some(weights), Some(scores), Some(golden_ids), Some(golden_weights)) = (
        seen.get(Tap::ExpertIds, layer),
        seen.get(Tap::ExpertWeights, layer),
        seen.get(Tap::RouterScores, layer),
        named("router_ids"),
        named("router_weights"),
    ) {
        // Experts are chosen by score plus bias; two that differ by less than rounding may stand for each other.
        let experts = scores.shape[1];
        let near = |row: usize, own: &[i64], expected: &[i64]| {
            let score = |id: &i64| scores.f32[row * experts + *id as usize];
            let (a, b): (f32, f32) = (own.iter().map(score).sum(), expected.iter().map(score).sum());
            (a - b).abs() <= limits::SCORE * a.abs()
        };
        let k = golden_ids.row();
        report.checks.extend(compare::experts(
            case,
            layer,
            (&ids.i64, &weights.f32),
            (&golden_ids.i64, &golden_weights.f32),
            k,
            near,
        ));
    }
    report.checks.extend(nmse(Tap::FfnOut, "ffn_out"));
    report.checks.extend(nmse(Tap::FfnPre, "pre_mix"));
    report.checks.extend(nmse(Tap::Streams, "streams"));
}
