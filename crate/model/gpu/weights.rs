//! Weights on their way to the GPU, as they are stored.

use super::slots::Bank;
use crate::blocks::b3b_compressor as compressor;
use crate::blocks::b5a_experts::Expert;
use crate::blocks::b6b_head_dspark::Drafter;
use crate::blocks::layer::Layer;
use crate::error::{Error, Result};
use crate::gpu::{Gpu, Tensor};
use crate::kernels::experts::shared;
use crate::kernels::hyper::sublayer_input;
use crate::kernels::input::embed::Table;
use crate::kernels::linear::GpuMatrix;
use crate::model::reference::Backbone;
use crate::numerics::linear::{BLOCK, Matrix};

/// The chosen experts' weights: FP4 of all experts, one after the other.
#[derive(Debug, Clone)]
pub(super) struct GpuExperts {
    /// w1 above w3 `[experts, 2 inter, dim / 2]` and scales.
    pub(super) up: (Tensor, Tensor),
    /// w2 `[experts, dim, inter / 2]` and scales.
    pub(super) down: (Tensor, Tensor),
    /// Shared expert: w1 above w3, and w2.
    pub(super) shared: [Tensor; 2],
    pub(super) gate: GpuMatrix,
    pub(super) bias: Tensor,
    pub(super) bias_vl: Tensor,
}

/// The n-gram memory's projection and gate.
#[derive(Debug, Clone)]
pub(super) struct GpuEngram {
    pub(super) wkv: GpuMatrix,
    pub(super) q_weight: Tensor,
    pub(super) k_weight: Tensor,
}

/// A KV source's compressor and index key.
#[derive(Debug, Clone)]
pub(super) struct GpuCompressor {
    /// Two tokens become one entry.
    pub(super) pools: bool,
    pub(super) norm: Tensor,
    pub(super) wk: GpuMatrix,
    pub(super) k_norm: Tensor,
}

/// One backbone layer.
#[derive(Debug, Clone)]
pub(super) struct GpuLayer {
    /// Norm and mixes of the sub-layers' inputs.
    pub(super) attn_input: Tensor,
    pub(super) ffn_input: Tensor,
    /// wq_a above wkv: both read the same input.
    pub(super) wq_a_wkv: GpuMatrix,
    pub(super) q_norm: Tensor,
    /// Of the heads, and behind it of the index heads, if there are any.
    pub(super) wq_b: GpuMatrix,
    pub(super) kv_norm: Tensor,
    pub(super) wo_a: GpuMatrix,
    pub(super) wo_b: GpuMatrix,
    pub(super) sink: Tensor,
    pub(super) experts: GpuExperts,
    pub(super) engram: Option<GpuEngram>,
    pub(super) compressor: Option<GpuCompressor>,
    /// What an index source makes of its input in one product: the compressor's value and score, if it is a KV source, and last the weights of
    /// the index heads.
    pub(super) source: Option<GpuMatrix>,
}

/// DSpark's projection of the tapped layers, its stages, and its last norm; the Markov correction stays on the CPU.
#[derive(Debug, Clone)]
pub(super) struct GpuDrafter {
    pub(super) main_proj: GpuMatrix,
    pub(super) main_norm: Tensor,
    pub(super) stages: Vec<GpuLayer>,
    pub(super) norm: Tensor,
    /// Markov embedding and head `[vocab, rank]` as bf16 words, confidence projection `[dim + rank]`.
    pub(super) correction: [Tensor; 3],
    /// What corrects the logits; its stages have moved to the GPU.
    pub(super) rest: Drafter,
}

impl GpuDrafter {
    pub(super) fn new(gpu: &Gpu, first_index: usize, mut drafter: Drafter) -> Result<Self> {
        let stages = std::mem::take(&mut drafter.stages);
        let stage = |(k, layer): (usize, Layer)| {
            let backbone = Backbone { layer, engram: None, compressor: None, indexer: None };
            GpuLayer::new(gpu, first_index + k, backbone, None)
        };
        Ok(GpuDrafter {
            main_proj: GpuMatrix::new(gpu, "main_proj", &drafter.main_proj)?,
            main_norm: vector(gpu, "main_norm", &drafter.main_norm)?,
            stages: stages.into_iter().enumerate().map(stage).collect::<Result<_>>()?,
            norm: vector(gpu, "draft norm", &drafter.norm)?,
            correction: [
                words(gpu, "markov embed", &drafter.markov_embed)?,
                words(gpu, "markov head", &drafter.markov_head)?,
                vector(gpu, "confidence", &drafter.confidence.to_f32())?,
            ],
            rest: drafter,
        })
    }
}

