//! # 6B: the head, and DSpark's draft of five tokens
//!
//! The last residual is collapsed, normalised and multiplied with the head, all in f32: `logits = head rms_norm(sum_c pre[c] h[c])`.
//!
//! DSpark then drafts five tokens in one pass through three small stages. Their attention reads rings that are fed from the backbone:
//!
//! ```text
//! main_x(p) = rms_norm(W [tap_37, tap_38, tap_39])         tap: mean over the streams of a layer's input, at every accepted position
//! ring row  = rope_p(rms_norm(W_kv main_x(p)))             each stage with its own W_kv
//! block     = embed([t, noise, noise, noise, noise])       at positions p+1 .. p+5; each sees the ring and all five
//! logits_i  = head rms_norm(x_i) + M_head M_embed[d_{i-1}] Markov correction by the token before; d_i: its argmax
//! conf_i    = W_c [x_i, M_embed[d_{i-1}]]                  sigmoid: chance that d_i survives if those before it did
//! ```
//!
//! Specification: section 10.

use super::b4a_latent_attention as attention;
use super::b6a_kv_cache::{Format, Plane, Ring};
use super::context::Context;
use super::layer::{Layer, Rows, collapse_and_norm};
use super::tap::Silent;
use crate::image::TokenType;
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision;

/// Weights of the head.
#[derive(Debug, Clone)]
pub struct Head {
    /// Final norm `[dim]`.
    pub norm: Vec<f32>,
    /// Head `[vocab, dim]`, bf16, not tied to the embedding.
    pub head: Matrix,
}

/// Weights of DSpark.
#[derive(Debug, Clone)]
pub struct Drafter {
    /// Projection of the taps `[dim, targets * dim]`.
    pub main_proj: Matrix,
    /// Norm after it `[dim]`.
    pub main_norm: Vec<f32>,
    /// The stages.
    pub stages: Vec<Layer>,
    /// Norm before the head `[dim]`.
    pub norm: Vec<f32>,
    /// Markov embedding `[vocab, rank]`, bf16.
    pub markov_embed: Matrix,
    /// Markov head `[vocab, rank]`, bf16.
    pub markov_head: Matrix,
    /// Confidence projection `[1, dim + rank]`, bf16.
    pub confidence: Matrix,
}

/// A draft of `b` tokens after an anchor.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The token that the main model chose; the draft continues it.
    pub anchor: u32,
    /// Proposed tokens `[b]`.
    pub ids: Vec<u32>,
    /// Confidence logits `[b]`.
    pub confidence: Vec<f32>,
    /// Logits without the Markov correction `[b, vocab]`.
    pub base_logits: Vec<f32>,
    /// Logits that the tokens were chosen from `[b, vocab]`.
    pub logits: Vec<f32>,
}

/// Final norm of rows that left the last layer `[n, dim]`.
pub fn final_norm(context: &Context, head: &Head, rows: &Rows) -> Vec<f32> {
    collapse_and_norm(context, &rows.streams, &rows.pre, &head.norm, rows.n())
}

/// Mean over the streams of a tapped layer's input `[n, dim]` (section 10.4).
pub fn stream_mean(context: &Context, rows: &Rows) -> Vec<f32> {
    let (lanes, dim) = (context.config.hc_mult, context.config.dim);
    let mut mean: Vec<f32> = (rows.streams.chunks_exact(lanes * dim))
        .flat_map(|h| (0..dim).map(move |d| (0..lanes).map(|c| h[c * dim + d]).sum::<f32>() / lanes as f32))
        .collect();
    context.numerics.round(&mut mean);
    mean
}

/// Writes the ring rows of positions `start..` into every stage's ring, from taps `[n, targets * dim]` (section 10.5).
pub fn seed(context: &Context, drafter: &Drafter, rings: &mut [Ring], taps: &[f32], start: usize) {
    let n = taps.len() / drafter.main_proj.cols();
    let mut main_x = context.numerics.linear(&drafter.main_proj, taps, n);
    context.norm_rows(&mut main_x, &drafter.main_norm);
    let main_x = context.numerics.activation(&main_x);
    for (k, (stage, ring)) in drafter.stages.iter().zip(rings).enumerate() {
        let core = &stage.attention;
        let layer = context.config.n_layers + k;
        let rows = attention::window_rows(context, &core.wkv, &core.kv_norm, &main_x, n, start, layer);
        for (index, row) in rows.chunks_exact(context.config.head_dim).enumerate() {
            ring.write(start + index, row);
        }
    }
}

