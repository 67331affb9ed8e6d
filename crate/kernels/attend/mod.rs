//! 4A: attention.

pub mod attention;
