//! Rotation of the last dims of every head by adjacent pairs.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/norm/rope.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `rope`.
    pub struct Rope {
        /// Tokens.
        pub rows: u32,
        /// Heads of a token.
        pub heads: u32,
        /// Dims of a head.
        pub width: u32,
        /// Pairs that rotate.
        pub pairs: u32,
        /// 1: the inverse rotation.
        pub back: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "rope",
    wgsl: crate::wgsl!("../../../shaders/norm/rope.wgsl"),
    includes: &[ROUND],
    bindings: &[read("angles"), read_write("x"), uniform::<Rope>("p")],
    overrides: &["ROUND"],
};

/// Records the rotation of `x`, seen as `[rows, heads, width]`, in place, by `angles` `[rows, pairs, 2]` (cos, sin).
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    angles: &Tensor,
    x: &Tensor,
    [rows, heads, width]: [usize; 3],
    back: bool,
    numerics: Precision,
) -> Result<()> {
    let pairs = angles.shape[1];
    let p =
        Rope { rows: rows as u32, heads: heads as u32, width: width as u32, pairs: pairs as u32, back: back.into() };
    let groups = [(rows * heads * pairs).div_ceil(64) as u32, 1, 1];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &[angles, x], &p, groups)
}
