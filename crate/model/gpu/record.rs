//! Records the layers as dispatches: the order of section R.5, with the names of the reference.

use super::GpuModel;
use super::scratch::Scratch;
use super::state::GpuState;
use super::weights::{GpuCompressor, GpuLayer};
use crate::blocks::tap::Tap;
use crate::error::Result;
use crate::gpu::{Planner, Tensor};
use crate::kernels::attend::attention;
use crate::kernels::cache::{GpuPlane, plane_write, pool_pairs};
use crate::kernels::experts::{experts_down, experts_up, route, swiglu};
use crate::kernels::hyper::{collapse_norm, hc_expand, hc_mixes, stream_mean};
use crate::kernels::index::{candidate_blocks, index_scores, top_k};
use crate::kernels::input::{embed, engram_gate};
use crate::kernels::linear;
use crate::kernels::norm::fake_quant::{self, Grid};
use crate::kernels::norm::{rms_norm, rope};
use crate::numerics::precision::Precision;

/// What a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Embedding and all layers.
    Whole,
    /// Embedding, the layers before the last KV source, and what that source leaves behind for every token.
    Encoder,
    /// The rest, on rows that left the encoder: the last KV source without its caches, and the layers after it.
    Decoder,
    /// Final norm and head.
    Head,
}

/// One layer's recording: the model, the state, and the buffers of a number of rows.
struct Recorder<'a, 'b> {
    model: &'a GpuModel,
    planner: &'a mut Planner<'b>,
    state: &'a GpuState,
    s: &'a Scratch,
    n: usize,
    /// In a tail: the window of the last KV source, whose own ring is already at the prompt's end.
    tail_ring: Option<&'a GpuPlane>,
}

/// Records a part of the model for `capacity` rows.
pub(super) fn part(
    model: &GpuModel,
    planner: &mut Planner<'_>,
    state: &GpuState,
    (part, capacity): (Part, usize),
) -> Result<()> {
    if part == Part::Head {
        return head(model, planner, state, capacity);
    }
    let s = state.made_scratch(capacity);
    let (end, split) = (model.config().n_layers, model.config().last_kv_source().unwrap_or(0));
    let tail_ring = state.tail_ring.as_ref().filter(|_| part == Part::Decoder);
    let mut recorder = Recorder { model, planner, state, s, n: capacity, tail_ring };
    if part != Part::Decoder {
        let inputs = [&s.ids, &s.images, &model.embed, &s.image_rows, &s.streams, &s.pre_ffn];
        embed::record(recorder.planner, inputs, &s.call, capacity)?;
    }
    match part {
        Part::Encoder => {
            (0..split).try_for_each(|index| recorder.layer(index))?;
            recorder.feed_source(split)
        }
        Part::Decoder => (split..end).try_for_each(|index| recorder.layer(index)),
        _ => (0..end).try_for_each(|index| recorder.layer(index)),
    }
}

/// Records final norm and head for all rows.
fn head(model: &GpuModel, planner: &mut Planner<'_>, state: &GpuState, capacity: usize) -> Result<()> {
    let (s, numerics, eps) = (state.made_scratch(capacity), model.context.numerics, model.config().norm_eps);
    collapse_norm::record(planner, [&s.streams, &s.pre_ffn, &model.head.norm, &s.x], capacity, eps, numerics)?;
    linear::record(planner, &model.head.head, [&s.x, &s.logits], &s.call, 1, Precision::F32)
}

