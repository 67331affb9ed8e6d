//! 2A: streams to the normalised input of a sub-layer.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/hyper/collapse_norm.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, QUANTISE, REDUCE, ROUND, round_flag};
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
    includes: &[CALL, DECODE, QUANTISE, REDUCE, ROUND],
    bindings: &[
        read("streams"),
        read("pre"),
        read("weight"),
        read_write("x"),
        read_write("x_q"),
        uniform::<Call>("call"),
        uniform::<CollapseNorm>("p"),
    ],
    overrides: &["QUANTISE", "LAST", "ROUND"],
};

/// Which rows are collapsed, and how.
#[derive(Debug, Clone, Copy)]
pub struct Collapse {
    /// Only the call's last row, to row 0 of x.
    pub last: bool,
    /// Writes `x_q`, too.
    pub quantise: bool,
    /// Epsilon of the norm.
    pub eps: f32,
    /// Roundings.
    pub numerics: Precision,
}

/// Records `x` and `x_q` `[n, dim]` from `streams` `[n, lanes, dim]`, `pre` `[n, lanes]` and the norm's `weight` `[dim]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 5], call: &Tensor, how: Collapse) -> Result<()> {
    let [streams, pre, weight, x, x_q] = tensors;
    let (capacity, lanes, dim) = (streams.shape[0], streams.shape[1], streams.shape[2]);
    let p = CollapseNorm { dim: dim as u32, lanes: lanes as u32, eps: how.eps };
    let overrides = [how.quantise.into(), how.last.into(), round_flag(how.numerics)];
    let groups = [if how.last { 1 } else { capacity as u32 }, 1, 1];
    planner.dispatch(&KERNEL, &overrides, &[streams, pre, weight, x, x_q, call], &p, groups)
}