/// Final norm and head.
#[derive(Debug, Clone)]
pub(super) struct GpuHead {
    pub(super) norm: Tensor,
    pub(super) head: GpuMatrix,
}

fn vector(gpu: &Gpu, label: &str, values: &[f32]) -> Result<Tensor> {
    Tensor::f32(gpu, label, &[values.len()], values)
}

/// Two matrices that read the same input as one. Tiles of scales must not straddle the border.
fn joined(upper: &Matrix, lower: &Matrix) -> Result<Matrix> {
    if !upper.rows().is_multiple_of(BLOCK) {
        let problem = format!("needed a multiple of {BLOCK} rows for the GPU, found {}", upper.rows());
        return Err(Error::tensor("joined weight", problem));
    }
    Matrix::join_rows(&[upper.clone(), lower.clone()])
}

/// Plain matrices that read the same input as one: in f32, which holds bf16 exactly, if their formats differ.
fn plainly_joined(parts: &[Matrix]) -> Result<Matrix> {
    let is_bf16 = |part: &Matrix| matches!(part, Matrix::Bf16 { .. });
    if parts.iter().all(is_bf16) {
        return Matrix::join_rows(parts);
    }
    let in_f32 = |part: &Matrix| Matrix::f32(part.rows(), part.cols(), part.to_f32());
    Matrix::join_rows(&parts.iter().map(in_f32).collect::<Result<Vec<_>>>()?)
}

/// The embedding table.
pub(super) fn embedding(gpu: &Gpu, embed: &Matrix) -> Result<Table> {
    let (shape, bytes) = halves("embed", embed)?;
    Table::new(gpu, "embed", shape, bytes)
}

/// A matrix as bf16 words.
fn words(gpu: &Gpu, label: &str, matrix: &Matrix) -> Result<Tensor> {
    let ([rows, cols], bytes) = halves(label, matrix)?;
    Tensor::bytes(gpu, label, &[rows, 2 * cols], bytes)
}

/// Shape and bytes of a bf16 matrix.
fn halves<'a>(label: &str, matrix: &'a Matrix) -> Result<([usize; 2], &'a [u8])> {
    match matrix {
        Matrix::Bf16 { rows, cols, data } => Ok(([*rows, *cols], bytemuck::cast_slice(data))),
        _ => Err(Error::tensor(format!("{label}.weight"), "needed BF16 for the GPU")),
    }
}

impl GpuCompressor {
    fn new(gpu: &Gpu, p: &str, weights: &compressor::Weights) -> Result<Self> {
        let matrix = |name: &str, m: &Matrix| GpuMatrix::new(gpu, &format!("{p}.{name}"), m);
        Ok(GpuCompressor {
            pools: weights.wgate.is_some(),
            norm: vector(gpu, "compressor norm", &weights.norm)?,
            wk: matrix("wk", &weights.wk)?,
            k_norm: vector(gpu, "k_norm", &weights.k_norm)?,
        })
    }
}

