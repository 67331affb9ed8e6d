//! 2A: the residual streams.

pub mod hc_expand;
pub mod stream_mean;
pub mod sublayer_input;
