//! The mixes and the streams of the followed token, computed again from what the run recorded: f64, without the functions that it judges.

use crate::blocks::b2a_hyper_connection::Weights;
use crate::blocks::tap::Tap;
use crate::config::Config;
use crate::lab::again::{balance, rms, sigmoid, wide};
use crate::lab::run::Run;

/// One of the two sub-layers of a layer, with its taps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sub {
    pub(super) pre: Tap,
    pub(super) post: Tap,
    pub(super) comb: Tap,
    pub(super) out: Tap,
    pub(super) name: &'static str,
}

pub(super) const ATTENTION: Sub =
    Sub { pre: Tap::AttnPre, post: Tap::AttnPost, comb: Tap::AttnComb, out: Tap::AttnOut, name: "attention" };
pub(super) const FFN: Sub =
    Sub { pre: Tap::FfnPre, post: Tap::FfnPost, comb: Tap::FfnComb, out: Tap::FfnOut, name: "FFN" };

/// The mixing numbers of one sub-layer.
#[derive(Debug, Clone)]
pub(super) struct Mixing {
    /// `[h]`
    pub(super) pre: Vec<f64>,
    /// `[h]`
    pub(super) post: Vec<f64>,
    /// The softmax and the matrix after each Sinkhorn step, the last of which is comb `[h * h]`.
    pub(super) steps: Vec<Vec<f64>>,
}

impl Mixing {
    /// From the streams `[h * dim]` in front of the sub-layer (section 3.1).
    pub(super) fn of(config: &Config, weights: &Weights, streams: &[f64]) -> Self {
        let (lanes, eps) = (config.hc_mult, f64::from(config.hc_eps));
        let size = rms(streams, f64::from(config.norm_eps));
        let mut row = vec![0.0; weights.projection.cols()];
        let mut at = |i: usize, part: usize| {
            weights.projection.decode_row(i, &mut row);
            let m = row.iter().zip(streams).map(|(&w, f)| f64::from(w) * f).sum::<f64>() / size;
            m * f64::from(weights.scale[part]) + f64::from(weights.base[i])
        };
        let pre = (0..lanes).map(|c| sigmoid(at(c, 0)) + eps).collect();
        let post = (lanes..2 * lanes).map(|c| 2.0 * sigmoid(at(c, 1))).collect();
        let logits: Vec<f64> = (0..lanes * lanes).map(|i| at(2 * lanes + i, 2)).collect();
        Mixing { pre, post, steps: balance(&logits, lanes, config.hc_sinkhorn_iters, eps) }
    }

    /// The mixing matrix `[h * h]`.
    pub(super) fn comb(&self) -> &[f64] {
        self.steps.last().map_or(&[], Vec::as_slice)
    }
}

/// The streams `[h * dim]` of the followed token that enter `layer`, before the layer's n-gram memory.
pub(super) fn before(run: &Run, layer: usize) -> Vec<f64> {
    match layer.checked_sub(1) {
        None => wide(run.seen.row(Tap::Embedding, 0, run.at)).repeat(run.config().hc_mult),
        Some(before) => wide(run.seen.row(Tap::Streams, before, run.at)),
    }
}

/// The streams in front of the attention of `layer`: with its n-gram memory, if it has one.
///
/// The memory adds `gate[c] v` to stream c. Nobody recorded v, but everything after it is linear in it, so it follows from the streams after
/// the layer: each of them is off by a known multiple of v when the layer is computed without it.
pub(super) fn entered(run: &Run, layer: usize) -> Vec<f64> {
    let mut streams = before(run, layer);
    let gates = wide(run.seen.row(Tap::EngramGate, layer, run.at));
    if gates.iter().all(|&gate| gate == 0.0) {
        return streams;
    }
    let dim = run.config().dim;
    let without = passed(run, FFN, layer, &passed(run, ATTENTION, layer, &streams));
    let after = wide(run.seen.row(Tap::Streams, layer, run.at));
    // What one unit of v becomes in each stream: the gates, mixed twice.
    let share = [ATTENTION, FFN].iter().fold(gates.clone(), |share, sub| mixed(run, *sub, layer, &share));
    let weight: f64 = share.iter().map(|s| s * s).sum();
    for d in 0..dim {
        let off = |j: usize| after[j * dim + d] - without[j * dim + d];
        let v = share.iter().enumerate().map(|(j, s)| s * off(j)).sum::<f64>() / weight;
        gates.iter().enumerate().for_each(|(c, gate)| streams[c * dim + d] += gate * v);
    }
    streams
}

/// The streams behind a sub-layer, from the streams in front of it and the recorded post, comb and output: `post[j] y + Σ_i comb[i][j] h_i`.
pub(super) fn passed(run: &Run, sub: Sub, layer: usize, streams: &[f64]) -> Vec<f64> {
    let [post, y] = [sub.post, sub.out].map(|tap| wide(run.seen.row(tap, layer, run.at)));
    let mut after = mixed(run, sub, layer, streams);
    for (h, post) in after.chunks_exact_mut(y.len().max(1)).zip(&post) {
        h.iter_mut().zip(&y).for_each(|(h, y)| *h += post * y);
    }
    after
}

/// `Σ_i comb[i][j] h_i` for streams `[h * width]` of any width.
fn mixed(run: &Run, sub: Sub, layer: usize, streams: &[f64]) -> Vec<f64> {
    let lanes = run.config().hc_mult;
    let (comb, width) = (wide(run.seen.row(sub.comb, layer, run.at)), streams.len() / lanes);
    let at = |j: usize, d: usize| (0..lanes).map(|i| comb[i * lanes + j] * streams[i * width + d]).sum();
    (0..lanes * width).map(|place| at(place / width, place % width)).collect()
}

/// `Σ_c pre[c] h_c`.
pub(super) fn collapsed(streams: &[f64], pre: &[f64]) -> Vec<f64> {
    let dim = streams.len() / pre.len().max(1);
    (0..dim).map(|d| pre.iter().enumerate().map(|(c, w)| w * streams[c * dim + d]).sum()).collect()
}
