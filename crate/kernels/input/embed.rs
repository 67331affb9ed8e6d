//! 1A: rows of the embedding table, or of a picture, copied to all residual streams.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/input/embed.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE};

crate::uniform_struct! {
    /// Parameters of `embed`.
    pub struct Embed {
        /// Width of a stream.
        pub dim: u32,
        /// Streams.
        pub lanes: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "embed",
    wgsl: include_str!("../../../shaders/input/embed.wgsl"),
    includes: &[CALL, DECODE],
    bindings: &[
        read("ids"),
        read("images"),
        read("table"),
        read("image_rows"),
        read_write("streams"),
        read_write("pre"),
        uniform::<Call>("call"),
        uniform::<Embed>("p"),
    ],
    overrides: &[],
};

/// Marks a text position in `images`.
pub const TEXT: u32 = u32::MAX;

/// Records the rows of `capacity` positions: `ids`, `images` `[n]`, `table` `[vocab, dim]` bf16, `image_rows` `[pictures, dim]` into `streams`
/// `[n, lanes, dim]` and `pre` `[n, lanes]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 6], call: &Tensor, capacity: usize) -> Result<()> {
    let [ids, images, table, image_rows, streams, pre] = tensors;
    let (lanes, dim) = (streams.shape[1], streams.shape[2]);
    let p = Embed { dim: dim as u32, lanes: lanes as u32 };
    let groups = [capacity as u32, dim.div_ceil(64) as u32, 1];
    planner.dispatch(&KERNEL, &[], &[ids, images, table, image_rows, streams, pre, call], &p, groups)
}
