//! Parts of the model on given input, for parity: an error cannot travel from layer to layer.
//!
//! [`GpuModel::layers_alone`] runs the plan of a prompt with two changes: layers read given entries, index keys and selections instead of those that
//! were computed before them, and after a layer its output is replaced by the given one. What a layer computes itself, its own entries, keys and
//! selection among it, is traced and kept as ever. [`GpuModel::drafter_alone`] gives a draft the taps of the layers in front of it.

use super::record::{self, Part};
use super::{GpuModel, GpuState, MOST_ROWS, Trace, capacity, fault};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::blocks::tap::Tap;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gpu::{Element, Gpu, Plan, Tensor};
use crate::kernels::cache::GpuPlane;
use crate::kernels::call::Call;
use crate::model::reference::{Forced, check_prompt};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Marks a place of a selection that selects nothing.
const NONE: u32 = u32::MAX;

/// What the layers of a whole prompt read instead of what was computed before them.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Entries and index keys by KV source, in f32.
    pub caches: BTreeMap<usize, [Plane; 2]>,
    /// What every row selects by index source, ascending.
    pub selections: BTreeMap<usize, Vec<Vec<u32>>>,
    /// Streams `[n, lanes, dim]` and pre `[n, lanes]` after a layer; a layer that is missing hands on its own.
    pub outputs: BTreeMap<usize, [Vec<f32>; 2]>,
}

impl Given {
    /// What layer `layer` reads, in the reference's form; `None` if it sees its window only.
    pub fn forced(&self, config: &Config, layer: usize) -> Option<Forced> {
        let [entries, keys] = self.caches.get(&config.kv_source(layer)?)?.clone();
        let selection = self.selections.get(&config.index_source(layer)?)?.clone();
        Some(Forced { entries, keys, selection })
    }
}

/// [`Given`] in GPU memory.
#[derive(Debug)]
pub(super) struct GivenOnGpu {
    /// Entries and index keys by KV source.
    pub(super) caches: BTreeMap<usize, [GpuPlane; 2]>,
    /// Selections of the rows of a call by index source `[MOST_ROWS, k]`.
    pub(super) selections: BTreeMap<usize, Tensor>,
}

impl GivenOnGpu {
    fn new(gpu: &Gpu, config: &Config, given: &Given) -> Result<Self> {
        let missing =
            |what: &str, layer: usize| Error::Usage(format!("layers alone: no {what} of layer {layer} given"));
        let plane = |own: &Plane| -> Result<GpuPlane> {
            let plane = GpuPlane::new(gpu, "given", Format::F32, own.width, own.len().max(1))?;
            plane.write(gpu, own);
            Ok(plane)
        };
        let mut caches = BTreeMap::new();
        for &layer in &config.kv_source_layers {
            let [entries, keys] = given.caches.get(&layer).ok_or_else(|| missing("entries", layer))?;
            caches.insert(layer, [plane(entries)?, plane(keys)?]);
        }
        let mut selections = BTreeMap::new();
        for layer in (0..config.n_layers).filter_map(|layer| config.index_source(layer)) {
            if !given.selections.contains_key(&layer) {
                return Err(missing("selection", layer));
            }
            let shape = [MOST_ROWS, config.index_topk];
            selections.insert(layer, Tensor::zeros(gpu, "given selection", Element::U32, &shape)?);
        }
        Ok(GivenOnGpu { caches, selections })
    }

    /// Writes what the rows of a call select.
    fn write_selections(&self, gpu: &Gpu, given: &Given, rows: Range<usize>) {
        for (layer, tensor) in &self.selections {
            let mut ids = vec![NONE; tensor.shape[1] * rows.len()];
            let places = ids.chunks_exact_mut(tensor.shape[1]);
            for (place, row) in places.zip(given.selections[layer].iter().skip(rows.start)) {
                place.iter_mut().zip(row).for_each(|(place, &id)| *place = id);
            }
            gpu.queue.write_buffer(&tensor.buffer, 0, bytemuck::cast_slice(&ids));
        }
    }
}

