//! From bytes to tensors: sources, safetensors headers, the shard index, the contract between config and files, and the tensors themselves.
//!
//! Reading order: [`source`] (where bytes come from), [`header`] and [`index`] (what a checkpoint says it holds), [`contract`] and [`verdict`]
//! (what the config says it must hold), [`checkpoint`] (all together, and the tensors as numbers), [`engram`] (tables of the n-gram hash), [`tiny`] (writes small
//! checkpoints, and the one used when no model is given).

pub mod checkpoint;
pub mod contract;
pub mod engram;
mod fingerprint;
pub mod header;
pub mod index;
pub mod source;
mod tensor;
pub mod tiny;
pub mod verdict;

#[cfg(test)]
mod checkpoint_tests;

pub use checkpoint::{Checkpoint, TensorInfo};
pub use engram::EngramTables;
pub use safetensors::Dtype;
pub use source::{ByteSource, Files, Folder};
