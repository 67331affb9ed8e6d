//! 3C level 2: the best entries of each row, ascending.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/index/top_k.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, SELECT};

crate::uniform_struct! {
    /// Parameters of `top_k`.
    pub struct TopK {
        /// Scores of a row.
        pub width: u32,
        /// Entries to choose.
        pub k: u32,
        /// Compression ratio: `(p + 1) / ratio` scores of the row at position p count.
        pub ratio: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "top_k",
    wgsl: crate::wgsl!("../../../shaders/index/top_k.wgsl"),
    includes: &[CALL, SELECT],
    bindings: &[read("scores"), read_write("ids"), uniform::<Call>("call"), uniform::<TopK>("p")],
    overrides: &[],
};

/// Marks "none" in `ids`.
pub const NONE: u32 = u32::MAX;

/// Records `ids` `[n, k]` of scores `[n, width]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, scores: &Tensor, ids: &Tensor, call: &Tensor, ratio: usize) -> Result<()> {
    let p = TopK { width: scores.shape[1] as u32, k: ids.shape[1] as u32, ratio: ratio as u32 };
    planner.dispatch(&KERNEL, &[], &[scores, ids, call], &p, [scores.shape[0] as u32, 1, 1])
}
