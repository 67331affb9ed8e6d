//! The lab as a page uses it: one model, one prompt at a time, looked at from any token and layer, continued token by token.
//!
//! Everything that a host has to bring along is passed in: a clock, and somebody who hears of progress and of a lost device. So the same code
//! answers a browser's worker and a native test.

mod choose;
mod words;
mod writing;

pub use words::{Event, Host, How, Kv, RunRequest, SlotCount, Step, TapInfo, Where, Wish};

use super::content::Lab;
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
use crate::gpu::Tier;
use crate::model::Engine;
use crate::model::Reference;
use crate::model::gpu::GpuModel;
use crate::model::slots::{SlotUse, Slots};
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::weights::Checkpoint;
use crate::weights::needs::Needs;
use choose::choose;
use std::rc::Rc;
use std::sync::Arc;
use writing::{Writing, begin, write};

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
        Desk::open_slotted(checkpoint, None, wish, adapter, host).await
    }

    /// [`Desk::open`] for a checkpoint that is larger than memory: routed experts come to slots as the router asks.
    ///
    /// # Errors
    /// As [`Desk::open`].
    pub async fn open_slotted(
        checkpoint: Checkpoint,
        slots: Option<SlotCount>,
        wish: Wish,
        adapter: Option<String>,
        host: Host,
    ) -> Result<Desk> {
        let checkpoint = Arc::new(checkpoint);
        let tokenizer = Arc::new(Tokenizer::from_json(checkpoint.tokenizer_json()?)?);
        let context = Context::new(&checkpoint.config, Precision::F32, Precision::Released);
        let progress = |done, all, part: &str| match checkpoint.is_remote() {
            // How many bytes have come says more than how many parts.
            true => (host.tell)(Event::Reading(part)),
            false => (host.tell)(Event::Progress("weights", done, all)),
        };
        let held = slots.map(|SlotCount { count, clock }| Arc::new(Slots::new(count, Box::new(clock))));
        let reference = Reference::load_slotted(checkpoint.clone(), context, held, &mut { progress }).await?;
        let reference = Arc::new(reference);
        let (gpu, reason) = choose(&checkpoint, &reference, slots, wish, &host).await?;
        let info = Info {
            build: env!("CARGO_PKG_VERSION"),
            backend: if gpu.is_some() { Backend::Gpu } else { Backend::Cpu },
            adapter: match &gpu {
                Some(model) => adapter.unwrap_or_else(|| model.gpu.adapter.describe()),
                None => std::env::consts::ARCH.into(),
            },
            software: gpu.as_ref().is_some_and(|model| model.gpu.adapter.tier == Tier::Software),
            reason,
            sentence: SENTENCE,
            limits: Limits::default(),
            token_bytes: Needs::of(&checkpoint.config).token.total(),
            model: page::model(&checkpoint.config)?,
        };
        Ok(Desk { host, checkpoint, tokenizer, reference, gpu, info, run: None, writing: None })
    }

    /// What computes, and the tokenizer: a conversation on the same weights needs no others.
    pub fn speaker(&self) -> (Engine, Arc<Tokenizer>) {
        let engine = match &self.gpu {
            Some(model) => Engine::Gpu(model.clone()),
            None => Engine::Cpu(self.reference.clone()),
        };
        (engine, self.tokenizer.clone())
    }

    /// Where the weights come from.
    pub fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    /// What the slots of the engine that computes did so far, if experts come to slots.
    pub fn slots(&self) -> Option<SlotUse> {
        match &self.gpu {
            Some(model) => model.slots(),
            None => self.reference.slots.as_ref().map(|slots| slots.usage()),
        }
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
        if let Some(token) = place.token.filter(|&token| token != run.at) {
            let (layer, n) = (run.layer, run.prompt_length);
            let written = self.writing.as_ref().map_or(&[][..], |writing| &writing.ids);
            // What was followed before may be longer than what the reader gave; a written token is followed as its end.
            let mut prompt = run.own_prompt();
            if token >= n {
                prompt.push_text(&written[..(token + 1 - n).min(written.len())]);
            }
            let read = (prompt, run.picture.clone());
            let mut next = self.follow(run.model.clone(), read, Some(token)).await?;
            next.look_at(layer)?;
            next.prompt_length = n;
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
        Arc::new(self.reference.with_kv(Precision::F32))
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
