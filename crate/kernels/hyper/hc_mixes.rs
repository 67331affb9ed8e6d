//! 2A: the coefficients of one sub-layer.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/hyper/hc_mixes.wgsl"), "\n```")]

use crate::Result;
use crate::config::Config;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::include::REDUCE;

crate::uniform_struct! {
    /// Parameters of `hc_mixes`.
    pub struct HcMixes {
        /// Streams times their width.
        pub width: u32,
        /// Sinkhorn iterations.
        pub iterations: u32,
        /// Epsilon of the norm.
        pub norm_eps: f32,
        /// Epsilon of pre and of the Sinkhorn iterations.
        pub hc_eps: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "hc_mixes",
    wgsl: include_str!("../../../shaders/hyper/hc_mixes.wgsl"),
    includes: &[REDUCE],
    bindings: &[
        read("streams"),
        read("projection"),
        read("scale"),
        read("base"),
        read_write("pre"),
        read_write("post"),
        read_write("comb"),
        uniform::<HcMixes>("p"),
    ],
    overrides: &[],
};

/// Records the mixes of `capacity` tokens: `streams` `[n, 4, dim]`, `projection` `[24, 4 dim]`, `scale` `[3]`, `base` `[24]` into `pre`, `post`
/// `[n, 4]` and `comb` `[n, 4, 4]`. The shader is written for four streams.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 7], config: &Config, capacity: usize) -> Result<()> {
    let width = (config.hc_mult * config.dim) as u32;
    let p = HcMixes {
        width,
        iterations: config.hc_sinkhorn_iters as u32,
        norm_eps: config.norm_eps,
        hc_eps: config.hc_eps,
    };
    planner.dispatch(&KERNEL, &[], &tensors, &p, [capacity as u32, 1, 1])
}
