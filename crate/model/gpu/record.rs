//! Records the layers as dispatches: the order of section R.5, with the names of the reference.

mod attention;

use super::alone::GivenOnGpu;
use super::fault::place;
use super::scratch::Scratch;
use super::state::GpuState;
use super::weights::GpuLayer;
use super::{FEW_ROWS, GpuModel};
use crate::blocks::tap::Tap;
use crate::error::Result;
use crate::gpu::{Planner, Tensor};
use crate::kernels::cache::GpuPlane;
use crate::kernels::cache::plane_write::{self, Way};
use crate::kernels::experts::{experts_down, experts_down_many, experts_sum, experts_up, experts_up_many, route};
use crate::kernels::hyper::{hc_expand, stream_mean, sublayer_input};
use crate::kernels::input::{embed, engram_gate};
use crate::kernels::linear;
use crate::kernels::norm::{fake_quant, rms_norm};
use crate::numerics::precision::Precision;

/// What a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Embedding and all layers.
    Whole,
    /// Embedding, the layers before the last KV source, and what that source leaves behind for every token.
    Encoder,
    /// All layers, of which the KV sources find their entries and index keys written: rings and open groups are made again.
    Replay,
    /// The rest, on rows that left the encoder: the last KV source without its caches, and the layers after it.
    Decoder,
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
    /// Entries and index keys are there already, and stay as they are.
    stored: bool,
    /// What layers read instead of what was computed before them, when each is judged alone.
    given: Option<&'a GivenOnGpu>,
}

/// Records a part of the model for `capacity` rows.
pub(super) fn part(
    model: &GpuModel,
    planner: &mut Planner<'_>,
    state: &GpuState,
    (part, capacity): (Part, usize),
    given: Option<&GivenOnGpu>,
) -> Result<()> {
    let s = state.made_scratch(capacity);
    let (end, split) = (model.config().n_layers, model.config().last_kv_source().unwrap_or(0));
    let tail_ring = state.tail_ring.as_ref().filter(|_| part == Part::Decoder);
    let stored = part == Part::Replay;
    let mut recorder = Recorder { model, planner, state, s, n: capacity, tail_ring, stored, given };
    if part != Part::Decoder {
        let inputs = [&s.ids, &s.images, &s.image_rows, &s.streams, &s.pre_ffn];
        embed::record(recorder.planner, &model.embed, inputs, &s.call, capacity)?;
        recorder.tap(Tap::Embedding, 0, &s.streams);
    }
    match part {
        Part::Encoder => {
            (0..split).try_for_each(|index| recorder.layer(index))?;
            return recorder.feed_source(split);
        }
        Part::Decoder => (split..end).try_for_each(|index| recorder.layer(index))?,
        Part::Whole | Part::Replay => (0..end).try_for_each(|index| recorder.layer(index))?,
    }
    recorder.seed()
}

/// Records what fills the draft rings from the taps of `capacity` rows.
pub(super) fn seed(model: &GpuModel, planner: &mut Planner<'_>, state: &GpuState, capacity: usize) -> Result<()> {
    let (s, n) = (state.made_scratch(capacity), capacity);
    Recorder { model, planner, state, s, n, tail_ring: None, stored: false, given: None }.seed()
}

/// Records final norm and head for all rows.
pub(super) fn head(model: &GpuModel, planner: &mut Planner<'_>, state: &GpuState, capacity: usize) -> Result<()> {
    let s = state.made_scratch(capacity);
    planner.place = place(Tap::FinalNorm, model.config().n_layers);
    final_norm(model, planner, s, [&s.x, &s.x_q], &model.head.norm, false)?;
    planner.place = place(Tap::Logits, model.config().n_layers);
    linear::record(planner, &model.head.head, [&s.x, &s.logits], &s.call, 1, Precision::F32)
}

/// Records the norm in front of the head, for all rows or for the last.
pub(super) fn final_norm(
    model: &GpuModel,
    planner: &mut Planner<'_>,
    s: &Scratch,
    [x, unused]: [&Tensor; 2],
    norm: &Tensor,
    last: bool,
) -> Result<()> {
    let way = sublayer_input::Way { mixes: false, last, quantise: false, numerics: model.context.numerics };
    let tensors = [&s.streams, &s.pre_ffn, norm, x, unused, &s.pre_attn, &s.mixes];
    sublayer_input::record(planner, tensors, &s.call, model.config(), way)
}

