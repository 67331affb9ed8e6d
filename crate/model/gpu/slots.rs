//! Experts that do not fit into GPU memory: slots of the size of one expert, filled as the router asks.
//!
//! The slots lie in banks, each of which is below what the device binds; a layer's experts come to the bank `layer mod banks`. Within a bank
//! whatever was not used for longest gives way, of any layer, what is pinned last ([`crate::model::slots`]). A call stops after each router, reads
//! the chosen experts back, brings the missing ones, and goes on: that is a submit and a read-back per layer, which is why it is done in this mode
//! only.
//!
//! While the device computes a layer, the next one's router has already looked at this layer's input to the experts: what it would choose is read
//! meanwhile. A wrong guess costs bytes, never a number.
//!
//! Slots change which bytes are read when, and no number. The kernels of many rows find an expert by its place in the weights, here its slot, and
//! the sum that follows them adds in the order of the experts' ids. What a call needs beyond the slots of a bank it takes in turns.

use super::{FEW_ROWS, GpuModel, MOST_ROWS};
use crate::blocks::tap::Tap;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gpu::{Element, Gpu, Plan, Tensor, readback};
use crate::model::load::Loader;
use crate::model::slots::{Popularity, SlotUse};
use crate::numerics::linear::Matrix;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// Most bytes of one upload.
const UPLOAD: usize = 8 << 20;
/// Most bytes of experts that are read together, and lie in main memory on their way; a tab has less of it.
const AHEAD: usize = if cfg!(target_arch = "wasm32") { 24 << 20 } else { 128 << 20 };
/// In place of a slot: none in this turn. No expert has this number.
const ABSENT: u32 = u32::MAX;
/// Steps of the plan between a layer's router and the sum over its experts: both projections.
const TURN: usize = 2;

/// How many slots, and how to measure what they cost.
#[derive(Clone)]
pub struct SlotWish {
    /// Slots in all; at least the experts of one token are made.
    pub count: usize,
    /// Seconds since some beginning.
    pub clock: Rc<dyn Fn() -> f64>,
}

impl fmt::Debug for SlotWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotWish").field("count", &self.count).finish_non_exhaustive()
    }
}

/// Codes and scales of as many experts as it has slots, as [`GpuExperts`](super::weights::GpuExperts) has them.
#[derive(Debug, Clone)]
pub(super) struct Bank {
    pub(super) up: (Tensor, Tensor),
    pub(super) down: (Tensor, Tensor),
}

/// What lies in a slot, and when it was used last.
#[derive(Debug, Clone, Copy)]
struct Slot {
    layer: usize,
    expert: u32,
    turn: u64,
}

#[derive(Debug, Default)]
struct Held {
    /// By bank.
    slots: Vec<Vec<Option<Slot>>>,
    popularity: Popularity,
    turn: u64,
    used: SlotUse,
}

/// Slots for the routed experts of the backbone, in GPU memory.
#[derive(Debug)]
pub(super) struct GpuSlots {
    pub(super) wish: SlotWish,
    banks: Vec<Bank>,
    /// Slots of a bank.
    each: usize,
    held: RefCell<Held>,
    /// Slots of the chosen experts in this turn `[MOST_ROWS, k]`.
    pub(super) places: Tensor,
    /// Outputs of the experts `[MOST_ROWS, k + 1, dim]`.
    rows: Tensor,
    /// What the next layer's router says too early: logits, scores `[MOST_ROWS, experts]`, weights and ids `[MOST_ROWS, k]`.
    early: [Tensor; 4],
}

