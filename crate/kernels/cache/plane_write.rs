//! 6A: appends rows to a plane of the KV cache, in the bytes in which they are kept.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/cache/plane_write.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::cache::GpuPlane;
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, QUANTISE};

crate::uniform_struct! {
    /// Parameters of `plane_write`.
    pub struct PlaneWrite {
        /// Elements of a row.
        pub width: u32,
        /// Rows that the plane holds.
        pub capacity: u32,
        /// 0: ring of positions; 1, 2: entries of a source of that ratio.
        pub ratio: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "plane_write",
    wgsl: include_str!("../../../shaders/cache/plane_write.wgsl"),
    includes: &[CALL, DECODE, QUANTISE],
    bindings: &[
        read("rows"),
        read_write("codes"),
        read_write("scales"),
        uniform::<Call>("call"),
        uniform::<PlaneWrite>("p"),
    ],
    overrides: &["FORMAT"],
};

/// Records the writing of up to `most` rows `[most, width]` into `plane`. `ratio` 0 writes a ring by position, 1 and 2 append entries.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    rows: &Tensor,
    plane: &GpuPlane,
    call: &Tensor,
    ratio: usize,
    most: usize,
) -> Result<()> {
    let p = PlaneWrite { width: plane.width as u32, capacity: plane.capacity as u32, ratio: ratio as u32 };
    let groups = [(most * plane.width.div_ceil(64)).div_ceil(64) as u32, 1, 1];
    planner.dispatch(&KERNEL, &[plane.format_code()], &[rows, &plane.codes, &plane.scales, call], &p, groups)
}
