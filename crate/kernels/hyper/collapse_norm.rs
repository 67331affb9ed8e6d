//! 2A: streams to the normalised input of a sub-layer.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/hyper/collapse_norm.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{REDUCE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `collapse_norm`.
    pub struct CollapseNorm {
        /// Width of a stream.
        pub dim: u32,
        /// Streams.
        pub lanes: u32,
        /// Epsilon of the norm.
        pub eps: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "collapse_norm",
    wgsl: include_str!("../../../shaders/hyper/collapse_norm.wgsl"),
    includes: &[REDUCE, ROUND],
    bindings: &[read("streams"), read("pre"), read("weight"), read_write("x"), uniform::<CollapseNorm>("p")],
    overrides: &["ROUND"],
};

/// Records `x` `[n, dim]` of `capacity` tokens from `streams` `[n, lanes, dim]`, `pre` `[n, lanes]` and the norm's `weight` `[dim]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    tensors: [&Tensor; 4],
    capacity: usize,
    eps: f32,
    numerics: Precision,
) -> Result<()> {
    let (lanes, dim) = (tensors[0].shape[1] as u32, tensors[0].shape[2] as u32);
    let p = CollapseNorm { dim, lanes, eps };
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &tensors, &p, [capacity as u32, 1, 1])
}
