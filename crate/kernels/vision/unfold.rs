//! 1A: the aligner's input, cells of 3 x 3 patches.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/vision/unfold.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};

crate::uniform_struct! {
    /// Parameters of `unfold`.
    pub struct Unfold {
        /// Rows of the patch grid.
        pub rows: u32,
        /// Columns of the patch grid.
        pub cols: u32,
        /// Elements of a patch.
        pub width: u32,
        /// Patches along a cell.
        pub ratio: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "unfold",
    wgsl: crate::wgsl!("../../../shaders/vision/unfold.wgsl"),
    includes: &[],
    bindings: &[read("x"), read_write("out"), uniform::<Unfold>("p")],
    overrides: &[],
};

/// Records `out` `[cells, width * ratio^2]` of a grid `x` `[rows * cols, width]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, [x, out]: [&Tensor; 2], [rows, cols]: [usize; 2], ratio: usize) -> Result<()> {
    let width = x.len() / (rows * cols);
    let p = Unfold { rows: rows as u32, cols: cols as u32, width: width as u32, ratio: ratio as u32 };
    planner.dispatch(&KERNEL, &[], &[x, out], &p, super::grid(out, width * ratio * ratio))
}
