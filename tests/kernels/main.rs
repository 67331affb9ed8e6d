//! Every kernel: reflected against what Rust believes, and run against the reference function of its block.
//!
//! Decoders, quantisers and selections are exact and compared bit for bit. Sums run in another order than the reference's; they are compared
//! with the limit [`support::SUMS`], or by steps of bf16 where the released numerics round.

mod attend;
mod cache;
mod experts;
mod head;
mod hyper;
mod index;
mod input;
mod linear;
mod norm;
mod reflection;
mod support;
