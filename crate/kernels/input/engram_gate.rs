//! 1B: adds the n-gram memory to the streams through a gate per stream.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/input/engram_gate.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, FAULT, REDUCE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `engram_gate`.
    pub struct EngramGate {
        /// Width of a stream.
        pub dim: u32,
        /// Streams.
        pub lanes: u32,
        /// Epsilon of the norms.
        pub eps: f32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "engram_gate",
    wgsl: crate::wgsl!("../../../shaders/input/engram_gate.wgsl"),
    includes: &[CALL, FAULT, REDUCE, ROUND],
    bindings: &[
        read("projected"),
        read("q_weight"),
        read("k_weight"),
        read("image_mask"),
        read_write("streams"),
        read_write("gates"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<EngramGate>("p"),
    ],
    overrides: &["ROUND"],
};

/// Records the gate for `capacity` positions: `projected` `[n, lanes + 1, dim]`, `q_weight`, `k_weight` `[lanes, dim]`, `image_mask` `[n]` into
/// `streams` `[n, lanes, dim]` and `gates` `[n, lanes]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    tensors: [&Tensor; 6],
    call: &Tensor,
    capacity: usize,
    eps: f32,
    numerics: Precision,
) -> Result<()> {
    let [projected, q_weight, k_weight, image_mask, streams, gates] = tensors;
    let (lanes, dim) = (streams.shape[1], streams.shape[2]);
    let p = EngramGate { dim: dim as u32, lanes: lanes as u32, eps, place: planner.place };
    let fault = planner.fault()?;
    let bound = [projected, q_weight, k_weight, image_mask, streams, gates, &fault, call];
    planner.dispatch(&KERNEL, &[round_flag(numerics)], &bound, &p, [capacity as u32, lanes as u32, 1])
}
