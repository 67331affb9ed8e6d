//! 1A: SwiGLU of the ViT's MLP.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/vision/vit_swiglu.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `vit_swiglu`.
    pub struct VitSwiglu {
        /// Elements of a row.
        pub inter: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "vit_swiglu",
    wgsl: crate::wgsl!("../../../shaders/vision/vit_swiglu.wgsl"),
    includes: &[ROUND],
    bindings: &[read("up"), read_write("gate"), uniform::<VitSwiglu>("p")],
    overrides: &["ROUND"],
};

/// Records `gate = silu(gate) * up` in place, both `[rows, inter]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, [up, gate]: [&Tensor; 2], numerics: Precision) -> Result<()> {
    let inter = gate.shape[1];
    let p = VitSwiglu { inter: inter as u32 };
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &[up, gate], &p, super::grid(gate, inter))
}
