//! 5A: gate and up projection for the rows of a prompt: the bits of [`experts_up`](super::experts_up), with weights decoded for several rows.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/experts_up_many.wgsl"), "\n```")]

use super::experts_up::ExpertsUp;
use crate::Result;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, GROUP, MEMBERS, QUANTISE, ROUND, round_flag};
use crate::numerics::precision::Precision;

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "experts_up_many",
    wgsl: crate::wgsl!("../../../shaders/experts/experts_up_many.wgsl"),
    includes: &[CALL, DECODE, FAULT, GROUP, MEMBERS, QUANTISE, ROUND],
    bindings: &[
        read("x"),
        read("codes"),
        read("scales"),
        read("shared_up"),
        read("ids"),
        read("weights"),
        read_write("h"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<ExpertsUp>("p"),
    ],
    overrides: &["QUANTISE", "ROUND"],
};

/// Records what [`experts_up`](super::experts_up::record) records, for many rows.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    tensors: [&Tensor; 7],
    call: &Tensor,
    limit: f32,
    (numerics, quantise): (Precision, bool),
) -> Result<()> {
    let [x, codes, scales, shared, ids, weights, h] = tensors;
    let (n, slots, inter) = (h.shape[0] as u32, h.shape[1] as u32, h.shape[2] as u32);
    let fault = planner.fault()?;
    let (dim, experts) = (x.shape[1] as u32, codes.shape[0] as u32);
    let p = ExpertsUp { dim, inter, k: slots - 1, experts, limit, place: planner.place };
    let bound = [x, codes, scales, shared, ids, weights, h, &fault, call];
    planner.reads(super::chosen_bytes([codes, scales, shared], slots as usize - 1, n as usize));
    planner.dispatch(
        &KERNEL,
        &[quantise.into(), round_flag(numerics)],
        &bound,
        &p,
        [inter.div_ceil(64), experts + 1, n.div_ceil(64)],
    )
}