impl GpuModel {
    /// Runs every layer of a prompt on what is given, and reads the named taps back. The state that is left holds what the layers wrote
    /// themselves; no sequence goes on from it.
    ///
    /// # Errors
    /// As [`Self::prefill`]; [`Error::Usage`] if something that a layer reads is not given.
    pub async fn layers_alone(
        &self,
        prompt: &Prompt,
        given: &Given,
        taps: &[&str],
        trace: &mut Trace,
    ) -> Result<GpuState> {
        check_prompt(self.config(), 0, prompt, self.input.vision.is_some())?;
        self.gpu.alive()?;
        let mut state = self.state()?;
        state.clear_fault(&self.gpu);
        state.reserve(&self.gpu, prompt.len()).await?;
        let on_gpu = GivenOnGpu::new(&self.gpu, self.config(), given)?;
        let mut plans: BTreeMap<usize, Vec<Plan>> = BTreeMap::new();
        for from in (0..prompt.len()).step_by(MOST_ROWS) {
            let rows = from..(from + MOST_ROWS).min(prompt.len());
            let memory = self.memory(&mut state, prompt, rows.clone(), trace).await?;
            self.write_rows(&mut state, prompt, rows.clone(), from, &memory)?;
            on_gpu.write_selections(&self.gpu, given, rows.clone());
            let capacity = capacity(rows.len());
            let layers = match plans.entry(capacity) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(place) => place.insert(self.plans_alone(&state, &on_gpu, capacity).await?),
            };
            for (layer, plan) in layers.iter().enumerate() {
                self.run_traced(plan, (from, rows.len()), taps, trace).await?;
                if let Some(output) = given.outputs.get(&layer) {
                    self.write_output(&state, output, rows.clone())?;
                }
            }
            state.advance(rows.end);
        }
        match fault::read(&self.gpu, &state.fault).await? {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }

    /// A plan per layer, the embedding with the first.
    async fn plans_alone(&self, state: &GpuState, given: &GivenOnGpu, capacity: usize) -> Result<Vec<Plan>> {
        let what = "recording layers alone";
        let plan = self
            .record(what, &state.fault, |planner| {
                record::part(self, planner, state, (Part::Whole, capacity), Some(given))
            })
            .await?;
        let ends = plan.taps.iter().filter(|tap| tap.name == Tap::Streams.name()).map(|tap| tap.after);
        let mut begin = 0;
        Ok(ends.map(|end| plan.piece(std::mem::replace(&mut begin, end)..end)).collect())
    }

    /// Puts a given output in place of the one that a layer left for `rows`.
    fn write_output(&self, state: &GpuState, [streams, pre]: &[Vec<f32>; 2], rows: Range<usize>) -> Result<()> {
        let s = state.made_scratch(capacity(rows.len()));
        let (lanes, dim) = (self.config().hc_mult, self.config().dim);
        for (tensor, values, width) in [(&s.streams, streams, lanes * dim), (&s.pre_ffn, pre, lanes)] {
            let Some(values) = values.get(rows.start * width..rows.end * width) else {
                return Err(Error::Usage(format!("layers alone: {} is given for fewer rows", tensor.label)));
            };
            self.gpu.queue.write_buffer(&tensor.buffer, 0, bytemuck::cast_slice(values));
        }
        Ok(())
    }

    /// A state whose draft rings hold what the taps `[n, targets * dim]` of the first `n` positions give, and nothing else: enough for
    /// [`Self::draft`] and [`Self::propose`]. `None` if the checkpoint has no drafter.
    ///
    /// # Errors
    /// [`Error::Usage`] for taps of another width, [`Error::DoesNotFit`], [`Error::Gpu`].
    pub async fn drafter_alone(&self, taps: &[f32]) -> Result<Option<GpuState>> {
        let config = self.config();
        if self.drafter.is_none() {
            return Ok(None);
        }
        let width = config.dspark_target_layer_ids.len() * config.dim;
        if taps.is_empty() || !taps.len().is_multiple_of(width) {
            return Err(Error::Usage(format!("taps of a draft: needed rows of {width}, found {} numbers", taps.len())));
        }
        self.gpu.alive()?;
        let mut state = self.state()?;
        state.scratch(&self.gpu, config, MOST_ROWS)?;
        let record = |planner: &mut crate::gpu::Planner<'_>| record::seed(self, planner, &state, MOST_ROWS);
        let plan = self.record("recording the draft rings", &state.fault, record).await?;
        for (from, rows) in (0..).step_by(MOST_ROWS).zip(taps.chunks(MOST_ROWS * width)) {
            let (n, s) = (rows.len() / width, state.made_scratch(MOST_ROWS));
            Call::new(from, n, 0).write(&self.gpu, &s.call);
            s.write_angles(&self.gpu, &self.context, from, n);
            self.gpu.queue.write_buffer(&s.target_hidden.buffer, 0, bytemuck::cast_slice(rows));
            plan.run(&self.gpu);
            state.advance(from + n);
        }
        Ok(Some(state))
    }
}
