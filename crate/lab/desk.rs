//! The lab as a page uses it: one model, one prompt at a time, looked at from any token and layer, continued token by token.
//!
//! Everything that a host has to bring along is passed in: a clock, and somebody who hears of progress and of a lost device. So the same code
//! answers a browser's worker and a native test.

use super::content::{Lab, Text};
use super::figure::Candidate;
use super::on_gpu;
use super::page::{self, Backend, Info, KvComparison, Limits};
use super::prompt::{self, Picture, Request, Seen};
use super::run::Run;
use super::timing::{Timings, measure};
use super::{SENTENCE, agree, pictures, report};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::context::Context;
use crate::blocks::tap::Tap;
use crate::error::{Error, Result};
use crate::generate::{Sampler, Sampling};
use crate::gpu::{Choice, Tier};
use crate::kernels::canary;
use crate::model::engine::{self, Engine, EngineState};
use crate::model::gpu::GpuModel;
use crate::model::{Prefill, Reference};
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::weights::Checkpoint;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::sync::Arc;

/// What the page asks for when it opens the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wish {
    /// A real GPU where there is one; otherwise what a short measurement finds quicker.
    #[default]
    Auto,
    /// A GPU, or an adapter that runs shaders on the processor.
    Gpu,
    /// The CPU reference.
    Cpu,
}

/// A prompt to run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// The text behind `BOS` and the picture.
    pub text: String,
    /// `disc` and `grid` are drawn by the lab, `own` comes with the call.
    #[serde(default)]
    pub picture: Option<String>,
    /// Position to follow; the last if there is none.
    #[serde(default)]
    pub token: Option<usize>,
    /// Layer to look into; where encoder and decoder meet if there is none.
    #[serde(default)]
    pub layer: Option<usize>,
    /// `released`, or `f32` for caches that are not quantised.
    #[serde(default)]
    pub kv: Kv,
}

/// How a run keeps its caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kv {
    /// FP4 entries and keys, FP8 windows.
    #[default]
    Released,
    /// Unquantised.
    F32,
}

/// From where the prompt is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Where {
    /// Position; may be one that was generated. As before if there is none.
    #[serde(default)]
    pub token: Option<usize>,
    /// Layer; as before if there is none.
    #[serde(default)]
    pub layer: Option<usize>,
}

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct How {
    /// 0, the default, takes the best token.
    #[serde(default)]
    pub temperature: f64,
    /// Seed of the draw.
    #[serde(default)]
    pub seed: u64,
}

/// One token more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its position.
    pub position: usize,
    /// Its id.
    pub id: u32,
    /// In readable form.
    pub label: String,
    /// Whether nothing can follow: it ends the text, or the lab's positions are used up.
    pub finished: bool,
    /// Seconds that running it through the model took.
    pub seconds: f64,
    /// What it was chosen from: the ten best tokens.
    pub top: Vec<Candidate>,
    /// Bytes of global KV with it.
    pub kv_bytes: usize,
    /// Layers that ran for it: all, as a token is written.
    pub layers: usize,
    /// Dispatches on the GPU, the head's included.
    pub dispatches: Option<usize>,
}

/// A recorded tensor that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TapInfo {
    /// Name of the tap.
    pub tap: &'static str,
    /// Layer.
    pub layer: usize,
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// `f32` or `i64`.
    pub kind: &'static str,
    /// `gpu` or `cpu`.
    pub source: &'static str,
}

/// What a host brings along.
pub struct Host {
    /// Seconds from any fixed moment on.
    pub clock: Box<dyn Fn() -> f64>,
    /// Hears of events: `progress` with a stage, `lost` with a reason, `recovered`.
    pub tell: Box<dyn Fn(Event<'_>)>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Host")
    }
}