impl GpuSlots {
    /// Empty slots, in as few banks as the device binds.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] if not even one token's experts can be bound together.
    pub(super) fn new(gpu: &Gpu, config: &Config, wish: SlotWish) -> Result<GpuSlots> {
        let (dim, inter, k) = (config.dim, config.moe_inter_dim, config.n_activated_experts);
        let most = gpu.limits.max_storage_buffer_binding_size.min(gpu.limits.max_buffer_size);
        // The larger of the buffers decides: w1 above w3.
        let bound = (most / (dim * inter) as u64) as usize;
        let count = wish.count.clamp(k, (config.n_layers * config.n_routed_experts).max(k));
        if bound < k {
            return Err(Error::DoesNotFit {
                what: format!("the experts of one token in one binding of {}", gpu.adapter.name),
                needed: format!("{} bytes", k * dim * inter),
                available: format!("{most} bytes"),
            });
        }
        let banks = count.div_ceil(bound).min(config.n_layers.max(1)).min(count / k).max(1);
        let each = (count / banks).min(bound);
        let bytes = |label: &str, shape: &[usize]| Tensor::zeros(gpu, label, Element::Byte, shape);
        let bank = |_| -> Result<Bank> {
            Ok(Bank {
                up: (
                    bytes("slots up", &[each, 2 * inter, dim / 2])?,
                    bytes("slots up scales", &[each, 2 * inter, dim / 32])?,
                ),
                down: (
                    bytes("slots down", &[each, dim, inter / 2])?,
                    bytes("slots down scales", &[each, dim, inter / 32])?,
                ),
            })
        };
        let f = |label: &str, width| Tensor::zeros(gpu, label, Element::F32, &[MOST_ROWS, width]);
        let experts = config.n_routed_experts;
        Ok(GpuSlots {
            early: [
                f("early logits", experts)?,
                f("early scores", experts)?,
                f("early weights", k)?,
                Tensor::zeros(gpu, "early ids", Element::U32, &[MOST_ROWS, k])?,
            ],
            banks: (0..banks).map(bank).collect::<Result<_>>()?,
            held: RefCell::new(Held { slots: vec![vec![None; each]; banks], ..Held::default() }),
            places: Tensor::zeros(gpu, "expert slots", Element::U32, &[MOST_ROWS, k])?,
            rows: Tensor::zeros(gpu, "rows of slotted experts", Element::F32, &[MOST_ROWS, k + 1, dim])?,
            each,
            wish,
        })
    }

    /// The weights that a layer's kernels bind.
    pub(super) fn bank(&self, layer: usize) -> &Bank {
        &self.banks[layer % self.banks.len()]
    }

    /// Room for the outputs of `n` rows.
    pub(super) fn rows(&self, n: usize) -> Tensor {
        Tensor { shape: vec![n, self.rows.shape[1], self.rows.shape[2]], ..self.rows.clone() }
    }

    /// Logits, scores, weights and ids of the next layer's router for `n` rows.
    pub(super) fn early(&self, n: usize) -> [Tensor; 4] {
        self.early.clone().map(|tensor| Tensor { shape: vec![n, tensor.shape[1]], ..tensor })
    }

    /// Slots in all.
    pub(super) fn count(&self) -> usize {
        self.banks.len() * self.each
    }

    pub(super) fn usage(&self) -> SlotUse {
        self.held.borrow().used
    }
}

impl Held {
    /// The slots of experts `ids` of a layer in a bank that has one for each; those that are not there take the place of whatever was not used
    /// for longest and is not among `ids`, of what is pinned last. Returns the slots, and which of the experts have to be read. What is only `guessed` is no hit and no
    /// miss.
    fn assign(&mut self, bank: usize, layer: usize, ids: &[u32], guessed: bool) -> (Vec<usize>, Vec<usize>) {
        self.turn += 1;
        let turn = self.turn;
        if !guessed {
            ids.iter().for_each(|&id| self.popularity.count((layer, id as usize)));
        }
        let slots = &mut self.slots[bank];
        let is_here = |slot: &Option<Slot>, id| slot.is_some_and(|slot| slot.layer == layer && slot.expert == id);
        let mut places: Vec<Option<usize>> =
            ids.iter().map(|&id| slots.iter().position(|slot| is_here(slot, id))).collect();
        let missing: Vec<usize> = (0..ids.len()).filter(|&which| places[which].is_none()).collect();
        let mut free: Vec<usize> = (0..slots.len()).filter(|place| !places.contains(&Some(*place))).collect();
        if !missing.is_empty() {
            let key = |slot: &Slot| (slot.layer, slot.expert as usize);
            let pinned = self.popularity.pinned(slots.iter().flatten().map(key), slots.len());
            free.sort_by_key(|&place| {
                slots[place].map_or((false, 0), |slot| (pinned.contains(&key(&slot)), slot.turn + 1))
            });
        }
        for (&which, place) in missing.iter().zip(free) {
            places[which] = Some(place);
        }
        for (&place, &expert) in places.iter().flatten().zip(ids) {
            slots[place] = Some(Slot { layer, expert, turn });
        }
        if !guessed {
            self.used.hits += (ids.len() - missing.len()) as u64;
            self.used.misses += missing.len() as u64;
        } else {
            self.used.early += missing.len() as u64;
        }
        (places.into_iter().flatten().collect(), missing)
    }

