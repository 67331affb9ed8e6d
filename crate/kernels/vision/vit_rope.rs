//! 1A: the 2-D rotation of the ViT's queries and keys.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/vision/vit_rope.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `vit_rope`.
    pub struct VitRope {
        /// Heads.
        pub heads: u32,
        /// Half of a head's elements.
        pub pairs: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "vit_rope",
    wgsl: crate::wgsl!("../../../shaders/vision/vit_rope.wgsl"),
    includes: &[ROUND],
    bindings: &[read("angles"), read_write("qkv"), uniform::<VitRope>("p")],
    overrides: &["ROUND"],
};

/// Records the rotation of queries and keys in `qkv` `[n, 3 * heads * 2 * pairs]` by `angles` `[n, pairs, 2]` (cos, sin).
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, [angles, qkv]: [&Tensor; 2], numerics: Precision) -> Result<()> {
    let (n, pairs) = (angles.shape[0], angles.shape[1]);
    let heads = qkv.len() / (6 * n * pairs);
    let p = VitRope { heads: heads as u32, pairs: pairs as u32 };
    let groups = [(2 * heads * pairs).div_ceil(64) as u32, n as u32, 1];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &[angles, qkv], &p, groups)
}
