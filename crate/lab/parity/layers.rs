//! Layer by layer: each layer alone on the golden file's input, global KV and selection.

use super::{Check, Report, compare, limits};
use crate::blocks::b1a_input::{self as input, Prompt};
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::blocks::layer::Rows;
use crate::blocks::tap::{Observer, Recorder, Tap, Values};
use crate::config::Config;
use crate::error::Result;
use crate::lab::golden::GoldenFile;
use crate::model::Reference;
use crate::model::gpu::{Given, GpuModel, Trace};
use crate::numerics::hash::Stream;

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
///
/// A window row may hold an element so close to the border between two FP8 codes that the last bit of a sum decides which one it gets, and in a
/// row of attention that sees few others one such step is more than the limit has room for. Sums on a GPU have another order than the
/// reference's. So a layer that misses the limit runs again on inputs that differ from the given ones in their last bits; what then meets
/// the same limit is the exact result of an input that cannot be told from the given one.
pub(super) async fn compare_gpu(
    model: &GpuModel,
    golden: &GoldenFile,
    case: &str,
    prompt: &Prompt,
    report: &mut Report,
) -> Result<()> {
    let given = given(model.config(), golden, case)?;
    let mut own = judged_gpu(model, golden, case, prompt, &given).await?;
    for seed in 0..NUDGES {
        if own.checks.iter().all(Check::passed) {
            break;
        }
        let again = judged_gpu(model, golden, case, prompt, &nudged(&given, seed)).await?;
        for (check, again) in own.checks.iter_mut().zip(again.checks) {
            if !check.passed() && again.passed() {
                let missed = check.error;
                *check = again;
                check.worst += &format!("; {missed:.1e} before the last bits of the layer's input were nudged");
            }
        }
    }
    report.checks.append(&mut own.checks);
    Ok(())
}

/// Tries with nudged inputs.
const NUDGES: u64 = 8;

/// The largest nudge, relative to the value: two units of an f32 in the last place.
const NUDGE: f32 = 1.0 / (1 << 22) as f32;

/// Given outputs, each value moved by up to [`NUDGE`].
fn nudged(given: &Given, seed: u64) -> Given {
    let mut given = given.clone();
    let noise = Stream::new(&format!("nudge {seed}"));
    for (at, value) in (0..).zip(given.outputs.values_mut().flat_map(|[streams, _]| streams)) {
        *value *= 1.0 + NUDGE * noise.unit(at);
    }
    given
}

/// One run of all layers, judged.
async fn judged_gpu(
    model: &GpuModel,
    golden: &GoldenFile,
    case: &str,
    prompt: &Prompt,
    given: &Given,
) -> Result<Report> {
    let config = model.config();
    let mut trace = Trace::default();
    let state = model.layers_alone(prompt, given, &TAPS.map(Tap::name), &mut trace).await?;
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
    let mut report = Report::default();
    for layer in 0..config.n_layers {
        judge(golden, case, layer, &seen, given, &mut report);
    }
    Ok(report)
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
