//! The lab's run on the GPU: the same calls, traced; what the chapters look at becomes what the GPU computed.
//!
//! Three things have no tensor of their own on the GPU. Window rows, entries and index keys are read back from the caches as stored.
//! Attention weights live and die in workgroup memory: they are computed again from the GPU's query and the GPU's cache, by the formula of the
//! reference. And which rows ran through which layer is not computed but decided, by the same rule on both.

use super::judging::{held, judge, kept, parts};
use super::prompt::cut;
use super::record::{Everything, Tensors};
use super::run::Run;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::blocks::b4a_latent_attention::weights_of;
use crate::blocks::b6a_kv_cache::State;
use crate::blocks::tap::{Observer, Tap, Values};
use crate::error::Result;
use crate::model::Prefill;
use crate::model::gpu::{GpuModel, Trace};
use crate::numerics::ops::argmax;

/// Taps that the trace leaves to this module, because they are not tensors of the plan.
const DERIVED: [Tap; 5] = [Tap::WindowKv, Tap::CompressedKv, Tap::IndexKeys, Tap::AttnWeights, Tap::Logits];

/// Whether the GPU computed a tap of a run that [`replace`] has seen.
pub fn is_gpu(tap: Tap) -> bool {
    !matches!(tap, Tap::AttnWeights | Tap::FinalNorm | Tap::Rows | Tap::EngramRows)
}

/// Runs the prompt of `run` on the GPU and replaces the reference's numbers by the GPU's.
///
/// # Errors
/// As [`GpuModel::prefill`]; `run` is unchanged then.
pub async fn replace(run: &mut Run, gpu: &GpuModel) -> Result<()> {
    let (first, rest) = cut(&run.prompt, run.at + 1, run.config().dim);
    let taps: Vec<&str> = Tap::ALL.into_iter().filter(|tap| !DERIVED.contains(tap)).map(Tap::name).collect();
    let how = Prefill { tail: DecoderTail::All, all_logits: false, ..Prefill::default() };
    let (mut state, mut trace) = (gpu.state()?, Trace::default());
    let mut logits = gpu.prefill_traced(&mut state, &first, how, &taps, &mut trace).await?.logits;
    let state_at = gpu.download(&state).await?;
    let mut seen = Everything::default();
    trace.replay(run.config(), &mut seen);
    seen.see(Tap::Logits, 0, &[1, logits.len()], Values::F32(&logits));
    show_caches(run, &state_at, &mut seen);
    let seen = Tensors::from(seen);
    let weights = attention_weights(run, &state_at, &seen);

    if !rest.is_empty() {
        logits = gpu.prefill(&mut state, &rest, how).await?.logits;
    }
    let state_after = gpu.download(&state).await?;
    let next = argmax(&logits) as u32;
    let draft = match gpu.draft(&mut state, next).await? {
        Some(draft) => {
            let again = gpu.draft(&mut state, next).await?;
            let unchanged = again.as_ref() == Some(&draft) && gpu.download(&state).await? == state_after;
            Some((draft, unchanged))
        }
        None => None,
    };
    let logits_decoded = gpu.decode(&mut state, next).await?;
    let state_decoded = gpu.download(&state).await?;
    let (mut verified, mut rolled) = (Vec::new(), Vec::new());
    if let Some(prompt) = draft.as_ref().and_then(|(draft, _)| judge(run.config(), state_after.position, draft)) {
        let mut judged = gpu.upload(&state_after).await?;
        verified = gpu.prefill(&mut judged, &prompt, Prefill { all_logits: true, ..how }).await?.logits;
        let after = held(&gpu.download(&judged).await?);
        let kept = kept(&prompt, &verified, run.config().vocab_size);
        gpu.settle(&mut judged, state_after.position + kept)?;
        for &id in &prompt.ids[1..kept] {
            gpu.decode(&mut state, id).await?;
        }
        let (kept, plain) = (gpu.download(&judged).await?, gpu.download(&state).await?);
        rolled = parts(held(&state_after), after, &kept, &plain);
    }

    let tail = Prefill { tail: DecoderTail::Last(run.tail), ..how };
    let mut state = gpu.state()?;
    gpu.prefill(&mut state, &run.prompt, tail).await?;
    let state_tail = gpu.download(&state).await?;

    run.seen.replace(seen);
    run.seen.replace(weights);
    run.state_tail = state_tail;
    (run.state_at, run.state, run.state_decoded) = (state_at, state_after, state_decoded);
    (run.logits, run.next, run.draft, run.verified, run.rolled) = (logits, next, draft, verified, rolled);
    run.logits_decoded = logits_decoded;
    run.on_gpu = true;
    Ok(())
}

/// What was written into the caches, read back. Rows that have left the ring stay the reference's.
fn show_caches(run: &Run, state: &State, seen: &mut Everything) {
    let config = run.config();
    for (layer, ring) in state.windows.iter().enumerate() {
        let positions = ring.positions();
        let mut rows = run.seen.values(Tap::WindowKv, layer).to_vec();
        let from = positions.start * config.head_dim;
        let live = ring.read(positions);
        if rows.len() == from + live.len() {
            rows[from..].copy_from_slice(&live);
            seen.see(Tap::WindowKv, layer, &[run.n(), config.head_dim], Values::F32(&rows));
        }
        if let Some(source) = &state.sources[layer] {
            for (tap, plane) in [(Tap::CompressedKv, &source.entries), (Tap::IndexKeys, &source.keys)] {
                seen.see(tap, layer, &[plane.len(), plane.width], Values::F32(&plane.read_from(0)));
            }
        }
    }
}

/// Weights of the followed token in every layer, from its query and the rows that it saw.
fn attention_weights(run: &Run, state: &State, seen: &Tensors) -> Tensors {
    let config = run.config();
    let scale = (1.0 / (config.head_dim as f64).sqrt()) as f32;
    let mut out = Everything::default();
    for (layer, ring) in state.windows.iter().enumerate() {
        let mut rows = ring.read(ring.positions());
        let source = config.kv_source(layer).and_then(|source| state.sources[source].as_ref());
        if let (Some(source), Some(index)) = (source, config.index_source(layer)) {
            let mut row = vec![0.0; config.head_dim];
            for entry in seen.index_row(Tap::TopkIds, index, run.at) {
                source.entries.read(entry, &mut row);
                rows.extend_from_slice(&row);
            }
        }
        let sinks = &run.model.layers[layer].layer.attention.sink;
        let queries = seen.row(Tap::Query, layer, 0).chunks_exact(config.head_dim);
        let weights: Vec<f32> =
            queries.zip(sinks).flat_map(|(query, &sink)| weights_of(scale, query, &rows, sink)).collect();
        let shape = [config.n_heads, rows.len() / config.head_dim + 1];
        out.see(Tap::AttnWeights, layer, &shape, Values::F32(&weights));
    }
    out.into()
}
