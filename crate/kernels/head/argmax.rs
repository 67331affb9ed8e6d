//! 6B: the best of the pieces that [`choose`](super::choose) leaves.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/head/argmax.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::BEST;

crate::uniform_struct! {
    /// Parameters of `argmax`.
    pub struct Argmax {
        /// Pieces.
        pub pieces: u32,
        /// Which of the chosen tokens is written.
        pub row: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "argmax",
    wgsl: crate::wgsl!("../../../shaders/head/argmax.wgsl"),
    includes: &[BEST],
    bindings: &[read("values"), read("ids"), read_write("chosen"), read("fault"), uniform::<Argmax>("p")],
    overrides: &[],
};

/// Records `chosen[row]`: the id of the largest of `values` `[pieces]`, named by `ids` `[pieces]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, [values, ids, chosen]: [&Tensor; 3], row: usize) -> Result<()> {
    let p = Argmax { pieces: values.len() as u32, row: row as u32 };
    let fault = planner.fault()?;
    planner.dispatch(&KERNEL, &[], &[values, ids, chosen, &fault], &p, [1, 1, 1])
}
