//! DSpark's draft: the stages on the GPU, the Markov correction on the CPU (section 10).
//!
//! The rings are fed at the end of every call's plan. A draft writes its block's rows behind the newest ring row, into slots that nothing
//! sees until the next call has written them itself: it changes nothing that matters. The correction is five small products in sequence;
//! the base logits are read back for it.

use super::scratch::Scratch;
use super::{GpuModel, GpuState, record};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b2a_hyper_connection as hyper;
use crate::blocks::b6a_kv_cache::Format;
use crate::blocks::b6b_head_dspark::{self as head, Draft};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gpu::{Gpu, Plan, readback};
use crate::kernels::cache::GpuPlane;
use crate::kernels::call::Call;
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
        Ok(Some(Drafting { rings, scratch, plan: None }))
    }
}

impl GpuModel {
    /// Drafts the tokens after `anchor`, which was chosen from the last logits. `None` if the checkpoint has no drafter, before the first
    /// token, or for an anchor beyond the vocabulary, as [`Reference::draft`](crate::model::Reference::draft). Changes nothing that a later
    /// call sees.
    ///
    /// # Errors
    /// [`Error::Gpu`], and [`Error::NotFiniteActivation`] for logits that are not finite.
    pub async fn draft(&self, state: &mut GpuState, anchor: u32) -> Result<Option<Draft>> {
        let config = self.config();
        let block = config.dspark_block_size;
        let Some(drafter) = self.drafter.as_ref().filter(|_| state.position > 0) else { return Ok(None) };
        if anchor as usize >= config.vocab_size {
            return Ok(None);
        }
        let Some(plan) = self.draft_plan(state).await? else { return Ok(None) };
        let Some(Drafting { scratch, .. }) = &state.drafting else { return Ok(None) };
        let mut ids = vec![config.dspark_noise_token_id; block];
        ids[0] = anchor;
        for (call, oldest) in [(&scratch.call, 0), (&scratch.decoder_call, state.decoder_oldest)] {
            Call::new(state.position, block, oldest).write(&self.gpu, call);
        }
        scratch.write_prompt(&self.gpu, &Prompt::text(ids), 0..block, 0, &self.input.marks, config.dim);
        scratch.write_angles(&self.gpu, &self.context, state.position, block);
        plan.run(&self.gpu);
        let base_logits = readback::f32s(&self.gpu, &scratch.logits).await?;
        if let Some(index) = base_logits.iter().position(|logit| !logit.is_finite()) {
            return Err(Error::NotFiniteActivation { tap: "6b.draft_base_logits", layer: 0, index });
        }
        let streams = readback::f32s(&self.gpu, &scratch.streams).await?;
        let pre = readback::f32s(&self.gpu, &scratch.pre_ffn).await?;
        let mut x = hyper::collapse(config, &streams, &pre, block);
        self.context.numerics.round(&mut x);
        Ok(Some(head::correct(&drafter.rest, anchor, &x, base_logits, &mut |_, logits| argmax(logits) as u32)))
    }

    /// The plan of a draft block, recorded on first use. It binds rings and weights, which never move.
    async fn draft_plan(&self, state: &mut GpuState) -> Result<Option<Rc<Plan>>> {
        let Some(drafting) = &state.drafting else { return Ok(None) };
        if let Some(plan) = &drafting.plan {
            return Ok(Some(plan.clone()));
        }
        let plan = Rc::new(self.record("recording the draft", |planner| record::draft(self, planner, state)).await?);
        if let Some(drafting) = &mut state.drafting {
            drafting.plan = Some(plan.clone());
        }
        Ok(Some(plan))
    }
}