/// Something that happens during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A part of the work: its name, how much is done, of how much.
    Progress(&'a str, usize, usize),
    /// The device is gone, with the reason; it will be opened again.
    Lost(&'a str),
    /// A new device has taken over.
    Recovered,
}

/// The text behind the prompt, as far as it was written.
#[derive(Debug)]
struct Writing {
    state: EngineState,
    logits: Vec<f32>,
    ids: Vec<u32>,
}

/// An open lab.
#[derive(Debug)]
pub struct Desk {
    host: Host,
    checkpoint: Arc<Checkpoint>,
    tokenizer: Arc<Tokenizer>,
    reference: Arc<Reference>,
    gpu: Option<Rc<GpuModel>>,
    info: Info,
    run: Option<Run>,
    writing: Option<Writing>,
}

impl Desk {
    /// Loads a checkpoint and chooses what computes. `adapter` names the adapter where the library cannot: browsers tell it to scripts alone.
    ///
    /// # Errors
    /// What loading says; for [`Wish::Gpu`], [`Error::Gpu`] if there is none.
    pub async fn open(checkpoint: Checkpoint, wish: Wish, adapter: Option<String>, host: Host) -> Result<Desk> {
        let checkpoint = Arc::new(checkpoint);
        let tokenizer = Arc::new(Tokenizer::from_json(checkpoint.tokenizer_json()?)?);
        let context = Context::new(&checkpoint.config, Precision::F32, Precision::Released);
        let progress = |done, all, _: &str| (host.tell)(Event::Progress("weights", done, all));
        let reference = Arc::new(Reference::load_with(checkpoint.clone(), context, &mut { progress }).await?);
        let (gpu, reason) = choose(&checkpoint, &reference, wish, &host).await?;
        let info = Info {
            build: env!("CARGO_PKG_VERSION"),
            backend: if gpu.is_some() { Backend::Gpu } else { Backend::Cpu },
            adapter: match &gpu {
                Some(model) => adapter.unwrap_or_else(|| model.gpu.adapter.describe()),
                None => "CPU reference".into(),
            },
            software: gpu.as_ref().is_some_and(|model| model.gpu.adapter.tier == Tier::Software),
            reason,
            sentence: SENTENCE,
            limits: Limits::default(),
            model: page::model(&checkpoint.config)?,
        };
        Ok(Desk { host, checkpoint, tokenizer, reference, gpu, info, run: None, writing: None })
    }

    /// What the page talks to.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Runs a prompt. `own` is the file of the reader's own picture.
    ///
    /// # Errors
    /// [`Error::Prompt`] for a text beyond the limits, [`Error::Usage`], [`Error::Picture`], and what the run says; the run before stays.
    pub async fn run(&mut self, request: RunRequest, own: Option<&[u8]>) -> Result<Lab> {
        let characters = request.text.chars().count();
        if characters > self.info.limits.characters {
            let most = self.info.limits.characters;
            return Err(Error::Prompt(format!("the lab takes at most {most} characters, this text has {characters}")));
        }
        let picture = match (request.picture.as_deref(), own) {
            (None, _) => Picture::None,
            (Some("disc"), _) => Picture::Generated,
            (Some("grid"), _) => Picture::Given(pictures::grid()),
            (Some("own"), Some(bytes)) => Picture::Given(crate::image::decode(bytes)?),
            (Some(name), _) => return Err(Error::Usage(format!("there is no picture called {name}"))),
        };
        let model = self.reference_with(request.kv);
        let plain = Request { text: request.text, picture, token: request.token };
        (self.host.tell)(Event::Progress("prompt", 0, 1));
        let read = prompt::build(&model, &self.tokenizer, &plain)?;
        let mut run = self.follow(model, read, request.token).await?;
        if let Some(layer) = request.layer {
            run.look_at(layer)?;
        }
        let lab = report(&run, None);
        (self.run, self.writing) = (Some(run), None);
        Ok(lab)
    }

    /// The same prompt, with what was written behind it, seen from another token or layer.
    ///
    /// # Errors
    /// [`Error::Usage`] before the first run, and for a position or a layer that is not there.
    pub async fn report(&mut self, place: Where) -> Result<Lab> {
        let run = opened(&self.run)?;
        let (written, n) = (self.writing.as_ref().map_or(&[][..], |writing| &writing.ids), run.prompt.len());
        if let Some(token) = place.token.filter(|&token| token != run.at) {
            let layer = run.layer;
            let mut prompt = run.prompt.clone();
            // A written token is followed as the end of a longer prompt.
            if token >= n {
                prompt.push_text(&written[..(token + 1 - n).min(written.len())]);
            }
            let read = (prompt, run.picture.clone());
            let mut next = self.follow(run.model.clone(), read, Some(token)).await?;
            next.look_at(layer)?;
            next.prompt_length = n.min(next.prompt_length);
            self.run = Some(next);
        }
        let run = self.run.as_mut().ok_or_else(no_run)?;
        if let Some(layer) = place.layer {
            run.look_at(layer)?;
        }
        Ok(report(run, None))
    }

    /// The recorded tensors.
    ///
    /// # Errors
    /// [`Error::Usage`] before the first run.
    pub fn taps(&self) -> Result<Vec<TapInfo>> {
        let run = opened(&self.run)?;
        Ok(run
            .seen
            .iter()
            .map(|(tap, layer, tensor)| tap_info(run, tap, layer, &tensor.shape, tensor.i64.is_empty()))
            .collect())
    }

    /// One recorded tensor, with its real numbers or its indices.
    ///
    /// # Errors
    /// [`Error::Usage`] before the first run, or for one that was not recorded.
    pub fn tensor(&self, name: &str, layer: usize) -> Result<(TapInfo, &[f32], &[i64])> {
        let run = opened(&self.run)?;
        let tap = Tap::ALL.into_iter().find(|tap| tap.name() == name);
        let found = tap.and_then(|tap| Some((tap, run.seen.get(tap, layer)?)));
        let (tap, tensor) = found.ok_or_else(|| Error::Usage(format!("{name} of layer {layer} was not recorded")))?;
        Ok((tap_info(run, tap, layer, &tensor.shape, tensor.i64.is_empty()), &tensor.f32, &tensor.i64))
    }

    /// Writes one token behind the prompt.
    ///
    /// # Errors
    /// [`Error::Usage`] before the first run or for an absurd temperature, [`Error::Prompt`] when the lab's positions are used up.
    pub async fn step(&mut self, how: How) -> Result<Step> {
        self.recover().await?;
        match self.try_step(how).await {
            // What was written before is fed again, and then this token is written.
            Err(_) if self.is_lost() => {
                self.recover().await?;
                self.try_step(how).await
            }
            result => result,
        }
    }

    async fn try_step(&mut self, how: How) -> Result<Step> {
        let run = opened(&self.run)?;
        let engine = self.engine(run);
        let mut writing = match self.writing.take() {
            Some(writing) => writing,
            None => begin(&engine, run).await?,
        };
        let result = write(&engine, &self.tokenizer, &mut writing, how, &*self.host.clock).await;
        self.writing = Some(writing);
        let mut step = result?;
        if let Engine::Gpu(model) = &engine {
            let (layers, rest) = model.dispatches().await?;
            step.dispatches = Some(layers.iter().sum::<usize>() + rest);
        }
        Ok(step)
    }

    /// Whether the device is gone. Natively that is only noticed by looking.
    fn is_lost(&self) -> bool {
        self.gpu.as_ref().is_some_and(|model| model.gpu.alive().is_err() && model.lost().is_some())
    }

    /// What quantised caches change in the logits behind the prompt.
    ///
    /// # Errors
    /// [`Error::Usage`] before the first run.
    pub async fn compare_kv(&self) -> Result<KvComparison> {
        page::compare_kv(opened(&self.run)?).await
    }

    /// GPU against CPU reference at every tap, on the prompt of the run, with caches in f32.
    ///
    /// # Errors
    /// [`Error::Usage`] before the first run, [`Error::Gpu`].
    pub async fn parity(&mut self) -> Result<agree::Parity> {
        self.recover().await?;
        let run = opened(&self.run)?;
        let Some(gpu) = &self.gpu else { return Ok(agree::Parity::without_gpu()) };
        agree::compare(&self.reference_with(Kv::F32), &gpu.with_kv(Precision::F32), &run.prompt).await
    }

    /// How long reading the prompt and writing a token take.
    ///
    /// # Errors
    /// [`Error::Usage`] before the first run, [`Error::Gpu`].
    pub async fn timings(&mut self) -> Result<Timings> {
        self.recover().await?;
        let run = opened(&self.run)?;
        measure(&self.engine(run), &run.prompt, &*self.host.clock).await
    }

    /// Destroys the GPU's device, as a driver reset does: the next call opens it again.
    pub fn lose_device(&self) {
        if let Some(model) = &self.gpu {
            model.gpu.device.destroy();
        }
    }

    /// What computes for a run.
    fn engine(&self, run: &Run) -> Engine {
        match &self.gpu {
            Some(model) if run.model.context.kv == Precision::F32 => {
                Engine::Gpu(Rc::new(model.with_kv(Precision::F32)))
            }
            Some(model) => Engine::Gpu(model.clone()),
            None => Engine::Cpu(run.model.clone()),
        }
    }

    fn reference_with(&self, kv: Kv) -> Arc<Reference> {
        if kv == Kv::Released {
            return self.reference.clone();
        }
        let mut model = Reference::clone(&self.reference);
        model.context.kv = Precision::F32;
        Arc::new(model)
    }

    /// Runs on the reference, and then on the GPU if there is one. A device that is lost on the way is opened again, once.
    async fn follow(
        &mut self,
        model: Arc<Reference>,
        read: (Prompt, Option<Seen>),
        token: Option<usize>,
    ) -> Result<Run> {
        self.recover().await?;
        (self.host.tell)(Event::Progress("cpu", 0, 1));
        let mut run = Run::follow(self.checkpoint.clone(), model, self.tokenizer.clone(), read, token).await?;
        let Some(gpu) = self.gpu.clone() else { return Ok(run) };
        (self.host.tell)(Event::Progress("gpu", 0, 1));
        let kv = run.model.context.kv;
        let first = on_gpu::replace(&mut run, &gpu.with_kv(kv)).await;
        if first.is_err() && self.is_lost() {
            self.recover().await?;
            if let Some(gpu) = self.gpu.clone() {
                on_gpu::replace(&mut run, &gpu.with_kv(kv)).await?;
            }
            return Ok(run);
        }
        first.map(|()| run)
    }

    /// Opens a lost device again. What was written behind the prompt is fed again when the next token is asked for.
    async fn recover(&mut self) -> Result<()> {
        if !self.is_lost() {
            return Ok(());
        }
        let lost = self.gpu.as_ref().and_then(|model| model.lost()).unwrap_or_default();
        (self.host.tell)(Event::Lost(&lost));
        if let Some(model) = &self.gpu {
            self.gpu = Some(Rc::new(model.reload().await?));
        }
        if let (Some(run), Some(writing)) = (&self.run, self.writing.take()) {
            let engine = self.engine(run);
            let mut again = begin(&engine, run).await?;
            for &id in &writing.ids {
                again.logits = engine.decode(&mut again.state, id).await?;
                again.ids.push(id);
            }
            self.writing = Some(again);
        }
        (self.host.tell)(Event::Recovered);
        Ok(())
    }
}

fn no_run() -> Error {
    Error::Usage("nothing has run yet".into())
}

fn opened(run: &Option<Run>) -> Result<&Run> {
    run.as_ref().ok_or_else(no_run)
}

fn tap_info(run: &Run, tap: Tap, layer: usize, shape: &[usize], real: bool) -> TapInfo {
    let source = if run.on_gpu && on_gpu::is_gpu(tap) { "gpu" } else { "cpu" };
    TapInfo { tap: tap.name(), layer, shape: shape.to_vec(), kind: if real { "f32" } else { "i64" }, source }
}

/// The state behind the prompt, and the logits there.
async fn begin(engine: &Engine, run: &Run) -> Result<Writing> {
    let mut state = engine.state()?;
    let prompt = run.own_prompt();
    let logits = engine.prefill(&mut state, &prompt, Prefill { all_logits: false, ..Prefill::default() }).await?.logits;
    Ok(Writing { state, logits, ids: Vec::new() })
}

/// Chooses a token and runs it.
async fn write(
    engine: &Engine,
    tokenizer: &Tokenizer,
    writing: &mut Writing,
    how: How,
    clock: &dyn Fn() -> f64,
) -> Result<Step> {
    let (config, position) = (engine.config(), writing.state.position());
    let most = Limits::default().positions.min(config.max_position_embeddings);
    if position >= most {
        return Err(Error::Prompt(format!("all {most} positions of the lab are used")));
    }
    // Each position has its own draw, so that a token can be written again.
    let sampler = Sampler::new(Sampling { temperature: how.temperature, top_p: 1.0, seed: how.seed })?;
    let id = sampler.sample(&writing.logits, position)?;
    let top = page::candidates(tokenizer, config, &writing.logits, 10);
    let begin = clock();
    writing.logits = engine.decode(&mut writing.state, id).await?;
    writing.ids.push(id);
    Ok(Step {
        position,
        id,
        label: page::name(tokenizer, config, id),
        finished: id == config.eos_token_id || position + 1 >= most,
        seconds: clock() - begin,
        top,
        kv_bytes: writing.state.kv_bytes(),
        layers: config.n_layers,
        dispatches: None,
    })
}

/// What computes, and the reason in words.
async fn choose(
    checkpoint: &Arc<Checkpoint>,
    reference: &Arc<Reference>,
    wish: Wish,
    host: &Host,
) -> Result<(Option<Rc<GpuModel>>, Text)> {
    if wish == Wish::Cpu {
        return Ok((None, Text::new("theo yêu cầu", "as asked for")));
    }
    (host.tell)(Event::Progress("adapter", 0, 1));
    let context = &reference.context;
    let load = async |gpu| {
        let progress = |done, all, _: &str| (host.tell)(Event::Progress("upload", done, all));
        GpuModel::load(gpu, checkpoint.clone(), context.numerics, context.kv, &mut { progress }).await.map(Rc::new)
    };
    let gpu = match canary::open(&Choice::default()).await {
        Ok(gpu) => gpu,
        Err(error) if wish == Wish::Gpu => return Err(error),
        Err(error) => return Ok((None, refused(&error))),
    };
    if wish == Wish::Gpu {
        return Ok((Some(load(gpu).await?), Text::new("theo yêu cầu", "as asked for")));
    }
    if gpu.adapter.tier == Tier::Hardware {
        return Ok(match load(gpu).await {
            Ok(model) => (Some(model), Text::new("máy có GPU", "there is a GPU")),
            Err(error) => (None, refused(&error)),
        });
    }
    let timing = match engine::time(reference, &gpu, &*host.clock).await {
        Ok(timing) => timing,
        Err(error) => return Ok((None, refused(&error))),
    };
    let (cpu, software) = (1e3 * timing.cpu, 1e3 * timing.gpu);
    let reason = Text::of(
        format!("chỉ có GPU mô phỏng; đo thử: {software:.2} ms, CPU {cpu:.2} ms"),
        format!("the only adapter is software; measured: {software:.2} ms, CPU {cpu:.2} ms"),
    );
    let model = if timing.gpu < timing.cpu { Some(load(gpu).await?) } else { None };
    Ok((model, reason))
}

fn refused(error: &Error) -> Text {
    Text::of(format!("không dùng được GPU: {error}"), format!("no GPU is used: {error}"))
}
