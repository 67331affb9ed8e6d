//! Experts that do not fit into memory: a fixed number of slots, filled as the router asks, emptied of whatever was not used for longest.
//! A quarter of the slots is pinned to the experts that were chosen most often, so that a long prompt, which asks for nearly all of them once, does
//! not drive out those that every token needs.
//!
//! Slots change which bytes are read when, and no number: the mixture adds its experts in ascending order in any case, and where a call needs
//! more experts than there are slots it takes them in turns.

use super::load::Loader;
use crate::blocks::b5a_experts::Expert;
use crate::blocks::context::Context;
use crate::error::Result;
use crate::weights::Checkpoint;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds since some beginning. The library has no clock of its own: not every host has the same.
pub type Clock = Box<dyn Fn() -> f64 + Send + Sync>;

/// A layer and the number of an expert in it.
pub(super) type Key = (usize, usize);

/// What the slots did so far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SlotUse {
    /// Times that an expert was in its slot.
    pub hits: u64,
    /// Times that it had to be read.
    pub misses: u64,
    /// Experts that were read before they were asked for.
    pub early: u64,
    /// Bytes read for them.
    pub bytes: u64,
    /// Seconds that reading took.
    pub seconds: f64,
}

impl SlotUse {
    /// Share of hits, from 0 to 1; `None` before the first expert.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }

    /// Bytes per second of reading; `None` before the first miss.
    pub fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes as f64 / self.seconds)
    }
}

/// One slot in so many is pinned.
const PINNED_SHARE: usize = 4;
/// After so many uses all counts are halved: what was popular long ago makes way.
const MEMORY: u64 = 1 << 16;

/// How often experts were chosen.
#[derive(Debug, Default)]
pub(super) struct Popularity {
    uses: HashMap<Key, u64>,
    total: u64,
}

impl Popularity {
    /// Counts one use.
    pub(super) fn count(&mut self, key: Key) {
        *self.uses.entry(key).or_default() += 1;
        self.total += 1;
        if self.total >= MEMORY {
            self.uses.values_mut().for_each(|uses| *uses /= 2);
            self.uses.retain(|_, uses| *uses > 0);
            self.total = self.uses.values().sum();
        }
    }

    /// Of the experts that are `held` in `slots` slots, those that are pinned: the most often chosen; of equals the lower layer and number.
    pub(super) fn pinned(&self, held: impl Iterator<Item = Key>, slots: usize) -> HashSet<Key> {
        let mut ranked: Vec<_> = held.map(|key| (Reverse(self.uses.get(&key).copied().unwrap_or(0)), key)).collect();
        ranked.sort_unstable();
        ranked.into_iter().take(slots / PINNED_SHARE).map(|(_, key)| key).collect()
    }
}

/// Slots for the routed experts of the backbone.
pub struct Slots {
    count: usize,
    clock: Clock,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    experts: HashMap<Key, Slot>,
    popularity: Popularity,
    /// Grows with every use.
    turn: u64,
    used: SlotUse,
}

struct Slot {
    expert: Arc<Expert>,
    turn: u64,
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("count", &self.count).field("used", &self.usage()).finish_non_exhaustive()
    }
}

impl Slots {
    /// `count` slots, at least one.
    pub fn new(count: usize, clock: Clock) -> Slots {
        Slots { count: count.max(1), clock, held: Mutex::default() }
    }

    /// Number of slots.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What they did so far.
    pub fn usage(&self) -> SlotUse {
        self.held().used
    }

