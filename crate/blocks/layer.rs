//! What every layer does around its attention: mixes, collapse, norm, expand, experts (steps 5c to 5k of section R.5).
//!
//! Backbone layers and DSpark stages share it; they differ only in the rows that their attention reads.

use super::context::Context;
use super::mistake::Mistake;
use super::tap::{Observer, Tap, Values};
use super::{b2a_hyper_connection as hyper, b4a_latent_attention as attention, b5a_experts as experts};
use crate::image::TokenType;

/// Weights that every layer has.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Mixes of the attention sub-layer.
    pub hc_attn: hyper::Weights,
    /// Mixes of the FFN sub-layer.
    pub hc_ffn: hyper::Weights,
    /// Norm of the attention input `[dim]`.
    pub attn_norm: Vec<f32>,
    /// Norm of the FFN input `[dim]`.
    pub ffn_norm: Vec<f32>,
    /// Attention core.
    pub attention: attention::Weights,
    /// Mixture of experts.
    pub experts: experts::Weights,
}

/// Consecutive tokens on their way through the layers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// Position of the first row.
    pub start: usize,
    /// What each position is `[n]`.
    pub types: Vec<TokenType>,
    /// Residual streams `[n, h, dim]`.
    pub streams: Vec<f32>,
    /// Collapse weights for the next sub-layer `[n, h]`.
    pub pre: Vec<f32>,
}

impl Rows {
    /// Rows that enter the first layer: each embedding `[n, dim]` copied to all streams, collapsed from stream 0 (section R.5, steps 3, 4).
    pub fn enter(context: &Context, embedding: &[f32], types: Vec<TokenType>, start: usize) -> Self {
        let (lanes, dim) = (context.config.hc_mult, context.config.dim);
        let streams = embedding.chunks_exact(dim).flat_map(|row| row.repeat(lanes)).collect();
        let pre = (0..types.len() * lanes).map(|i| if i % lanes == 0 { 1.0 } else { 0.0 }).collect();
        Rows { start, types, streams, pre }
    }

    /// Number of rows.
    pub fn n(&self) -> usize {
        self.types.len()
    }

    /// Positions of the rows.
    pub fn positions(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.n()
    }
}

/// The attention input and what is needed to write its output back.
#[derive(Debug, Clone)]
pub struct Entered {
    /// Mixes of the attention sub-layer.
    pub mixes: hyper::Mixes,
    /// Collapsed, normalised input `[n, dim]`.
    pub x: Vec<f32>,
}

/// The experts' input, the router's decision, and what is needed to write the output back.
#[derive(Debug, Clone)]
pub struct Routed {
    /// Mixes of the feed-forward sub-layer.
    pub mixes: hyper::Mixes,
    /// Collapsed, normalised input `[n, dim]`.
    pub x: Vec<f32>,
    /// Which experts, and their weights.
    pub route: experts::Route,
}

/// Collapses and normalises the streams into the input of a sub-layer `[n, dim]`.
pub fn collapse_and_norm(context: &Context, streams: &[f32], pre: &[f32], norm: &[f32], n: usize) -> Vec<f32> {
    let mut x = hyper::collapse(&context.config, streams, pre, n);
    context.numerics.round(&mut x);
    context.norm_rows(&mut x, norm);
    x
}

impl Layer {
    /// Steps 5c and 5d: mixes of the attention, and its input.
    pub fn enter_attention(
        &self,
        context: &Context,
        rows: &Rows,
        index: usize,
        observer: &mut dyn Observer,
    ) -> Entered {
        let (n, config) = (rows.n(), &context.config);
        let mixes = hyper::mixes(config, &self.hc_attn, &rows.streams, n);
        let lanes = config.hc_mult;
        observe(observer, Tap::AttnPre, index, &[n, lanes], &mixes.pre);
        observe(observer, Tap::AttnPost, index, &[n, lanes], &mixes.post);
        observe(observer, Tap::AttnComb, index, &[n, lanes, lanes], &mixes.comb);
        let pre = if context.mistake == Some(Mistake::PreNotLagged) { &mixes.pre } else { &rows.pre };
        let x = collapse_and_norm(context, &rows.streams, pre, &self.attn_norm, n);
        observe(observer, Tap::AttnInput, index, &[n, config.dim], &x);
        Entered { mixes, x }
    }

