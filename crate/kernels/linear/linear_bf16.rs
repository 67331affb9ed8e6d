//! `y = W x` for every row of `x`, W in bf16. Recorded through [`super::record`].
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/linear/linear_bf16.wgsl"), "\n```")]

use super::Linear;
use crate::gpu::{Kernel, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, LINEAR, ROUND};

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "linear_bf16",
    wgsl: crate::wgsl!("../../../shaders/linear/linear_bf16.wgsl"),
    includes: &[CALL, DECODE, FAULT, LINEAR, ROUND],
    bindings: &[
        read("weights"),
        read("x"),
        read_write("y"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<Linear>("p"),
    ],
    overrides: &["TOKENS", "T", "ROUND"],
};
