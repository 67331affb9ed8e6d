//! 6B: one row of a draft, stage one: its logits corrected by the token before, and the best of every [`PIECE`]. Stage two is
//! [`argmax`](super::argmax), which writes the token where the next row finds it: no id leaves the GPU between the rows.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/head/markov.wgsl"), "\n```")]

use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::head::choose::Draw;
use crate::kernels::include::{BEST, CALL, DECODE, GUMBEL};
use crate::{Error, Result};

crate::uniform_struct! {
    /// Parameters of `markov`.
    pub struct Markov {
        /// Logits of a row.
        pub vocab: u32,
        /// Elements of a token's embedding.
        pub rank: u32,
        /// Row of the block.
        pub row: u32,
    }
}

/// Logits that one workgroup looks at.
pub const PIECE: usize = 256;

/// Widest embedding: what the shader's workgroup memory holds.
pub const MOST_RANK: usize = 1024;

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "markov",
    wgsl: crate::wgsl!("../../../shaders/head/markov.wgsl"),
    includes: &[BEST, CALL, DECODE, GUMBEL],
    bindings: &[
        read("base"),
        read("embed"),
        read("head"),
        read("anchor"),
        read("drafted"),
        read_write("values"),
        read_write("ids"),
        uniform::<Call>("call"),
        uniform::<Draw>("draw"),
        uniform::<Markov>("p"),
    ],
    overrides: &[],
};

/// Records `values` and `ids` `[vocab / PIECE]` of one `row` of a draft, from `base` `[b, vocab]`, `embed` and `head` `[vocab, 2 * rank]` bytes,
/// `anchor` `[b]` and the `drafted` `[b]` tokens of the rows before.
///
/// # Errors
/// [`Error::DoesNotFit`] for embeddings beyond [`MOST_RANK`] or of an odd width, and what [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 7], [call, draw]: [&Tensor; 2], row: usize) -> Result<()> {
    let [base, embed, head, anchor, drafted, values, ids] = tensors;
    let (vocab, rank) = (base.shape[1], embed.shape[1] / 2);
    if rank > MOST_RANK || !rank.is_multiple_of(2) {
        let (needed, available) = (format!("{rank} elements"), format!("an even number up to {MOST_RANK}"));
        return Err(Error::DoesNotFit { what: "a Markov embedding in a workgroup".into(), needed, available });
    }
    let p = Markov { vocab: vocab as u32, rank: rank as u32, row: row as u32 };
    let bound = [base, embed, head, anchor, drafted, values, ids, call, draw];
    planner.reads(head.len());
    planner.dispatch(&KERNEL, &[], &bound, &p, [vocab.div_ceil(PIECE) as u32, 1, 1])
}
