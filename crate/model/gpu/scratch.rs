//! The activations of one call: one buffer each, for a fixed number of rows.

use super::FEW_ROWS;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::context::Context;
use crate::config::Config;
use crate::error::Result;
use crate::gpu::{Element, Gpu, Tensor};
use crate::image::TokenType;
use crate::kernels::call::Call;
use crate::kernels::hyper::sublayer_input::MIXES;
use crate::kernels::input::embed::TEXT;
use crate::numerics::rope::Rope;
use std::collections::BTreeMap;

/// Buffers for `capacity` rows; `n` below is the capacity, of which a call uses the first rows.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) call: Tensor,
    /// The same call for decoder layers, whose rings may begin later.
    pub(super) decoder_call: Tensor,
    pub(super) ids: Tensor,
    pub(super) images: Tensor,
    pub(super) image_rows: Tensor,
    pub(super) image_mask: Tensor,
    /// Angles of the rows' positions, without and with YaRN, and of the entries that pairs complete `[n, pairs, 2]`.
    pub(super) angles_window: Tensor,
    pub(super) angles_compressed: Tensor,
    pub(super) angles_pairs: Tensor,
    /// N-gram rows by layer `[n, columns * width]`.
    pub(super) memory: BTreeMap<usize, Tensor>,
    pub(super) memory_q: Tensor,
    pub(super) projected: Tensor,
    pub(super) gates: Tensor,
    pub(super) streams: Tensor,
    pub(super) pre_attn: Tensor,
    pub(super) pre_ffn: Tensor,
    /// Of the sub-layer that runs: post and comb `[n, 20]`.
    pub(super) mixes: Tensor,
    pub(super) x: Tensor,
    pub(super) x_q: Tensor,
    /// Low-rank query before its norm, and the window row `[n, q_lora_rank + head_dim]`.
    pub(super) qr_kv: Tensor,
    pub(super) qr: Tensor,
    /// Heads, and behind them index heads: [`Self::queries`].
    q: Tensor,
    /// Value and score of the compressor, index weights last: [`Self::source`].
    source: Tensor,
    pub(super) pooled: Tensor,
    pub(super) latent: Tensor,
    pub(super) key: Tensor,
    pub(super) topk: Tensor,
    pub(super) heads: Tensor,
    pub(super) low: Tensor,
    pub(super) low_q: Tensor,
    pub(super) y: Tensor,
    pub(super) router_logits: Tensor,
    pub(super) router_scores: Tensor,
    pub(super) expert_ids: Tensor,
    pub(super) expert_weights: Tensor,
    /// Of the chosen experts, then of the shared one.
    pub(super) h: Tensor,
    /// Their outputs `[n, k + 1, dim]`, in calls of many rows.
    pub(super) expert_rows: Tensor,
    pub(super) target_hidden: Tensor,
    pub(super) target_hidden_q: Tensor,
    pub(super) logits: Tensor,
}

impl Scratch {
    pub(super) fn new(gpu: &Gpu, config: &Config, n: usize) -> Result<Self> {
        let f = |label: &str, shape: &[usize]| Tensor::zeros(gpu, label, Element::F32, shape);
        let u = |label: &str, shape: &[usize]| Tensor::zeros(gpu, label, Element::U32, shape);
        let (dim, lanes, hd) = (config.dim, config.hc_mult, config.head_dim);
        let (key, k, inter) = (config.index_head_dim, config.n_activated_experts, config.moe_inter_dim);
        let pairs = config.rope_head_dim / 2;
        let columns = config.engram_columns() * config.engram_head_dim;
        let low = config.o_groups * config.o_lora_rank;
        let mut memory = BTreeMap::new();
        for &layer in &config.engram_layer_ids {
            memory.insert(layer, f("engram rows", &[n, columns])?);
        }
        Ok(Scratch {
            call: Call::buffer(gpu)?,
            decoder_call: Call::buffer(gpu)?,
            ids: u("ids", &[n])?,
            images: u("images", &[n])?,
            image_rows: f("image rows", &[n, dim])?,
            image_mask: u("image mask", &[n])?,
            angles_window: f("angles window", &[n, pairs, 2])?,
            angles_compressed: f("angles compressed", &[n, pairs, 2])?,
            angles_pairs: f("angles pairs", &[n, pairs, 2])?,
            memory,
            memory_q: f("engram rows quantised", &[n, columns])?,
            projected: f("engram projected", &[n, lanes + 1, dim])?,
            gates: f("engram gates", &[n, lanes])?,
            streams: f("streams", &[n, lanes, dim])?,
            pre_attn: f("attn pre", &[n, lanes])?,
            pre_ffn: f("ffn pre", &[n, lanes])?,
            mixes: f("mixes", &[n, MIXES])?,
            x: f("x", &[n, dim])?,
            x_q: f("x quantised", &[n, dim])?,
            qr_kv: f("qr over kv", &[n, config.q_lora_rank + hd])?,
            qr: f("qr", &[n, config.q_lora_rank])?,
            q: f("q", &[n, config.n_heads * hd + config.index_n_heads * key])?,
            source: f("source", &[n, 2 * hd + config.index_n_heads])?,
            pooled: f("pooled", &[n, hd])?,
            latent: f("latent", &[n, hd])?,
            key: f("index key", &[n, key])?,
            topk: u("topk ids", &[n, config.index_topk])?,
            heads: f("heads", &[n, config.n_heads, hd])?,
            low: f("low-rank output", &[n, low])?,
            low_q: f("low-rank output quantised", &[n, low])?,
            y: f("y", &[n, dim])?,
            router_logits: f("router logits", &[n, config.n_routed_experts])?,
            router_scores: f("router scores", &[n, config.n_routed_experts])?,
            expert_ids: u("expert ids", &[n, k])?,
            expert_weights: f("expert weights", &[n, k])?,
            h: f("h", &[n, k + 1, inter])?,
            expert_rows: f("rows of experts", &if n > FEW_ROWS { [n, k + 1, dim] } else { [1; 3] })?,
            target_hidden: f("target hidden", &[n, config.dspark_target_layer_ids.len().max(1), dim])?,
            target_hidden_q: f("target hidden quantised", &[n, config.dspark_target_layer_ids.len().max(1), dim])?,
            logits: f("logits", &[n, config.vocab_size])?,
        })
    }

