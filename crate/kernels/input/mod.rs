//! 1A, 1B: what enters the streams.

pub mod embed;
pub mod engram_gate;
