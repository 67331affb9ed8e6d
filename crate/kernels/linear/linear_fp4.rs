//! `y = W x` for every row of `x`, W in FP4 E2M1 with one E8M0 scale per 32 columns of a row. Recorded through [`super::record`].
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/linear/linear_fp4.wgsl"), "\n```")]

use super::Linear;
use crate::gpu::{Kernel, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, LINEAR, ROUND};

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "linear_fp4",
    wgsl: crate::wgsl!("../../../shaders/linear/linear_fp4.wgsl"),
    includes: &[CALL, DECODE, FAULT, LINEAR, ROUND],
    bindings: &[
        read("codes"),
        read("scales"),
        read("x"),
        read_write("y"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<Linear>("p"),
    ],
    overrides: &["TOKENS", "T", "ROUND"],
};
