//! # 5A: the mixture of experts
//!
//! Every layer has 384 small FP4 experts, of which each token uses six, and one FP8 expert that all tokens share:
//!
//! ```text
//! s_e = sqrt(softplus(W_g[e] . x))                          router score, f32
//! choose the six largest s_e + b_e                          b: one bias for text, another for image tokens
//! w_e = 1.5 s_e / sum of the chosen s                       from the scores without bias
//! y_e = W_2 (w_e silu(min(g, 10)) clamp(u, -10, 10))        g = W_1 x, u = W_3 x; the weight enters BEFORE W_2
//! y   = sum of the chosen y_e, ascending e, plus the shared expert's (without a weight)
//! ```
//!
//! Specification: section 9.

use super::context::Context;
use super::mistake::Mistake;
use crate::image::TokenType;
use crate::numerics::linear::Matrix;
use crate::numerics::ops::{silu, softplus, top_k};
use std::borrow::Cow;

/// One expert.
#[derive(Debug, Clone)]
pub struct Expert {
    /// Gate projection `[inter, dim]`.
    pub w1: Matrix,
    /// Down projection `[dim, inter]`.
    pub w2: Matrix,
    /// Up projection `[inter, dim]`.
    pub w3: Matrix,
}

impl Expert {
    /// Stored bytes.
    pub fn bytes(&self) -> usize {
        self.w1.bytes() + self.w2.bytes() + self.w3.bytes()
    }
}

/// Weights of one layer's mixture.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Router `[experts, dim]`, bf16.
    pub gate: Matrix,
    /// Selection bias for text tokens `[experts]`.
    pub bias: Vec<f32>,
    /// Selection bias for image tokens `[experts]`.
    pub bias_vl: Vec<f32>,
    /// Routed experts; none if they are brought one by one as they are needed.
    pub experts: Vec<Expert>,
    /// The shared expert.
    pub shared: Expert,
    /// Experts chosen per token.
    pub top_k: usize,
}

/// The router's decision for `n` tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Scores without bias `[n, experts]`.
    pub scores: Vec<f32>,
    /// Chosen experts, best first `[n, top_k]`.
    pub ids: Vec<usize>,
    /// Their weights `[n, top_k]`.
    pub weights: Vec<f32>,
}

/// Chooses experts for inputs `x` `[n, dim]` of the given token types (section 9.1).
pub fn route(context: &Context, weights: &Weights, x: &[f32], types: &[TokenType]) -> Route {
    let logits = weights.gate.matmul(x, types.len());
    let mut out = Route { scores: Vec::with_capacity(logits.len()), ids: Vec::new(), weights: Vec::new() };
    for (logits, token) in logits.chunks_exact(weights.bias.len()).zip(types) {
        let bias = if token.is_image() { &weights.bias_vl } else { &weights.bias };
        let scores: Vec<f32> = logits.iter().map(|&logit| softplus(logit).sqrt()).collect();
        let (ids, w) = choose(&scores, bias, weights.top_k, context.config.route_scale);
        out.scores.extend(scores);
        out.ids.extend(ids);
        out.weights.extend(w);
    }
    out
}

/// The `k` best of score plus bias, and their weights from the scores alone; equal sums go to the lower index.
pub fn choose(scores: &[f32], bias: &[f32], k: usize, route_scale: f32) -> (Vec<usize>, Vec<f32>) {
    let biased: Vec<f32> = scores.iter().zip(bias).map(|(s, b)| s + b).collect();
    let ids = top_k(&biased, k);
    let sum = ids.iter().map(|&e| scores[e]).sum::<f32>() + 1e-20;
    let weights = ids.iter().map(|&e| route_scale * scores[e] / sum).collect();
    (ids, weights)
}

/// One expert on inputs `[n, dim]` that already went through the activation quantiser; routed experts bring a weight per token (section 9.2).
fn expert(context: &Context, expert: &Expert, x_quantised: &[f32], n: usize, route: Option<&[f32]>) -> Vec<f32> {
    let limit = context.config.swiglu_limit;
    let gate = context.numerics.linear_quantised(&expert.w1, x_quantised, n);
    let mut h = context.numerics.linear_quantised(&expert.w3, x_quantised, n);
    h.iter_mut().zip(&gate).for_each(|(u, &g)| *u = silu(g.min(limit)) * u.clamp(-limit, limit));
    let after = context.mistake == Some(Mistake::RouteWeightAfterW2);
    let scale = |rows: &mut [f32]| {
        for (row, &w) in rows.chunks_exact_mut(rows.len() / n).zip(route.unwrap_or_default()) {
            row.iter_mut().for_each(|v| *v *= w);
        }
    };
    if !after {
        scale(&mut h);
    }
    context.numerics.round(&mut h);
    let mut y = context.numerics.linear(&expert.w2, &h, n);
    if after {
        scale(&mut y);
    }
    y
}

