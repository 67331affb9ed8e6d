//! 5A: down projection of the chosen experts, summed with the shared expert.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/experts_down.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `experts_down`.
    pub struct ExpertsDown {
        /// Outputs.
        pub dim: u32,
        /// Inner width.
        pub inter: u32,
        /// Experts per token.
        pub k: u32,
        /// Experts.
        pub experts: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "experts_down",
    wgsl: include_str!("../../../shaders/experts/experts_down.wgsl"),
    includes: &[CALL, DECODE, ROUND],
    bindings: &[
        read("h"),
        read("codes"),
        read("scales"),
        read("ids"),
        read("shared_out"),
        read_write("y"),
        uniform::<Call>("call"),
        uniform::<ExpertsDown>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records `y` `[n, dim]` from `h` `[n, k, inter]`, `codes` `[experts, dim, inter / 2]`, their `scales`, `ids` `[n, k]` and the shared expert's
/// output `shared_out` `[n, dim]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 6], call: &Tensor, numerics: Precision) -> Result<()> {
    let [h, codes, scales, ids, shared_out, y] = tensors;
    let (n, k, inter) = (h.shape[0] as u32, h.shape[1] as u32, h.shape[2] as u32);
    let p = ExpertsDown { dim: y.shape[1] as u32, inter, k, experts: codes.shape[0] as u32 };
    let bound = [h, codes, scales, ids, shared_out, y, call];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &bound, &p, [p.dim.div_ceil(64), n, 1])
}
