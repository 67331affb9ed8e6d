//! Tables of the n-gram hash: token map, multipliers, primes and row offsets (sections 2.1 and 2.2).

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::numerics::rng::Pcg64;
use crate::{Error, Result};

/// File name of the tables in a checkpoint folder; the release has none, its tables follow from the config and the built-in map.
pub const ENGRAM_FILE: &str = "engram_tables.json";

/// Vocabulary that the built-in token map belongs to.
const RELEASED_VOCAB: usize = 129_280;
/// Distinct compressed ids of the built-in token map.
const RELEASED_COMPRESSED: u64 = 99_092;
/// Token id to compressed id as little-endian u32, computed from the released tokenizer by the rules of section 2.1.
static RELEASED_MAP: &[u8] = include_bytes!("data/engram_token_map.u32le");

/// What the hash of one position needs. Columns are `k = (n - 2) * heads + head`; the outer lists run over the Engram layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngramTables {
    /// Token id to compressed id, `[vocab_size]`.
    pub token_map: Vec<u32>,
    /// Compressed id that stands for "nothing before".
    pub pad_id: u32,
    /// Odd factors, `[layer][distance]`, distance 0 to longest n-gram - 1.
    pub multipliers: Vec<Vec<u64>>,
    /// Moduli, `[layer][column]`.
    pub primes: Vec<Vec<u64>>,
    /// First table row of a column, `[layer][column]`.
    pub offsets: Vec<Vec<u64>>,
}

/// The JSON form. Multipliers are strings, since they pass 2^53 and many JSON readers keep numbers as doubles (P-09).
#[derive(Serialize, Deserialize)]
struct Document {
    n_compressed: u64,
    pad_id: u32,
    primes: Vec<Vec<u64>>,
    offsets: Vec<Vec<u64>>,
    multipliers: Vec<Vec<String>>,
    token_map: Vec<u32>,
}

impl EngramTables {
    /// Computes the tables of section 2.2 for a token map.
    ///
    /// # Errors
    /// [`Error::Integrity`] if the map has another length than the vocabulary or does not use every compressed id below
    /// `engram_compressed_vocab_size` and no other.
    pub fn from_config(config: &Config, token_map: Vec<u32>) -> Result<EngramTables> {
        check_map(config, &token_map)?;
        let primes = config.engram_primes();
        let bound = multiplier_bound(config.engram_compressed_vocab_size);
        let multipliers = config.engram_layer_ids.iter().map(|&layer| {
            let mut rng = Pcg64::new(10_007 * layer as u64);
            (0..config.engram_max_ngram_size).map(|_| 2 * rng.integers(bound) + 1).collect()
        });
        Ok(EngramTables {
            pad_id: token_map[config.engram_pad_id as usize],
            multipliers: multipliers.collect(),
            offsets: primes.iter().map(|primes| running_sums(primes)).collect(),
            primes,
            token_map,
        })
    }

    /// The same tables with other multipliers, for models whose hash does not follow the release's seeds.
    ///
    /// # Errors
    /// [`Error::Integrity`] if there is not one list per Engram layer with one factor per n-gram place, or a factor is even or so large that its
    /// product with an id passes 63 bits.
    pub fn with_multipliers(self, config: &Config, multipliers: Vec<Vec<u64>>) -> Result<EngramTables> {
        let wrong = |problem: String| Err(Error::Integrity(format!("Engram multipliers: {problem}")));
        let (layers, places) = (config.engram_layer_ids.len(), config.engram_max_ngram_size);
        if multipliers.len() != layers || multipliers.iter().any(|list| list.len() != places) {
            return wrong(format!("needed {places} for each of {layers} layers"));
        }
        let most = i64::MAX as u64 / config.engram_compressed_vocab_size;
        if let Some(factor) = multipliers.iter().flatten().find(|&&factor| factor % 2 == 0 || factor > most) {
            return wrong(format!("needed odd numbers up to {most}, found {factor}"));
        }
        Ok(EngramTables { multipliers, ..self })
    }

