//! The head, and decoding: one submit per token, and four bytes back.
//!
//! [`GpuModel::decode_greedy`] and [`GpuModel::decode_sampled`] encode the layers, the head on one row and the choice of the token into one
//! command buffer; only the token's id is read. It must be: the rows of the n-gram tables that the next token needs lie in the checkpoint, and
//! their addresses follow from its id on the CPU. With the tables and their hash on the GPU the id could feed back there, and several tokens
//! would go into one submit; the tables (section 2) are what stands against it.
//!
//! Top-p stays on the CPU: take the logits of [`GpuModel::decode`] and a [`Sampler`](crate::generate::Sampler). Which tokens belong to the smallest
//! set of a probability hangs on a sum of exponentials in their order, which the sampler forms in f64. WGSL has no f64, and its `exp` differs from
//! device to device in the last bits: a token at the edge of the set would be kept on one and dropped on another, and the same seed would write
//! other texts. So with top-p four bytes per token of the vocabulary come back (517 kB of the release), a fraction of the weights that it reads.

use super::record::{self, Part};
use super::{GpuModel, GpuState, Trace, capacity, fault};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::tap::Tap;
use crate::error::{Error, Result};
use crate::gpu::{Element, Plan, Planner, Tensor, readback};
use crate::kernels::call::Call;
use crate::kernels::head::argmax;
use crate::kernels::head::choose::{self, Draw, NOT_FINITE, PIECE};
use crate::kernels::linear;
use crate::model::reference::check_prompt;
use crate::numerics::precision::Precision;
use std::rc::Rc;

/// Head and choice for the last row of a call.
#[derive(Debug)]
pub(super) struct LastRow {
    /// Norm, head, and the two stages of the choice.
    plan: Plan,
    /// How to choose: temperature and seed.
    draw: Tensor,
    /// `[1, vocab]`
    logits: Tensor,
    /// The chosen id `[1]`.
    chosen: Tensor,
}

impl GpuModel {
    /// Feeds one text token and returns the id of the largest logit, of equal ones the first.
    ///
    /// # Errors
    /// As [`Self::prefill`]; [`Error::NotFiniteActivation`] names the first tap where a number is not finite.
    pub async fn decode_greedy(&self, state: &mut GpuState, id: u32) -> Result<u32> {
        self.decode_sampled(state, id, 0.0, 0).await
    }

