//! 2A: a sub-layer's output back into the streams.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/hyper/hc_expand.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, FAULT, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `hc_expand`.
    pub struct HcExpand {
        /// Width of a stream.
        pub dim: u32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "hc_expand",
    wgsl: crate::wgsl!("../../../shaders/hyper/hc_expand.wgsl"),
    includes: &[CALL, FAULT, ROUND],
    bindings: &[
        read("y"),
        read("mixes"),
        read_write("streams"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<HcExpand>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records the expansion of `y` `[n, dim]` with `mixes` `[n, 20]` (post, then comb) into `streams` `[n, 4, dim]`, in place.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [y, mixes, streams]: [&Tensor; 3],
    call: &Tensor,
    numerics: Precision,
) -> Result<()> {
    let (capacity, dim) = (streams.shape[0] as u32, streams.shape[2] as u32);
    let (fault, p) = (planner.fault()?, HcExpand { dim, place: planner.place });
    let bound = [y, mixes, streams, &fault, call];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &bound, &p, [capacity, dim.div_ceil(64), 1])
}
