//! One interface over the two ways to compute: the CPU reference and the GPU.
//!
//! An [`Engine`] is cheap to clone; an [`EngineState`] belongs to one engine. Nothing here asks for `Send`: in a browser the GPU's objects stay
//! on their thread.

use super::gpu::{GpuModel, GpuState};
use super::reference::{Output, Prefill, Reference, check_prompt};
use super::replay::{check_rewind, replay_from};
use super::slots::SlotUse;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b6a_kv_cache::State;
use crate::blocks::tap::Silent;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gpu::kernel::Pipelines;
use crate::gpu::{Element, Gpu, Planner, Tensor, readback};
use crate::image::Patches;
use crate::kernels::call::Call;
use crate::kernels::linear::{self, GpuMatrix};
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision;
use crate::weights::Checkpoint;
use std::rc::Rc;
use std::sync::Arc;

/// A loaded model, wherever it computes.
#[derive(Debug, Clone)]
pub enum Engine {
    /// On the processor.
    Cpu(Arc<Reference>),
    /// On a GPU.
    Gpu(Rc<GpuModel>),
}

/// What one sequence carries from call to call.
#[derive(Debug)]
pub enum EngineState {
    /// In main memory.
    Cpu(Box<State>),
    /// In GPU memory.
    Gpu(Box<GpuState>),
}

impl From<Arc<Reference>> for Engine {
    fn from(model: Arc<Reference>) -> Self {
        Engine::Cpu(model)
    }
}

impl From<GpuModel> for Engine {
    fn from(model: GpuModel) -> Self {
        Engine::Gpu(Rc::new(model))
    }
}

impl EngineState {
    /// Tokens fed so far; the next token has this position.
    pub fn position(&self) -> usize {
        match self {
            EngineState::Cpu(state) => state.position,
            EngineState::Gpu(state) => state.position,
        }
    }

    /// Bytes of global KV that the sequence uses: 890 per token of a long sequence with the released geometry.
    pub fn kv_bytes(&self) -> usize {
        match self {
            EngineState::Cpu(state) => state.kv_bytes(),
            EngineState::Gpu(state) => state.kv_bytes(),
        }
    }

    /// Bytes of the window rings. Those of the GPU are longer by the rows that one call may bring.
    pub fn ring_bytes(&self) -> usize {
        match self {
            EngineState::Cpu(state) => state.ring_bytes(),
            EngineState::Gpu(state) => state.ring_bytes(),
        }
    }
}

