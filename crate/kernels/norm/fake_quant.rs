//! What a quantised matrix or an index query sees: values on the grid of FP8 or FP4 per 32.
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
    wgsl: include_str!("../../../shaders/norm/fake_quant.wgsl"),
    includes: &[DECODE, QUANTISE],
    bindings: &[read("x"), read_write("out"), uniform::<FakeQuant>("p")],
    overrides: &["FP4"],
};

/// The grid that values are put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// E4M3 per 32: activations.
    Fp8,
    /// E2M1 per 32: index queries.
    Fp4,
}

/// Records `out = dequantise(quantise(x))` of as many groups of 32 as `x` holds.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, x: &Tensor, out: &Tensor, grid: Grid) -> Result<()> {
    let groups = (x.len() / 32) as u32;
    let fp4 = u32::from(grid == Grid::Fp4);
    planner.dispatch(&KERNEL, &[fp4], &[x, out], &FakeQuant { groups }, [groups.div_ceil(64), 1, 1])
}
