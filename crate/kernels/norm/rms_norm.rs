//! RMSNorm of rows.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/norm/rms_norm.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{REDUCE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `rms_norm`.
    pub struct RmsNorm {
        /// Elements of a row.
        pub width: u32,
        /// Epsilon.
        pub eps: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "rms_norm",
    wgsl: include_str!("../../../shaders/norm/rms_norm.wgsl"),
    includes: &[REDUCE, ROUND],
    bindings: &[read("weight"), read("x"), read_write("out"), uniform::<RmsNorm>("p")],
    overrides: &["ROUND"],
};

/// Records `out = rms_norm(x)` for `rows` rows of `[rows, width]` with `weight` `[width]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [weight, x, out]: [&Tensor; 3],
    rows: usize,
    eps: f32,
    numerics: Precision,
) -> Result<()> {
    let p = RmsNorm { width: weight.len() as u32, eps };
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &[weight, x, out], &p, [rows as u32, 1, 1])
}
