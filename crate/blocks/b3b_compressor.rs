//! # 3B: the CSA2 compressor
//!
//! Source layers turn the attention input `x` into entries of the global KV. In the encoder (ratio 2) two tokens become one entry: each
//! brings a value and a score per channel, and each channel takes a softmax over the two:
//!
//! ```text
//! a_t = W_kv x_t        g_t = W_gate x_t                     f32, head_dim numbers each
//! latent_j = rms_norm( sum over t in {2j, 2j+1} of a_t softmax_t(g_t) )
//! ```
//!
//! In the decoder (ratio 1) there is no gate: `latent_t = rms_norm(W_kv x_t)`. The index key comes from the latent before rotation:
//! `ik = rms_norm(W_k latent)`. Entry `j` is then rotated as position `j * ratio`, the first token of its group.
//!
//! After an odd number of tokens the last group is half full; its `(a, g)` waits in [`Partial`]. Specification: section 5.

use super::context::Context;
use super::mistake::Mistake;
use crate::numerics::linear::Matrix;

/// Weights of one source layer's compressor and index key.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Value projection `[head_dim, dim]`, bf16.
    pub wkv: Matrix,
    /// Gate projection `[head_dim, dim]`, bf16; only with ratio 2.
    pub wgate: Option<Matrix>,
    /// Norm of the latent `[head_dim]`.
    pub norm: Vec<f32>,
    /// Index key projection `[index_head_dim, head_dim]`, bf16.
    pub wk: Matrix,
    /// Norm of the index key `[index_head_dim]`.
    pub k_norm: Vec<f32>,
}

/// The first token of a group whose second has not come yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partial {
    /// `a_t` `[head_dim]`; empty when no group is open.
    pub value: Vec<f32>,
    /// `g_t` `[head_dim]`.
    pub score: Vec<f32>,
}

impl Partial {
    /// Whether a group is open.
    pub fn is_open(&self) -> bool {
        !self.value.is_empty()
    }
}

/// Turns `n` attention inputs `x` `[n, dim]` into the latents `[new, head_dim]` of the groups that they complete.
pub fn compress(context: &Context, weights: &Weights, x: &[f32], n: usize, partial: &mut Partial) -> Vec<f32> {
    let mut pooled = match &weights.wgate {
        None => weights.wkv.matmul(x, n),
        Some(wgate) => {
            let values = weights.wkv.matmul(x, n);
            let scores = wgate.matmul(x, n);
            pool_pairs(&values, &scores, context.config.head_dim, partial)
        }
    };
    context.numerics.round(&mut pooled);
    context.norm_rows(&mut pooled, &weights.norm);
    pooled
}

/// Pools each pair of tokens per channel; a first token without its second stays in `partial`.
fn pool_pairs(values: &[f32], scores: &[f32], width: usize, partial: &mut Partial) -> Vec<f32> {
    let mut pooled = Vec::with_capacity(values.len() / 2 + width);
    for (value, score) in values.chunks_exact(width).zip(scores.chunks_exact(width)) {
        if !partial.is_open() {
            *partial = Partial { value: value.to_vec(), score: score.to_vec() };
            continue;
        }
        let first = std::mem::take(partial);
        pooled.extend((0..width).map(|d| {
            let max = first.score[d].max(score[d]);
            let (e0, e1) = ((first.score[d] - max).exp(), (score[d] - max).exp());
            let sum = e0 + e1;
            first.value[d] * (e0 / sum) + value[d] * (e1 / sum)
        }));
    }
    pooled
}

/// Rotates latents `[new, head_dim]`, whose first is entry `first_entry`, into cache entries, still unquantised (section 5.4).
pub fn entries(context: &Context, latents: &[f32], first_entry: usize, ratio: usize) -> Vec<f32> {
    let mut entries = latents.to_vec();
    // The planted mistakes concern the entries alone; index keys stay right, as in appendix E's table.
    let stride = match context.mistake {
        Some(Mistake::EntriesNotRotated) => return entries,
        Some(Mistake::EntriesRotatedAtIndex) => 1,
        _ => ratio,
    };
    rotate_entries(context, &mut entries, context.config.head_dim, first_entry, stride);
    entries
}

/// Index keys `[new, index_head_dim]` of latents `[new, head_dim]`, rotated, still unquantised (section 5.5).
pub fn index_keys(context: &Context, weights: &Weights, latents: &[f32], first_entry: usize, ratio: usize) -> Vec<f32> {
    let mut keys = context.numerics.linear(&weights.wk, latents, latents.len() / context.config.head_dim);
    context.norm_rows(&mut keys, &weights.k_norm);
    rotate_entries(context, &mut keys, context.config.index_head_dim, first_entry, ratio);
    keys
}

/// Rotates entry `j` as position `j * stride`, and rounds.
fn rotate_entries(context: &Context, rows: &mut [f32], width: usize, first_entry: usize, stride: usize) {
    for (index, row) in rows.chunks_exact_mut(width).enumerate() {
        context.rotate_tail(row, &context.rope_compressed.angles((first_entry + index) * stride));
    }
    context.numerics.round(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_pooled_per_channel_and_an_odd_token_waits() {
        let mut partial = Partial::default();
        let values = [1.0, 10.0, 3.0, 30.0, 5.0, 50.0];
        let scores = [0.0, 0.0, 0.0, 100.0, 7.0, 8.0];
        let pooled = pool_pairs(&values, &scores, 2, &mut partial);
        assert_eq!(pooled, [2.0, 30.0]);
        assert_eq!(partial, Partial { value: vec![5.0, 50.0], score: vec![7.0, 8.0] });
        let pooled = pool_pairs(&[7.0, 70.0], &[7.0, -100.0], 2, &mut partial);
        assert_eq!(pooled, [6.0, 50.0]);
        assert!(!partial.is_open());
    }
}