/// Drafts after `anchor`, the token chosen for the position that follows the rings' newest (section 10.6). Changes nothing.
/// `embedding` maps ids to rows `[ids, dim]`; `choose` picks a token from its number in the block and its logits.
pub fn draft(
    context: &Context,
    drafter: &Drafter,
    head: &Head,
    rings: &[Ring],
    anchor: u32,
    embedding: impl Fn(&[u32]) -> Vec<f32>,
    choose: &mut dyn FnMut(usize, &[f32]) -> u32,
) -> Draft {
    let config = &context.config;
    let block = config.dspark_block_size;
    let mut ids = vec![config.dspark_noise_token_id; block];
    ids[0] = anchor;
    let start = rings.first().map_or(0, |ring| ring.positions().end);
    let mut rows = Rows::enter(context, &embedding(&ids), vec![TokenType::Text; block], start);
    for (k, (stage, ring)) in drafter.stages.iter().zip(rings).enumerate() {
        run_stage(context, stage, ring, &mut rows, config.n_layers + k);
    }
    let mut x = super::b2a_hyper_connection::collapse(config, &rows.streams, &rows.pre, block);
    context.numerics.round(&mut x);
    let mut normed = x.clone();
    context.norm_rows(&mut normed, &drafter.norm);
    let base_logits = head.head.matmul(&normed, block);
    correct(drafter, anchor, &x, base_logits, choose)
}

/// One stage over the block: window attention on the ring and on all of the block, both ways.
fn run_stage(context: &Context, stage: &Layer, ring: &Ring, rows: &mut Rows, layer: usize) {
    let (config, n, start) = (&context.config, rows.n(), rows.start);
    let entered = stage.enter_attention(context, rows, layer, &mut Silent);
    let x = context.numerics.activation(&entered.x);
    let core = &stage.attention;
    let fresh = attention::window_rows(context, &core.wkv, &core.kv_norm, &x, n, start, layer);
    let format = if context.kv == Precision::F32 { Format::F32 } else { Format::Fp8 };
    let mut block = Plane::new(format, config.head_dim);
    block.extend(&fresh);
    let mut seen = ring.read(ring.positions());
    seen.extend(block.read_from(0));

    let qr = attention::low_rank_query(context, core, &x, n);
    let q = attention::queries(context, core, &qr, n, start, layer);
    let mut heads = attention::heads(context, core, &q, n, |_| seen.clone());
    attention::rotate_back(context, &mut heads, start, layer);
    let y = attention::output(context, core, &heads, n);
    stage.leave_attention(context, rows, &entered.mixes, &y, layer, &mut Silent);
}

/// The sequential part: each token's logits are corrected by the token before it. `x` `[b, dim]` is the state before the norm.
pub(crate) fn correct(
    drafter: &Drafter,
    anchor: u32,
    x: &[f32],
    base_logits: Vec<f32>,
    choose: &mut dyn FnMut(usize, &[f32]) -> u32,
) -> Draft {
    let (vocab, rank) = (drafter.markov_embed.rows(), drafter.markov_embed.cols());
    let block = base_logits.len() / vocab;
    let mut out = Draft {
        anchor,
        ids: Vec::new(),
        confidence: Vec::new(),
        logits: Vec::with_capacity(base_logits.len()),
        base_logits,
    };
    let mut before = anchor;
    let mut e = vec![0.0; rank];
    for (base, x) in out.base_logits.chunks_exact(vocab).zip(x.chunks_exact(x.len() / block)) {
        drafter.markov_embed.decode_row(before as usize, &mut e);
        let mut logits = drafter.markov_head.matvec(&e);
        logits.iter_mut().zip(base).for_each(|(l, b)| *l += b);
        before = choose(out.ids.len(), &logits);
        out.ids.push(before);
        out.confidence.push(drafter.confidence.matvec(&[x, &e].concat())[0]);
        out.logits.extend(logits);
    }
    out
}
