//! Writes small checkpoints in the released layout, with weights that follow from their names (appendix E.1 of the specification).
//!
//! The same spec gives the same bytes on every machine: no clock, no random numbers, no transcendental functions. [`lab()`] is the checkpoint
//! that is used when no model is given.

mod lab;
mod rules;
mod tokenizer;
mod write;

pub use rules::Rules;

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::checkpoint::Checkpoint;
use super::contract::{TensorSpec, contract};
use super::engram::{ENGRAM_FILE, EngramTables};
use super::index::INDEX_FILE;
use super::source::Files;
use crate::config::Config;
use crate::{Error, Result};

/// Most bytes of tensors that are made: everything is made in memory.
const MAX_BYTES: u64 = 2 << 30;

/// What a small checkpoint is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct TinySpec {
    /// Hyper-parameters; must pass [`Config::check`].
    pub config: Config,
    /// How large the weights of each kind are.
    pub rules: Rules,
    /// Token id to compressed id (section 2.1), `[vocab_size]`.
    pub token_map: Vec<u32>,
    /// Hash multipliers `[Engram layer][place]` where they are not those of section 2.2.
    pub multipliers: Option<Vec<Vec<u64>>>,
    /// The document tokenizer.json, if there is to be one.
    pub tokenizer: Option<String>,
    /// Number of safetensors files, at least 1; at most as many are written as the released layout has for this config.
    pub shards: usize,
}

impl TinySpec {
    /// All files of the checkpoint: config.json, engram_tables.json, tokenizer.json, shards and their index.
    ///
    /// # Errors
    /// [`Error::Config`] if the config does not pass its checks, [`Error::Integrity`] if map or multipliers do not fit it, [`Error::Tensor`] if a
    /// tensor has no rule, [`Error::DoesNotFit`] if it would have more than 2 GiB, [`Error::Usage`] if it is to have no shard.
    pub fn files(&self) -> Result<Files> {
        self.config.check()?;
        let mut tables = EngramTables::from_config(&self.config, self.token_map.clone())?;
        if let Some(multipliers) = &self.multipliers {
            tables = tables.with_multipliers(&self.config, multipliers.clone())?;
        }
        let mut files = Files::new();
        files.insert("config.json".into(), self.config.to_json().into_bytes().into());
        files.insert(ENGRAM_FILE.into(), tables.to_json().into_bytes().into());
        if let Some(tokenizer) = &self.tokenizer {
            files.insert("tokenizer.json".into(), tokenizer.clone().into_bytes().into());
        }
        self.add_shards(&mut files)?;
        Ok(files)
    }

    fn add_shards(&self, files: &mut Files) -> Result<()> {
        let specs = contract(&self.config);
        let total = specs.iter().fold(0u64, |sum, spec| sum.saturating_add(spec.bytes()));
        if total > MAX_BYTES {
            return Err(Error::DoesNotFit {
                what: "a checkpoint made in memory".into(),
                needed: format!("{total} bytes"),
                available: format!("{MAX_BYTES} bytes"),
            });
        }
        let released = specs.iter().map(|spec| spec.shard).max().unwrap_or(1);
        let count = self.shards.min(released);
        if count == 0 {
            return Err(Error::Usage("a checkpoint needs at least one shard".into()));
        }
        let mut shards: BTreeMap<usize, Vec<&TensorSpec>> = BTreeMap::new();
        for spec in &specs {
            shards.entry((spec.shard - 1) * count / released).or_default().push(spec);
        }
        let mut weight_map = Vec::with_capacity(specs.len());
        for (number, specs) in shards {
            let name = format!("model-{:05}-of-{count:05}.safetensors", number + 1);
            weight_map.extend(specs.iter().map(|spec| (spec.name.as_str(), name.clone())));
            files.insert(name, self.shard(specs)?.into());
        }
        files.insert(INDEX_FILE.into(), write::index(total, &weight_map).into_bytes().into());
        Ok(())
    }

    /// One safetensors file. Wider types come first, so that every tensor is aligned to its own type; within a type the contract's order holds.
    fn shard(&self, mut specs: Vec<&TensorSpec>) -> Result<Vec<u8>> {
        specs.sort_by_key(|spec| std::cmp::Reverse(spec.dtype.bitsize()));
        let data = specs.par_iter().map(|spec| self.rules.fill(spec)).collect::<Result<Vec<_>>>()?;
        Ok(write::safetensors(&specs, &data))
    }
}

/// The lab model: [`Config::lab`] with weights that keep it well conditioned.
///
/// # Errors
/// None that its tests do not show; the type is that of [`Checkpoint::from_files`].
pub async fn lab() -> Result<Checkpoint> {
    Checkpoint::from_files(TinySpec::lab().files()?).await
}

/// Writes files into a folder, which is made if it is not there.
///
/// # Errors
/// [`Error::Io`] if the folder or a file cannot be written.
#[cfg(not(target_arch = "wasm32"))]
pub fn write_dir(files: &Files, folder: &std::path::Path) -> Result<()> {
    let io = |path: &std::path::Path| {
        let path = path.display().to_string();
        move |source| Error::Io { path, source }
    };
    std::fs::create_dir_all(folder).map_err(io(folder))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(io(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
