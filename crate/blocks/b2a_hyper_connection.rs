//! # 2A: four residual streams, mixed by manifold-constrained hyper-connections
//!
//! The residual is four streams `h[0..4]` of width `dim`. In front of each sub-layer one small projection of all four yields 24 numbers:
//!
//! ```text
//! f    = all streams as one vector                         rho = 1 / sqrt(mean(f^2) + eps)
//! m    = (fn f) rho                                        24 numbers
//! pre  = sigmoid(m[0..4]  scale[0] + base[0..4]) + hc_eps  how the NEXT sub-layer's input is collapsed from the streams
//! post = 2 sigmoid(m[4..8] scale[1] + base[4..8])          how much of this sub-layer's output each stream takes
//! comb = sinkhorn(m[8..24] scale[2] + base[8..24])         how the streams mix: rows and columns sum to one
//! ```
//!
//! and the sub-layer reads and writes the streams with them:
//!
//! ```text
//! x     = sum_c pre'[c] h[c]                               pre' is the one computed one sub-layer earlier ("single pass")
//! h'[j] = post[j] y + sum_i comb[i][j] h[i]                the sum runs over the first index
//! ```
//!
//! Specification: section 3.

use super::mistake::Mistake;
use crate::config::Config;
use crate::numerics::linear::Matrix;
use crate::numerics::ops::sigmoid;

/// Weights of one sub-layer's mixes; `h` is the number of streams.
#[derive(Debug, Clone)]
pub struct Weights {
    /// `fn` `[2 h + h^2, h * dim]`, f32.
    pub projection: Matrix,
    /// `scale` `[3]`: for pre, post and comb.
    pub scale: Vec<f32>,
    /// `base` `[2 h + h^2]`.
    pub base: Vec<f32>,
}

/// The coefficients of one sub-layer for `n` tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixes {
    /// Collapse weights for the next sub-layer `[n, h]`.
    pub pre: Vec<f32>,
    /// Output weights `[n, h]`.
    pub post: Vec<f32>,
    /// Mixing matrices `[n, h, h]`, source stream first.
    pub comb: Vec<f32>,
}

/// Computes the mixes of one sub-layer from the residual `[n, h, dim]` (section 3.1).
pub fn mixes(config: &Config, weights: &Weights, streams: &[f32], n: usize) -> Mixes {
    let lanes = config.hc_mult;
    let width = lanes * config.dim;
    let mut out = Mixes { pre: Vec::new(), post: Vec::new(), comb: Vec::new() };
    let projected = project(&weights.projection, streams, n);
    for (f, m) in streams.chunks_exact(width).zip(projected.chunks_exact(2 * lanes + lanes * lanes)) {
        let mean_square = f.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / width as f64;
        let rho = (1.0 / (mean_square + f64::from(config.norm_eps)).sqrt()) as f32;
        let at = |i: usize, scale: f32| m[i] * rho * scale + weights.base[i];
        out.pre.extend((0..lanes).map(|c| sigmoid(at(c, weights.scale[0])) + config.hc_eps));
        out.post.extend((0..lanes).map(|c| 2.0 * sigmoid(at(lanes + c, weights.scale[1]))));
        let mut comb: Vec<f32> = (0..lanes * lanes).map(|i| at(2 * lanes + i, weights.scale[2])).collect();
        sinkhorn(&mut comb, lanes, config.hc_sinkhorn_iters, config.hc_eps);
        out.comb.extend(comb);
    }
    out
}

/// `fn f` for `n` tokens, summed in f64: coefficients of all that follows, and the one projection of the model without a prescribed order of
/// summation. `[n, 2 h + h^2]`
fn project(projection: &Matrix, streams: &[f32], n: usize) -> Vec<f32> {
    let (mixes, width) = (projection.rows(), projection.cols());
    let mut weights = vec![0.0; width];
    let mut out = vec![0.0; n * mixes];
    for mix in 0..mixes {
        projection.decode_row(mix, &mut weights);
        for (token, f) in streams.chunks_exact(width).enumerate() {
            let products = f.iter().zip(&weights).map(|(&f, &w)| f64::from(f) * f64::from(w));
            out[token * mixes + mix] = products.sum::<f64>() as f32;
        }
    }
    out
}

/// Turns `lanes * lanes` numbers into a matrix whose rows and columns sum to one (section 3.1).
///
/// The first iteration is a softmax over each row and a column step, every further one a row step and a column step; so the last step is
/// always a column step, and the columns sum to one more closely than the rows.
pub fn sinkhorn(matrix: &mut [f32], lanes: usize, iterations: usize, eps: f32) {
    for row in matrix.chunks_exact_mut(lanes) {
        crate::numerics::ops::softmax(row);
        row.iter_mut().for_each(|v| *v += eps);
    }
    normalise_columns(matrix, lanes, eps);
    for _ in 1..iterations {
        for row in matrix.chunks_exact_mut(lanes) {
            let sum = row.iter().sum::<f32>() + eps;
            row.iter_mut().for_each(|v| *v /= sum);
        }
        normalise_columns(matrix, lanes, eps);
    }
}

fn normalise_columns(matrix: &mut [f32], lanes: usize, eps: f32) {
    for column in 0..lanes {
        let sum = (0..lanes).map(|row| matrix[row * lanes + column]).sum::<f32>() + eps;
        (0..lanes).for_each(|row| matrix[row * lanes + column] /= sum);
    }
}