    /// Feeds one text token and draws the next from `softmax(logits / temperature)`: the same token as
    /// [`gumbel::choose`](crate::numerics::gumbel::choose) draws from the same logits, with the seed and the position of the token drawn. The
    /// largest logit at temperature 0.
    ///
    /// # Errors
    /// As [`Self::decode_greedy`], and [`Error::Usage`] for a temperature that is negative or not finite.
    pub async fn decode_sampled(&self, state: &mut GpuState, id: u32, temperature: f32, seed: u64) -> Result<u32> {
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return Err(Error::Usage(format!("temperature: needed 0 or more, found {temperature}")));
        }
        let prompt = Prompt::text(vec![id]);
        check_prompt(self.config(), state.position, &prompt, self.input.vision.is_some())?;
        self.gpu.alive()?;
        let start = state.position;
        state.clear_fault(&self.gpu);
        state.reserve(&self.gpu, start + 1).await?;
        let memory = self.memory(state, &prompt, 0..1, &mut Trace::default()).await?;
        self.write_rows(state, &prompt, 0..1, start, &memory)?;
        let layers = self.plan(state, Part::Whole, 1).await?;
        let last = self.last_row(state, 1).await?;
        Draw::new(temperature, seed).write(&self.gpu, &last.draw);
        let mut encoder = self.gpu.encoder();
        encoder = self.encode_steps(&layers, 0..layers.steps.len(), 1, encoder).await?;
        last.plan.encode(&mut encoder);
        let word = readback::bytes_after(&self.gpu, encoder, &last.chosen).await?;
        state.advance(start + 1);
        match word.first_chunk().map_or(NOT_FINITE, |&word| u32::from_le_bytes(word)) {
            NOT_FINITE => Err(self.not_finite(state).await),
            id => Ok(id),
        }
    }

    /// Dispatches that one decoded token takes: of each layer by number, and in all with embedding, head and choice.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub async fn dispatches(&self) -> Result<(Vec<usize>, usize)> {
        let plan = self.plan_of(&mut self.state()?, 1).await?;
        let mut before = 1;
        let ends = plan.taps.iter().filter(|tap| tap.name == Tap::Streams.name()).map(|tap| tap.after);
        let each = ends.map(|end| end - std::mem::replace(&mut before, end)).collect();
        Ok((each, plan.steps.len()))
    }

    /// All that a call of `rows` rows runs on this state, head and choice of the last one included, as one plan: to look at, and to measure.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub async fn plan_of(&self, state: &mut GpuState, rows: usize) -> Result<Plan> {
        let capacity = capacity(rows);
        state.scratch(&self.gpu, self.config(), capacity)?;
        let mut plan = self.plan(state, Part::Whole, capacity).await?.as_ref().clone();
        plan.steps.extend(self.last_row(state, capacity).await?.plan.steps.iter().cloned());
        Ok(plan)
    }

    /// Pipelines made so far.
    pub fn pipelines(&self) -> usize {
        self.pipelines.borrow().count()
    }

    /// Logits of the last `rows` of the `n` rows that have just run, one or all; and with them whether all numbers of the call were finite.
    pub(super) async fn logits(&self, state: &mut GpuState, n: usize, rows: usize) -> Result<Vec<f32>> {
        let (capacity, vocab) = (capacity(n), self.config().vocab_size);
        let mut encoder = self.gpu.encoder();
        let (tensor, last) = if rows == 1 {
            let last = self.last_row(state, capacity).await?;
            last.plan.encode(&mut encoder);
            (last.logits.clone(), 1)
        } else {
            self.head(state, capacity).await?.encode(&mut encoder);
            (state.made_scratch(capacity).logits.clone(), n)
        };
        let [word, logits] = readback::after(&self.gpu, encoder, [&state.fault, &tensor]).await?;
        match word.first_chunk().and_then(|&word| fault::error(u32::from_le_bytes(word))) {
            Some(error) => Err(error),
            None => Ok(readback::floats(&logits, last * vocab).split_off((last - rows) * vocab)),
        }
    }

    /// Head of all rows, recorded on first use.
    pub(super) async fn head(&self, state: &mut GpuState, capacity: usize) -> Result<Rc<Plan>> {
        if let Some(plan) = state.heads.get(&capacity) {
            return Ok(plan.clone());
        }
        let record = |planner: &mut Planner<'_>| record::head(self, planner, state, capacity);
        let plan = Rc::new(self.record("recording the head", &state.fault, record).await?);
        state.heads.insert(capacity, plan.clone());
        Ok(plan)
    }

    /// Head and choice of the last row, recorded on first use.
    async fn last_row(&self, state: &mut GpuState, capacity: usize) -> Result<Rc<LastRow>> {
        if let Some(last) = state.last_rows.get(&capacity) {
            return Ok(last.clone());
        }
        let (gpu, config) = (&self.gpu, self.config());
        let (dim, vocab) = (config.dim, config.vocab_size);
        let pieces = vocab.div_ceil(PIECE);
        let zeros = |label: &str, element, shape: &[usize]| Tensor::zeros(gpu, label, element, shape);
        let [x, unused] = [zeros("last x", Element::F32, &[1, dim])?, zeros("unused", Element::F32, &[1])?];
        let logits = zeros("last logits", Element::F32, &[1, vocab])?;
        let values = zeros("best values", Element::F32, &[pieces])?;
        let ids = zeros("best ids", Element::U32, &[pieces])?;
        let chosen = zeros("chosen", Element::U32, &[1])?;
        let draw = Tensor::uniform(gpu, "draw", 4)?;
        // The head sees one row, however many the call has.
        let one = Call::buffer(gpu)?;
        Call::new(0, 1, 0).write(gpu, &one);
        let s = state.made_scratch(capacity);
        let record = |planner: &mut Planner<'_>| {
            planner.place = fault::place(Tap::FinalNorm, config.n_layers);
            record::final_norm(self, planner, s, [&x, &unused], &self.head.norm, true)?;
            planner.place = fault::place(Tap::Logits, config.n_layers);
            linear::record(planner, &self.head.head, [&x, &logits], &one, 1, Precision::F32)?;
            choose::record(planner, [&logits, &values, &ids], [&s.call, &draw], 0)?;
            argmax::record(planner, [&values, &ids, &chosen], 0)
        };
        let plan = self.record("recording the head", &state.fault, record).await?;
        let last = Rc::new(LastRow { plan, draw, logits, chosen });
        state.last_rows.insert(capacity, last.clone());
        Ok(last)
    }

    /// Records a plan whose faults go into that word, with what the device says about it as errors.
    pub(super) async fn record(
        &self,
        what: &str,
        fault: &Tensor,
        record: impl FnOnce(&mut Planner<'_>) -> Result<()>,
    ) -> Result<Plan> {
        let work = || {
            let mut pipelines = self.pipelines.borrow_mut();
            let mut planner = Planner::watched(&self.gpu, &mut pipelines, fault);
            record(&mut planner)?;
            Ok(planner.finish())
        };
        self.gpu.checked(what, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Choice, Gpu};
    use crate::weights::Checkpoint;

    async fn tiny(numerics: Precision) -> GpuModel {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/t12");
        let checkpoint = std::sync::Arc::new(Checkpoint::open_dir(folder).await.unwrap());
        let gpu = Gpu::open(&Choice::default()).await.expect("GPU tests need an adapter; a software one will do");
        let mut silent = |_: usize, _: usize, _: &str| {};
        GpuModel::load(gpu, checkpoint, numerics, numerics, &mut silent).await.unwrap()
    }

    /// Plants bytes in a weight and decodes; the error's tap, layer and element. The same after a prompt, and for a block of rows.
    async fn planted(model: &GpuModel, tensor: &Tensor, bytes: &[u8]) -> (&'static str, usize, usize) {
        let mut state = model.state().unwrap();
        model.decode_greedy(&mut state, 1).await.unwrap();
        let before = readback::bytes(&model.gpu, tensor).await.unwrap();
        model.gpu.queue.write_buffer(&tensor.buffer, 0, bytes);
        let errors = [
            model.decode_greedy(&mut state, 2).await.unwrap_err(),
            model.verify(&mut model.state().unwrap(), &[2, 3], 0.0, 0).await.unwrap_err(),
            model.decode(&mut model.state().unwrap(), 2).await.unwrap_err(),
        ];
        model.gpu.queue.write_buffer(&tensor.buffer, 0, &before);
        let places = errors.map(|error| match error {
            Error::NotFiniteActivation { tap, layer, index } => (tap, layer, index),
            error => panic!("{error}"),
        });
        assert_eq!(places.map(|(tap, layer, _)| (tap, layer)), [(places[0].0, places[0].1); 3]);
        // What was wrong then is forgotten.
        model.decode_greedy(&mut model.state().unwrap(), 1).await.unwrap();
        places[0]
    }

    /// Grids, clamps and caches turn these into numbers; the word still knows.
    #[test]
    fn a_number_that_is_not_finite_is_traced_to_its_block() {
        pollster::block_on(async {
            let nan = f32::NAN.to_le_bytes();
            for numerics in [Precision::F32, Precision::Released] {
                let model = tiny(numerics).await;
                let (layer, head) = (&model.layers[2], model.config().n_layers);
                assert_eq!(planted(&model, &layer.attn_input, &nan).await, ("2a.attn_input", 2, 0));
                assert_eq!(planted(&model, &layer.q_norm, &nan).await, ("4a.query", 2, 0));
                assert_eq!(planted(&model, &layer.kv_norm, &nan).await.0, "4a.query");
                assert_eq!(planted(&model, &layer.sink, &nan).await.0, "4a.out");
                // Scales of 2^127: products overflow, and SwiGLU clamps them.
                let (_, scales) = &layer.experts.up;
                let (tap, at, _) = planted(&model, scales, &vec![0xfe; scales.buffer.size() as usize]).await;
                assert_eq!((tap, at), ("5a.out", 2));
                assert_eq!(planted(&model, &model.head.norm, &nan).await, ("6b.final_norm", head, 0));
            }
        });
    }

    /// A replay returns nothing that could be looked at, and still tells.
    #[test]
    fn a_replay_names_the_block_too() {
        pollster::block_on(async {
            let model = tiny(Precision::F32).await;
            let prompt = Prompt::text((0..150).map(|i| i % 90).collect());
            let mut state = model.state().unwrap();
            model.prefill(&mut state, &prompt, crate::model::Prefill::default()).await.unwrap();
            let norm = &model.layers[3].q_norm;
            let before = readback::bytes(&model.gpu, norm).await.unwrap();
            model.gpu.queue.write_buffer(&norm.buffer, 0, &f32::NAN.to_le_bytes());
            let error = model.rewind(&mut state, &prompt, 20).await.unwrap_err();
            assert!(matches!(error, Error::NotFiniteActivation { tap: "4a.query", layer: 3, .. }), "{error}");
            model.gpu.queue.write_buffer(&norm.buffer, 0, &before);
            let mut state = model.state().unwrap();
            model.prefill(&mut state, &prompt, crate::model::Prefill::default()).await.unwrap();
            model.rewind(&mut state, &prompt, 20).await.unwrap();
        });
    }

    #[test]
    fn heads_are_recorded_once() {
        pollster::block_on(async {
            let model = tiny(Precision::F32).await;
            let mut state = model.state().unwrap();
            model.decode_greedy(&mut state, 1).await.unwrap();
            let (last, made) = (state.last_rows[&1].clone(), model.pipelines());
            model.decode(&mut state, 2).await.unwrap();
            model.decode_sampled(&mut state, 3, 1.0, 7).await.unwrap();
            assert!(Rc::ptr_eq(&last, &state.last_rows[&1]));
            assert_eq!(model.pipelines(), made);
        });
    }
}
