//! The whole model on the GPU: the same layers as the reference, as recorded plans of kernels.
//!
//! A [`GpuModel`] holds the weights; a [`GpuState`] what one sequence carries, in the same bytes as the reference keeps it. A plan belongs to
//! a state and a number of rows: it is recorded on first use, and again when the cache has grown. Per call only 64 bytes, the rotation angles
//! and the n-gram rows are written; then one submit.

mod alone;
mod decode;
mod draft;
mod fault;
mod record;
mod rewind;
mod scratch;
mod slots;
mod state;
mod tail;
mod trace;
mod transfer;
mod verify;
mod vision;
mod weights;

pub use alone::Given;
pub use draft::Proposal;
pub use slots::SlotWish;
pub use state::GpuState;
pub use trace::{Trace, Traced};

use crate::blocks::b1a_input::Prompt;
use crate::blocks::b1b_engram::Hash;
use crate::blocks::context::Context;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gpu::kernel::Pipelines;
use crate::gpu::pace::{self, Pace};
use crate::gpu::{Gpu, Plan, Planner, Tensor, readback};
use crate::image::{Patches, TokenType};
use crate::kernels::call::Call;
use crate::kernels::input::embed::Table;
use crate::model::load::{Loader, Progress};
use crate::model::reference::{Output, Prefill};
use crate::numerics::precision::Precision;
use crate::weights::Checkpoint;
use record::Part;
use slots::GpuSlots;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tail::Tail;
use vision::GpuVision;
use weights::{GpuDrafter, GpuHead, GpuLayer};

/// Rows that one call feeds at most.
const MOST_ROWS: usize = 64;

/// Rows of a call that verifies a draft, and of short prompts: a token and a block of the release are six.
const FEW_ROWS: usize = 8;

/// Rows of the buffers in which `n` rows run: decoding and verification have their own, for all else there is one size.
fn capacity(n: usize) -> usize {
    match n {
        1 => 1,
        2..=FEW_ROWS => FEW_ROWS,
        _ => MOST_ROWS,
    }
}

/// A model in GPU memory.
#[derive(Debug, Clone)]
pub struct GpuModel {
    /// Config and roundings.
    pub context: Context,
    /// The device.
    pub gpu: Gpu,
    embed: Table,
    layers: Vec<GpuLayer>,
    head: GpuHead,
    drafter: Option<GpuDrafter>,
    hashes: Vec<(usize, Hash)>,
    pipelines: Rc<RefCell<Pipelines>>,
    pace: Rc<Pace>,
    input: Input,
    pub(super) checkpoint: Arc<Checkpoint>,
    /// Where routed experts come to if they do not all lie in `layers`.
    slots: Option<Rc<GpuSlots>>,
}

/// What pictures need: the learned rows that frame them, which stay on the CPU, and the vision tower.
#[derive(Debug, Clone)]
struct Input {
    marks: [Vec<f32>; 3],
    vision: Option<GpuVision>,
}

impl GpuModel {
    /// Copies the weights to the GPU layer by layer, as they are stored; n-gram tables stay in the checkpoint.
    ///
    /// # Errors
    /// What reading says, [`Error::DoesNotFit`] for a tensor beyond the device's binding, [`Error::Gpu`].
    pub async fn load(
        gpu: Gpu,
        checkpoint: Arc<Checkpoint>,
        numerics: Precision,
        kv: Precision,
        progress: Progress<'_>,
    ) -> Result<Self> {
        Self::load_slotted(gpu, checkpoint, (numerics, kv), None, progress).await
    }

