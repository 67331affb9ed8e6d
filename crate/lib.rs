//! # flash890
//!
//! DeepSeek-V4.1-Flash, block by block.

pub mod config;
pub mod error;
pub mod numerics;
pub mod text;

pub use error::{Error, Result};