    /// The experts `ids` of a layer, at most as many as there are slots. Those that are missing are read together.
    ///
    /// # Errors
    /// What reading or their contents say, as for every weight.
    pub(super) async fn bring(
        &self,
        checkpoint: &Checkpoint,
        context: &Context,
        layer: usize,
        ids: &[usize],
    ) -> Result<Vec<Arc<Expert>>> {
        let mut experts = self.held().find(layer, ids);
        let missing: Vec<usize> = (0..ids.len()).filter(|&place| experts[place].is_none()).collect();
        if !missing.is_empty() {
            self.held().make_room((self.count, missing.len()), layer, ids);
            let begin = (self.clock)();
            let name = |place: usize| format!("layers.{layer}.ffn.experts.{}", ids[place]);
            let prefixes: Vec<String> = missing.iter().map(|&place| name(place) + ".").collect();
            checkpoint.announce_all(&prefixes).await?;
            let loader = Loader { checkpoint, context };
            let mut bytes = 0;
            for &place in &missing {
                let expert = loader.expert(&name(place)).await?;
                bytes += expert.bytes() as u64;
                experts[place] = Some(Arc::new(expert));
            }
            let seconds = (self.clock)() - begin;
            let mut held = self.held();
            held.used.misses += missing.len() as u64;
            held.used.bytes += bytes;
            held.used.seconds += seconds;
            for &place in &missing {
                if let Some(expert) = &experts[place] {
                    held.put((layer, ids[place]), Arc::clone(expert));
                }
            }
        }
        Ok(experts.into_iter().flatten().collect())
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn find(&mut self, layer: usize, ids: &[usize]) -> Vec<Option<Arc<Expert>>> {
        self.turn += 1;
        let mut experts = Vec::with_capacity(ids.len());
        for &id in ids {
            self.popularity.count((layer, id));
            let slot = self.experts.get_mut(&(layer, id));
            experts.push(slot.map(|slot| {
                slot.turn = self.turn;
                Arc::clone(&slot.expert)
            }));
        }
        self.used.hits += experts.iter().flatten().count() as u64;
        experts
    }

    /// Empties slots until `needed` of all `count` are free: those of longest ago first, pinned ones last, and none that is needed now.
    fn make_room(&mut self, (count, needed): (usize, usize), layer: usize, ids: &[usize]) {
        let pinned = self.popularity.pinned(self.experts.keys().copied(), count);
        let mut old: Vec<(bool, u64, Key)> = (self.experts.iter())
            .filter(|((of, id), _)| *of != layer || !ids.contains(id))
            .map(|(key, slot)| (pinned.contains(key), slot.turn, *key))
            .collect();
        old.sort_unstable();
        let spare = (self.experts.len() + needed).saturating_sub(count);
        old.iter().take(spare).for_each(|(.., key)| drop(self.experts.remove(key)));
    }

    fn put(&mut self, key: Key, expert: Arc<Expert>) {
        self.experts.insert(key, Slot { expert, turn: self.turn });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::precision::Precision;
    use crate::weights::tiny;
    use pollster::block_on;

    #[test]
    fn the_expert_of_longest_ago_goes() {
        let checkpoint = block_on(tiny::lab()).unwrap();
        let context = Context::new(&checkpoint.config, Precision::F32, Precision::Released);
        let slots = Slots::new(3, Box::new(|| 0.0));
        let bring = |layer, ids: &[usize]| block_on(slots.bring(&checkpoint, &context, layer, ids)).unwrap();
        bring(0, &[0, 1]);
        bring(1, &[0]);
        bring(0, &[0]);
        let used = slots.usage();
        assert_eq!((used.hits, used.misses, used.hit_rate()), (1, 3, Some(0.25)));
        // Layer 0's expert 1 was not used for longest.
        bring(1, &[0, 2]);
        bring(0, &[0]);
        assert_eq!((slots.usage().hits, slots.usage().misses), (3, 4));
        bring(0, &[1]);
        assert_eq!((slots.usage().hits, slots.usage().misses), (3, 5));
        assert!(slots.held().experts.len() <= 3);
        let expert = block_on(Loader { checkpoint: &checkpoint, context: &context }.expert("layers.0.ffn.experts.1"));
        assert_eq!(bring(0, &[1])[0].w2, expert.unwrap().w2);
    }

    #[test]
    fn what_is_chosen_most_often_outlives_a_long_prompt() {
        let checkpoint = block_on(tiny::lab()).unwrap();
        let context = Context::new(&checkpoint.config, Precision::F32, Precision::Released);
        let slots = Slots::new(4, Box::new(|| 0.0));
        let bring = |layer, id: usize| drop(block_on(slots.bring(&checkpoint, &context, layer, &[id])).unwrap());
        (0..3).for_each(|_| bring(5, 1));
        (0..8).for_each(|id| bring(6, id));
        let before = slots.usage();
        bring(5, 1);
        assert_eq!((slots.usage().hits, slots.usage().misses), (before.hits + 1, before.misses));
        // The others went by age.
        bring(6, 7);
        assert_eq!(slots.usage().misses, before.misses);
        bring(6, 0);
        assert_eq!(slots.usage().misses, before.misses + 1);
    }

    #[test]
    fn popularity_fades() {
        let mut popularity = Popularity::default();
        (0..5).for_each(|_| popularity.count((0, 3)));
        let both = || [(0, 3), (0, 4)].into_iter();
        (0..4).for_each(|_| popularity.count((0, 4)));
        assert_eq!(popularity.pinned(both(), 7), HashSet::from([(0, 3)]));
        (0..MEMORY).for_each(|_| popularity.count((0, 4)));
        assert_eq!(popularity.pinned(both(), 7), HashSet::from([(0, 4)]));
        assert!(popularity.total < MEMORY && popularity.uses[&(0, 3)] < 5);
        assert!(popularity.pinned(both(), 3).is_empty());
    }
}
