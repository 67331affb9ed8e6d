//! The primes of the n-gram hash follow from the config alone (section 2.2).

use super::Config;
use crate::numerics::prime::next_prime;
use crate::{Error, Result};

/// Row ids are 32 bits wide in shaders; the release has 384 M rows per table.
const MAX_TABLE_ROWS: u64 = u32::MAX as u64;

impl Config {
    /// Hash moduli per Engram layer, one per column `(n - 2) * heads + head`.
    ///
    /// The search starts at `engram_vocab_size - 1`; a prime is used once over all layers, so the list ascends.
    pub fn engram_primes(&self) -> Vec<Vec<u64>> {
        let mut last = self.engram_vocab_size - 1;
        let mut next = || {
            last = next_prime(last);
            last
        };
        self.engram_layer_ids.iter().map(|_| (0..self.engram_columns()).map(|_| next()).collect()).collect()
    }

    /// A table has one row per residue of each of its columns.
    pub(super) fn check_engram_rows(&self) -> Result<()> {
        let sums: Vec<u64> = self.engram_primes().iter().map(|primes| primes.iter().sum()).collect();
        if let Some(rows) = sums.iter().find(|&&rows| rows > MAX_TABLE_ROWS) {
            let problem = format!("needed tables of at most {MAX_TABLE_ROWS} rows, found {rows}");
            return Err(Error::config("engram_vocab_size", problem));
        }
        if sums == self.engram_num_embeddings {
            return Ok(());
        }
        let problem = format!("needed the sums of the hash primes {sums:?}, found {:?}", self.engram_num_embeddings);
        Err(Error::config("engram_num_embeddings", problem))
    }
}
