//! 6B: the head.

pub mod argmax;
pub mod choose;
