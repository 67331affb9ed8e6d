//! Kernels: one `.rs` per `.wgsl` of the same stem, in the same folders as under `shaders/`.
//!
//! Each file holds the parameter struct, the [`Kernel`] and `record`, the only way to dispatch it. The oracle of a kernel is
//! the reference function of its block; `tests/kernels` compares the two on a device and reflects every shader.
//!
//! To add a kernel: write the shader with its header (formula, shapes, dispatch, numerics); write its twin here; list it in [`ALL`]; add a
//! parity test and a case of the [`canary`]. Tests name what does not fit.

pub mod attend;
pub mod cache;
pub mod call;
pub mod canary;
pub mod experts;
pub mod head;
pub mod hyper;
pub mod include;
pub mod index;
pub mod input;
pub mod linear;
pub mod norm;
pub mod vision;

use crate::gpu::Kernel;

/// Every kernel.
pub const ALL: &[&Kernel] = &[
    &attend::attention::KERNEL,
    &cache::plane_write::KERNEL,
    &cache::pool_pairs::KERNEL,
    &experts::experts_down::KERNEL,
    &experts::experts_down_many::KERNEL,
    &experts::experts_sum::KERNEL,
    &experts::experts_up::KERNEL,
    &experts::experts_up_many::KERNEL,
    &experts::route::KERNEL,
    &head::argmax::KERNEL,
    &head::choose::KERNEL,
    &head::confidence::KERNEL,
    &head::markov::KERNEL,
    &hyper::hc_expand::KERNEL,
    &hyper::stream_mean::KERNEL,
    &hyper::sublayer_input::KERNEL,
    &index::candidate_blocks::KERNEL,
    &index::index_scores::KERNEL,
    &index::top_k::KERNEL,
    &input::embed::KERNEL,
    &input::engram_gate::KERNEL,
    &linear::linear_bf16::KERNEL,
    &linear::linear_f32::KERNEL,
    &linear::linear_fp4::KERNEL,
    &linear::linear_fp8::KERNEL,
    &norm::fake_quant::KERNEL,
    &norm::rms_norm::KERNEL,
    &norm::rope::KERNEL,
    &vision::add_bias::KERNEL,
    &vision::residual_add::KERNEL,
    &vision::unfold::KERNEL,
    &vision::vit_attention::KERNEL,
    &vision::vit_rope::KERNEL,
    &vision::vit_swiglu::KERNEL,
];
