//! How much of a checkpoint lies in memory while it runs, and how much comes as it is asked for: decided from the config alone, before anything
//! is read.

use super::contract::{Part, contract};
use crate::config::Config;
use serde::Serialize;

/// How a model is held in a given number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holding {
    /// Bytes of all weights but the n-gram tables, of which only rows are ever read.
    pub loaded: u64,
    /// Bytes of the n-gram tables.
    pub tables: u64,
    /// Bytes of one routed expert of the backbone.
    pub expert: u64,
    /// Routed experts of the backbone.
    pub experts: usize,
    /// Slots that experts come to as the router asks; `None` if all of them stay.
    pub slots: Option<usize>,
    /// Bytes of weights that stay in memory.
    pub resident: u64,
    /// Bytes that were there to hold them.
    pub memory: u64,
    /// Whether they do.
    pub fits: bool,
}

impl Holding {
    /// As many experts as `memory` bytes hold beside everything else. It has to be at least what one token asks of a layer: with fewer, every
    /// layer would read its experts twice.
    pub fn of(config: &Config, memory: u64) -> Holding {
        let (mut all, mut tables, mut routed) = (0u64, 0, 0);
        for spec in contract(config) {
            let bytes = spec.bytes();
            all += bytes;
            match spec.part {
                Part::EngramTables => tables += bytes,
                Part::RoutedExperts => routed += bytes,
                _ => {}
            }
        }
        let loaded = all - tables;
        let experts = config.n_layers * config.n_routed_experts;
        let expert = routed / experts.max(1) as u64;
        let slots = if loaded <= memory {
            None
        } else {
            let room = memory.saturating_sub(loaded - routed) / expert.max(1);
            Some((room as usize).clamp(config.n_activated_experts.min(experts), experts))
        };
        let resident = slots.map_or(loaded, |slots| loaded - routed + slots as u64 * expert);
        Holding { loaded, tables, expert, experts, slots, resident, memory, fits: resident <= memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_give_way_first() {
        let config = Config::lab();
        let all = Holding::of(&config, u64::MAX);
        assert_eq!((all.slots, all.fits, all.resident), (None, true, all.loaded));
        let dense = all.loaded - all.experts as u64 * all.expert;
        let some = Holding::of(&config, dense + 20 * all.expert + 1);
        assert_eq!((some.slots, some.fits, some.resident), (Some(20), true, dense + 20 * all.expert));
        let none = Holding::of(&config, dense);
        assert_eq!((none.slots, none.fits), (Some(config.n_activated_experts), false));
    }

    /// Section 11.1: what is not an expert is more than a tab can have.
    #[test]
    fn the_release_does_not_fit_into_a_tab() {
        let release = Holding::of(&Config::flash(), 2 << 30);
        assert_eq!((release.loaded, release.tables), (307_527_990_600, 202_758_032_400));
        assert_eq!((release.experts, release.expert), (40 * 384, 18_800_640));
        assert_eq!((release.fits, release.slots), (false, Some(6)));
        assert!(release.resident > 11_000_000_000);
    }
}
