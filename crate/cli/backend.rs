//! Which engine a command uses, and why.

use super::console::Console;
use super::{memory, model};
use crate::blocks::context::Context;
use crate::gpu::{Choice, Gpu, Tier};
use crate::kernels::canary;
use crate::model::engine::{self, Engine, Timing};
use crate::model::gpu::{GpuModel, SlotWish};
use crate::weights::Checkpoint;
use crate::{Error, Result};
use clap::{Args, ValueEnum};
use pollster::block_on;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Backend {
    /// A GPU where there is one; otherwise what a short measurement finds quicker.
    Auto,
    /// A GPU, or an adapter that runs shaders on the processor.
    Gpu,
    /// The CPU reference.
    Cpu,
}

/// Limits to stay within.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Limits {
    /// What every WebGPU browser grants.
    WebgpuDefault,
}

/// Options about the adapter.
#[derive(Debug, Clone, Args)]
pub(super) struct AdapterArgs {
    /// The adapter, by a part of its name; `flash890 devices` lists them.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Use no more of the adapter than every browser grants.
    #[arg(long, value_enum, value_name = "LIMITS")]
    emulate_limits: Option<Limits>,
}

/// Why an engine was chosen.
#[derive(Debug)]
enum Reason {
    Asked,
    Hardware,
    /// The adapter is software; this is what the measurement found.
    Measured(Timing),
    /// The GPU would not do.
    Refused(Error),
}

impl AdapterArgs {
    /// # Errors
    /// [`Error::Usage`] for options that the chosen backend has no use for.
    pub(super) fn check(&self, backend: Backend) -> Result<()> {
        if backend == Backend::Cpu && (self.device.is_some() || self.emulate_limits.is_some()) {
            return Err(Error::Usage("--device and --emulate-limits are about a GPU, not about --backend cpu".into()));
        }
        Ok(())
    }

    fn choice(&self) -> Choice {
        let emulate_webgpu_defaults = self.emulate_limits.is_some();
        Choice { name: self.device.clone(), emulate_webgpu_defaults, most_of_a_matrix: None }
    }

    /// Opens the adapter, with the canary.
    ///
    /// # Errors
    /// [`Error::Gpu`] if there is none, or if it is refused.
    pub(super) fn open(&self) -> Result<Gpu> {
        block_on(canary::open(&self.choice()))
    }

    /// Loads a model into the engine that `backend` names or the machine suggests, and says which and why.
    ///
    /// # Errors
    /// For `gpu`: [`Error::Gpu`] or [`Error::DoesNotFit`] if it will not do. Otherwise as [`model::load`].
    pub(super) fn load(
        &self,
        backend: Backend,
        checkpoint: &Arc<Checkpoint>,
        context: Context,
        console: &Console,
    ) -> Result<Engine> {
        let (engine, reason) = match backend {
            Backend::Cpu => return Ok(Arc::new(model::load(checkpoint, context, console)?).into()),
            Backend::Gpu => (self.load_gpu(self.open()?, checkpoint, &context, console)?.into(), Reason::Asked),
            Backend::Auto => self.choose(checkpoint, context, console)?,
        };
        announce(&engine, &reason, console);
        Ok(engine)
    }

    fn choose(&self, checkpoint: &Arc<Checkpoint>, context: Context, console: &Console) -> Result<(Engine, Reason)> {
        let examined = |gpu: Gpu| block_on(canary::examine(&gpu)).map(|()| gpu);
        let gpu = match block_on(Gpu::open(&self.choice())) {
            Ok(gpu) if gpu.adapter.tier == Tier::Hardware => {
                match examined(gpu).and_then(|gpu| self.load_gpu(gpu, checkpoint, &context, console)) {
                    Ok(model) => return Ok((model.into(), Reason::Hardware)),
                    Err(error) => Err(error),
                }
            }
            other => other,
        };
        let reference = Arc::new(model::load(checkpoint, context.clone(), console)?);
        let begin = Instant::now();
        let measured = gpu.and_then(|gpu| {
            let timing = block_on(engine::time(&reference, &gpu, &|| begin.elapsed().as_secs_f64()))?;
            let quicker = timing.gpu < timing.cpu;
            let load = || self.load_gpu(examined(gpu)?, checkpoint, &context, console);
            let model = quicker.then(load).transpose()?;
            Ok((model, Reason::Measured(timing)))
        });
        Ok(match measured {
            Ok((Some(model), reason)) => (model.into(), reason),
            Ok((None, reason)) => (reference.into(), reason),
            Err(error @ (Error::Gpu(_) | Error::DoesNotFit { .. } | Error::Usage(_))) => {
                (reference.into(), Reason::Refused(error))
            }
            Err(error) => return Err(error),
        })
    }

    /// Copies a model to an adapter, with a bar.
    pub(super) fn load_gpu(
        &self,
        gpu: Gpu,
        checkpoint: &Arc<Checkpoint>,
        context: &Context,
        console: &Console,
    ) -> Result<GpuModel> {
        if gpu.adapter.tier == Tier::Software {
            // Its memory is the machine's.
            memory::check(checkpoint, context.kv)?;
        }
        let (numerics, kv) = (context.numerics, context.kv);
        model::with_bar(checkpoint, console, |progress| {
            block_on(GpuModel::load(gpu, checkpoint.clone(), numerics, kv, progress))
        })
    }
}

/// A model on an adapter with slots for `percent` of its routed experts, which are read as the router asks.
///
/// # Errors
/// As [`AdapterArgs::load`] for `gpu`.
pub(super) fn load_gpu_slotted(
    adapter: &AdapterArgs,
    checkpoint: &Arc<Checkpoint>,
    context: &Context,
    percent: f64,
    console: &Console,
) -> Result<Engine> {
    let gpu = adapter.open()?;
    let (precision, is_software) = ((context.numerics, context.kv), gpu.adapter.tier == Tier::Software);
    let count = model::slots(checkpoint, context.kv, percent, is_software, console)?;
    let begin = Instant::now();
    let wish = SlotWish { count, clock: Rc::new(move || begin.elapsed().as_secs_f64()) };
    let loaded = model::with_bar(checkpoint, console, |progress| {
        block_on(GpuModel::load_slotted(gpu, checkpoint.clone(), precision, Some(wish), progress))
    })?;
    let engine = Engine::from(loaded);
    announce(&engine, &Reason::Asked, console);
    Ok(engine)
}

/// One line about the engine and the reason for it.
fn announce(engine: &Engine, reason: &Reason, console: &Console) {
    let what = engine.describe();
    let (vi, en) = match reason {
        Reason::Asked => ("theo yêu cầu".into(), "as asked for".into()),
        Reason::Hardware => ("máy có GPU".into(), "there is a GPU".into()),
        Reason::Measured(Timing { cpu, gpu }) => {
            let (cpu, gpu) = (1e3 * cpu, 1e3 * gpu);
            (
                format!("chỉ có GPU mô phỏng; đo thử: {gpu:.2} ms, CPU {cpu:.2} ms"),
                format!("the only adapter is software; measured: {gpu:.2} ms, CPU {cpu:.2} ms"),
            )
        }
        Reason::Refused(error) => (format!("không dùng được GPU: {error}"), format!("no GPU is used: {error}")),
    };
    console.notice(format!("tính bằng: {what} ({vi})"), format!("computing on: {what} ({en})"));
}
