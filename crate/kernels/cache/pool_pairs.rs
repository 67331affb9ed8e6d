//! 3B: two tokens become one latent, per channel.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/cache/pool_pairs.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `pool_pairs`.
    pub struct PoolPairs {
        /// Channels.
        pub width: u32,
        /// Elements from row to row.
        pub stride: u32,
        /// Groups whose first tokens are kept.
        pub slots: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "pool_pairs",
    wgsl: crate::wgsl!("../../../shaders/cache/pool_pairs.wgsl"),
    includes: &[CALL, ROUND],
    bindings: &[
        read("rows"),
        read_write("open_value"),
        read_write("open_score"),
        read_write("pooled"),
        uniform::<Call>("call"),
        uniform::<PoolPairs>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records the pooling of `rows` `[n, stride]`, which begin with a value and a score `[width]` each, with what waits in `open_value`, `open_score`
/// `[slots, width]` into `pooled` `[pairs, width]`. The first token of group `j` lies in slot `j mod slots`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 4], call: &Tensor, numerics: Precision) -> Result<()> {
    let [rows, open_value, open_score, pooled] = tensors;
    let (most, width) = (pooled.shape[0], pooled.shape[1] as u32);
    let slots = open_value.len() as u32 / width.max(1);
    let p = PoolPairs { width, stride: (rows.len() / most) as u32, slots };
    let bound = [rows, open_value, open_score, pooled, call];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &bound, &p, [width.div_ceil(64), 1, 1])
}
