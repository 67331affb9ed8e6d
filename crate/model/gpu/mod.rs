//! The whole model on the GPU: the same layers as the reference, as recorded plans of kernels.
//!
//! A [`GpuModel`] holds the weights; a [`GpuState`] what one sequence carries, in the same bytes as the reference keeps it. A plan belongs to
//! a state and a number of rows: it is recorded on first use, and again when the cache has grown. Per call only 64 bytes, the rotation angles
//! and the n-gram rows are written; then one submit.

mod decode;
mod draft;
mod record;
mod scratch;
mod state;
mod weights;

pub use state::GpuState;

use crate::blocks::b1a_input::{self, Prompt, Vision};
use crate::blocks::b1b_engram::Hash;
use crate::blocks::context::Context;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gpu::kernel::Pipelines;
use crate::gpu::{Gpu, Plan, Planner, readback};
use crate::image::{Patches, TokenType};
use crate::kernels::call::Call;
use crate::model::load::{Loader, Progress};
use crate::model::reference::{Output, Prefill};
use crate::numerics::precision::Precision;
use crate::weights::Checkpoint;
use std::cell::RefCell;
use std::sync::Arc;
use weights::{GpuDrafter, GpuHead, GpuLayer};

/// Rows that one call feeds at most.
const MOST_ROWS: usize = 64;

/// A model in GPU memory.
#[derive(Debug)]
pub struct GpuModel {
    /// Config and roundings.
    pub context: Context,
    /// The device.
    pub gpu: Gpu,
    embed: crate::gpu::Tensor,
    layers: Vec<GpuLayer>,
    head: GpuHead,
    drafter: Option<GpuDrafter>,
    hashes: Vec<(usize, Hash)>,
    pipelines: RefCell<Pipelines>,
    input: Input,
    checkpoint: Arc<Checkpoint>,
}

/// What stays on the CPU: the vision tower, and the learned rows that frame a picture.
#[derive(Debug)]
struct Input {
    marks: [Vec<f32>; 3],
    vision: Option<Vision>,
}

