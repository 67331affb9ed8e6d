//! # 3C: the window ring and the two-level indexer
//!
//! A query sees two kinds of rows: the last 128 tokens as they are, from the layer's own ring, and up to 512 entries of the global KV, which
//! the indexer chooses. The index query has many small heads; a score sums their rectified products with an entry's index key:
//!
//! ```text
//! q = rope(W_qb qr)    [index heads, index_head_dim], FP4 per 32     w = W_proj x / sqrt(index_head_dim * index heads)
//! s[j] = sum_h relu(q_h . ik_j) w_h                                  for entries j < (p + 1) / ratio
//! ```
//!
//! Level 1, at layer 20: entries form blocks of 8, a block scores as its best entry, the newest block always stays, and the best 2048 blocks
//! are kept as the pool of layers 24, 28, 32 and 36. Level 2, at every index source: the best 512 entries, ties to the lower index, listed in
//! ascending order. Layers after it reuse the list. Specification: section 6.

use super::context::Context;
use crate::numerics::bf16;
use crate::numerics::linear::{Matrix, dot};
use crate::numerics::ops::top_k;
use crate::numerics::parallel::map_all;
use crate::numerics::precision::Precision;
use crate::numerics::quant;

/// Weights of one layer's indexer.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Query projection `[index heads * index_head_dim, q_lora_rank]`.
    pub wq_b: Matrix,
    /// Head weights `[index heads, dim]`, bf16.
    pub weights_proj: Matrix,
}

/// Index queries of `n` tokens.
#[derive(Debug, Clone)]
pub struct IndexQuery {
    /// Rotated, and quantised where the caches are `[n, index heads, index_head_dim]`.
    pub q: Vec<f32>,
    /// Head weights `[n, index heads]`.
    pub w: Vec<f32>,
}

/// What an index source chose, per query.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Chosen entries, ascending.
    pub entries: Vec<Vec<u32>>,
    /// Scores over all entries, -inf where not visible; only kept when asked for.
    pub scores: Vec<Vec<f32>>,
}

/// Candidate blocks per query, ascending: the pool of the index sources after the candidate source.
pub type Pool = Vec<Vec<u32>>;

/// Computes index queries of tokens at positions `start..start + n` from `qr` `[n, q_lora_rank]` and `x` `[n, dim]` (section 6.3).
pub fn index_query(context: &Context, weights: &Weights, qr: &[f32], x: &[f32], n: usize, start: usize) -> IndexQuery {
    let config = &context.config;
    let mut q = context.numerics.linear(&weights.wq_b, qr, n);
    let row = config.index_n_heads * config.index_head_dim;
    for (token, q) in q.chunks_exact_mut(row).enumerate() {
        let angles = context.rope_compressed.angles(start + token);
        q.chunks_exact_mut(config.index_head_dim).for_each(|head| context.rotate_tail(head, &angles));
    }
    context.numerics.round(&mut q);
    if context.kv == Precision::Released {
        quant::fake_idx4(&mut q);
    }
    let factor = 1.0 / ((config.index_head_dim * config.index_n_heads) as f64).sqrt();
    let mut w = context.numerics.linear(&weights.weights_proj, x, n);
    w.iter_mut().for_each(|w| *w *= factor as f32);
    context.numerics.round(&mut w);
    IndexQuery { q, w }
}

/// Scores one query `q` `[heads, width]`, `w` `[heads]` against one key `[width]` (section 6.3, with the released roundings if asked).
pub fn score(numerics: Precision, q: &[f32], w: &[f32], key: &[f32]) -> f32 {
    let heads = q.chunks_exact(key.len()).zip(w);
    match numerics {
        Precision::F32 => heads.map(|(q, w)| dot(q, key).max(0.0) * w).sum(),
        Precision::Released => {
            bf16::round(heads.map(|(q, w)| bf16::round(bf16::round(dot(q, key)).max(0.0) * w)).sum::<f32>())
        }
    }
}

/// Entries that the query at `position` may see (section 6.4).
pub fn visible(position: usize, ratio: usize, entries: usize) -> usize {
    ((position + 1) / ratio).min(entries)
}

