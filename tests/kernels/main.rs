//! Every kernel: reflected against what Rust believes, and run against the reference function of its block.

mod reflection;
