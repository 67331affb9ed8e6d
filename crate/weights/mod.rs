//! From bytes to tensors: sources, safetensors headers, the shard index, the contract between config and files, and the tensors themselves.
//!
//! Reading order: [`source`] (where bytes come from), [`header`] and [`index`] (what a checkpoint says it holds), [`contract`] (what the config
//! says it must hold), [`checkpoint`] (both together, and the tensors), [`engram`] (tables of the n-gram hash), [`tiny`] (writes small
//! checkpoints, and the one used when no model is given).

pub mod contract;
pub mod engram;
pub mod header;
pub mod index;
pub mod source;

pub use safetensors::Dtype;
