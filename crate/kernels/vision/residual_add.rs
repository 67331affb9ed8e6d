//! 1A: the residual of the ViT.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/vision/residual_add.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `residual_add`.
    pub struct ResidualAdd {
        /// Elements of a row.
        pub width: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "residual_add",
    wgsl: crate::wgsl!("../../../shaders/vision/residual_add.wgsl"),
    includes: &[ROUND],
    bindings: &[read("y"), read_write("x"), uniform::<ResidualAdd>("p")],
    overrides: &["ROUND"],
};

/// Records `x = x + y` in place, both `[rows, width]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, [y, x]: [&Tensor; 2], numerics: Precision) -> Result<()> {
    let width = x.shape[1];
    planner.dispatch(
        &KERNEL,
        &[round_flag(numerics)],
        &[y, x],
        &ResidualAdd { width: width as u32 },
        super::grid(x, width),
    )
}
