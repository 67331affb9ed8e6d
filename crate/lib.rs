//! # flash890
//!
//! DeepSeek-V4.1-Flash, block by block.

pub mod blocks;
#[cfg(not(target_arch = "wasm32"))]
pub mod cli;
pub mod config;
pub mod error;
pub mod image;
pub mod lab;
pub mod model;
pub mod numerics;
pub mod text;
pub mod weights;

pub use error::{Error, Result};
