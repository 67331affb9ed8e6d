//! The blocks put together: load a checkpoint, run prompts and tokens through it.

pub mod engine;
pub mod gpu;
pub mod load;
pub mod reference;
pub mod replay;
pub mod slots;
mod step;

pub use engine::{Engine, EngineState};
pub use reference::{Forced, Output, Prefill, Reference};