impl GpuLayer {
    /// A layer's weights; its routed experts are those of a bank, if it has one.
    pub(super) fn new(gpu: &Gpu, index: usize, backbone: Backbone, bank: Option<&Bank>) -> Result<Self> {
        let p = format!("layers.{index}");
        let matrix = |name: &str, m: &Matrix| GpuMatrix::new(gpu, &format!("{p}.{name}"), m);
        let layer = backbone.layer;
        let core = layer.attention;
        Ok(GpuLayer {
            attn_input: sublayer_input::weights(gpu, "attn input", &layer.attn_norm, &layer.hc_attn)?,
            ffn_input: sublayer_input::weights(gpu, "ffn input", &layer.ffn_norm, &layer.hc_ffn)?,
            wq_a_wkv: matrix("wq_a over wkv", &joined(&core.wq_a, &core.wkv)?)?,
            q_norm: vector(gpu, "q_norm", &core.q_norm)?,
            wq_b: match &backbone.indexer {
                Some(indexer) => matrix("wq_b over index wq_b", &joined(&core.wq_b, &indexer.wq_b)?)?,
                None => matrix("wq_b", &core.wq_b)?,
            },
            kv_norm: vector(gpu, "kv_norm", &core.kv_norm)?,
            wo_a: matrix("wo_a", &Matrix::join_rows(&core.wo_a)?)?,
            wo_b: matrix("wo_b", &core.wo_b)?,
            sink: vector(gpu, "sink", &core.sink)?,
            experts: experts(gpu, &p, &layer.experts, bank)?,
            engram: (backbone.engram.as_ref())
                .map(|(_, weights)| -> Result<GpuEngram> {
                    Ok(GpuEngram {
                        wkv: matrix("engram.wkv", &weights.wkv)?,
                        q_weight: vector(gpu, "engram q_weight", &weights.q_weight)?,
                        k_weight: vector(gpu, "engram k_weight", &weights.k_weight)?,
                    })
                })
                .transpose()?,
            compressor: backbone.compressor.as_ref().map(|weights| GpuCompressor::new(gpu, &p, weights)).transpose()?,
            source: (backbone.indexer.as_ref())
                .map(|indexer| {
                    let compressor = backbone.compressor.iter().flat_map(|c| std::iter::once(&c.wkv).chain(&c.wgate));
                    let parts: Vec<Matrix> = compressor.chain([&indexer.weights_proj]).cloned().collect();
                    matrix("source", &plainly_joined(&parts)?)
                })
                .transpose()?,
        })
    }
}

fn experts(
    gpu: &Gpu,
    p: &str,
    weights: &crate::blocks::b5a_experts::Weights,
    bank: Option<&Bank>,
) -> Result<GpuExperts> {
    let matrix = |name: &str, m: &Matrix| GpuMatrix::new(gpu, &format!("{p}.{name}"), m);
    let Bank { up, down } = match bank {
        Some(bank) => bank.clone(),
        None => all_experts(gpu, p, &weights.experts)?,
    };
    Ok(GpuExperts {
        up,
        down,
        gate: matrix("gate", &weights.gate)?,
        bias: vector(gpu, "gate bias", &weights.bias)?,
        bias_vl: vector(gpu, "gate bias_vl", &weights.bias_vl)?,
        shared: [
            shared(gpu, &format!("{p}.shared w1 over w3"), &joined(&weights.shared.w1, &weights.shared.w3)?)?,
            shared(gpu, &format!("{p}.shared w2"), &weights.shared.w2)?,
        ],
    })
}

/// All routed experts of a layer.
fn all_experts(gpu: &Gpu, p: &str, experts: &[Expert]) -> Result<Bank> {
    let Some(first) = experts.first() else { return Err(Error::tensor(format!("{p}.ffn.experts"), "missing")) };
    let (n, inter, dim) = (experts.len(), first.w1.rows(), first.w1.cols());
    Ok(Bank {
        up: fp4_of(gpu, &format!("{p} experts up"), experts, |e| vec![&e.w1, &e.w3], [n, 2 * inter, dim])?,
        down: fp4_of(gpu, &format!("{p} experts down"), experts, |e| vec![&e.w2], [n, dim, inter])?,
    })
}

/// Codes and scales of the same matrices of all experts, one after the other.
fn fp4_of<'a>(
    gpu: &Gpu,
    label: &str,
    experts: &'a [Expert],
    pick: impl Fn(&'a Expert) -> Vec<&'a Matrix>,
    [n, rows, cols]: [usize; 3],
) -> Result<(Tensor, Tensor)> {
    let (mut codes, mut all_scales) = (Vec::new(), Vec::new());
    for matrix in experts.iter().flat_map(pick) {
        let Matrix::Fp4 { packed, scales, .. } = matrix else {
            return Err(Error::tensor(label, "needed FP4 experts for the GPU"));
        };
        codes.extend_from_slice(packed);
        all_scales.extend_from_slice(scales);
    }
    let scale_label = format!("{label} scales");
    Ok((
        Tensor::bytes(gpu, label, &[n, rows, cols / 2], &codes)?,
        Tensor::bytes(gpu, &scale_label, &[n, rows, cols / 32], &all_scales)?,
    ))
}

impl GpuHead {
    pub(super) fn new(gpu: &Gpu, norm: &[f32], head: &Matrix) -> Result<Self> {
        Ok(GpuHead { norm: vector(gpu, "norm", norm)?, head: GpuMatrix::new(gpu, "head", head)? })
    }
}
