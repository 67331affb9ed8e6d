//! What one sequence carries, in GPU memory: the twin of [`State`](crate::blocks::b6a_kv_cache::State).

use super::decode::LastRow;
use super::draft::Drafting;
use super::scratch::Scratch;
use crate::blocks::b6a_kv_cache::Format;
use crate::config::Config;
use crate::error::Result;
use crate::gpu::{Element, Gpu, Plan, Tensor};
use crate::kernels::cache::GpuPlane;
use crate::numerics::precision::Precision;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Entries that a fresh cache has room for; it doubles from there.
const FIRST_ENTRIES: usize = 256;

/// Global KV of one source.
#[derive(Debug)]
pub(super) struct GpuSource {
    pub(super) ratio: usize,
    pub(super) entries: GpuPlane,
    pub(super) keys: GpuPlane,
    /// Value and score of a first token that waits for its second `[head_dim]`.
    pub(super) open: [Tensor; 2],
}

/// Score rows over all entries, which grow with the cache.
#[derive(Debug)]
pub(super) struct Scores {
    pub(super) scores: Tensor,
    pub(super) best: Tensor,
    pub(super) pool: Tensor,
}

/// The state of one sequence.
#[derive(Debug)]
pub struct GpuState {
    /// Tokens fed so far.
    pub position: usize,
    pub(super) engram_history: Vec<Option<u32>>,
    pub(super) rings: Vec<GpuPlane>,
    pub(super) sources: BTreeMap<usize, GpuSource>,
    pub(super) scores: BTreeMap<usize, Scores>,
    pub(super) plans: BTreeMap<usize, Arc<Plan>>,
    /// Heads of all rows and of the last row, by capacity. They bind no cache, so they outlive its growth.
    pub(super) heads: BTreeMap<usize, Arc<Plan>>,
    pub(super) last_rows: BTreeMap<usize, Arc<LastRow>>,
    /// What DSpark keeps, if the checkpoint has it.
    pub(super) drafting: Option<Drafting>,
    scratch: BTreeMap<usize, Scratch>,
    capacity: usize,
}

impl GpuState {
    pub(super) fn new(gpu: &Gpu, config: &Config, kv: Precision, most_rows: usize) -> Result<Self> {
        let pick = |format| if kv == Precision::F32 { Format::F32 } else { format };
        // New rows of a call must not take the slots of old ones that its first row still sees.
        let slots = config.window_size + most_rows;
        let ring = |layer| GpuPlane::new(gpu, &format!("ring {layer}"), pick(Format::Fp8), config.head_dim, slots);
        let mut sources = BTreeMap::new();
        for &layer in &config.kv_source_layers {
            let plane = |what: &str, format, width| {
                GpuPlane::new(gpu, &format!("{what} of layer {layer}"), pick(format), width, FIRST_ENTRIES)
            };
            let open = |what: &str| Tensor::zeros(gpu, what, Element::F32, &[config.head_dim]);
            sources.insert(
                layer,
                GpuSource {
                    ratio: config.ratio(layer),
                    entries: plane("entries", Format::Kv4, config.head_dim)?,
                    keys: plane("keys", Format::Idx4, config.index_head_dim)?,
                    open: [open("open value")?, open("open score")?],
                },
            );
        }
        Ok(GpuState {
            position: 0,
            engram_history: Vec::new(),
            rings: (0..config.n_layers).map(ring).collect::<Result<_>>()?,
            sources,
            scores: BTreeMap::new(),
            plans: BTreeMap::new(),
            heads: BTreeMap::new(),
            last_rows: BTreeMap::new(),
            drafting: Drafting::new(gpu, config, kv, slots)?,
            scratch: BTreeMap::new(),
            capacity: FIRST_ENTRIES,
        })
    }

    /// Makes room for `entries` entries per source: twice as much as before, with what is there copied over. Plans bind the old buffers, so
    /// they are recorded anew.
    pub(super) fn reserve(&mut self, gpu: &Gpu, entries: usize) -> Result<()> {
        if entries <= self.capacity {
            return Ok(());
        }
        let capacity = entries.next_power_of_two();
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (layer, source) in &mut self.sources {
            for (what, plane) in [("entries", &mut source.entries), ("keys", &mut source.keys)] {
                let label = format!("{what} of layer {layer}");
                let grown = GpuPlane::new(gpu, &label, plane.format, plane.width, capacity)?;
                for (old, new) in [(&plane.codes, &grown.codes), (&plane.scales, &grown.scales)] {
                    encoder.copy_buffer_to_buffer(&old.buffer, 0, &new.buffer, 0, old.buffer.size());
                }
                *plane = grown;
            }
        }
        gpu.queue.submit([encoder.finish()]);
        self.capacity = capacity;
        self.plans.clear();
        self.scores.clear();
        Ok(())
    }

    /// The activations for `capacity` rows, made on first use.
    pub(super) fn scratch(&mut self, gpu: &Gpu, config: &Config, capacity: usize) -> Result<&Scratch> {
        if let Entry::Vacant(place) = self.scores.entry(capacity) {
            let blocks = self.capacity.div_ceil(config.candidate_block_size);
            let tensor = |label: &str, element, width| Tensor::zeros(gpu, label, element, &[capacity, width]);
            place.insert(Scores {
                scores: tensor("index scores", Element::F32, self.capacity)?,
                best: tensor("block scores", Element::F32, blocks)?,
                pool: tensor("candidate blocks", Element::U32, blocks)?,
            });
        }
        match self.scratch.entry(capacity) {
            Entry::Occupied(made) => Ok(made.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Scratch::new(gpu, config, capacity)?)),
        }
    }

    /// The activations for `capacity` rows, which must have been made.
    pub(super) fn made_scratch(&self, capacity: usize) -> &Scratch {
        &self.scratch[&capacity]
    }

    /// Bytes of global KV that the sequence uses, counted from the planes' row sizes and the entries written: 890 per token of a long
    /// sequence with the released geometry.
    pub fn kv_bytes(&self) -> usize {
        let used = |source: &GpuSource| self.position / source.ratio.max(1);
        self.sources.values().map(|s| s.entries.bytes(used(s)) + s.keys.bytes(used(s))).sum()
    }

    /// Bytes of the window rings.
    pub fn ring_bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.bytes(ring.capacity)).sum()
    }
}
