//! DSpark's draft: the stages on the GPU, the Markov correction on the CPU (section 10).
//!
//! [`GpuModel::draft`] is for looking at every number. Decoding uses [`GpuModel::propose`], which corrects and chooses on the GPU and reads back
//! eight bytes per token, and [`GpuModel::verify`](super::GpuModel::verify).
//!
//! The rings are fed at the end of every call's plan. A draft writes its block's rows behind the newest ring row, into slots that nothing
//! sees until the next call has written them itself: it changes nothing that matters. The correction is five small products in sequence;
//! the base logits are read back for it.

use super::scratch::Scratch;
use super::{GpuModel, GpuState, fault, record};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b2a_hyper_connection as hyper;
use crate::blocks::b6a_kv_cache::Format;
use crate::blocks::b6b_head_dspark::{self as head, Draft};
use crate::config::Config;
use crate::error::Result;
use crate::gpu::{Element, Gpu, Plan, Planner, Tensor, readback};
use crate::kernels::cache::GpuPlane;
use crate::kernels::call::Call;
use crate::kernels::head::choose::{Draw, NOT_FINITE};
use crate::kernels::head::markov::{self, PIECE};
use crate::kernels::head::{argmax, confidence};
use crate::numerics::ops::argmax;
use crate::numerics::precision::Precision;
use std::rc::Rc;

/// What drafting keeps per sequence.
#[derive(Debug)]
pub(super) struct Drafting {
    /// One ring per stage.
    pub(super) rings: Vec<GpuPlane>,
    /// Activations of a block.
    pub(super) scratch: Scratch,
    plan: Option<Rc<Plan>>,
    correction: Option<Rc<Correction>>,
}

impl Drafting {
    /// Rings of `slots` rows, which leaves room for a block behind the window; `None` if the checkpoint drafts nothing.
    pub(super) fn new(gpu: &Gpu, config: &Config, kv: Precision, slots: usize) -> Result<Option<Self>> {
        if config.n_mtp_layers == 0 {
            return Ok(None);
        }
        let format = if kv == Precision::F32 { Format::F32 } else { Format::Fp8 };
        let ring = |k| GpuPlane::new(gpu, &format!("draft ring {k}"), format, config.head_dim, slots);
        let stage = Config {
            n_routed_experts: config.dspark_n_routed_experts,
            n_activated_experts: config.dspark_n_activated_experts,
            ..config.clone()
        };
        let scratch = Scratch::new(gpu, &stage, config.dspark_block_size)?;
        let rings = (0..config.n_mtp_layers).map(ring).collect::<Result<_>>()?;
        Ok(Some(Drafting { rings, scratch, plan: None, correction: None }))
    }
}

#[cfg(test)]
impl Drafting {
    /// Bytes that a proposal reads back, if there was one.
    pub(super) fn bytes_read(&self) -> Option<u64> {
        self.correction.as_ref().map(|correction| correction.proposal.buffer.size())
    }
}

/// The sequential part of a draft on the GPU.
#[derive(Debug)]
struct Correction {
    plan: Plan,
    /// How to choose: temperature and seed.
    draw: Tensor,
    /// Ids and bits of confidence logits `[2, block]`.
    proposal: Tensor,
}

/// What a draft proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Tokens after the anchor `[b]`.
    pub ids: Vec<u32>,
    /// Confidence logits `[b]`.
    pub confidence: Vec<f32>,
}

impl GpuModel {
    /// Drafts the tokens after `anchor`, which was chosen from the last logits. `None` if the checkpoint has no drafter, before the first
    /// token, or for an anchor beyond the vocabulary, as [`Reference::draft`](crate::model::Reference::draft). Changes nothing that a later
    /// call sees.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu), and [`Error::NotFiniteActivation`](crate::Error::NotFiniteActivation) for logits that are not finite.
    pub async fn draft(&self, state: &mut GpuState, anchor: u32) -> Result<Option<Draft>> {
        let config = self.config();
        let block = config.dspark_block_size;
        let Some(drafter) = self.drafter.as_ref().filter(|_| state.position > 0) else { return Ok(None) };
        if anchor as usize >= config.vocab_size {
            return Ok(None);
        }
        let Some(plan) = self.enter_block(state, anchor).await? else { return Ok(None) };
        let Some(Drafting { scratch, .. }) = &state.drafting else { return Ok(None) };
        plan.run(&self.gpu);
        if let Some(error) = fault::read(&self.gpu, &state.fault).await? {
            return Err(error);
        }
        let base_logits = readback::f32s(&self.gpu, &scratch.logits).await?;
        let streams = readback::f32s(&self.gpu, &scratch.streams).await?;
        let pre = readback::f32s(&self.gpu, &scratch.pre_ffn).await?;
        let mut x = hyper::collapse(config, &streams, &pre, block);
        self.context.numerics.round(&mut x);
        Ok(Some(head::correct(&drafter.rest, anchor, &x, base_logits, &mut |_, logits| argmax(logits) as u32)))
    }

