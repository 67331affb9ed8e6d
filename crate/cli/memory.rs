//! Whether a model fits into memory, asked before anything is loaded.

use super::console::size;
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::config::Config;
use crate::numerics::precision::Precision;
use crate::weights::Checkpoint;
use crate::{Error, Result};

/// # Errors
/// [`Error::DoesNotFit`] if weights and window rings need more than the machine has free. Where the machine does not tell, nothing is refused.
pub(super) fn check(checkpoint: &Checkpoint, kv: Precision) -> Result<()> {
    check_bytes(loaded(checkpoint), checkpoint, kv)
}

/// [`check`] for a run that holds `weights` bytes of weights.
///
/// # Errors
/// [`Error::DoesNotFit`].
pub(super) fn check_bytes(weights: u64, checkpoint: &Checkpoint, kv: Precision) -> Result<()> {
    let needed = weights.saturating_add(ring_bytes(&checkpoint.config, kv));
    match available() {
        Some(available) if needed > available => Err(Error::DoesNotFit {
            what: "the model in memory".into(),
            needed: size(needed),
            available: size(available),
        }),
        _ => Ok(()),
    }
}

/// Bytes of a checkpoint that loading takes.
pub(super) fn loaded(checkpoint: &Checkpoint) -> u64 {
    loaded_bytes(checkpoint.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.bytes())))
}

/// Bytes of the routed experts of the backbone.
pub(super) fn routed_experts(checkpoint: &Checkpoint) -> u64 {
    let is_routed = |name: &str| name.starts_with("layers.") && name.contains(".ffn.experts.");
    checkpoint.tensors().iter().filter(|tensor| is_routed(&tensor.name)).map(|tensor| tensor.bytes()).sum()
}

/// Bytes that loading takes: everything as stored, but the n-gram tables, which stay in their files (section 2.4).
fn loaded_bytes<'a>(tensors: impl Iterator<Item = (&'a str, u64)>) -> u64 {
    tensors.filter(|(name, _)| !name.contains(".engram.embed.")).map(|(_, bytes)| bytes).sum()
}

/// Bytes of the window rings of one sequence, from the config alone: a row per position of the window, for every layer and stage (section 8.2).
pub(super) fn ring_bytes(config: &Config, kv: Precision) -> u64 {
    let format = if kv == Precision::F32 { Format::F32 } else { Format::Fp8 };
    let (codes, scales) = Plane::row_bytes(format, config.head_dim);
    let rings = (config.n_layers + config.n_mtp_layers) as u64;
    ((codes + scales) as u64).saturating_mul(config.window_size as u64).saturating_mul(rings)
}

/// Bytes of memory that programs can still have, where the machine tells.
pub(super) fn available() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemAvailable` of Linux' /proc/meminfo, in bytes.
fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engram_tables_are_not_loaded() {
        let tensors =
            [("embed.weight", 7), ("layers.1.engram.embed.weight", 1 << 40), ("layers.1.engram.wkv.weight", 5)];
        assert_eq!(loaded_bytes(tensors.into_iter()), 12);
    }

    #[test]
    fn rings_are_what_the_state_holds() {
        for kv in [Precision::F32, Precision::Released] {
            let state = crate::blocks::b6a_kv_cache::State::new(&Config::lab(), kv);
            assert_eq!(ring_bytes(&Config::lab(), kv), state.ring_bytes() as u64);
        }
        assert_eq!(ring_bytes(&Config::flash(), Precision::Released), 2_906_112);
    }

    #[test]
    fn meminfo() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many kB\n"), None);
    }
}