    /// Empties slots whose experts could not be read.
    fn forget(&mut self, bank: usize, experts: &[(u32, usize)]) {
        experts.iter().for_each(|&(_, place)| self.slots[bank][place] = None);
    }
}

impl GpuModel {
    /// What the slots did so far, if experts come to slots.
    pub fn slots(&self) -> Option<SlotUse> {
        self.slots.as_ref().map(|slots| slots.usage())
    }

    /// Number of slots, if experts come to slots.
    pub fn slot_count(&self) -> Option<usize> {
        self.slots.as_ref().map(|slots| slots.count())
    }

    /// Encodes `range` of a plan's steps for `n` rows. With slots it submits on the way, after every router, and brings what that chose.
    ///
    /// # Errors
    /// With slots: what reading says, [`Error::Gpu`].
    pub(super) async fn encode_steps(
        &self,
        plan: &Plan,
        range: Range<usize>,
        n: usize,
        mut encoder: wgpu::CommandEncoder,
    ) -> Result<wgpu::CommandEncoder> {
        let Some(slots) = &self.slots else {
            plan.encode_range(&mut encoder, range);
            return Ok(encoder);
        };
        let (config, mut at, mut guess) = (self.config(), range.start, None);
        let k = config.n_activated_experts;
        // Stages of the drafter keep their experts.
        let routers = plan.taps.iter().filter(|tap| tap.name == Tap::ExpertIds.name() && tap.layer < config.n_layers);
        for tap in routers.filter(|tap| range.contains(&tap.after)) {
            plan.encode_range(&mut encoder, at..tap.after);
            self.gpu.submit(encoder);
            if let Some(guess) = guess.take() {
                self.bring(slots, tap.layer, guess, true).await?;
            }
            let [ids, early] = readback::after(&self.gpu, self.gpu.encoder(), [&tap.tensor, &slots.early[3]]).await?;
            let words = |bytes: &[u8]| -> Vec<u32> {
                bytes.as_chunks().0.iter().take(n * k).map(|&word| u32::from_le_bytes(word)).collect()
            };
            let ids = words(&ids);
            at = tap.after + TURN;
            for turn in self.distinct(&ids).chunks(slots.each) {
                let places = self.bring(slots, tap.layer, turn.to_vec(), false).await?;
                let of = |id: &u32| turn.binary_search(id).map_or(ABSENT, |which| places[which] as u32);
                let words: Vec<u32> = ids.iter().map(of).collect();
                self.gpu.queue.write_buffer(&slots.places.buffer, 0, bytemuck::cast_slice(&words));
                let mut encoder = self.gpu.encoder();
                plan.encode_range(&mut encoder, tap.after..at);
                self.gpu.submit(encoder);
            }
            // Of many rows nearly all experts are wanted, and the guess says little.
            let is_few = n <= FEW_ROWS && tap.layer + 1 < config.n_layers;
            guess = is_few.then(|| self.distinct(&words(&early))).filter(|ids| ids.len() <= slots.each);
            encoder = self.gpu.encoder();
        }
        plan.encode_range(&mut encoder, at..range.end);
        Ok(encoder)
    }

    /// Experts that were chosen, ascending. A router whose numbers are not finite chooses none that is there; the fault is told at the end of the
    /// call.
    fn distinct(&self, ids: &[u32]) -> Vec<u32> {
        let mut distinct = ids.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.retain(|&id| (id as usize) < self.config().n_routed_experts);
        distinct
    }

    /// The slots of a layer's experts, ascending and no more than a bank has; those that are missing are read together.
    async fn bring(&self, slots: &GpuSlots, layer: usize, ids: Vec<u32>, guessed: bool) -> Result<Vec<usize>> {
        let bank = layer % slots.banks.len();
        let (places, missing) = slots.held.borrow_mut().assign(bank, layer, &ids, guessed);
        if missing.is_empty() {
            return Ok(places);
        }
        let begin = (slots.wish.clock)();
        let read: Vec<(u32, usize)> = missing.iter().map(|&which| (ids[which], places[which])).collect();
        match self.read_into(slots, layer, &read).await {
            Ok(bytes) => {
                let mut held = slots.held.borrow_mut();
                held.used.bytes += bytes;
                held.used.seconds += (slots.wish.clock)() - begin;
                Ok(places)
            }
            Err(error) => {
                slots.held.borrow_mut().forget(bank, &read);
                Err(error)
            }
        }
    }