/// Records a draft block (section 10.6): embedding, the stages, and the logits before the Markov correction.
pub(super) fn draft(model: &GpuModel, planner: &mut Planner<'_>, state: &GpuState) -> Result<()> {
    let (Some(drafter), Some(drafting)) = (&model.drafter, &state.drafting) else { return Ok(()) };
    let (s, n) = (&drafting.scratch, model.config().dspark_block_size);
    let inputs = [&s.ids, &s.images, &s.image_rows, &s.streams, &s.pre_ffn];
    embed::record(planner, &model.embed, inputs, &s.call, n)?;
    let mut recorder = Recorder { model, planner, state, s, n, tail_ring: None, stored: false, given: None };
    for (k, (stage, ring)) in drafter.stages.iter().zip(&drafting.rings).enumerate() {
        recorder.block(model.config().n_layers + k, stage, ring, true)?;
    }
    let end = model.config().n_layers + drafter.stages.len();
    planner.place = place(Tap::FinalNorm, end);
    final_norm(model, planner, s, [&s.x, &s.x_q], &drafter.norm, false)?;
    planner.place = place(Tap::Logits, end);
    linear::record(planner, &model.head.head, [&s.x, &s.logits], &s.call, 1, Precision::F32)
}

impl<'a> Recorder<'a, '_> {
    fn numerics(&self) -> Precision {
        self.model.context.numerics
    }

    /// Names a tensor as it is now.
    fn tap(&mut self, tap: Tap, layer: usize, tensor: &Tensor) {
        self.planner.tap(tap.name(), layer, tensor);
    }

    /// Names what a sub-layer's input and its mixes gave.
    fn tap_input(&mut self, layer: usize, [pre, post, comb, input]: [Tap; 4], pre_tensor: &Tensor) {
        self.tap(pre, layer, pre_tensor);
        self.tap(post, layer, &self.s.mixes);
        self.tap(comb, layer, &self.s.mixes);
        self.tap(input, layer, &self.s.x);
    }

    /// Where in the model the next dispatches are, for numbers that are not finite.
    fn at(&mut self, tap: Tap, layer: usize) {
        self.planner.place = place(tap, layer);
    }

    /// The activation as a quantised matrix sees it: the tensor itself in f32 numerics.
    fn quantised<'t>(&mut self, x: &'t Tensor, quantised: &'t Tensor) -> Result<&'t Tensor> {
        if self.numerics() == Precision::F32 {
            return Ok(x);
        }
        fake_quant::record(self.planner, x, quantised)?;
        Ok(quantised)
    }

    fn linear(&mut self, weight: &linear::GpuMatrix, x: &Tensor, y: &Tensor) -> Result<()> {
        let round = self.numerics();
        linear::record(self.planner, weight, [x, y], &self.s.call, 1, round)
    }

    fn norm(&mut self, weight: &Tensor, x: &Tensor, out: &Tensor, quantise: bool) -> Result<()> {
        let (eps, numerics) = (self.model.config().norm_eps, self.numerics());
        rms_norm::record(self.planner, [weight, x, out], &self.s.call, eps, (numerics, quantise))
    }

    /// Whether quantised matrices see activations on the grid of FP8.
    fn quantises(&self) -> bool {
        self.numerics() == Precision::Released
    }

    /// Angles of the rows in a layer.
    fn angles(&self, index: usize) -> &'a Tensor {
        if self.model.config().ratio(index) == 0 { &self.s.angles_window } else { &self.s.angles_compressed }
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

    /// Only what the last KV source leaves behind for later: n-gram memory in the streams, entries, keys and window rows (section 4.5a). Of its
    /// joined projection nobody reads the query.
    fn feed_source(&mut self, index: usize) -> Result<()> {
        let (model, s) = (self.model, self.s);
        let layer = &model.layers[index];
        self.engram(index, layer)?;
        self.at(Tap::AttnInput, index);
        self.sublayer_input([&s.pre_ffn, &s.pre_attn], &layer.attn_input, false)?;
        self.at(Tap::Query, index);
        self.linear(&layer.wq_a_wkv, self.input(), &s.qr_kv)?;
        let way = self.window_way(self.angles(index), &layer.kv_norm, &s.key);
        plane_write::record(self.planner, &s.qr_kv, &self.state.rings[index], &s.call, way, self.n)?;
        let source = self.source(index, layer)?;
        match (&layer.compressor, source) {
            (Some(compressor), Some(source)) => self.compress(index, compressor, &source),
            _ => Ok(()),
        }
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
        let own = &self.state.rings[index];
        let ring = if self.is_fed(index) { self.tail_ring.unwrap_or(own) } else { own };
        self.block(index, layer, ring, false)?;
        self.tap(Tap::Streams, index, &s.streams);
        Ok(())
    }

    /// Attention and experts with what surrounds them, as backbone layers and draft stages have them. In a stage (`sees_all`) every row sees
    /// the whole block.
    fn block(&mut self, index: usize, layer: &GpuLayer, ring: &GpuPlane, sees_all: bool) -> Result<()> {
        let s = self.s;
        // 2A, 3B, 3C, 4A.
        self.at(Tap::AttnInput, index);
        self.sublayer_input([&s.pre_ffn, &s.pre_attn], &layer.attn_input, true)?;
        let taps = [Tap::AttnPre, Tap::AttnPost, Tap::AttnComb, Tap::AttnInput];
        self.tap_input(index, taps, &s.pre_attn);
        self.attention(index, layer, ring, sees_all)?;
        self.tap(Tap::AttnOut, index, &s.y);
        self.at(Tap::FfnPre, index);
        self.expand()?;
        // 2A, 5A.
        self.at(Tap::FfnInput, index);
        self.sublayer_input([&s.pre_attn, &s.pre_ffn], &layer.ffn_input, true)?;
        self.tap_input(index, [Tap::FfnPre, Tap::FfnPost, Tap::FfnComb, Tap::FfnInput], &s.pre_ffn);
        self.experts(index, layer)?;
        self.tap(Tap::FfnOut, index, &s.y);
        self.at(Tap::Streams, index);
        self.expand()
    }

    /// Ring rows of the draft stages from the tapped layers' inputs (section 10.5). The stages' joined projection also computes a low-rank
    /// query that nobody reads: cheaper than keeping the weight twice.
    fn seed(&mut self) -> Result<()> {
        let (Some(drafter), Some(drafting)) = (&self.model.drafter, &self.state.drafting) else { return Ok(()) };
        let s = self.s;
        self.tap(Tap::TargetHidden, 0, &s.target_hidden);
        self.at(Tap::TargetHidden, self.model.config().n_layers);
        let taps = self.quantised(&s.target_hidden, &s.target_hidden_q)?;
        self.linear(&drafter.main_proj, taps, &s.y)?;
        self.norm(&drafter.main_norm, &s.y, &s.x_q, self.quantises())?;
        for (stage, ring) in drafter.stages.iter().zip(&drafting.rings) {
            self.linear(&stage.wq_a_wkv, &s.x_q, &s.qr_kv)?;
            let way = self.window_way(&s.angles_window, &stage.kv_norm, &s.key);
            plane_write::record(self.planner, &s.qr_kv, ring, &s.call, way, self.n)?;
        }
        Ok(())
    }

    /// What happens to a window row on its way into a ring, without queries: any tensor stands for them.
    fn window_way<'t>(&self, angles: &'t Tensor, weight: &'t Tensor, unused: &'t Tensor) -> Way<'t> {
        let config = self.model.config();
        Way {
            angles,
            q: unused,
            heads: 0,
            index: None,
            keep: false,
            weight,
            eps: Some(config.norm_eps),
            offset: config.q_lora_rank,
            ratio: 0,
            numerics: self.numerics(),
        }
    }

    fn engram(&mut self, index: usize, layer: &GpuLayer) -> Result<()> {
        let (s, numerics, eps) = (self.s, self.numerics(), self.model.config().norm_eps);
        let Some(engram) = &layer.engram else { return Ok(()) };
        self.at(Tap::EngramGate, index);
        let memory = self.quantised(&s.memory[&index], &s.memory_q)?;
        self.linear(&engram.wkv, memory, &s.projected)?;
        let tensors = [&s.projected, &engram.q_weight, &engram.k_weight, &s.image_mask, &s.streams, &s.gates];
        engram_gate::record(self.planner, tensors, &s.call, self.n, eps, numerics)?;
        self.tap(Tap::EngramGate, index, &s.gates);
        Ok(())
    }

    /// Writes x, x as a quantised matrix sees it ([`Self::input`]), and, if asked, the sub-layer's own pre and mixes.
    fn sublayer_input(&mut self, [pre, next]: [&Tensor; 2], weights: &Tensor, mixes: bool) -> Result<()> {
        let s = self.s;
        let way = sublayer_input::Way { mixes, last: false, quantise: self.quantises(), numerics: self.numerics() };
        let tensors = [&s.streams, pre, weights, &s.x, &s.x_q, next, &s.mixes];
        sublayer_input::record(self.planner, tensors, &s.call, self.model.config(), way)
    }

    /// The sub-layer's input as a quantised matrix sees it.
    fn input(&self) -> &'a Tensor {
        if self.quantises() { &self.s.x_q } else { &self.s.x }
    }

    fn expand(&mut self) -> Result<()> {
        let (s, numerics) = (self.s, self.numerics());
        hc_expand::record(self.planner, [&s.y, &s.mixes, &s.streams], &s.call, numerics)
    }

    /// With slots: what the next layer's router makes of this layer's input, so that its experts can be on their way.
    fn guess(&mut self, index: usize) -> Result<()> {
        let (s, config) = (self.s, self.model.config());
        let (Some(slots), true) = (&self.model.slots, index + 1 < config.n_layers) else { return Ok(()) };
        let next = &self.model.layers[index + 1].experts;
        let [logits, scores, weights, ids] = &slots.early(self.n);
        linear::record(self.planner, &next.gate, [&s.x, logits], &s.call, 1, Precision::F32)?;
        let tensors = [logits, &next.bias, &next.bias_vl, &s.image_mask, scores, ids, weights];
        route::record(self.planner, tensors, &s.call, config.route_scale)
    }

    fn experts(&mut self, index: usize, layer: &GpuLayer) -> Result<()> {
        let (s, numerics) = (self.s, self.numerics());
        let config = self.model.config();
        let experts = &layer.experts;
        self.at(Tap::RouterScores, index);
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
        self.guess(index)?;
        self.tap(Tap::RouterScores, index, &s.router_scores);
        self.tap(Tap::ExpertIds, index, &s.expert_ids);
        self.tap(Tap::ExpertWeights, index, &s.expert_weights);
        let (x, grid) = (self.input(), (numerics, self.quantises()));
        self.at(Tap::FfnOut, index);
        let ([shared_up, shared_down], (codes, scales)) = (&experts.shared, &experts.up);
        let up = [x, codes, scales, shared_up, &s.expert_ids, &s.expert_weights, &s.h];
        let (codes, scales) = &experts.down;
        let down = |out| [&s.h, codes, scales, shared_down, &s.expert_ids, out];
        let limit = config.swiglu_limit;
        // Stages of the drafter keep their experts.
        if let Some(slots) = self.model.slots.as_ref().filter(|_| index < config.n_layers) {
            let (rows, [up_codes, up_scales]) = (slots.rows(self.n), [&experts.up.0, &experts.up.1]);
            let up = [x, up_codes, up_scales, shared_up, &slots.places, &s.expert_weights, &s.h];
            experts_up_many::record(self.planner, up, &s.call, limit, grid)?;
            let down = [&s.h, codes, scales, shared_down, &slots.places, &rows];
            experts_down_many::record(self.planner, down, &s.call, numerics)?;
            let tensors = [&rows, &s.expert_ids, &s.y];
            return experts_sum::record(self.planner, tensors, &s.call, config.n_routed_experts, numerics);
        }
        if self.n <= FEW_ROWS {
            experts_up::record(self.planner, up, &s.call, limit, grid)?;
            return experts_down::record(self.planner, down(&s.y), &s.call, numerics);
        }
        // The same bits; a weight is decoded once for several rows.
        experts_up_many::record(self.planner, up, &s.call, limit, grid)?;
        experts_down_many::record(self.planner, down(&s.expert_rows), &s.call, numerics)?;
        let tensors = [&s.expert_rows, &s.expert_ids, &s.y];
        experts_sum::record(self.planner, tensors, &s.call, codes.shape[0], numerics)
    }
}
