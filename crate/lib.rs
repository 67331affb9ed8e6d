//! # flash890
//!
//! DeepSeek-V4.1-Flash, block by block.

pub mod config;
pub mod error;
pub mod numerics;
pub mod weights;

pub use error::{Error, Result};