/// Collapses the streams `[n, h, dim]` with `pre` `[n, h]` into one input `[n, dim]` (section 3.2), not yet rounded.
pub fn collapse(config: &Config, streams: &[f32], pre: &[f32], n: usize) -> Vec<f32> {
    let (lanes, dim) = (config.hc_mult, config.dim);
    let mut x = vec![0.0f32; n * dim];
    for ((x, h), pre) in x.chunks_exact_mut(dim).zip(streams.chunks_exact(lanes * dim)).zip(pre.chunks_exact(lanes)) {
        for (stream, &weight) in h.chunks_exact(dim).zip(pre) {
            x.iter_mut().zip(stream).for_each(|(x, &v)| *x += weight * v);
        }
    }
    x
}

/// Writes a sub-layer's output `y` `[n, dim]` back into the streams `[n, h, dim]` (section 3.2), not yet rounded.
pub fn expand(config: &Config, streams: &mut [f32], y: &[f32], mixes: &Mixes, mistake: Option<Mistake>) {
    let (lanes, dim) = (config.hc_mult, config.dim);
    let transposed = mistake == Some(Mistake::CombTransposed);
    for (token, (h, y)) in streams.chunks_exact_mut(lanes * dim).zip(y.chunks_exact(dim)).enumerate() {
        let post = &mixes.post[token * lanes..][..lanes];
        let comb = &mixes.comb[token * lanes * lanes..][..lanes * lanes];
        let before = h.to_vec();
        for (j, out) in h.chunks_exact_mut(dim).enumerate() {
            out.iter_mut().zip(y).for_each(|(out, &y)| *out = post[j] * y);
            for (i, stream) in before.chunks_exact(dim).enumerate() {
                let weight = if transposed { comb[j * lanes + i] } else { comb[i * lanes + j] };
                out.iter_mut().zip(stream).for_each(|(out, &v)| *out += weight * v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dim: usize) -> Config {
        Config { dim, hc_mult: 4, hc_sinkhorn_iters: 20, hc_eps: 1e-6, norm_eps: 1e-20, ..Config::flash() }
    }

    /// The worked example of section 3.4. `m` is given there, so the projection is chosen to produce it: with one residual entry that is
    /// not zero the mean square is known, and `fn` holds `m` divided by what normalisation multiplies.
    fn example() -> (Config, Weights, Vec<f32>) {
        let config = config(2);
        let m = [
            0.5, -0.25, 1.0, 0.0, 0.3, -0.6, 0.9, 1.2, -0.8, 0.0, 0.8, -0.4, 0.4, -0.8, 0.0, 0.8, -0.4, 0.4, -0.8, 0.0,
            0.8, -0.4, 0.4, -0.8f32,
        ];
        let streams = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0f32];
        let mean_square = streams.iter().map(|v| v * v).sum::<f32>() / 8.0;
        let mut projection = vec![0.0; 24 * 8];
        for (row, &m) in m.iter().enumerate() {
            projection[row * 8] = m * mean_square.sqrt();
        }
        let base = (0..24).map(|i| 0.5 * (0.1 * i as f32 - 0.3)).collect();
        let weights = Weights { projection: Matrix::f32(24, 8, projection).unwrap(), scale: vec![1.0, 0.5, 2.0], base };
        (config, weights, streams.to_vec())
    }

    fn close(actual: &[f32], expected: &[f32], tolerance: f32) {
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() <= tolerance, "{actual:?} against {expected:?}");
        }
        assert_eq!(actual.len(), expected.len());
    }

    #[test]
    fn worked_example() {
        let (config, weights, mut streams) = example();
        let mixes = mixes(&config, &weights, &streams, 1);
        close(&mixes.pre, &[0.5866186, 0.41338345, 0.7211162, 0.500001], 1e-6);
        close(&mixes.post, &[1.099668, 0.90033203, 1.2913126, 1.379949], 1e-6);
        #[rustfmt::skip]
        close(&mixes.comb, &[
            0.03205956, 0.2368822, 0.6439124, 0.08714487,
            0.23688275, 0.03205977, 0.08714483, 0.6439117,
            0.08714494, 0.64391196, 0.0320592, 0.2368829,
            0.6439118, 0.08714504, 0.23688266, 0.03205949,
        ], 2e-6);
        close(&collapse(&config, &streams, &mixes.pre, 1), &[8.932357, 11.153477], 1e-5);
        expand(&config, &mut streams, &[10.0, -1.0], &mixes, None);
        let expected = [16.682495, 5.586146, 13.1659565, 4.2623034, 15.636948, 2.432508, 17.227201, 3.047761];
        close(&streams, &expected, 2e-5);
    }

    #[test]
    fn first_sinkhorn_step() {
        let (_, weights, _) = example();
        let m = [-0.8, 0.0, 0.8, -0.4, 0.4, -0.8, 0.0, 0.8, -0.4, 0.4, -0.8, 0.0, 0.8, -0.4, 0.4, -0.8f32];
        let mut comb: Vec<f32> = m.iter().enumerate().map(|(i, m)| m * 2.0 + weights.base[8 + i]).collect();
        sinkhorn(&mut comb, 4, 1, 1e-6);
        #[rustfmt::skip]
        close(&comb, &[
            0.02827941, 0.18437189, 0.61373204, 0.07214548,
            0.24304233, 0.02902406, 0.0966116, 0.6200537,
            0.10930395, 0.7126391, 0.04344957, 0.2788572,
            0.61937326, 0.07396363, 0.24620602, 0.02894257,
        ], 1e-6);
    }

    #[test]
    fn the_sum_runs_over_the_first_index() {
        let (config, weights, streams) = example();
        let mixes = mixes(&config, &weights, &streams, 1);
        let (mut right, mut wrong) = (streams.clone(), streams);
        expand(&config, &mut right, &[10.0, -1.0], &mixes, None);
        expand(&config, &mut wrong, &[10.0, -1.0], &mixes, Some(Mistake::CombTransposed));
        assert!((right[0] - 16.682495).abs() < 2e-5 && (wrong[0] - right[0]).abs() > 1e-6);
    }
}
