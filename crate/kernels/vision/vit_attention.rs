//! 1A: the ViT's attention, every patch over every patch.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/vision/vit_attention.wgsl"), "\n```")]

use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;
use crate::{Error, Result};

crate::uniform_struct! {
    /// Parameters of `vit_attention`.
    pub struct VitAttention {
        /// Patches.
        pub n: u32,
        /// Heads.
        pub heads: u32,
        /// First query of the dispatch.
        pub first: u32,
        /// `1 / sqrt(width of a head)`.
        pub scale: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "vit_attention",
    wgsl: crate::wgsl!("../../../shaders/vision/vit_attention.wgsl"),
    includes: &[ROUND],
    bindings: &[read("qkv"), read_write("out"), uniform::<VitAttention>("p")],
    overrides: &["HEAD4", "ROUND"],
};

/// Queries of one dispatch: what a query costs grows with the picture, and one dispatch must not keep the GPU for long.
const QUERIES: usize = 1024;

/// Widest head that the shader's registers and workgroup memory hold.
pub const MOST_WIDTH: usize = 64;

/// Records `out` `[n, width]` of `qkv` `[n, 3 * width]` with `heads` heads, a dispatch per 1,024 queries.
///
/// # Errors
/// [`Error::DoesNotFit`] if a head is wider than 64 or not whole vectors of four, and what [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, [qkv, out]: [&Tensor; 2], heads: usize, numerics: Precision) -> Result<()> {
    let (n, width) = (out.shape[0], out.shape[1]);
    let head = width / heads;
    if head > MOST_WIDTH || !head.is_multiple_of(4) {
        let what = "a head of the vision tower".to_string();
        let available = format!("{MOST_WIDTH} elements, in fours");
        return Err(Error::DoesNotFit { what, needed: format!("{head} elements"), available });
    }
    let overrides = [(head / 4) as u32, round_flag(numerics)];
    let scale = (1.0 / (head as f64).sqrt()) as f32;
    for first in (0..n).step_by(QUERIES) {
        let p = VitAttention { n: n as u32, heads: heads as u32, first: first as u32, scale };
        let blocks = QUERIES.min(n - first).div_ceil(64);
        planner.dispatch(&KERNEL, &overrides, &[qkv, out], &p, [heads as u32, blocks as u32, 1])?;
    }
    Ok(())
}