    /// Queries in rows of this many elements.
    pub(super) fn queries(&self, width: usize) -> Tensor {
        Tensor { shape: vec![self.q.shape[0], width], ..self.q.clone() }
    }

    /// What an index source makes of its input, in rows of this many elements.
    pub(super) fn source(&self, width: usize) -> Tensor {
        Tensor { shape: vec![self.source.shape[0], width], ..self.source.clone() }
    }

    /// Ids, picture rows and the mask of image positions.
    pub(super) fn write_prompt(
        &self,
        gpu: &Gpu,
        prompt: &Prompt,
        range: std::ops::Range<usize>,
        first_image: usize,
        marks: &[Vec<f32>; 3],
        dim: usize,
    ) {
        let (mut images, mut rows, mut next) = (Vec::new(), Vec::new(), first_image);
        for &kind in &prompt.types[range.clone()] {
            let row: &[f32] = match kind {
                TokenType::Text => {
                    images.push(TEXT);
                    continue;
                }
                TokenType::Image => {
                    next += 1;
                    &prompt.image_rows[(next - 1) * dim..next * dim]
                }
                TokenType::Start => &marks[0],
                TokenType::NewLine => &marks[1],
                TokenType::End => &marks[2],
            };
            images.push((rows.len() / dim) as u32);
            rows.extend_from_slice(row);
        }
        let mask: Vec<u32> = prompt.types[range.clone()].iter().map(|t| t.is_image().into()).collect();
        gpu.queue.write_buffer(&self.ids.buffer, 0, bytemuck::cast_slice(&prompt.ids[range]));
        gpu.queue.write_buffer(&self.images.buffer, 0, bytemuck::cast_slice(&images));
        gpu.queue.write_buffer(&self.image_mask.buffer, 0, bytemuck::cast_slice(&mask));
        if !rows.is_empty() {
            gpu.queue.write_buffer(&self.image_rows.buffer, 0, bytemuck::cast_slice(&rows));
        }
    }

    /// Angles of `n` positions from `start` on. They come from the CPU, where they are right at any position (section N.9).
    pub(super) fn write_angles(&self, gpu: &Gpu, context: &Context, start: usize, n: usize) {
        let write = |tensor: &Tensor, rope: &Rope, positions: &mut dyn Iterator<Item = usize>| {
            let angles: Vec<[f32; 2]> = positions.flat_map(|p| rope.angles(p)).map(|(cos, sin)| [cos, sin]).collect();
            if !angles.is_empty() {
                gpu.queue.write_buffer(&tensor.buffer, 0, bytemuck::cast_slice(&angles));
            }
        };
        write(&self.angles_window, &context.rope_window, &mut (start..start + n));
        write(&self.angles_compressed, &context.rope_compressed, &mut (start..start + n));
        let entries = start / 2..(start + n) / 2;
        write(&self.angles_pairs, &context.rope_compressed, &mut entries.map(|entry| 2 * entry));
    }

    /// N-gram rows of a layer.
    pub(super) fn write_memory(&self, gpu: &Gpu, layer: usize, rows: &[f32]) {
        gpu.queue.write_buffer(&self.memory[&layer].buffer, 0, bytemuck::cast_slice(rows));
    }
}
