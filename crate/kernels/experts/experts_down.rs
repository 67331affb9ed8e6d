//! 5A: down projection of the chosen experts, summed with the shared expert.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/experts_down.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, ROUND, round_flag};
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
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "experts_down",
    wgsl: crate::wgsl!("../../../shaders/experts/experts_down.wgsl"),
    includes: &[CALL, DECODE, FAULT, ROUND],
    bindings: &[
        read("h"),
        read("codes"),
        read("scales"),
        read("shared_down"),
        read("ids"),
        read_write("y"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<ExpertsDown>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records `y` `[n, dim]` from `h` `[n, k + 1, inter]`, `codes` `[experts, dim, inter / 2]`, their `scales`, the shared expert's `shared` (see
/// [`super::shared`]) and `ids` `[n, k]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 6], call: &Tensor, numerics: Precision) -> Result<()> {
    let [h, codes, scales, shared, ids, y] = tensors;
    let (n, slots, inter) = (h.shape[0] as u32, h.shape[1] as u32, h.shape[2] as u32);
    let fault = planner.fault()?;
    let (dim, experts) = (y.shape[1] as u32, codes.shape[0] as u32);
    let p = ExpertsDown { dim, inter, k: slots - 1, experts, place: planner.place };
    let bound = [h, codes, scales, shared, ids, y, &fault, call];
    planner.reads(super::chosen_bytes([codes, scales, shared], slots as usize - 1, n as usize));
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &bound, &p, [dim.div_ceil(64), n, 1])
}
