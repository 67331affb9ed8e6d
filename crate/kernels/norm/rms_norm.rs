//! RMSNorm of rows.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/norm/rms_norm.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, QUANTISE, REDUCE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `rms_norm`.
    pub struct RmsNorm {
        /// Elements of a row.
        pub width: u32,
        /// Elements from one row of x to the next.
        pub stride: u32,
        /// Epsilon.
        pub eps: f32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "rms_norm",
    wgsl: crate::wgsl!("../../../shaders/norm/rms_norm.wgsl"),
    includes: &[CALL, DECODE, FAULT, QUANTISE, REDUCE, ROUND],
    bindings: &[
        read("weight"),
        read("x"),
        read_write("out"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<RmsNorm>("p"),
    ],
    overrides: &["QUANTISE", "ROUND"],
};

/// Records `out` `[n, width]` `= rms_norm(x)` of the first `width` elements of every row of `x` `[n, stride]` with `weight` `[width]`, put on the
/// grid of FP8 activations if `quantise`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [weight, x, out]: [&Tensor; 3],
    call: &Tensor,
    eps: f32,
    (numerics, quantise): (Precision, bool),
) -> Result<()> {
    let (width, fault) = (weight.len(), planner.fault()?);
    let capacity = out.len() / width;
    let p = RmsNorm { width: width as u32, stride: (x.len() / capacity) as u32, eps, place: planner.place };
    let overrides = [quantise.into(), round_flag(numerics)];
    planner.dispatch(&KERNEL, &overrides, &[weight, x, out, &fault, call], &p, [capacity as u32, 1, 1])
}
