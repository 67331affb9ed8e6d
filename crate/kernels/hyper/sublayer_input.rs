//! 2A: streams to the normalised input of a sub-layer, and the mixes beside it.
//!
//! Both read the streams and neither reads the other's result, so they are one dispatch.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/hyper/sublayer_input.wgsl"), "\n```")]

use crate::Result;
use crate::blocks::b2a_hyper_connection as hyper;
use crate::config::Config;
use crate::gpu::{Gpu, Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, QUANTISE, REDUCE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `sublayer_input`.
    pub struct SublayerInput {
        /// Width of a stream.
        pub dim: u32,
        /// Epsilon of the norms.
        pub norm_eps: f32,
        /// Sinkhorn iterations.
        pub iterations: u32,
        /// Epsilon of pre and of the Sinkhorn iterations.
        pub hc_eps: f32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "sublayer_input",
    wgsl: crate::wgsl!("../../../shaders/hyper/sublayer_input.wgsl"),
    includes: &[CALL, DECODE, FAULT, QUANTISE, REDUCE, ROUND],
    bindings: &[
        read("streams"),
        read("pre"),
        read("weights"),
        read_write("x"),
        read_write("x_q"),
        read_write("next_pre"),
        read_write("mixes"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<SublayerInput>("p"),
    ],
    overrides: &["QUANTISE", "LAST", "ROUND"],
};

/// Elements of a row of mixes: post of every stream, and the matrix. The shader is written for four streams.
pub const MIXES: usize = 20;

/// What a dispatch computes.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The mixes, too; without them `weights` may be the norm alone.
    pub mixes: bool,
    /// Only the call's last row, to row 0 of x.
    pub last: bool,
    /// Writes `x_q`, too.
    pub quantise: bool,
    /// Roundings.
    pub numerics: Precision,
}

/// Weights of the norm `[dim]` and of the mixes in one tensor.
///
/// # Errors
/// [`crate::Error::DoesNotFit`].
pub fn weights(gpu: &Gpu, label: &str, norm: &[f32], mixes: &hyper::Weights) -> Result<Tensor> {
    let all = [norm, &mixes.scale, &mixes.base, &mixes.projection.to_f32()].concat();
    Tensor::f32(gpu, label, &[all.len()], &all)
}

/// Records `x` and `x_q` `[n, dim]`, `next_pre` `[n, 4]` and `mixes` `[n, 20]` from `streams` `[n, 4, dim]`, `pre` `[n, 4]` and `weights`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    tensors: [&Tensor; 7],
    call: &Tensor,
    config: &Config,
    way: Way,
) -> Result<()> {
    let [streams, pre, weights, x, x_q, next_pre, mixes] = tensors;
    let fault = planner.fault()?;
    let p = SublayerInput {
        dim: streams.shape[2] as u32,
        norm_eps: config.norm_eps,
        iterations: config.hc_sinkhorn_iters as u32,
        hc_eps: config.hc_eps,
        place: planner.place,
    };
    let overrides = [way.quantise.into(), way.last.into(), round_flag(way.numerics)];
    let rows = if way.last { 1 } else { streams.shape[0] as u32 };
    let bound = [streams, pre, weights, x, x_q, next_pre, mixes, &fault, call];
    planner.dispatch(&KERNEL, &overrides, &bound, &p, [rows, 1 + u32::from(way.mixes), 1])
}
