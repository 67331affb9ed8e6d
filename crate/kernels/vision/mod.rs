//! 1A: the vision tower and the aligner, beside the linear layers and norms that they share with the text model.
//!
//! Elementwise kernels run over a grid of (columns / 64, rows): a picture has up to about 9,000 patches, and their elements together would need
//! more workgroups than one dimension of a dispatch takes.

pub mod add_bias;
pub mod residual_add;
pub mod unfold;
pub mod vit_attention;
pub mod vit_rope;
pub mod vit_swiglu;

use crate::gpu::Tensor;

/// Workgroups of 64 over the elements of each row of `[rows, width]`.
fn grid(x: &Tensor, width: usize) -> [u32; 3] {
    [width.div_ceil(64) as u32, (x.len() / width) as u32, 1]
}
