//! 6B: the head.

pub mod argmax;