    /// Whether the checkpoint has a drafter.
    pub fn drafts(&self) -> bool {
        self.drafter.is_some()
    }

    /// Drafts as [`Self::draft`] does, with the correction on the GPU: one submit, eight bytes back per token. Each token is the largest of its
    /// logits, or at a `temperature` above zero a draw from them with the noise of `seed` at the token's position: the noise with which the
    /// main model will draw there, so that the two agree as often as they can.
    ///
    /// # Errors
    /// As [`Self::draft`].
    pub async fn propose(
        &self,
        state: &mut GpuState,
        anchor: u32,
        temperature: f32,
        seed: u64,
    ) -> Result<Option<Proposal>> {
        if self.drafter.is_none() || state.position == 0 || anchor as usize >= self.config().vocab_size {
            return Ok(None);
        }
        self.gpu.alive()?;
        let Some(plan) = self.enter_block(state, anchor).await? else { return Ok(None) };
        let Some(correction) = self.correction(state).await? else { return Ok(None) };
        Draw::new(temperature, seed).write(&self.gpu, &correction.draw);
        let mut encoder = self.gpu.encoder();
        plan.encode(&mut encoder);
        correction.plan.encode(&mut encoder);
        let bytes = readback::bytes_after(&self.gpu, encoder, &correction.proposal).await?;
        let words: Vec<u32> = bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let (ids, bits) = words.split_at(self.config().dspark_block_size);
        if ids.contains(&NOT_FINITE) {
            return Err(self.not_finite(state).await);
        }
        Ok(Some(Proposal { ids: ids.to_vec(), confidence: bits.iter().map(|&bits| f32::from_bits(bits)).collect() }))
    }

    /// Writes what a block needs, and returns its plan.
    async fn enter_block(&self, state: &mut GpuState, anchor: u32) -> Result<Option<Rc<Plan>>> {
        let config = self.config();
        let block = config.dspark_block_size;
        let Some(plan) = self.draft_plan(state).await? else { return Ok(None) };
        let Some(Drafting { scratch, .. }) = &state.drafting else { return Ok(None) };
        state.clear_fault(&self.gpu);
        let mut ids = vec![config.dspark_noise_token_id; block];
        ids[0] = anchor;
        for (call, oldest) in [(&scratch.call, 0), (&scratch.decoder_call, state.decoder_oldest)] {
            Call::new(state.position, block, oldest).write(&self.gpu, call);
        }
        scratch.write_prompt(&self.gpu, &Prompt::text(ids), 0..block, 0, &self.input.marks, config.dim);
        scratch.write_angles(&self.gpu, &self.context, state.position, block);
        Ok(Some(plan))
    }

    /// Correction and choice of a block, recorded on first use.
    async fn correction(&self, state: &mut GpuState) -> Result<Option<Rc<Correction>>> {
        let (Some(drafter), Some(drafting)) = (&self.drafter, &mut state.drafting) else { return Ok(None) };
        if let Some(correction) = &drafting.correction {
            return Ok(Some(correction.clone()));
        }
        let (block, vocab) = (self.config().dspark_block_size, self.config().vocab_size);
        let zeros = |label, element, shape: &[usize]| Tensor::zeros(&self.gpu, label, element, shape);
        let values = zeros("draft values", Element::F32, &[vocab.div_ceil(PIECE)])?;
        let ids = zeros("draft ids", Element::U32, &[vocab.div_ceil(PIECE)])?;
        let drafted = zeros("drafted", Element::U32, &[block])?;
        let proposal = zeros("proposal", Element::U32, &[2, block])?;
        let draw = Tensor::uniform(&self.gpu, "draft draw", 4)?;
        let (s, [embed, head, confidence]) = (&drafting.scratch, &drafter.correction);
        let record = |planner: &mut Planner<'_>| {
            for row in 0..block {
                let tensors = [&s.logits, embed, head, &s.ids, &drafted, &values, &ids];
                markov::record(planner, tensors, [&s.call, &draw], row)?;
                argmax::record(planner, [&values, &ids, &drafted], row)?;
            }
            let tensors = [&s.streams, &s.pre_ffn, confidence, embed, &s.ids, &drafted, &proposal];
            confidence::record(planner, tensors, self.context.numerics)
        };
        let plan = self.record("recording the correction", &state.fault, record).await?;
        let correction = Rc::new(Correction { plan, draw, proposal });
        drafting.correction = Some(correction.clone());
        Ok(Some(correction))
    }

    /// The plan of a draft block, recorded on first use. It binds rings and weights, which never move.
    async fn draft_plan(&self, state: &mut GpuState) -> Result<Option<Rc<Plan>>> {
        let Some(drafting) = &state.drafting else { return Ok(None) };
        if let Some(plan) = &drafting.plan {
            return Ok(Some(plan.clone()));
        }
        let plan = Rc::new(
            self.record("recording the draft", &state.fault, |planner| record::draft(self, planner, state)).await?,
        );
        if let Some(drafting) = &mut state.drafting {
            drafting.plan = Some(plan.clone());
        }
        Ok(Some(plan))
    }
}
