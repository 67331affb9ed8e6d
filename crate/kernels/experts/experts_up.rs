//! 5A: gate and up projection of the chosen experts, SwiGLU and routing weight.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/experts_up.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, GROUP, QUANTISE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `experts_up`.
    pub struct ExpertsUp {
        /// Inputs.
        pub dim: u32,
        /// Inner width.
        pub inter: u32,
        /// Experts per token.
        pub k: u32,
        /// Clamp of SwiGLU.
        pub limit: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "experts_up",
    wgsl: include_str!("../../../shaders/experts/experts_up.wgsl"),
    includes: &[CALL, DECODE, GROUP, QUANTISE, ROUND],
    bindings: &[
        read("x"),
        read("codes"),
        read("scales"),
        read("ids"),
        read("weights"),
        read_write("h"),
        uniform::<Call>("call"),
        uniform::<ExpertsUp>("p"),
    ],
    overrides: &["QUANTISE", "ROUND"],
};

/// Records `h` `[n, k, inter]` from `x` `[n, dim]`, `codes` `[experts, 2 inter, dim / 2]` (w1 above w3), their `scales`, `ids` and `weights`
/// `[n, k]`; on the grid of FP8 activations if `quantise`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    tensors: [&Tensor; 6],
    call: &Tensor,
    limit: f32,
    (numerics, quantise): (Precision, bool),
) -> Result<()> {
    let [x, codes, scales, ids, weights, h] = tensors;
    let (n, k, inter) = (h.shape[0] as u32, h.shape[1] as u32, h.shape[2] as u32);
    let p = ExpertsUp { dim: x.shape[1] as u32, inter, k, limit };
    let bound = [x, codes, scales, ids, weights, h, call];
    planner.dispatch(&KERNEL, &[quantise.into(), round_flag(numerics)], &bound, &p, [inter.div_ceil(64), k, n])
}
