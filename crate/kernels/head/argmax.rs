//! 6B: the first largest logit.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/head/argmax.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};

crate::uniform_struct! {
    /// Parameters of `argmax`.
    pub struct Argmax {
        /// Logits.
        pub vocab: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "argmax",
    wgsl: include_str!("../../../shaders/head/argmax.wgsl"),
    includes: &[],
    bindings: &[read("logits"), read_write("best"), uniform::<Argmax>("p")],
    overrides: &[],
};

/// Records `best` `[1]` of the first `vocab` `logits`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, logits: &Tensor, best: &Tensor, vocab: usize) -> Result<()> {
    planner.dispatch(&KERNEL, &[], &[logits, best], &Argmax { vocab: vocab as u32 }, [1, 1, 1])
}
