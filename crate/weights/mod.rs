//! From bytes to tensors: sources, safetensors headers, the shard index, the contract between config and files, and the tensors themselves.
//!
//! Reading order: [`source`] and [`folder`] (where bytes come from), [`http`] and `store` (servers, and what is kept of their files),
//! [`header`] and [`index`] (what a checkpoint says it holds), [`contract`], [`verdict`], [`needs`] and [`holding`] (what the config says it
//! must hold, what that needs of a machine, and how much of it lies in memory), [`checkpoint`] (all together, and the tensors as numbers), [`opened`] (before its weights are read), `gather` and `rows` (many tensors in few reads),
//! [`checksums`], [`engram`] (tables of the n-gram hash), [`tiny`] (writes small checkpoints, and the one used when no model is given).

pub mod checkpoint;
pub mod checksums;
pub mod contract;
pub mod engram;
mod fingerprint;
pub mod folder;
mod gather;
pub mod header;
pub mod holding;
pub mod http;
pub mod index;
pub mod needs;
pub mod opened;
mod rows;
pub mod source;
pub mod store;
mod tensor;
pub mod tiny;
pub mod verdict;
mod whole;

#[cfg(test)]
mod checkpoint_tests;

pub use checkpoint::{Checkpoint, TensorInfo};
pub use engram::EngramTables;
pub use folder::Folder;
pub use safetensors::Dtype;
pub use source::{ByteSource, Files};
