//! 5A: gate and up projection of the chosen experts and the shared one, SwiGLU and routing weight.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/experts_up.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, GROUP, QUANTISE, ROUND, round_flag};
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
        /// Experts.
        pub experts: u32,
        /// Clamp of SwiGLU.
        pub limit: f32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "experts_up",
    wgsl: crate::wgsl!("../../../shaders/experts/experts_up.wgsl"),
    includes: &[CALL, DECODE, FAULT, GROUP, QUANTISE, ROUND],
    bindings: &[
        read("x"),
        read("codes"),
        read("scales"),
        read("shared_up"),
        read("ids"),
        read("weights"),
        read_write("h"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<ExpertsUp>("p"),
    ],
    overrides: &["QUANTISE", "ROUND"],
};

/// Records `h` `[n, k + 1, inter]` from `x` `[n, dim]`, `codes` `[experts, 2 inter, dim / 2]` (w1 above w3), their `scales`, the shared expert's
/// `shared` (see [`super::shared`]), `ids` and `weights` `[n, k]`; on the grid of FP8 activations if `quantise`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    tensors: [&Tensor; 7],
    call: &Tensor,
    limit: f32,
    (numerics, quantise): (Precision, bool),
) -> Result<()> {
    let [x, codes, scales, shared, ids, weights, h] = tensors;
    let (n, slots, inter) = (h.shape[0] as u32, h.shape[1] as u32, h.shape[2] as u32);
    let fault = planner.fault()?;
    let (dim, experts) = (x.shape[1] as u32, codes.shape[0] as u32);
    let p = ExpertsUp { dim, inter, k: slots - 1, experts, limit, place: planner.place };
    let bound = [x, codes, scales, shared, ids, weights, h, &fault, call];
    planner.reads(super::chosen_bytes([codes, scales, shared], slots as usize - 1, n as usize));
    planner.dispatch(&KERNEL, &[quantise.into(), round_flag(numerics)], &bound, &p, [inter.div_ceil(64), slots, n])
}
