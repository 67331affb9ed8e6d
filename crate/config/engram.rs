//! The n-gram memory: its checks, and the primes of its hash, which follow from the config alone (section 2.2).

use super::Config;
use super::check::between;
use super::schedule::ascending;
use crate::numerics::prime::next_prime;
use crate::{Error, Result};

/// Hash columns of all Engram layers together (48 in the release); each costs a search for a prime.
const MAX_HASH_COLUMNS: usize = 4096;
/// Where the search for primes may start: the release is at 16 M; 4096 primes from here sum to less than 2^45 rows.
const MAX_PRIME_START: u64 = 1 << 32;
/// Longest n-gram: four times the release.
pub(super) const MAX_NGRAM: usize = 16;
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

    pub(super) fn check_engram(&self) -> Result<()> {
        between("engram_max_ngram_size", self.engram_max_ngram_size, 2, MAX_NGRAM)?;
        ascending("engram_layer_ids", &self.engram_layer_ids, self.n_layers)?;
        let (layers, sums) = (self.engram_layer_ids.len(), self.engram_num_embeddings.len());
        if layers != sums {
            return Err(Error::config(
                "engram_num_embeddings",
                format!("needed one entry per Engram layer ({layers}), found {sums}"),
            ));
        }
        let columns = self.engram_columns() * layers;
        if columns > MAX_HASH_COLUMNS {
            return Err(Error::config(
                "engram_n_heads",
                format!("needed at most {MAX_HASH_COLUMNS} hash columns, found {columns}"),
            ));
        }
        if !(3..=MAX_PRIME_START).contains(&self.engram_vocab_size) {
            let problem = format!("needed 3 to {MAX_PRIME_START}, found {}", self.engram_vocab_size);
            return Err(Error::config("engram_vocab_size", problem));
        }
        let compressed = self.engram_compressed_vocab_size;
        if compressed == 0 || compressed > self.vocab_size as u64 {
            let problem = format!("needed 1 to vocab_size ({}), found {compressed}", self.vocab_size);
            return Err(Error::config("engram_compressed_vocab_size", problem));
        }
        self.check_engram_rows()
    }

    /// A table has one row per residue of each of its columns.
    fn check_engram_rows(&self) -> Result<()> {
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
