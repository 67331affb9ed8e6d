//! Norms, rotations and grids.

pub mod fake_quant;
pub mod rms_norm;
pub mod rope;
