//! 6B: mean over the streams of a tapped layer's input.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/hyper/stream_mean.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `stream_mean`.
    pub struct StreamMean {
        /// Width of a stream.
        pub dim: u32,
        /// Streams.
        pub lanes: u32,
        /// Which tapped layer this is.
        pub target_index: u32,
        /// Tapped layers.
        pub targets: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "stream_mean",
    wgsl: crate::wgsl!("../../../shaders/hyper/stream_mean.wgsl"),
    includes: &[ROUND],
    bindings: &[read("streams"), read_write("mean"), uniform::<StreamMean>("p")],
    overrides: &["ROUND"],
};

/// Records the mean of `streams` `[n, lanes, dim]` into target `index` of `mean` `[n, targets, dim]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    streams: &Tensor,
    mean: &Tensor,
    index: usize,
    capacity: usize,
    numerics: Precision,
) -> Result<()> {
    let (lanes, dim) = (streams.shape[1] as u32, streams.shape[2] as u32);
    let p = StreamMean { dim, lanes, target_index: index as u32, targets: mean.shape[1] as u32 };
    let groups = [capacity as u32, dim.div_ceil(64), 1];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &[streams, mean], &p, groups)
}