    /// The release's tables: the built-in map with the constants of section 2.2.
    ///
    /// # Errors
    /// [`Error::Config`] if the config has another vocabulary than the release.
    pub fn released(config: &Config) -> Result<EngramTables> {
        if config.engram_layer_ids.is_empty() {
            // Nothing will be looked up: any map does.
            let last = config.engram_compressed_vocab_size as u32 - 1;
            return EngramTables::from_config(config, (0..config.vocab_size as u32).map(|id| id.min(last)).collect());
        }
        if (config.vocab_size, config.engram_compressed_vocab_size) != (RELEASED_VOCAB, RELEASED_COMPRESSED) {
            let problem = format!(
                "the built-in token map is for {RELEASED_VOCAB} tokens and {RELEASED_COMPRESSED} compressed ids, found {} and {}; \
                 such a checkpoint needs a file {ENGRAM_FILE}",
                config.vocab_size, config.engram_compressed_vocab_size
            );
            return Err(Error::config("engram_compressed_vocab_size", problem));
        }
        EngramTables::from_config(config, released_map())
    }

    /// Reads engram_tables.json and compares it with what the config asks for; only the multipliers are taken as given.
    ///
    /// # Errors
    /// [`Error::Json`] if it is no such document, [`Error::Integrity`] if it contradicts the config.
    pub fn from_json(bytes: &[u8], config: &Config) -> Result<EngramTables> {
        let document: Document = serde_json::from_slice(bytes).map_err(|error| Error::Json {
            file: ENGRAM_FILE.into(),
            what: "tables of the n-gram hash",
            problem: error.to_string(),
        })?;
        let wrong = |problem: String| Error::Integrity(format!("{ENGRAM_FILE}: {problem}"));
        let tables = EngramTables::from_config(config, document.token_map)?;
        if document.n_compressed != config.engram_compressed_vocab_size {
            let needed = config.engram_compressed_vocab_size;
            return Err(wrong(format!("n_compressed: needed {needed}, found {}", document.n_compressed)));
        }
        if document.pad_id != tables.pad_id {
            return Err(wrong(format!("pad_id: needed {}, found {}", tables.pad_id, document.pad_id)));
        }
        if document.primes != tables.primes {
            return Err(wrong("primes are not those of the config".into()));
        }
        if document.offsets != tables.offsets {
            return Err(wrong("offsets are not the running sums of the primes".into()));
        }
        let parse = |text: &String| text.parse().map_err(|_| wrong(format!("multiplier {text:?} is no 64-bit number")));
        let parse_list = |list: &Vec<String>| list.iter().map(parse).collect::<Result<Vec<u64>>>();
        let multipliers = document.multipliers.iter().map(parse_list).collect::<Result<Vec<_>>>()?;
        tables.with_multipliers(config, multipliers)
    }

    /// The JSON form that [`EngramTables::from_json`] reads.
    pub fn to_json(&self) -> String {
        let document = Document {
            n_compressed: self.token_map.iter().max().map_or(0, |&last| u64::from(last) + 1),
            pad_id: self.pad_id,
            primes: self.primes.clone(),
            offsets: self.offsets.clone(),
            multipliers: self.multipliers.iter().map(|list| list.iter().map(u64::to_string).collect()).collect(),
            token_map: self.token_map.clone(),
        };
        // A struct of lists and numbers has no value that JSON lacks.
        serde_json::to_string(&document).unwrap_or_default()
    }
}

/// Numbers below this are drawn for multipliers: `2 * draw + 1` times a compressed id stays below 2^63 (section 2.2).
fn multiplier_bound(compressed_vocab: u64) -> u64 {
    i64::MAX as u64 / compressed_vocab / 2
}

fn running_sums(primes: &[u64]) -> Vec<u64> {
    let add = |sum: &mut u64, &prime: &u64| {
        let before = *sum;
        *sum += prime;
        Some(before)
    };
    primes.iter().scan(0, add).collect()
}

fn released_map() -> Vec<u32> {
    let (words, _) = RELEASED_MAP.as_chunks::<4>();
    words.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

/// Compressed ids are dense: each below the count is used, none above it.
fn check_map(config: &Config, map: &[u32]) -> Result<()> {
    let wrong = |problem: String| Err(Error::Integrity(format!("Engram token map: {problem}")));
    if map.len() != config.vocab_size {
        return wrong(format!("needed one entry per token ({}), found {}", config.vocab_size, map.len()));
    }
    let compressed = config.engram_compressed_vocab_size as usize;
    let mut used = vec![false; compressed];
    for (token, &id) in map.iter().enumerate() {
        match used.get_mut(id as usize) {
            Some(used) => *used = true,
            None => return wrong(format!("token {token}: needed an id below {compressed}, found {id}")),
        }
    }
    match used.iter().position(|used| !used) {
        Some(id) => wrong(format!("needed all ids below {compressed}, found no token for {id}")),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "engram_tests.rs"]
mod tests;
