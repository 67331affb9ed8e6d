//! 2A: the residual streams.

pub mod collapse_norm;
pub mod hc_expand;
pub mod hc_mixes;
pub mod stream_mean;
