//! 2A: a sub-layer's output back into the streams.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/hyper/hc_expand.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `hc_expand`.
    pub struct HcExpand {
        /// Width of a stream.
        pub dim: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "hc_expand",
    wgsl: include_str!("../../../shaders/hyper/hc_expand.wgsl"),
    includes: &[ROUND],
    bindings: &[read("y"), read("post"), read("comb"), read_write("streams"), uniform::<HcExpand>("p")],
    overrides: &["ROUND"],
};

/// Records the expansion of `y` `[n, dim]` with `post` `[n, 4]` and `comb` `[n, 4, 4]` into `streams` `[n, 4, dim]`, in place.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 4], capacity: usize, numerics: Precision) -> Result<()> {
    let dim = tensors[3].shape[2] as u32;
    let groups = [capacity as u32, dim.div_ceil(64), 1];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &tensors, &HcExpand { dim }, groups)
}