/// Chooses entries for `n` queries at positions from `start`, over `keys` `[E, index_head_dim]`; inside `pool` where there is one.
/// `keep_scores` keeps the scores for a tap.
pub fn select(
    context: &Context,
    query: &IndexQuery,
    keys: &[f32],
    ratio: usize,
    start: usize,
    pool: Option<&Pool>,
    keep_scores: bool,
) -> (Selection, Pool) {
    let config = &context.config;
    let (heads, width) = (config.index_n_heads, config.index_head_dim);
    let total = keys.len() / width;
    let n = query.w.len() / heads;
    let per_query = map_all(n, |token| {
        let q = &query.q[token * heads * width..][..heads * width];
        let w = &query.w[token * heads..][..heads];
        let seen = visible(start + token, ratio, total);
        let mut scores = vec![f32::NEG_INFINITY; total];
        let mut fill = |range: std::ops::Range<usize>| {
            for j in range.start..range.end.min(seen) {
                scores[j] = score(context.numerics, q, w, &keys[j * width..][..width]);
            }
        };
        match pool {
            None => fill(0..seen),
            Some(pool) => {
                let size = config.candidate_block_size;
                pool[token].iter().for_each(|&block| fill(block as usize * size..(block as usize + 1) * size));
            }
        }
        let mut chosen: Vec<u32> = top_k(&scores, config.index_topk).into_iter().map(|j| j as u32).collect();
        chosen.sort_unstable();
        let blocks = candidate_blocks(&scores[..seen], config.candidate_block_size, config.candidate_topk_blocks);
        (chosen, blocks, if keep_scores { scores } else { Vec::new() })
    });
    let mut selection = Selection::default();
    let mut blocks = Pool::new();
    for (chosen, kept, scores) in per_query {
        selection.entries.push(chosen);
        selection.scores.push(scores);
        blocks.push(kept);
    }
    (selection, blocks)
}

/// Level 1: the `keep` best blocks of `size` among the scores of visible entries, ascending; the newest block always stays (section 6.5).
pub fn candidate_blocks(scores: &[f32], size: usize, keep: usize) -> Vec<u32> {
    let mut best: Vec<f32> =
        scores.chunks(size).map(|block| block.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect();
    if let Some(newest) = best.last_mut() {
        *newest = f32::INFINITY;
    }
    let mut blocks: Vec<u32> = top_k(&best, keep).into_iter().map(|block| block as u32).collect();
    blocks.sort_unstable();
    blocks
}

/// Positions in the window of the query at `position`, of which rows from `oldest` on exist (section 6.2).
pub fn window(position: usize, size: usize, oldest: usize) -> std::ops::Range<usize> {
    (position + 1).saturating_sub(size).max(oldest)..position + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two examples of section 6.5.
    #[test]
    fn newest_block_is_always_a_candidate() {
        let scores = [0.1, 0.9, 0.2, 0.3, 0.8, 0.0, 0.0, 0.0, 0.05, 0.02, 0.7, 0.6, 0.4, 0.3];
        assert_eq!(candidate_blocks(&scores, 4, 2), [0, 3]);
        let scores = [0.1, 0.9, 0.2, 0.8, 0.0, 0.0, 0.05, 0.02, 0.7, 0.6];
        assert_eq!(candidate_blocks(&scores, 4, 2), [0, 2]);
        assert_eq!(candidate_blocks(&[], 4, 2), [] as [u32; 0]);
    }

    /// With a pool of at least as many blocks as there are, the candidate mask changes nothing (section 6.5).
    #[test]
    fn a_large_pool_keeps_every_block() {
        let scores: Vec<f32> = (0..16_384).map(|i| (i * 7919 % 1000) as f32).collect();
        assert_eq!(candidate_blocks(&scores, 8, 2048), (0..2048).collect::<Vec<u32>>());
    }

    /// The prefill rows of section 6.2: five tokens, window 3; and a decode step on a full ring of 8.
    #[test]
    fn window_positions() {
        let rows: Vec<_> = (0..5).map(|p| window(p, 3, 0)).collect();
        assert_eq!(rows, [0..1, 0..2, 0..3, 1..4, 2..5]);
        assert_eq!(window(13, 8, 0), 6..14);
        assert_eq!(window(130, 128, 100), 100..131);
    }

    #[test]
    fn causality_counts_whole_groups() {
        let seen: Vec<_> = (0..6).map(|p| visible(p, 2, 100)).collect();
        assert_eq!(seen, [0, 1, 1, 2, 2, 3]);
        assert_eq!(visible(4, 1, 100), 5);
    }
}
