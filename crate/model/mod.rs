//! The blocks put together: load a checkpoint, run prompts and tokens through it.

pub mod gpu;
pub mod load;
pub mod reference;
mod step;

pub use reference::{Forced, Output, Prefill, Reference};
