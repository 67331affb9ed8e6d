//! 5A: the sum of the experts' rows.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/experts_sum.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, FAULT, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `experts_sum`.
    pub struct ExpertsSum {
        /// Outputs.
        pub dim: u32,
        /// Experts per token.
        pub k: u32,
        /// Experts.
        pub experts: u32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "experts_sum",
    wgsl: crate::wgsl!("../../../shaders/experts/experts_sum.wgsl"),
    includes: &[CALL, FAULT, ROUND],
    bindings: &[
        read("rows"),
        read("ids"),
        read_write("y"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<ExpertsSum>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records `y` `[n, dim]` from `rows` `[n, k + 1, dim]` and `ids` `[n, k]` of that many `experts`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [rows, ids, y]: [&Tensor; 3],
    call: &Tensor,
    experts: usize,
    numerics: Precision,
) -> Result<()> {
    let (n, slots, dim) = (rows.shape[0] as u32, rows.shape[1] as u32, rows.shape[2] as u32);
    let fault = planner.fault()?;
    let p = ExpertsSum { dim, k: slots - 1, experts: experts as u32, place: planner.place };
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &[rows, ids, y, &fault, call], &p, [dim.div_ceil(64), n, 1])
}
