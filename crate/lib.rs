//! # flash890
//!
//! DeepSeek-V4.1-Flash on your own machine, block by block: a reader of the published FP4 and FP8 shards, an exact CPU reference of all ten
//! blocks, and a KV cache of 890 bytes per token.
//!
//! ## One token's journey
//!
//! ```text
//!  1A  id -> embedding row, copied to four residual streams          (a picture: patches -> ViT -> aligner -> rows)
//!  for each of 40 layers:
//!    1B  layers 1 and 14: rows of an n-gram memory, chosen by hashes of the last four tokens, added through a gate
//!    2A  24 numbers from the streams: how to collapse them to one input, and how to write the output back
//!    3B  layers 2, 8, 14, 20: the input becomes (half) an entry of the global KV        6A  stored in 288 + 68 bytes
//!    3C  the token's own row goes into a ring of 128; the indexer picks up to 512 entries of the global KV
//!    4A  64 heads attend to ring and entries; one row is key and value for all of them
//!    5A  6 of 384 experts, and one that all tokens share
//!  6B  norm, head, logits; three small stages draft the next five tokens
//! ```
//!
//! Layers 0 to 19 are the encoder, 20 to 39 the decoder (3A): a prompt needs the decoder for its last rows only.
//!
//! ## Reading order
//!
//! 1. [`blocks`]: one file per block, prose and formula first, then the weights, then the reference.
//! 2. [`model::reference`]: the architecture on one screen; [`model`] also loads it.
//! 3. [`numerics`]: what E4M3, E2M1, E8M0 and the quantisers are, to the bit.
//! 4. [`weights`]: from bytes to tensors, and the contract that lists all 96,085 of them.
//! 5. [`lab`]: golden files, parity reports and the lab's tables: how truth is established.
//!
//! Folders depend on each other in this order: `error`, `config`, `numerics`; `weights`, `text`, `image`; `blocks`; `model`; `generate`; `chat`, `lab`.

// In a browser a checkpoint may hold handles of the page, which stay in their worker: there is one thread, and the same code natively has many.
#![cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync))]

pub mod blocks;
pub mod chat;
#[cfg(not(target_arch = "wasm32"))]
pub mod cli;
pub mod config;
pub mod error;
pub mod generate;
pub mod gpu;
pub mod image;
pub mod kernels;
pub mod lab;
pub mod model;
pub mod numerics;
pub mod text;
#[cfg(target_arch = "wasm32")]
pub mod web;
pub mod weights;

pub use error::{Error, Result};