    /// Steps 5f to 5k: writes the attention output `y` `[n, dim]` back, runs the experts, and writes their output back.
    pub fn leave_attention(
        &self,
        context: &Context,
        rows: &mut Rows,
        mixes: &hyper::Mixes,
        y: &[f32],
        index: usize,
        observer: &mut dyn Observer,
    ) {
        let routed = self.enter_experts(context, rows, mixes, y, index, observer);
        let y = experts::mixture(context, &self.experts, &routed.x, &routed.route);
        self.leave_experts(context, rows, routed, &y, index, observer);
    }

    /// Steps 5f to 5i: writes the attention output `y` `[n, dim]` back, and chooses experts.
    pub fn enter_experts(
        &self,
        context: &Context,
        rows: &mut Rows,
        mixes: &hyper::Mixes,
        y: &[f32],
        index: usize,
        observer: &mut dyn Observer,
    ) -> Routed {
        let (n, config) = (rows.n(), &context.config);
        let (lanes, dim) = (config.hc_mult, config.dim);
        observe(observer, Tap::AttnOut, index, &[n, dim], y);
        hyper::expand(config, &mut rows.streams, y, mixes, context.mistake);
        context.numerics.round(&mut rows.streams);

        let after = hyper::mixes(config, &self.hc_ffn, &rows.streams, n);
        let pre = if context.mistake == Some(Mistake::PreNotLagged) { &after.pre } else { &mixes.pre };
        let x = collapse_and_norm(context, &rows.streams, pre, &self.ffn_norm, n);
        observe(observer, Tap::FfnPre, index, &[n, lanes], &after.pre);
        observe(observer, Tap::FfnPost, index, &[n, lanes], &after.post);
        observe(observer, Tap::FfnComb, index, &[n, lanes, lanes], &after.comb);
        observe(observer, Tap::FfnInput, index, &[n, dim], &x);

        let route = experts::route(context, &self.experts, &x, &rows.types);
        let k = self.experts.top_k;
        observe(observer, Tap::RouterScores, index, &[n, self.experts.bias.len()], &route.scores);
        observe(observer, Tap::ExpertWeights, index, &[n, k], &route.weights);
        if observer.wants(Tap::ExpertIds, index) {
            let ids: Vec<i64> = route.ids.iter().map(|&e| e as i64).collect();
            observer.see(Tap::ExpertIds, index, &[n, k], Values::I64(&ids));
        }
        Routed { mixes: after, x, route }
    }

    /// Steps 5j and 5k: writes the experts' output `y` `[n, dim]` back.
    pub fn leave_experts(
        &self,
        context: &Context,
        rows: &mut Rows,
        routed: Routed,
        y: &[f32],
        index: usize,
        observer: &mut dyn Observer,
    ) {
        let (n, config) = (rows.n(), &context.config);
        let (lanes, dim) = (config.hc_mult, config.dim);
        observe(observer, Tap::FfnOut, index, &[n, dim], y);
        hyper::expand(config, &mut rows.streams, y, &routed.mixes, context.mistake);
        context.numerics.round(&mut rows.streams);
        rows.pre = routed.mixes.pre;
        observe(observer, Tap::Streams, index, &[n, lanes, dim], &rows.streams);
    }
}

/// Shows a tensor to the observer if it wants it.
pub fn observe(observer: &mut dyn Observer, tap: Tap, layer: usize, shape: &[usize], values: &[f32]) {
    if observer.wants(tap, layer) {
        observer.see(tap, layer, shape, Values::F32(values));
    }
}
