//! Whether a model fits into memory, asked before anything is loaded.

use super::console::size;
use crate::weights::Checkpoint;
use crate::{Error, Result};

/// # Errors
/// [`Error::DoesNotFit`] if the weights alone need more than the machine has free. Where the machine does not tell, nothing is refused.
pub(super) fn check(checkpoint: &Checkpoint) -> Result<()> {
    let needed = loaded_bytes(checkpoint.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.bytes())));
    match available() {
        Some(available) if needed > available => Err(Error::DoesNotFit {
            what: "the weights in memory".into(),
            needed: size(needed),
            available: size(available),
        }),
        _ => Ok(()),
    }
}

/// Bytes that loading takes: everything as stored, but the n-gram tables, which stay in their files (section 2.4).
fn loaded_bytes<'a>(tensors: impl Iterator<Item = (&'a str, u64)>) -> u64 {
    tensors.filter(|(name, _)| !name.contains(".engram.embed.")).map(|(_, bytes)| bytes).sum()
}

fn available() -> Option<u64> {
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
    fn meminfo() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many kB\n"), None);
    }
}
