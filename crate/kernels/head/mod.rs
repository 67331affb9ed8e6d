//! 6B: the head.

pub mod argmax;
pub mod choose;
pub mod confidence;
pub mod markov;
