//! 6B: how sure a draft is of each of its tokens, and everything that it returns in one small tensor.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/head/confidence.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{DECODE, REDUCE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `confidence`.
    pub struct Confidence {
        /// Rows of the block.
        pub block: u32,
        /// Elements of a stream.
        pub dim: u32,
        /// Streams.
        pub lanes: u32,
        /// Elements of a token's embedding.
        pub rank: u32,
        /// Tokens.
        pub vocab: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "confidence",
    wgsl: crate::wgsl!("../../../shaders/head/confidence.wgsl"),
    includes: &[DECODE, REDUCE, ROUND],
    bindings: &[
        read("streams"),
        read("pre"),
        read("weight"),
        read("embed"),
        read("anchor"),
        read("drafted"),
        read_write("proposal"),
        uniform::<Confidence>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records `proposal` `[2, b]`, ids and bits of confidence logits, from `streams` `[b, lanes, dim]`, `pre` `[b, lanes]`, `weight` `[dim + rank]`,
/// `embed` `[vocab, 2 * rank]` bytes, `anchor` `[b]` and `drafted` `[b]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 7], numerics: Precision) -> Result<()> {
    let [streams, pre, _, embed, ..] = tensors;
    let [block, lanes] = [pre.shape[0], pre.shape[1]].map(|size| size as u32);
    let dim = streams.len() as u32 / (block * lanes);
    let p = Confidence { block, dim, lanes, rank: embed.shape[1] as u32 / 2, vocab: embed.shape[0] as u32 };
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &tensors, &p, [block, 1, 1])
}