impl<'a> Recorder<'a, '_> {
    fn numerics(&self) -> Precision {
        self.model.context.numerics
    }

    /// The activation as a quantised matrix sees it: the tensor itself in f32 numerics.
    fn quantised<'t>(&mut self, x: &'t Tensor, quantised: &'t Tensor) -> Result<&'t Tensor> {
        if self.numerics() == Precision::F32 {
            return Ok(x);
        }
        fake_quant::record(self.planner, x, quantised, Grid::Fp8)?;
        Ok(quantised)
    }

    fn linear(&mut self, weight: &linear::GpuMatrix, x: &Tensor, y: &Tensor) -> Result<()> {
        let round = self.numerics();
        linear::record(self.planner, weight, [x, y], &self.s.call, 1, round)
    }

    fn norm(&mut self, weight: &Tensor, x: &Tensor, out: &Tensor) -> Result<()> {
        let (eps, numerics) = (self.model.config().norm_eps, self.numerics());
        rms_norm::record(self.planner, [weight, x, out], self.n, eps, numerics)
    }

    /// Angles of the rows in a layer.
    fn angles(&self, index: usize) -> &Tensor {
        if self.model.config().ratio(index) == 0 { &self.s.angles_window } else { &self.s.angles_compressed }
    }

    fn rotate(&mut self, angles: &Tensor, x: &Tensor, heads: usize, width: usize, back: bool) -> Result<()> {
        let (shape, numerics) = ([self.n, heads, width], self.numerics());
        rope::record(self.planner, angles, x, shape, back, numerics)
    }

    /// Whether this layer runs on rows that [`Self::feed_source`] has seen.
    fn is_fed(&self, index: usize) -> bool {
        self.tail_ring.is_some() && Some(index) == self.model.config().last_kv_source()
    }

    /// The call as a layer's attention sees it.
    fn call(&self, index: usize) -> &'a Tensor {
        let is_after = self.model.config().last_kv_source().is_some_and(|split| index > split);
        if is_after { &self.s.decoder_call } else { &self.s.call }
    }

    /// Only what the last KV source leaves behind for later: n-gram memory in the streams, entries, keys and window rows (section 4.5a).
    fn feed_source(&mut self, index: usize) -> Result<()> {
        let (model, s) = (self.model, self.s);
        let layer = &model.layers[index];
        self.engram(index, layer)?;
        self.collapse(&s.pre_ffn, &layer.attn_norm)?;
        let x = self.quantised(&s.x, &s.x_q)?;
        self.window_rows(index, layer, x)?;
        layer.compressor.as_ref().map_or(Ok(()), |compressor| self.compress(index, compressor))
    }

    fn layer(&mut self, index: usize) -> Result<()> {
        let (model, s) = (self.model, self.s);
        let (layer, config) = (&model.layers[index], model.config());
        if !self.is_fed(index) {
            self.engram(index, layer)?;
        }
        if let Some(target) = config.dspark_target_layer_ids.iter().position(|&l| l == index) {
            stream_mean::record(self.planner, &s.streams, &s.target_hidden, target, self.n, self.numerics())?;
        }
        // 2A, 3B, 3C, 4A.
        self.mixes(&layer.hc_attn, &s.pre_attn)?;
        self.collapse(&s.pre_ffn, &layer.attn_norm)?;
        self.planner.tap(Tap::AttnInput.name(), index, &s.x);
        self.attention(index, layer)?;
        self.planner.tap(Tap::AttnOut.name(), index, &s.y);
        self.expand()?;
        // 2A, 5A.
        self.mixes(&layer.hc_ffn, &s.pre_ffn)?;
        self.collapse(&s.pre_attn, &layer.ffn_norm)?;
        self.experts(layer)?;
        self.planner.tap(Tap::FfnOut.name(), index, &s.y);
        self.expand()?;
        self.planner.tap(Tap::Streams.name(), index, &s.streams);
        Ok(())
    }

    fn engram(&mut self, index: usize, layer: &GpuLayer) -> Result<()> {
        let (s, numerics, eps) = (self.s, self.numerics(), self.model.config().norm_eps);
        let Some(engram) = &layer.engram else { return Ok(()) };
        let memory = self.quantised(&s.memory[&index], &s.memory_q)?;
        self.linear(&engram.wkv, memory, &s.projected)?;
        let tensors = [&s.projected, &engram.q_weight, &engram.k_weight, &s.image_mask, &s.streams, &s.gates];
        engram_gate::record(self.planner, tensors, &s.call, self.n, eps, numerics)?;
        self.planner.tap(Tap::EngramGate.name(), index, &s.gates);
        Ok(())
    }

    fn mixes(&mut self, weights: &super::weights::GpuHyper, pre: &Tensor) -> Result<()> {
        let s = self.s;
        let tensors = [&s.streams, &weights.projection, &weights.scale, &weights.base, pre, &s.post, &s.comb];
        hc_mixes::record(self.planner, tensors, self.model.config(), self.n)
    }

    fn collapse(&mut self, pre: &Tensor, norm: &Tensor) -> Result<()> {
        let (s, eps, numerics) = (self.s, self.model.config().norm_eps, self.numerics());
        collapse_norm::record(self.planner, [&s.streams, pre, norm, &s.x], self.n, eps, numerics)
    }

    fn expand(&mut self) -> Result<()> {
        let (s, numerics) = (self.s, self.numerics());
        hc_expand::record(self.planner, [&s.y, &s.post, &s.comb, &s.streams], self.n, numerics)
    }

    fn attention(&mut self, index: usize, layer: &GpuLayer) -> Result<()> {
        let (model, state, s) = (self.model, self.state, self.s);
        let (config, numerics) = (model.config(), self.numerics());
        let x = self.quantised(&s.x, &s.x_q)?;
        self.linear(&layer.wq_a, x, &s.qr_raw)?;
        self.norm(&layer.q_norm, &s.qr_raw, &s.qr)?;
        let qr = self.quantised(&s.qr, &s.qr_q)?;
        self.linear(&layer.wq_b, qr, &s.q)?;
        let angles = self.angles(index).clone();
        self.rotate(&angles, &s.q, config.n_heads, config.head_dim, false)?;
        self.planner.tap(Tap::Query.name(), index, &s.q);

        let ring = self.window_rows(index, layer, x)?;
        if let Some(compressor) = layer.compressor.as_ref().filter(|_| !self.is_fed(index)) {
            self.compress(index, compressor)?;
        }
        if let Some((wq_b, weights_proj)) = &layer.indexer {
            self.linear(wq_b, qr, &s.index_q)?;
            self.rotate(&s.angles_compressed, &s.index_q, config.index_n_heads, config.index_head_dim, false)?;
            self.linear(weights_proj, &s.x, &s.index_w)?;
            self.select(index)?;
        }
        let (entries, k) = match config.kv_source(index) {
            Some(source) => (&state.sources[&source].entries, config.index_topk),
            None => (ring_as_entries(state, index), 0),
        };
        let (tensors, call) = ([&s.q, &s.topk, &layer.sink, &s.heads], self.call(index));
        attention::record(self.planner, tensors, (ring, entries), call, config, k, numerics)?;
        self.rotate(&angles, &s.heads, config.n_heads, config.head_dim, true)?;
        self.planner.tap(Tap::Heads.name(), index, &s.heads);
        linear::record(self.planner, &layer.wo_a, [&s.heads, &s.low], &s.call, config.o_groups, numerics)?;
        let low = self.quantised(&s.low, &s.low_q)?;
        self.linear(&layer.wo_b, low, &s.y)
    }

    /// Projects, norms, rotates and writes window rows of `x`, the attention input as a quantised matrix sees it; returns their ring.
    fn window_rows(&mut self, index: usize, layer: &GpuLayer, x: &Tensor) -> Result<&'a GpuPlane> {
        let s = self.s;
        self.linear(&layer.wkv, x, &s.kv_raw)?;
        self.norm(&layer.kv_norm, &s.kv_raw, &s.kv)?;
        let angles = self.angles(index).clone();
        self.rotate(&angles, &s.kv, 1, self.model.config().head_dim, false)?;
        let own = &self.state.rings[index];
        let ring = if self.is_fed(index) { self.tail_ring.unwrap_or(own) } else { own };
        plane_write::record(self.planner, &s.kv, ring, &s.call, 0, self.n)?;
        Ok(ring)
    }

    /// 3B and 6A at a KV source: latents, index keys, entries.
    fn compress(&mut self, index: usize, weights: &GpuCompressor) -> Result<()> {
        let (state, s) = (self.state, self.s);
        let (config, numerics) = (self.model.config(), self.numerics());
        let source = &state.sources[&index];
        let angles = match &weights.wgate {
            Some(wgate) => {
                // Values and scores stay f32 until they are pooled (section 5.2).
                for (weight, out) in [(&weights.wkv, &s.values), (wgate, &s.scores_of_pair)] {
                    linear::record(self.planner, weight, [&s.x, out], &s.call, 1, Precision::F32)?;
                }
                let [value, score] = &source.open;
                let tensors = [&s.values, &s.scores_of_pair, value, score, &s.pooled];
                pool_pairs::record(self.planner, tensors, &s.call, numerics)?;
                &s.angles_pairs
            }
            None => {
                self.linear(&weights.wkv, &s.x, &s.pooled)?;
                &s.angles_compressed
            }
        };
        self.norm(&weights.norm, &s.pooled, &s.latent)?;
        self.planner.tap(Tap::Latent.name(), index, &s.latent);
        // The key comes from the latent before it is rotated (section 5.5).
        self.linear(&weights.wk, &s.latent, &s.key_raw)?;
        self.norm(&weights.k_norm, &s.key_raw, &s.key)?;
        self.rotate(angles, &s.key, 1, config.index_head_dim, false)?;
        plane_write::record(self.planner, &s.key, &source.keys, &s.call, source.ratio, self.n)?;
        self.rotate(angles, &s.latent, 1, config.head_dim, false)?;
        plane_write::record(self.planner, &s.latent, &source.entries, &s.call, source.ratio, self.n)
    }

    /// 3C at an index source: scores, candidate pool, selection.
    fn select(&mut self, index: usize) -> Result<()> {
        let (state, s) = (self.state, self.s);
        let (context, config) = (&self.model.context, self.model.config());
        let Some(source) = config.kv_source(index).map(|source| &state.sources[&source]) else { return Ok(()) };
        let rows = &state.scores[&self.n];
        let query = if context.kv == Precision::Released {
            fake_quant::record(self.planner, &s.index_q, &s.index_q_q, Grid::Fp4)?;
            &s.index_q_q
        } else {
            &s.index_q
        };
        let pooled = index > config.candidate_source_layer;
        let tensors = [query, &s.index_w, &rows.pool, &rows.scores];
        let numerics = context.numerics;
        index_scores::record(self.planner, tensors, &source.keys, &s.call, config, source.ratio, pooled, numerics)?;
        if index == config.candidate_source_layer {
            let tensors = [&rows.scores, &rows.best, &rows.pool];
            candidate_blocks::record(self.planner, tensors, &s.call, config, source.ratio)?;
        }
        top_k::record(self.planner, &rows.scores, &s.topk, &s.call, source.ratio)?;
        self.planner.tap(Tap::TopkIds.name(), index, &s.topk);
        Ok(())
    }

    fn experts(&mut self, layer: &GpuLayer) -> Result<()> {
        let (s, numerics) = (self.s, self.numerics());
        let config = self.model.config();
        let experts = &layer.experts;
        linear::record(self.planner, &experts.gate, [&s.x, &s.router_logits], &s.call, 1, Precision::F32)?;
        let tensors = [
            &s.router_logits,
            &experts.bias,
            &experts.bias_vl,
            &s.image_mask,
            &s.router_scores,
            &s.expert_ids,
            &s.expert_weights,
        ];
        route::record(self.planner, tensors, &s.call, config.route_scale)?;
        let x = self.quantised(&s.x, &s.x_q)?;
        let [w1, w2, w3] = &experts.shared;
        self.linear(w1, x, &s.shared_gate)?;
        self.linear(w3, x, &s.shared_up)?;
        swiglu::record(self.planner, [&s.shared_gate, &s.shared_up, &s.shared_h], config.swiglu_limit, numerics)?;
        let h = self.quantised(&s.shared_h, &s.shared_h_q)?;
        self.linear(w2, h, &s.shared_out)?;

        let (codes, scales) = &experts.up;
        let tensors = [x, codes, scales, &s.expert_ids, &s.expert_weights, &s.h];
        experts_up::record(self.planner, tensors, &s.call, config.swiglu_limit, numerics)?;
        let h = self.quantised(&s.h, &s.h_q)?;
        let (codes, scales) = &experts.down;
        let tensors = [h, codes, scales, &s.expert_ids, &s.shared_out, &s.y];
        experts_down::record(self.planner, tensors, &s.call, numerics)
    }
}

/// Window-only layers read no entries, but the kernel's bindings must not be empty, nor name the ring twice: another layer's plane serves.
fn ring_as_entries(state: &GpuState, index: usize) -> &GpuPlane {
    state
        .sources
        .values()
        .next()
        .map_or_else(|| &state.rings[(index + 1) % state.rings.len()], |source| &source.entries)
}
