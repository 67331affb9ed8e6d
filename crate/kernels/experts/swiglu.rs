//! 5A: SwiGLU of the shared expert.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/swiglu.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `swiglu`.
    pub struct Swiglu {
        /// Elements.
        pub count: u32,
        /// Clamp.
        pub limit: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "swiglu",
    wgsl: include_str!("../../../shaders/experts/swiglu.wgsl"),
    includes: &[ROUND],
    bindings: &[read("gate"), read("up"), read_write("h"), uniform::<Swiglu>("p")],
    overrides: &["ROUND"],
};

/// Records `h = silu(min(gate, limit)) * clamp(up)`, all of one shape.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, [gate, up, h]: [&Tensor; 3], limit: f32, numerics: Precision) -> Result<()> {
    let count = h.len() as u32;
    let p = Swiglu { count, limit };
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &[gate, up, h], &p, [count.div_ceil(64), 1, 1])
}
