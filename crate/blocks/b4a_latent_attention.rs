//! # 4A: attention over one shared latent
//!
//! All heads read the same rows, and a row is key and value at once. The query goes through a low rank; the output is rotated back, because
//! the values carried the rotation of their positions, and leaves through groups of heads:
//!
//! ```text
//! qr = rms_norm(W_qa x)     q = rope(W_qb qr)       [heads, head_dim]     kv = rope(rms_norm(W_kv x))     [head_dim]
//! z_i = q . kv_i / sqrt(head_dim)                   over window rows and selected entries
//! o   = sum_i e^{z_i - m} kv_i / (sum_i e^{z_i - m} + e^{sink - m})       m = max z; the sink only dilutes
//! y   = W_ob concat_g( W_oa[g] rope^-1(o)[g] )      g: groups of heads
//! ```
//!
//! There is no norm on the heads of q and no temperature. Specification: section 7.

use super::context::Context;
use super::mistake::Mistake;
use crate::numerics::bf16;
use crate::numerics::linear::{Matrix, dot};
use crate::numerics::ops::rms_norm;
use crate::numerics::parallel::{for_each_chunk, map_all};
use crate::numerics::precision::Precision;

/// Weights of one layer's attention core.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Query down-projection `[q_lora_rank, dim]`.
    pub wq_a: Matrix,
    /// Norm of the low-rank query `[q_lora_rank]`.
    pub q_norm: Vec<f32>,
    /// Query up-projection `[heads * head_dim, q_lora_rank]`.
    pub wq_b: Matrix,
    /// Latent projection of the window row `[head_dim, dim]`.
    pub wkv: Matrix,
    /// Norm of the window row `[head_dim]`.
    pub kv_norm: Vec<f32>,
    /// Output down-projection per group, each `[o_lora_rank, heads / groups * head_dim]`; multiplied without activation quantisation.
    pub wo_a: Vec<Matrix>,
    /// Output up-projection `[dim, groups * o_lora_rank]`.
    pub wo_b: Matrix,
    /// Sink logit per head `[heads]`, not scaled.
    pub sink: Vec<f32>,
}

/// Rows per step of the online softmax: decides the last bit in released numerics (section 7.2).
const SOFTMAX_BLOCK: usize = 64;

/// Low-rank query `qr` `[n, q_lora_rank]` of the attention input `x` `[n, dim]`, already through the activation quantiser.
pub fn low_rank_query(context: &Context, weights: &Weights, x_quantised: &[f32], n: usize) -> Vec<f32> {
    let mut qr = context.numerics.linear_quantised(&weights.wq_a, x_quantised, n);
    context.norm_rows(&mut qr, &weights.q_norm);
    qr
}

/// Rotated queries `[n, heads, head_dim]` of tokens at positions `start..start + n` in backbone or draft layer `layer`.
pub fn queries(context: &Context, weights: &Weights, qr: &[f32], n: usize, start: usize, layer: usize) -> Vec<f32> {
    let config = &context.config;
    let mut q = context.numerics.linear(&weights.wq_b, qr, n);
    for (token, q) in q.chunks_exact_mut(config.n_heads * config.head_dim).enumerate() {
        let angles = context.rope(layer).angles(start + token);
        for head in q.chunks_exact_mut(config.head_dim) {
            if context.mistake == Some(Mistake::QueryHeadNorm) {
                let plain = head.to_vec();
                rms_norm(&plain, &vec![1.0; plain.len()], config.norm_eps, head);
                context.numerics.round(head);
            }
            context.rotate_tail(head, &angles);
        }
    }
    context.numerics.round(&mut q);
    q
}

/// Window rows `[n, head_dim]` of tokens at positions `start..start + n`, rotated, still unquantised (section 6.1).
pub fn window_rows(
    context: &Context,
    wkv: &Matrix,
    kv_norm: &[f32],
    x_quantised: &[f32],
    n: usize,
    start: usize,
    layer: usize,
) -> Vec<f32> {
    let mut rows = context.numerics.linear_quantised(wkv, x_quantised, n);
    context.norm_rows(&mut rows, kv_norm);
    for (token, row) in rows.chunks_exact_mut(context.config.head_dim).enumerate() {
        context.rotate_tail(row, &context.rope(layer).angles(start + token));
    }
    context.numerics.round(&mut rows);
    rows
}

/// One head's attention over `rows` `[m, head_dim]`; writes `out` `[head_dim]`, rounded. With no rows the result is zero.
pub fn attend(numerics: Precision, scale: f32, q: &[f32], rows: &[f32], sink: f32, out: &mut [f32]) {
    let width = q.len();
    let (mut max, mut sum) = (-1e30f32, 0.0f32);
    out.fill(0.0);
    for block in rows.chunks(SOFTMAX_BLOCK * width) {
        let z: Vec<f32> = block.chunks_exact(width).map(|row| scale * dot(q, row)).collect();
        let block_max = z.iter().copied().fold(max, f32::max);
        let shrink = (max - block_max).exp();
        max = block_max;
        sum *= shrink;
        out.iter_mut().for_each(|o| *o *= shrink);
        for (z, row) in z.into_iter().zip(block.chunks_exact(width)) {
            let p = (z - max).exp();
            sum += p;
            // The released kernel rounds the probability for the product, not for the denominator.
            let p = if numerics == Precision::Released { bf16::round(p) } else { p };
            out.iter_mut().zip(row).for_each(|(o, &v)| *o += p * v);
        }
    }
    let total = sum + (sink - max).exp();
    out.iter_mut().for_each(|o| *o /= total);
    numerics.round(out);
}