    /// Reads experts and uploads each to its slot; returns the bytes read.
    async fn read_into(&self, slots: &GpuSlots, layer: usize, experts: &[(u32, usize)]) -> Result<u64> {
        let name = |id: u32| format!("layers.{layer}.ffn.experts.{id}");
        let loader = Loader { checkpoint: &self.checkpoint, context: &self.context };
        let (bank, mut bytes) = (slots.bank(layer), 0);
        let one = (bank.up.0.len() + bank.down.0.len()) / slots.each;
        for group in experts.chunks((AHEAD / one.max(1)).max(1)) {
            let prefixes: Vec<String> = group.iter().map(|&(id, _)| name(id) + ".").collect();
            self.checkpoint.announce_all(&prefixes).await?;
            for &(id, place) in group {
                let expert = loader.expert(&name(id)).await?;
                bytes += expert.bytes() as u64;
                upload(&self.gpu, &bank.up, place, &[&expert.w1, &expert.w3])?;
                upload(&self.gpu, &bank.down, place, &[&expert.w2])?;
            }
        }
        Ok(bytes)
    }
}

/// Writes matrices, one after the other, to a slot.
fn upload(gpu: &Gpu, (codes, scales): &(Tensor, Tensor), place: usize, matrices: &[&Matrix]) -> Result<()> {
    let size = |tensor: &Tensor| tensor.len() / tensor.shape[0];
    let (mut code, mut scale) = (place * size(codes), place * size(scales));
    for matrix in matrices {
        let Matrix::Fp4 { packed, scales: own, .. } = matrix else {
            return Err(Error::tensor(&codes.label, "needed FP4 experts for the GPU"));
        };
        write(gpu, codes, code, packed);
        write(gpu, scales, scale, own);
        (code, scale) = (code + packed.len(), scale + own.len());
    }
    Ok(())
}

fn write(gpu: &Gpu, tensor: &Tensor, start: usize, bytes: &[u8]) {
    for (number, piece) in bytes.chunks(UPLOAD).enumerate() {
        gpu.queue.write_buffer(&tensor.buffer, (start + number * UPLOAD) as u64, piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expert_of_longest_ago_gives_way() {
        let mut held = Held { slots: vec![vec![None; 3]], ..Held::default() };
        assert_eq!(held.assign(0, 0, &[4, 7], false), (vec![0, 1], vec![0, 1]));
        assert_eq!(held.assign(0, 1, &[4], false), (vec![2], vec![0]));
        assert_eq!(held.assign(0, 0, &[4], false), (vec![0], vec![]));
        // Layer 0's expert 7 was not used for longest; what is needed now stays.
        assert_eq!(held.assign(0, 2, &[1], true), (vec![1], vec![0]));
        assert_eq!(held.assign(0, 0, &[2, 4], false), (vec![2, 0], vec![0]));
        let used = held.used;
        assert_eq!((used.hits, used.misses, used.early), (2, 4, 1));
        held.forget(0, &[(2, 2)]);
        assert_eq!(held.assign(0, 3, &[9], false), (vec![2], vec![0]));
    }

    #[test]
    fn what_is_chosen_most_often_stays() {
        let mut held = Held { slots: vec![vec![None; 4]], ..Held::default() };
        (0..3).for_each(|_| drop(held.assign(0, 5, &[1], false)));
        // A guess is no use.
        (0..9).for_each(|_| drop(held.assign(0, 7, &[1], true)));
        (0..8).for_each(|id| drop(held.assign(0, 6, &[id], false)));
        assert!(held.assign(0, 5, &[1], false).1.is_empty());
        assert_eq!(held.assign(0, 7, &[1], false).1, vec![0]);
        // What is needed together needs room, pinned or not.
        assert_eq!(held.assign(0, 8, &[1, 2, 3, 4], false).1, vec![0, 1, 2, 3]);
    }
}