/// The whole mixture on inputs `x` `[n, dim]`, given the router's decision; `[n, dim]`, rounded.
pub fn mixture(context: &Context, weights: &Weights, x: &[f32], route: &Route) -> Vec<f32> {
    let mut mixture = Mixture::new(context, weights, x, route);
    for id in mixture.used() {
        mixture.add(id, &weights.experts[id]);
    }
    mixture.finish()
}

/// A mixture whose routed experts come one after the other. Whoever adds them in ascending order gets the bits of [`mixture()`].
#[derive(Debug)]
pub struct Mixture<'a> {
    context: &'a Context,
    weights: &'a Weights,
    route: &'a Route,
    /// Inputs `[n, dim]`, quantised.
    x: Cow<'a, [f32]>,
    /// Outputs so far `[n, dim]`.
    out: Vec<f32>,
}

impl<'a> Mixture<'a> {
    /// Nothing added yet, for inputs `x` `[n, dim]`.
    pub fn new(context: &'a Context, weights: &'a Weights, x: &'a [f32], route: &'a Route) -> Mixture<'a> {
        Mixture { context, weights, route, x: context.numerics.activation(x), out: vec![0.0; x.len()] }
    }

    /// Experts that some token uses, ascending.
    pub fn used(&self) -> Vec<usize> {
        let mut ids = self.route.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Adds the output of routed expert `id` for the tokens that use it.
    pub fn add(&mut self, id: usize, routed: &Expert) {
        let dim = self.context.config.dim;
        let uses: Vec<(usize, f32)> = (self.route.ids.iter().zip(&self.route.weights).enumerate())
            .filter(|(_, (e, _))| **e == id)
            .map(|(place, (_, &w))| (place / self.weights.top_k, w))
            .collect();
        if uses.is_empty() {
            return;
        }
        let inputs: Vec<f32> = uses.iter().flat_map(|&(token, _)| &self.x[token * dim..][..dim]).copied().collect();
        let w: Vec<f32> = uses.iter().map(|&(_, w)| w).collect();
        let y = expert(self.context, routed, &inputs, uses.len(), Some(&w));
        for (y, &(token, _)) in y.chunks_exact(dim).zip(&uses) {
            self.out[token * dim..][..dim].iter_mut().zip(y).for_each(|(out, y)| *out += y);
        }
    }

    /// Adds the shared expert and rounds.
    pub fn finish(self) -> Vec<f32> {
        let n = self.x.len() / self.context.config.dim;
        let shared = expert(self.context, &self.weights.shared, &self.x, n, None);
        let mut out = self.out;
        out.iter_mut().zip(shared).for_each(|(out, y)| *out += y);
        self.context.numerics.round(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of section 9.1.
    #[test]
    fn bias_chooses_but_does_not_weigh() {
        let logits = [0.2, -1.0, 3.0, 0.5, 2.0, -3.0, 1.0, 2.5f32];
        let bias = [0.0, 0.5, -1.0, 0.9, 0.0, 0.0, 0.3, 0.0];
        let scores: Vec<f32> = logits.iter().map(|&l| softplus(l).sqrt()).collect();
        let expected = [0.8933862, 0.55969785, 1.7460204, 0.9869534, 1.458_399, 0.2204254, 1.1459763, 1.6058922];
        assert!(scores.iter().zip(expected).all(|(s, e)| (s - e).abs() < 1e-6), "{scores:?}");
        let (ids, weights) = choose(&scores, &bias, 3, 1.5);
        assert_eq!(ids, [3, 7, 4]);
        let expected = [0.365426, 0.59459215, 0.53998187];
        assert!(weights.iter().zip(expected).all(|(w, e)| (w - e).abs() < 1e-6), "{weights:?}");
        assert!((weights.iter().sum::<f32>() - 1.5).abs() < 1e-6);
    }

    #[test]
    fn equal_scores_go_to_the_lower_index() {
        assert_eq!(choose(&[1.0; 6], &[0.0; 6], 3, 1.5).0, [0, 1, 2]);
    }
}