/// Attention weights of one head over `rows` `[m, head_dim]`, the sink's share last: what the lab shows. `[m + 1]`
pub fn weights_of(scale: f32, q: &[f32], rows: &[f32], sink: f32) -> Vec<f32> {
    let z: Vec<f32> = rows.chunks_exact(q.len()).map(|row| scale * dot(q, row)).collect();
    let max = z.iter().copied().fold(-1e30, f32::max);
    let mut p: Vec<f32> = z.iter().chain([&sink]).map(|z| (z - max).exp()).collect();
    let sum: f32 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= sum);
    p
}

/// Heads `[n, heads, head_dim]` of `n` queries, before the inverse rotation. `rows_of(token)` gathers what that token sees, `[m, head_dim]`.
pub fn heads(
    context: &Context,
    weights: &Weights,
    q: &[f32],
    n: usize,
    rows_of: impl Fn(usize) -> Vec<f32> + Sync,
) -> Vec<f32> {
    let config = &context.config;
    let scale = (1.0 / (config.head_dim as f64).sqrt()) as f32;
    let no_sink = context.mistake == Some(Mistake::NoSink);
    let mut out = vec![0.0; q.len()];
    // A few tokens at a time: their rows are gathered once for all heads, and never for the whole prompt.
    const TOKENS: usize = 8;
    let token_width = config.n_heads * config.head_dim;
    for (group, out) in out.chunks_mut(TOKENS * token_width).enumerate() {
        let first = group * TOKENS;
        let rows = map_all(TOKENS.min(n - first), |token| rows_of(first + token));
        // One output element costs a product with the query and one with the weights, per row.
        let cost = 2 * rows.iter().map(Vec::len).max().unwrap_or(0) / config.head_dim;
        for_each_chunk(out, config.head_dim, cost, |index, out| {
            let (token, head) = (index / config.n_heads, index % config.n_heads);
            let q = &q[(first + token) * token_width + head * config.head_dim..][..config.head_dim];
            let sink = if no_sink { -1e30 } else { weights.sink[head] };
            attend(context.numerics, scale, q, &rows[token], sink, out);
        });
    }
    out
}

/// Undoes the rotation that the values carried, for heads `[n, heads, head_dim]` of queries at positions from `start` (section 7.3).
pub fn rotate_back(context: &Context, heads: &mut [f32], start: usize, layer: usize) {
    if context.mistake == Some(Mistake::NoInverseRope) {
        return;
    }
    let config = &context.config;
    for (token, heads) in heads.chunks_exact_mut(config.n_heads * config.head_dim).enumerate() {
        let angles = context.rope(layer).angles(start + token);
        heads.chunks_exact_mut(config.head_dim).for_each(|head| context.rotate_tail_back(head, &angles));
    }
    context.numerics.round(heads);
}

/// Output projection of heads `[n, heads, head_dim]` to `[n, dim]`, group by group (section 7.3).
pub fn output(context: &Context, weights: &Weights, heads: &[f32], n: usize) -> Vec<f32> {
    let config = &context.config;
    let group_width = config.n_heads / config.o_groups * config.head_dim;
    let rank = config.o_lora_rank;
    let mut low = vec![0.0; n * config.o_groups * rank];
    for (group, wo_a) in weights.wo_a.iter().enumerate() {
        let input: Vec<f32> = heads
            .chunks_exact(config.o_groups * group_width)
            .flat_map(|token| &token[group * group_width..][..group_width])
            .copied()
            .collect();
        let r = wo_a.matmul(&input, n);
        for (token, r) in r.chunks_exact(rank).enumerate() {
            low[(token * config.o_groups + group) * rank..][..rank].copy_from_slice(r);
        }
    }
    context.numerics.round(&mut low);
    context.numerics.linear(&weights.wo_b, &low, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of section 7.2: two-dimensional vectors with the scale of width 512.
    #[test]
    fn sink_dilutes() {
        let scale = (1.0 / 512f64.sqrt()) as f32;
        let rows = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, -1.0];
        let mut out = [0.0; 2];
        attend(Precision::F32, scale, &[1.0, 2.0], &rows, 0.3, &mut out);
        assert!((out[0] - 0.7437889).abs() < 1e-6 && (out[1] - 0.2192459).abs() < 1e-6, "{out:?}");
        let weights = weights_of(scale, &[1.0, 2.0], &rows, 0.3);
        for (w, p) in weights.iter().zip([0.9154053, 0.9567682, 1.0, 0.8758307]) {
            assert!((w - p / 4.930252).abs() < 1e-7);
        }
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn empty_list_gives_zero() {
        let mut out = [7.0; 2];
        attend(Precision::Released, 1.0, &[1.0, 2.0], &[], 0.3, &mut out);
        assert_eq!(out, [0.0, 0.0]);
    }

    /// Blocks of the online softmax do not change the result beyond rounding.
    #[test]
    fn online_softmax_equals_plain_softmax() {
        let rows: Vec<f32> = (0..200 * 4).map(|i| ((i * 31 % 97) as f32 - 48.0) / 16.0).collect();
        let q = [0.5, -1.5, 2.0, 1.0];
        let mut out = [0.0; 4];
        attend(Precision::F32, 0.5, &q, &rows, 1.0, &mut out);
        let weights = weights_of(0.5, &q, &rows, 1.0);
        for d in 0..4 {
            let plain: f32 = rows.chunks(4).zip(&weights).map(|(row, w)| row[d] * w).sum();
            assert!((plain - out[d]).abs() < 1e-5);
        }
    }
}
