//! 5A: down projection for the rows of a prompt, one row per expert: with [`experts_sum`](super::experts_sum) the bits of
//! [`experts_down`](super::experts_down).
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/experts_down_many.wgsl"), "\n```")]

use super::experts_down::ExpertsDown;
use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, MEMBERS, ROUND, round_flag};
use crate::numerics::precision::Precision;

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "experts_down_many",
    wgsl: crate::wgsl!("../../../shaders/experts/experts_down_many.wgsl"),
    includes: &[CALL, DECODE, FAULT, MEMBERS, ROUND],
    bindings: &[
        read("h"),
        read("codes"),
        read("scales"),
        read("shared_down"),
        read("ids"),
        read_write("out"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<ExpertsDown>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records `out` `[n, k + 1, dim]` from `h` `[n, k + 1, inter]`, `codes` `[experts, dim, inter / 2]`, their `scales`, the shared expert's `shared`
/// and `ids` `[n, k]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 6], call: &Tensor, numerics: Precision) -> Result<()> {
    let [h, codes, scales, shared, ids, out] = tensors;
    let (n, slots, inter) = (h.shape[0] as u32, h.shape[1] as u32, h.shape[2] as u32);
    let fault = planner.fault()?;
    let (dim, experts) = (out.shape[2] as u32, codes.shape[0] as u32);
    let p = ExpertsDown { dim, inter, k: slots - 1, experts, place: planner.place };
    let bound = [h, codes, scales, shared, ids, out, &fault, call];
    planner.reads(super::chosen_bytes([codes, scales, shared], slots as usize - 1, n as usize));
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &bound, &p, [dim.div_ceil(64), experts + 1, n.div_ceil(64)])
}