    /// [`Self::load`] that leaves the backbone's routed experts where they are, if there are slots for them to come to.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn load_slotted(
        gpu: Gpu,
        checkpoint: Arc<Checkpoint>,
        (numerics, kv): (Precision, Precision),
        slots: Option<SlotWish>,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let context = Context::new(&checkpoint.config, numerics, kv);
        let loader = Loader { checkpoint: &checkpoint, context: &context };
        let config = &checkpoint.config;
        if config.hc_mult != 4 {
            return Err(Error::config(
                "hc_mult",
                format!("the shaders are written for 4 streams, found {}", config.hc_mult),
            ));
        }
        let parts = config.n_layers + 2;
        progress(0, parts, "embedding");
        let input = loader.input().await?;
        let embed = weights::embedding(&gpu, &input.embed)?;
        let vision = match (input.vision, &config.vision) {
            (Some(vision), Some(config)) => Some(GpuVision::new(&gpu, config, vision)?),
            _ => None,
        };
        let input = Input { marks: input.image_marks.unwrap_or_default(), vision };
        let slots = slots.map(|wish| GpuSlots::new(&gpu, config, wish)).transpose()?.map(Rc::new);
        let mut layers = Vec::with_capacity(config.n_layers);
        for index in 0..config.n_layers {
            progress(index + 1, parts, &format!("layer {index}"));
            let backbone = loader.backbone_without(index, slots.is_some()).await?;
            layers.push(GpuLayer::new(&gpu, index, backbone, slots.as_ref().map(|slots| slots.bank(index)))?);
        }
        progress(parts - 1, parts, "head");
        let head = GpuHead::new(&gpu, &loader.vector("norm.weight").await?, &loader.matrix("head").await?)?;
        let drafter = loader.drafter().await?;
        let drafter = drafter.map(|drafter| GpuDrafter::new(&gpu, config.n_layers, drafter)).transpose()?;
        let hashes = (config.engram_layer_ids.iter().enumerate())
            .map(|(which, &layer)| (layer, Hash::of(&checkpoint.engram, which)))
            .collect();
        progress(parts, parts, "");
        Ok(GpuModel {
            context,
            gpu,
            embed,
            layers,
            head,
            drafter,
            hashes,
            pipelines: Rc::default(),
            pace: Rc::default(),
            input,
            checkpoint,
            slots,
        })
    }

    /// The model's config.
    pub fn config(&self) -> &Config {
        &self.context.config
    }

    /// Runs a picture's patches through the vision tower and the aligner; rows for its IMAGE positions `[cells, dim]`.
    ///
    /// # Errors
    /// A checkpoint without a vision tower, values that are not those of the grid, [`Error::DoesNotFit`], [`Error::Gpu`].
    pub async fn image_rows(&self, patches: &Patches) -> Result<Vec<f32>> {
        self.image_rows_traced(patches, &[], &mut Trace::default()).await
    }

    /// [`Self::image_rows`] that also reads the named taps back: `patch_embedding`, `vit_block` (its layer is the block), `vit`, `unfolded`.
    ///
    /// # Errors
    /// As [`Self::image_rows`].
    pub async fn image_rows_traced(&self, patches: &Patches, taps: &[&str], trace: &mut Trace) -> Result<Vec<f32>> {
        let Some(vision) = &self.input.vision else {
            return Err(Error::Prompt("the prompt has a picture, but this checkpoint has no vision tower".into()));
        };
        vision.see(&self.gpu, &self.pipelines, self.context.numerics, patches, taps, trace).await
    }

    /// The same model with other caches. Weights lie on the GPU once, whoever reads them.
    pub fn with_kv(&self, kv: Precision) -> Self {
        let mut model = self.clone();
        model.context.kv = kv;
        model
    }

    /// The state before the first token.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`].
    pub fn state(&self) -> Result<GpuState> {
        GpuState::new(&self.gpu, self.config(), self.context.kv, MOST_ROWS)
    }

    /// Why the device was lost, if it was: a driver reset, an unplugged card. Everything on it is gone; [`Self::reload`] begins anew.
    pub fn lost(&self) -> Option<String> {
        self.gpu.lost()
    }

    /// The same model on a new device of the same adapter, with its weights read from the checkpoint again. States of the old one are gone:
    /// their tokens have to be fed again.
    ///
    /// # Errors
    /// As [`Gpu::open`] and [`Self::load`].
    pub async fn reload(&self) -> Result<Self> {
        let gpu = self.gpu.reopen().await?;
        let (numerics, kv) = (self.context.numerics, self.context.kv);
        let slots = self.slots.as_ref().map(|slots| slots.wish.clone());
        Self::load_slotted(gpu, self.checkpoint.clone(), (numerics, kv), slots, &mut |_, _, _| {}).await
    }

    /// Feeds a prompt; returns the logits of the last row, or of all that ran through the decoder.
    ///
    /// # Errors
    /// An empty prompt or one beyond the position limit, unknown ids, and [`Error::DoesNotFit`] where the cache cannot grow: found before the
    /// state is touched. [`Error::Gpu`], and logits that are not finite: the state is not usable any more.
    pub async fn prefill(&self, state: &mut GpuState, prompt: &Prompt, how: Prefill) -> Result<Output> {
        self.prefill_traced(state, prompt, how, &[], &mut Trace::default()).await
    }

    /// [`Self::prefill`] that also reads the named taps back after each chunk.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub async fn prefill_traced(
        &self,
        state: &mut GpuState,
        prompt: &Prompt,
        how: Prefill,
        taps: &[&str],
        trace: &mut Trace,
    ) -> Result<Output> {
        crate::model::reference::check_prompt(self.config(), state.position, prompt, self.input.vision.is_some())?;
        self.gpu.alive()?;
        let begin = state.position;
        state.clear_fault(&self.gpu);
        state.reserve(&self.gpu, begin + prompt.len()).await?;
        let mut tail = Tail::new(self, state, how.tail, prompt.len()).await?;
        let part = if tail.is_some() { Part::Encoder } else { Part::Whole };
        let chunk = how.chunk.clamp(1, MOST_ROWS);
        let mut output = Output { logits: Vec::new(), first_row: begin };
        for from in (0..prompt.len()).step_by(chunk) {
            let range = from..(from + chunk).min(prompt.len());
            let (n, end) = (range.len(), range.end);
            let memory = self.memory(state, prompt, range.clone(), trace).await?;
            self.write_rows(state, prompt, range.clone(), begin + from, &memory)?;
            self.run(state, part, (begin + from, n), (taps, trace)).await?;
            state.advance(begin + end);
            if let Some(tail) = &mut tail {
                tail.take(self, state, range, &memory);
            } else if how.all_logits || end == prompt.len() {
                output.logits.extend(self.logits(state, n, if how.all_logits { n } else { 1 }).await?);
            }
        }
        if let Some(tail) = tail {
            output = tail.run(self, state, (prompt, begin), how, (taps, trace)).await?;
        }
        if !how.all_logits {
            output.first_row = state.position - 1;
        }
        Ok(output)
    }

    /// Feeds one text token; returns the logits for the next.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub async fn decode(&self, state: &mut GpuState, id: u32) -> Result<Vec<f32>> {
        Ok(self.prefill(state, &Prompt::text(vec![id]), Prefill::default()).await?.logits)
    }

    /// Writes what the rows at places `range` of a prompt, the first at position `start`, bring along: ids, rows of pictures, angles, n-gram
    /// rows, and the 64 bytes of the call.
    fn write_rows(
        &self,
        state: &mut GpuState,
        prompt: &Prompt,
        range: Range<usize>,
        start: usize,
        memory: &[(usize, Vec<f32>)],
    ) -> Result<()> {
        let (n, oldest) = (range.len(), [state.encoder_oldest, state.decoder_oldest]);
        let images = prompt.types[..range.start].iter().filter(|&&t| t == TokenType::Image).count();
        let scratch = state.scratch(&self.gpu, self.config(), capacity(n))?;
        Call::new(start, n, oldest[0]).write(&self.gpu, &scratch.call);
        Call::new(start, n, oldest[1]).write(&self.gpu, &scratch.decoder_call);
        scratch.write_prompt(&self.gpu, prompt, range, images, &self.input.marks, self.config().dim);
        scratch.write_angles(&self.gpu, &self.context, start, n);
        for (layer, rows) in memory {
            scratch.write_memory(&self.gpu, *layer, rows);
        }
        Ok(())
    }

    /// Decoded n-gram rows by layer, and the history that the next call looks back on.
    async fn memory(
        &self,
        state: &mut GpuState,
        prompt: &Prompt,
        range: Range<usize>,
        trace: &mut Trace,
    ) -> Result<Vec<(usize, Vec<f32>)>> {
        let most = self.config().engram_max_ngram_size;
        let before = state.engram_history.len();
        let map = &self.checkpoint.engram.token_map;
        let history = &mut state.engram_history;
        history.extend(range.map(|p| (!prompt.types[p].is_image()).then(|| map[prompt.ids[p] as usize])));
        let mut memory = Vec::new();
        for (layer, hash) in &self.hashes {
            let table = format!("layers.{layer}.engram.embed");
            let ids: Vec<u64> =
                (before..history.len()).flat_map(|p| hash.rows(&history[(p + 1).saturating_sub(most)..=p])).collect();
            self.checkpoint.announce_rows(&table, &ids).await?;
            let mut rows = Vec::with_capacity(ids.len() * self.config().engram_head_dim);
            for &id in &ids {
                rows.extend(self.checkpoint.table_row(&table, id).await?);
            }
            trace.engram_ids.push((*layer, ids.into_iter().map(|id| id as i64).collect()));
            memory.push((*layer, rows));
        }
        let kept = history.len().min(most - 1 + MOST_ROWS);
        history.drain(..history.len() - kept);
        Ok(memory)
    }

    /// Submits a part's plan for `n` rows from position `start`, with copies only if something is traced.
    async fn run(
        &self,
        state: &mut GpuState,
        part: Part,
        (start, n): (usize, usize),
        (taps, trace): (&[&str], &mut Trace),
    ) -> Result<()> {
        let plan = self.plan(state, part, capacity(n)).await?;
        if taps.is_empty() {
            return self.run_paced(&plan, &state.fault, n).await;
        }
        self.run_traced(&plan, (start, n), taps, trace).await
    }

    /// Submits a plan; one of many rows in parts, none of which keeps a slow adapter busy for long. The first few are waited for, to see how
    /// long they take.
    async fn run_paced(&self, plan: &Plan, fault: &Tensor, n: usize) -> Result<()> {
        if n <= FEW_ROWS || self.slots.is_some() {
            let encoder = self.encode_steps(plan, 0..plan.steps.len(), n, self.gpu.encoder()).await?;
            self.gpu.submit(encoder);
            return Ok(());
        }
        let (steps, begin) = (plan.steps.len(), pace::now());
        plan.run_in(&self.gpu, self.pace.submits(n, steps));
        if self.pace.is_open() {
            readback::u32s(&self.gpu, fault).await?;
            self.pace.saw(n, steps, pace::now() - begin);
        }
        Ok(())
    }

    /// The plan of a part for `capacity` rows on this state, recorded if it is new or the cache has grown.
    async fn plan(&self, state: &mut GpuState, part: Part, capacity: usize) -> Result<Rc<Plan>> {
        if let Some(plan) = state.plans.get(&(part, capacity)) {
            return Ok(plan.clone());
        }
        let record = |planner: &mut Planner<'_>| record::part(self, planner, state, (part, capacity), None);
        let plan = Rc::new(self.record("recording a plan", &state.fault, record).await?);
        state.plans.insert((part, capacity), plan.clone());
        Ok(plan)
    }
}