impl Engine {
    /// `cpu` or `gpu`, as `--backend` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Engine::Cpu(_) => "cpu",
            Engine::Gpu(_) => "gpu",
        }
    }

    /// What computes, for people.
    pub fn describe(&self) -> String {
        match self {
            Engine::Cpu(_) => "CPU reference".into(),
            Engine::Gpu(model) => model.gpu.adapter.describe(),
        }
    }

    /// The model's config.
    pub fn config(&self) -> &Config {
        match self {
            Engine::Cpu(model) => model.config(),
            Engine::Gpu(model) => model.config(),
        }
    }

    /// The state before the first token.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] if GPU memory is too small for it.
    pub fn state(&self) -> Result<EngineState> {
        Ok(match self {
            Engine::Cpu(model) => EngineState::Cpu(Box::new(model.state())),
            Engine::Gpu(model) => EngineState::Gpu(Box::new(model.state()?)),
        })
    }

    /// What can be wrong with a prompt that follows `position` tokens, before any of it is fed in pieces.
    ///
    /// # Errors
    /// [`Error::Prompt`] as [`Reference::prefill`].
    pub fn check(&self, position: usize, prompt: &Prompt) -> Result<()> {
        check_prompt(self.config(), position, prompt, self.config().vision.is_some())
    }

    /// Feeds a prompt; returns the logits of the last row, or of all that ran through the decoder.
    ///
    /// # Errors
    /// As [`Reference::prefill`] and [`GpuModel::prefill`]; [`Error::Usage`] for a state of the other engine.
    pub async fn prefill(&self, state: &mut EngineState, prompt: &Prompt, how: Prefill) -> Result<Output> {
        match (self, state) {
            (Engine::Cpu(model), EngineState::Cpu(state)) => model.prefill(state, prompt, how, &mut Silent).await,
            (Engine::Gpu(model), EngineState::Gpu(state)) => model.prefill(state, prompt, how).await,
            _ => Err(foreign()),
        }
    }

    /// Feeds one text token; returns the logits for the next.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub async fn decode(&self, state: &mut EngineState, id: u32) -> Result<Vec<f32>> {
        Ok(self.prefill(state, &Prompt::text(vec![id]), Prefill::default()).await?.logits)
    }

    /// Goes back to the first `position` tokens of `sequence`, which the state carries (section 10.8); window rows that are gone are made again.
    ///
    /// # Errors
    /// As [`Reference::rewind`] and [`GpuModel::rewind`].
    pub async fn rewind(&self, state: &mut EngineState, sequence: &Prompt, position: usize) -> Result<()> {
        match (self, state) {
            (Engine::Cpu(model), EngineState::Cpu(state)) => model.rewind(state, sequence, position).await,
            (Engine::Gpu(model), EngineState::Gpu(state)) => model.rewind(state, sequence, position).await,
            _ => Err(foreign()),
        }
    }

    /// A state whose global KV alone is there, for at least `position` tokens of `sequence`: rings and open groups are made again, up to
    /// `position` (section 4.3).
    ///
    /// # Errors
    /// As [`Self::rewind`] and [`Self::upload`].
    pub async fn restore(&self, mut state: State, sequence: &Prompt, position: usize) -> Result<EngineState> {
        match self {
            Engine::Cpu(model) => {
                model.rewind(&mut state, sequence, position).await?;
                Ok(EngineState::Cpu(Box::new(state)))
            }
            Engine::Gpu(model) => {
                check_rewind(model.config(), state.position, sequence, position)?;
                let mut state = model.upload(&state).await?;
                model.replay(&mut state, sequence, replay_from(model.config(), position)..position).await?;
                Ok(EngineState::Gpu(Box::new(state)))
            }
        }
    }

    /// What expert slots did so far, if experts come to slots.
    pub fn slots(&self) -> Option<SlotUse> {
        match self {
            Engine::Cpu(model) => model.slots.as_ref().map(|slots| slots.usage()),
            Engine::Gpu(model) => model.slots(),
        }
    }

    /// Where the weights come from.
    pub fn checkpoint(&self) -> &Arc<Checkpoint> {
        match self {
            Engine::Cpu(model) => &model.checkpoint,
            Engine::Gpu(model) => &model.checkpoint,
        }
    }

    /// Roundings between operations, and of the caches.
    pub fn precision(&self) -> (Precision, Precision) {
        let context = match self {
            Engine::Cpu(model) => &model.context,
            Engine::Gpu(model) => &model.context,
        };
        (context.numerics, context.kv)
    }

    /// A copy of a sequence's state.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub async fn fork(&self, state: &EngineState) -> Result<EngineState> {
        match (self, state) {
            (Engine::Cpu(_), EngineState::Cpu(state)) => Ok(EngineState::Cpu(state.clone())),
            (Engine::Gpu(model), EngineState::Gpu(state)) => Ok(EngineState::Gpu(Box::new(model.fork(state).await?))),
            _ => Err(foreign()),
        }
    }

    /// The state in main memory, byte for byte.
    ///
    /// # Errors
    /// As [`GpuModel::download`].
    pub async fn download(&self, state: &EngineState) -> Result<State> {
        match (self, state) {
            (Engine::Cpu(_), EngineState::Cpu(state)) => Ok(state.as_ref().clone()),
            (Engine::Gpu(model), EngineState::Gpu(state)) => model.download(state).await,
            _ => Err(foreign()),
        }
    }

    /// A state from main memory, wherever this engine keeps its own.
    ///
    /// # Errors
    /// As [`GpuModel::upload`].
    pub async fn upload(&self, state: State) -> Result<EngineState> {
        match self {
            Engine::Cpu(_) => Ok(EngineState::Cpu(Box::new(state))),
            Engine::Gpu(model) => Ok(EngineState::Gpu(Box::new(model.upload(&state).await?))),
        }
    }

    /// Runs a picture's patches through the vision tower: rows for its IMAGE positions `[cells, dim]`.
    ///
    /// # Errors
    /// A checkpoint without a vision tower.
    pub async fn image_rows(&self, patches: &Patches) -> Result<Vec<f32>> {
        match self {
            Engine::Cpu(model) => model.image_rows(patches),
            Engine::Gpu(model) => model.image_rows(patches).await,
        }
    }
}

