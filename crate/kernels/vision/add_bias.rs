//! 1A: the bias of a linear layer, and the aligner's GELU behind it.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/vision/add_bias.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `add_bias`.
    pub struct AddBias {
        /// Elements of a row.
        pub width: u32,
    }
}

/// What follows the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// The exact GELU, [`gelu`](crate::numerics::ops::gelu).
    Gelu,
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "add_bias",
    wgsl: crate::wgsl!("../../../shaders/vision/add_bias.wgsl"),
    includes: &[ROUND],
    bindings: &[read("bias"), read_write("x"), uniform::<AddBias>("p")],
    overrides: &["GELU", "ROUND"],
};

/// Records `x = activation(x + bias)` in place: `x` `[rows, width]`, `bias` `[width]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [bias, x]: [&Tensor; 2],
    activation: Activation,
    numerics: Precision,
) -> Result<()> {
    let p = AddBias { width: bias.len() as u32 };
    let overrides = [u32::from(activation == Activation::Gelu), round_flag(numerics)];
    planner.dispatch(&KERNEL, &overrides, &[bias, x], &p, super::grid(x, bias.len()))
}
