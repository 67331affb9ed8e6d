//! 3C level 1: the pool of candidate blocks.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/index/candidate_blocks.wgsl"), "\n```")]

use crate::Result;
use crate::config::Config;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, SELECT};

crate::uniform_struct! {
    /// Parameters of `candidate_blocks`.
    pub struct CandidateBlocks {
        /// Scores of a row.
        pub entries: u32,
        /// Compression ratio of the source.
        pub ratio: u32,
        /// Entries of a block.
        pub block: u32,
        /// Blocks of a row.
        pub blocks: u32,
        /// Blocks to keep.
        pub keep: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "candidate_blocks",
    wgsl: crate::wgsl!("../../../shaders/index/candidate_blocks.wgsl"),
    includes: &[CALL, SELECT],
    bindings: &[
        read("scores"),
        read_write("best"),
        read_write("pool"),
        uniform::<Call>("call"),
        uniform::<CandidateBlocks>("p"),
    ],
    overrides: &[],
};

/// Records the pool `[n, blocks]` of scores `[n, entries]`, with `best` `[n, blocks]` as scratch.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [scores, best, pool]: [&Tensor; 3],
    call: &Tensor,
    config: &Config,
    ratio: usize,
) -> Result<()> {
    let p = CandidateBlocks {
        entries: scores.shape[1] as u32,
        ratio: ratio as u32,
        block: config.candidate_block_size as u32,
        blocks: pool.shape[1] as u32,
        keep: config.candidate_topk_blocks as u32,
    };
    planner.dispatch(&KERNEL, &[], &[scores, best, pool, call], &p, [scores.shape[0] as u32, 1, 1])
}