pub(crate) fn foreign() -> Error {
    Error::Usage("a sequence's state belongs to another engine than the one that is asked".into())
}

/// Seconds that three products of one token take on each side: how `auto` decides about an adapter whose shaders run on the processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// On the processor, by the reference.
    pub cpu: f64,
    /// On the adapter, from submit to read-back.
    pub gpu: f64,
}

/// Rounds of [`time`], of which the quickest counts; one more goes before them, for pipelines and caches.
const ROUNDS: usize = 3;
/// Seconds that the processor is measured in a round, since a browser's clock ticks in tenths of a millisecond; and the most rounds in that time.
const MEASURED: f64 = 4e-3;
const MOST_ROUNDS: usize = 1000;

/// Measures the first layer's query, key and expert projections on both sides. `clock` gives seconds.
///
/// # Errors
/// [`Error::Gpu`], or [`Error::DoesNotFit`] if the adapter cannot bind a matrix.
pub async fn time(model: &Reference, gpu: &Gpu, clock: &dyn Fn() -> f64) -> Result<Timing> {
    let layer = &model.layers[0].layer;
    // Routed experts may be elsewhere; the shared one is as large.
    let expert = layer.experts.experts.first().unwrap_or(&layer.experts.shared);
    let matrices = [&layer.attention.wq_a, &layer.attention.wkv, &expert.w1];
    let x: Vec<f32> = (0..model.config().dim).map(|i| (i % 7) as f32 - 3.0).collect();
    let mut timing = Timing { cpu: f64::INFINITY, gpu: f64::INFINITY };
    let products = || {
        for matrix in matrices {
            std::hint::black_box(matrix.matmul(&x, 1));
        }
    };
    products();
    // The best of a few: any of them may be held up by what else the machine does.
    for _ in 0..=ROUNDS {
        let (begin, mut rounds, mut seconds) = (clock(), 0, 0.0);
        while seconds < MEASURED && rounds < MOST_ROUNDS {
            products();
            (rounds, seconds) = (rounds + 1, clock() - begin);
        }
        timing.cpu = timing.cpu.min(seconds / rounds as f64);
    }
    let mut pipelines = Pipelines::default();
    let (plan, last) = gpu.checked("recording a measurement", || record(gpu, &mut pipelines, matrices, &x)).await?;
    for round in 0..=ROUNDS {
        let begin = clock();
        plan.run(gpu);
        readback::f32s(gpu, &last).await?;
        if round > 0 {
            timing.gpu = timing.gpu.min(clock() - begin);
        }
    }
    Ok(timing)
}

/// The products as a plan, and the last one's output.
fn record(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    matrices: [&Matrix; 3],
    x: &[f32],
) -> Result<(crate::gpu::Plan, Tensor)> {
    let mut planner = Planner::new(gpu, pipelines);
    let call = Call::buffer(gpu)?;
    Call::new(0, 1, 0).write(gpu, &call);
    let x = Tensor::f32(gpu, "measured input", &[1, x.len()], x)?;
    let mut last = x.clone();
    for matrix in matrices {
        let weight = GpuMatrix::new(gpu, "measured weight", matrix)?;
        last = Tensor::zeros(gpu, "measured output", Element::F32, &[1, matrix.rows()])?;
        linear::record(&mut planner, &weight, [&x, &last], &call, 1, Precision::F32)?;
    }
    Ok((planner.finish(), last))
}
