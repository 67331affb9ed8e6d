//! 5A: SwiGLU of the shared expert.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/swiglu.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{DECODE, GROUP, QUANTISE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `swiglu`.
    pub struct Swiglu {
        /// Elements.
        pub count: u32,
        /// Inner width.
        pub inter: u32,
        /// Clamp.
        pub limit: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "swiglu",
    wgsl: include_str!("../../../shaders/experts/swiglu.wgsl"),
    includes: &[DECODE, GROUP, QUANTISE, ROUND],
    bindings: &[read("gate_up"), read_write("h"), uniform::<Swiglu>("p")],
    overrides: &["QUANTISE", "ROUND"],
};

/// Records `h` `[n, inter]` `= silu(min(gate, limit)) * clamp(up)` from `gate_up` `[n, 2 inter]`, on the grid of FP8 activations if `quantise`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [gate_up, h]: [&Tensor; 2],
    limit: f32,
    (numerics, quantise): (Precision, bool),
) -> Result<()> {
    let p = Swiglu { count: h.len() as u32, inter: h.shape[1] as u32, limit };
    let overrides = [quantise.into(), round_flag(numerics)];
    planner.dispatch(&KERNEL, &overrides, &[gate_up, h], &p, [p.count.div_ceil(64), 1, 1])
}
