//! What one sequence carries, in GPU memory: the twin of [`State`](crate::blocks::b6a_kv_cache::State).

use super::decode::LastRow;
use super::draft::Drafting;
use super::record::Part;
use super::scratch::Scratch;
use super::verify::EveryRow;
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::config::Config;
use crate::error::Result;
use crate::gpu::{Element, Gpu, Plan, Tensor, fault};
use crate::kernels::cache::{self, GpuPlane};
use crate::numerics::precision::Precision;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

/// Entries that a fresh cache has room for; it doubles from there.
const FIRST_ENTRIES: usize = 256;

/// First tokens of groups that a source of pairs keeps: those of a whole call, so that the state can go back within it.
pub(super) const OPEN_SLOTS: usize = 32;

/// Global KV of one source.
#[derive(Debug)]
pub(super) struct GpuSource {
    pub(super) ratio: usize,
    pub(super) entries: GpuPlane,
    pub(super) keys: GpuPlane,
    /// Values and scores of first tokens of groups `[OPEN_SLOTS, head_dim]`; that of group `j` lies in slot `j mod OPEN_SLOTS`.
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
    /// Compressed ids before the next token, oldest first: as many as going back may need.
    pub(super) engram_history: Vec<Option<u32>>,
    pub(super) rings: Vec<GpuPlane>,
    pub(super) sources: BTreeMap<usize, GpuSource>,
    pub(super) scores: BTreeMap<usize, Scores>,
    /// By part of the model and rows.
    pub(super) plans: BTreeMap<(Part, usize), Rc<Plan>>,
    /// Heads of all rows and of the last row, by capacity. They bind no cache, so they outlive its growth.
    pub(super) heads: BTreeMap<usize, Rc<Plan>>,
    pub(super) last_rows: BTreeMap<usize, Rc<LastRow>>,
    pub(super) every_rows: BTreeMap<usize, Rc<EveryRow>>,
    /// Where a number stopped being finite in the last call.
    pub(super) fault: Tensor,
    /// What DSpark keeps, if the checkpoint has it.
    pub(super) drafting: Option<Drafting>,
    /// Position of the oldest row in the rings of the layers after the last KV source: a tail leaves older ones out (section 4.5a).
    pub(super) decoder_oldest: usize,
    /// The same of the other layers, which only a replay leaves without older rows.
    pub(super) encoder_oldest: usize,
    /// Window of the last KV source while a tail runs; made for the first tail.
    pub(super) tail_ring: Option<GpuPlane>,
    /// Where going back ends: before it, rows or groups are missing. And the end of the longest sequence that the rings have seen.
    pub(super) rewind_from: usize,
    pub(super) written: usize,
    scratch: BTreeMap<usize, Scratch>,
    /// Tokens that the caches have room for.
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
            let rows = FIRST_ENTRIES.div_ceil(config.ratio(layer).max(1));
            let plane = |what: &str, format, width| {
                GpuPlane::new(gpu, &format!("{what} of layer {layer}"), pick(format), width, rows)
            };
            let open = |what: &str| Tensor::zeros(gpu, what, Element::F32, &[OPEN_SLOTS, config.head_dim]);
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
            every_rows: BTreeMap::new(),
            fault: fault::word(gpu)?,
            drafting: Drafting::new(gpu, config, kv, slots)?,
            decoder_oldest: 0,
            encoder_oldest: 0,
            tail_ring: None,
            rewind_from: 0,
            written: 0,
            scratch: BTreeMap::new(),
            capacity: FIRST_ENTRIES,
        })
    }

    /// Makes room for a sequence of `tokens` tokens, with what is there copied over; at least twice as much as before. Plans bind the old
    /// buffers, so they are recorded anew.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`](crate::Error::DoesNotFit) or [`Error::Gpu`](crate::Error::Gpu) when there is no room; the state is as before.
    pub async fn reserve(&mut self, gpu: &Gpu, tokens: usize) -> Result<()> {
        if tokens <= self.capacity {
            return Ok(());
        }
        let capacity = tokens.next_power_of_two();
        let grow = |plane: &GpuPlane, label: String, ratio: usize| {
            GpuPlane::new(gpu, &label, plane.format, plane.width, capacity.div_ceil(ratio.max(1)))
        };
        let make = || {
            let pair = |(&layer, source): (&usize, &GpuSource)| -> Result<[GpuPlane; 2]> {
                Ok([
                    grow(&source.entries, format!("entries of layer {layer}"), source.ratio)?,
                    grow(&source.keys, format!("keys of layer {layer}"), source.ratio)?,
                ])
            };
            self.sources.iter().map(pair).collect::<Result<Vec<_>>>()
        };
        // All or nothing: only when every new buffer is there do the old ones go.
        let grown = gpu.checked("growing the cache", make).await?;
        let mut encoder = gpu.encoder();
        for (source, [entries, keys]) in self.sources.values_mut().zip(grown) {
            source.entries.copy_to(&entries, &mut encoder);
            source.keys.copy_to(&keys, &mut encoder);
            (source.entries, source.keys) = (entries, keys);
        }
        gpu.submit(encoder);
        self.capacity = capacity;
        self.plans.clear();
        self.scores.clear();
        Ok(())
    }

    /// Forgets faults of the call before.
    pub(super) fn clear_fault(&self, gpu: &Gpu) {
        fault::clear(gpu, &self.fault);
    }

    /// Tokens that the caches have room for.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes the ring in which a tail finds the window of layer `split`.
    pub(super) fn make_tail_ring(&mut self, gpu: &Gpu, split: usize) -> Result<()> {
        if self.tail_ring.is_none() {
            let ring = &self.rings[split];
            self.tail_ring = Some(GpuPlane::new(gpu, "tail ring", ring.format, ring.width, ring.capacity)?);
        }
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

    /// Reads the global KV of source layer `layer` back: entries and index keys, all rows that the buffers hold, those not written yet being
    /// zero. `None` if the layer is no source.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu).
    pub async fn stored(&self, gpu: &Gpu, layer: usize) -> Result<Option<[Plane; 2]>> {
        let Some(source) = self.sources.get(&layer) else { return Ok(None) };
        let planes = [&source.entries, &source.keys].map(|plane| (plane, plane.capacity));
        Ok(cache::read(gpu, &planes, &[]).await?.0.try_into().ok())
    }

    /// Bytes of the window rings.
    pub fn ring_bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.bytes(ring.capacity)).sum()
    }
}
