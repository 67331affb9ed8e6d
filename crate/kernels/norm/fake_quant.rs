//! What a quantised matrix sees: values on the grid of FP8 per 32.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/norm/fake_quant.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::{DECODE, QUANTISE};

crate::uniform_struct! {
    /// Parameters of `fake_quant`.
    pub struct FakeQuant {
        /// Groups of 32.
        pub groups: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "fake_quant",
    wgsl: crate::wgsl!("../../../shaders/norm/fake_quant.wgsl"),
    includes: &[DECODE, QUANTISE],
    bindings: &[read("x"), read_write("out"), uniform::<FakeQuant>("p")],
    overrides: &[],
};

/// Records `out = dequantise(quantise(x))` of as many groups of 32 as `x` holds.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, x: &Tensor, out: &Tensor) -> Result<()> {
    let groups = (x.len() / 32) as u32;
    planner.dispatch(&KERNEL, &[], &[x, out], &FakeQuant { groups }, [groups.div_ceil(64), 1, 1])
}
