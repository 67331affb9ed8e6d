//! 5A: which experts each token uses, and with what weight.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/experts/route.wgsl"), "\n```")]

use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::CALL;
use crate::{Error, Result};

crate::uniform_struct! {
    /// Parameters of `route`.
    pub struct Route {
        /// Sum of the weights.
        pub scale: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "route",
    wgsl: crate::wgsl!("../../../shaders/experts/route.wgsl"),
    includes: &[CALL],
    bindings: &[
        read("logits"),
        read("bias"),
        read("bias_vl"),
        read("image_mask"),
        read_write("scores"),
        read_write("ids"),
        read_write("weights"),
        uniform::<Call>("call"),
        uniform::<Route>("p"),
    ],
    overrides: &["EXPERTS", "K"],
};

/// Most experts that can be routed to: what the shader's workgroup memory holds.
pub const MOST_EXPERTS: usize = 2048;

/// Records `scores` `[n, experts]`, `ids` and `weights` `[n, k]` from `logits` `[n, experts]`, the two biases and `image_mask` `[n]`.
///
/// # Errors
/// [`Error::DoesNotFit`] for more than [`MOST_EXPERTS`], and what [`Planner::dispatch`] refuses.
pub fn record(planner: &mut Planner<'_>, tensors: [&Tensor; 7], call: &Tensor, scale: f32) -> Result<()> {
    let [logits, bias, bias_vl, image_mask, scores, ids, weights] = tensors;
    if bias.len() > MOST_EXPERTS {
        let (needed, available) = (format!("{} experts", bias.len()), format!("{MOST_EXPERTS} experts"));
        return Err(Error::DoesNotFit { what: "the router's sums in a workgroup".into(), needed, available });
    }
    let p = Route { scale };
    let overrides = [bias.len() as u32, ids.shape[1] as u32];
    let bound = [logits, bias, bias_vl, image_mask, scores, ids, weights, call];
    planner.dispatch(&KERNEL, &overrides, &bound, &p, [ids.shape[0] as u32, 1, 1])
}