/// What a call leaves to look at.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// `(tap name, layer, rows, values)` in the order of the plan.
    pub tensors: Vec<(&'static str, usize, usize, Vec<f32>)>,
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
        let input = Input { marks: input.image_marks.unwrap_or_default(), vision: input.vision };
        let mut layers = Vec::with_capacity(config.n_layers);
        for index in 0..config.n_layers {
            progress(index + 1, parts, &format!("layer {index}"));
            layers.push(GpuLayer::new(&gpu, index, loader.backbone(index).await?)?);
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
            pipelines: RefCell::default(),
            input,
            checkpoint,
        })
    }

    /// The model's config.
    pub fn config(&self) -> &Config {
        &self.context.config
    }

    /// Runs a picture's patches through the vision tower, which runs on the CPU: rows for its IMAGE positions `[cells, dim]`.
    ///
    /// # Errors
    /// A checkpoint without a vision tower.
    pub fn image_rows(&self, patches: &Patches) -> Result<Vec<f32>> {
        match (&self.input.vision, &self.config().vision) {
            (Some(vision), Some(config)) => Ok(b1a_input::see(self.context.numerics, config, vision, patches).aligned),
            _ => Err(Error::Prompt("the prompt has a picture, but this checkpoint has no vision tower".into())),
        }
    }

    /// The state before the first token.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`].
    pub fn state(&self) -> Result<GpuState> {
        GpuState::new(&self.gpu, self.config(), self.context.kv, MOST_ROWS)
    }

    /// Feeds a prompt; returns the logits of the last row, or of every row.
    ///
    /// # Errors
    /// An empty prompt or one beyond the position limit, unknown ids, [`Error::Gpu`], and logits that are not finite.
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
        let config = self.config();
        crate::model::reference::check_prompt(config, state.position, prompt, self.input.vision.is_some())?;
        let begin = state.position;
        let chunk = how.chunk.clamp(1, MOST_ROWS);
        let mut output = Output { logits: Vec::new(), first_row: begin };
        let mut images = 0;
        for from in (0..prompt.len()).step_by(chunk) {
            let to = (from + chunk).min(prompt.len());
            self.feed(state, prompt, from..to, images).await?;
            images += prompt.types[from..to].iter().filter(|&&t| t == TokenType::Image).count();
            let capacity = if to - from == 1 { 1 } else { MOST_ROWS };
            self.run(state, capacity, to - from, taps, trace).await?;
            state.position = begin + to;
            if how.all_logits || to == prompt.len() {
                let rows = if how.all_logits { to - from } else { 1 };
                output.logits.extend(self.logits(state, capacity, to - from, rows).await?);
            }
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

    /// Writes what a chunk brings: ids, rows of pictures, angles, n-gram rows, and the 64 bytes of the call.
    async fn feed(
        &self,
        state: &mut GpuState,
        prompt: &Prompt,
        range: std::ops::Range<usize>,
        first_image: usize,
    ) -> Result<()> {
        let (start, n) = (state.position, range.len());
        let call = Call::new(start, n, 0);
        state.reserve(&self.gpu, start + n)?;
        let capacity = if n == 1 { 1 } else { MOST_ROWS };
        let memory = self.memory(state, prompt, range.clone()).await?;
        let scratch = state.scratch(&self.gpu, self.config(), capacity)?;
        call.write(&self.gpu, &scratch.call);
        scratch.write_prompt(&self.gpu, prompt, range, first_image, &self.input.marks, self.config().dim);
        scratch.write_angles(&self.gpu, &self.context, start, n);
        for (layer, rows) in memory {
            scratch.write_memory(&self.gpu, layer, &rows);
        }
        Ok(())
    }

    /// Decoded n-gram rows by layer, and the history that the next call looks back on.
    async fn memory(
        &self,
        state: &mut GpuState,
        prompt: &Prompt,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<(usize, Vec<f32>)>> {
        let most = self.config().engram_max_ngram_size;
        let before = state.engram_history.len();
        let map = &self.checkpoint.engram.token_map;
        let history = &mut state.engram_history;
        history.extend(range.map(|p| (!prompt.types[p].is_image()).then(|| map[prompt.ids[p] as usize])));
        let mut memory = Vec::new();
        for (layer, hash) in &self.hashes {
            let table = format!("layers.{layer}.engram.embed");
            let mut rows = Vec::new();
            for p in before..history.len() {
                for id in hash.rows(&history[(p + 1).saturating_sub(most)..=p]) {
                    rows.extend(self.checkpoint.table_row(&table, id).await?);
                }
            }
            memory.push((*layer, rows));
        }
        let kept = history.len().min(most - 1);
        history.drain(..history.len() - kept);
        Ok(memory)
    }

    /// Submits the layers' plan, in pieces only if something is traced.
    async fn run(
        &self,
        state: &mut GpuState,
        capacity: usize,
        n: usize,
        taps: &[&str],
        trace: &mut Trace,
    ) -> Result<()> {
        let plan = self.plan(state, capacity).await?;
        if taps.is_empty() {
            plan.run(&self.gpu);
            return Ok(());
        }
        let mut done = 0;
        for tap in plan.taps.iter().filter(|tap| taps.contains(&tap.name)) {
            let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            plan.encode_range(&mut encoder, done..tap.after);
            self.gpu.queue.submit([encoder.finish()]);
            done = tap.after;
            let values = readback::f32s(&self.gpu, &tap.tensor).await?;
            let row = tap.tensor.len() / capacity;
            trace.tensors.push((tap.name, tap.layer, n, values[..n * row].to_vec()));
        }
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        plan.encode_range(&mut encoder, done..plan.steps.len());
        self.gpu.queue.submit([encoder.finish()]);
        Ok(())
    }

    /// The plan of `capacity` rows on this state, recorded if it is new or the cache has grown.
    async fn plan(&self, state: &mut GpuState, capacity: usize) -> Result<Arc<Plan>> {
        if let Some(plan) = state.plans.get(&capacity) {
            return Ok(plan.clone());
        }
        let plan = self
            .gpu
            .checked("recording a plan", || {
                let mut pipelines = self.pipelines.borrow_mut();
                let mut planner = Planner::new(&self.gpu, &mut pipelines);
                record::layers(self, &mut planner, state, capacity)?;
                Ok(Arc::new(planner.finish()))
            })
            .await?;
        state.plans.insert(capacity, plan.clone());
        Ok(plan)
    }
}
