//! The residual streams: mixes, collapse, expansion, and the mean that the drafter reads.

use super::support::*;
use flash890::blocks::b2a_hyper_connection::{self as hyper, Mixes};
use flash890::blocks::b6b_head_dspark as head;
use flash890::blocks::context::Context;
use flash890::blocks::layer::{Rows, collapse_and_norm};
use flash890::config::Config;
use flash890::image::TokenType;
use flash890::kernels::hyper::sublayer_input::{self, MIXES, Way};
use flash890::kernels::hyper::{hc_expand, stream_mean};
use flash890::numerics::linear::Matrix;
use flash890::numerics::precision::Precision;
use flash890::numerics::quant;

const BOTH: [Precision; 2] = [Precision::F32, Precision::Released];

fn config(dim: usize) -> Config {
    Config { dim, hc_mult: 4, hc_sinkhorn_iters: 20, hc_eps: 1e-6, norm_eps: 1e-20, ..Config::flash() }
}

/// Runs the kernel on `n` tokens.
fn mixes_on_gpu(config: &Config, weights: &hyper::Weights, streams: &[f32], n: usize) -> Mixes {
    let dim = config.dim;
    let (streams, before) = (f32s(&[n, 4, dim], streams), f32s(&[n, 4], &vec![0.25; 4 * n]));
    let weights = sublayer_input::weights(&GPU, "weights", &vec![1.0; dim], weights).unwrap();
    let (x, x_q, pre, mixes) = (output(&[n, dim]), output(&[n, dim]), output(&[n, 4]), output(&[n, MIXES]));
    let way = Way { mixes: true, last: false, quantise: false, numerics: Precision::F32 };
    let tensors = [&streams, &before, &weights, &x, &x_q, &pre, &mixes];
    run(|planner| sublayer_input::record(planner, tensors, &call(0, n, 0), config, way));
    let mixes = read(&mixes);
    let part = |columns: std::ops::Range<usize>| -> Vec<f32> {
        mixes.chunks_exact(MIXES).flat_map(|row| &row[columns.clone()]).copied().collect()
    };
    Mixes { pre: read(&pre), post: part(0..4), comb: part(4..MIXES) }
}

/// The worked example of section 3.4: `m` is given there, so the projection is chosen to produce it from one residual entry.
#[test]
fn worked_example_of_the_mixes() {
    let config = config(2);
    #[rustfmt::skip]
    let m = [
        0.5, -0.25, 1.0, 0.0, 0.3, -0.6, 0.9, 1.2, -0.8, 0.0, 0.8, -0.4, 0.4, -0.8, 0.0, 0.8, -0.4, 0.4, -0.8, 0.0,
        0.8, -0.4, 0.4, -0.8f32,
    ];
    let streams = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0f32];
    let root = (streams.iter().map(|v| v * v).sum::<f32>() / 8.0).sqrt();
    let mut projection = vec![0.0; 24 * 8];
    m.iter().enumerate().for_each(|(row, m)| projection[row * 8] = m * root);
    let base = (0..24).map(|i| 0.5 * (0.1 * i as f32 - 0.3)).collect();
    let weights =
        hyper::Weights { projection: Matrix::f32(24, 8, projection).unwrap(), scale: vec![1.0, 0.5, 2.0], base };
    let mixes = mixes_on_gpu(&config, &weights, &streams, 1);
    let close = |actual: &[f32], printed: &[f32]| {
        assert_eq!(actual.len(), printed.len());
        assert!(actual.iter().zip(printed).all(|(a, p)| (a - p).abs() <= 2e-6), "{actual:?} against {printed:?}");
    };
    close(&mixes.pre, &[0.5866186, 0.41338345, 0.7211162, 0.500001]);
    close(&mixes.post, &[1.099668, 0.90033203, 1.2913126, 1.379949]);
    #[rustfmt::skip]
    close(&mixes.comb, &[
        0.03205956, 0.2368822, 0.6439124, 0.08714487,
        0.23688275, 0.03205977, 0.08714483, 0.6439117,
        0.08714494, 0.64391196, 0.0320592, 0.2368829,
        0.6439118, 0.08714504, 0.23688266, 0.03205949,
    ]);
}

/// Odd widths, several tokens. Sinkhorn's twenty divisions add roundings of their own: a limit of 1e-11.
#[test]
fn mixes_of_many_tokens() {
    for (n, dim) in [(1, 3), (5, 37), (3, 64), (2, 200)] {
        let config = config(dim);
        let weights = hyper::Weights {
            projection: Matrix::f32(24, 4 * dim, numbers("projection", 96 * dim, 0.3)).unwrap(),
            scale: numbers("scale", 3, 1.5),
            base: numbers("base", 24, 1.0),
        };
        let streams = numbers("streams", n * 4 * dim, 20.0);
        let expected = hyper::mixes(&config, &weights, &streams, n);
        let actual = mixes_on_gpu(&config, &weights, &streams, n);
        assert_close(&actual.pre, &expected.pre, 1e-11);
        assert_close(&actual.post, &expected.post, 1e-11);
        assert_close(&actual.comb, &expected.comb, 1e-11);
        for comb in actual.comb.chunks_exact(16) {
            (0..4).for_each(|j| assert!(((0..4).map(|i| comb[4 * i + j]).sum::<f32>() - 1.0).abs() < 1e-5));
        }
    }
}

#[test]
fn streams_collapse_to_a_normed_input() {
    for (numerics, (n, dim)) in BOTH.into_iter().flat_map(|p| [(1, 5), (4, 65), (3, 128)].map(|shape| (p, shape))) {
        let config = config(dim);
        let context = Context::new(&config, numerics, Precision::F32);
        let mut streams = numbers("streams", n * 4 * dim, 9.0);
        numerics.round(&mut streams);
        let (pre, norm) = (numbers("pre", n * 4, 1.0), numbers("norm", dim, 1.0));
        let expected = collapse_and_norm(&context, &streams, &pre, &norm, n);
        let (streams, pre, norm) = (f32s(&[n, 4, dim], &streams), f32s(&[n, 4], &pre), f32s(&[dim], &norm));
        let collapsed = |last: bool, quantise: bool| {
            let (x, x_q) = (output(&[n, dim]), output(&[n, dim]));
            let (next, mixes) = (output(&[n, 4]), output(&[n, MIXES]));
            let way = Way { mixes: false, last, quantise, numerics };
            let tensors = [&streams, &pre, &norm, &x, &x_q, &next, &mixes];
            run(|planner| sublayer_input::record(planner, tensors, &call(7, n, 0), &config, way));
            assert!(read(&next).iter().chain(&read(&mixes)).all(|&v| v == UNWRITTEN));
            (read(&x), read(&x_q))
        };
        let (x, unused) = collapsed(false, false);
        match numerics {
            Precision::F32 => assert_close(&x, &expected, SUMS),
            Precision::Released => assert_bf16_close(&x, &expected),
        }
        let is_unwritten = |values: &[f32]| values.iter().all(|&v| v == UNWRITTEN);
        assert!(is_unwritten(&unused));
        // The last row alone is the same row, in the first place.
        let (last, _) = collapsed(true, false);
        assert_bits(&last[..dim], &x[(n - 1) * dim..]);
        assert!(is_unwritten(&last[dim..]));
        // What a quantised matrix sees is x on the grid; widths of matrices are whole groups.
        if dim % 32 == 0 {
            let (again, mut grid) = (collapsed(false, true), x.clone());
            quant::fake_fp8(&mut grid);
            assert_bits(&again.0, &x);
            assert_bits(&again.1, &grid);
        }
    }
}

#[test]
fn outputs_expand_into_the_streams() {
    for (numerics, (n, dim)) in BOTH.into_iter().flat_map(|p| [(1, 5), (4, 65), (3, 128)].map(|shape| (p, shape))) {
        let mut expected = numbers("streams", n * 4 * dim, 9.0);
        let streams = f32s(&[n, 4, dim], &expected);
        let y = numbers("y", n * dim, 5.0);
        let mixes = Mixes { pre: Vec::new(), post: numbers("post", n * 4, 2.0), comb: numbers("comb", n * 16, 1.0) };
        hyper::expand(&config(dim), &mut expected, &y, &mixes, None);
        numerics.round(&mut expected);
        let rows = mixes.post.chunks_exact(4).zip(mixes.comb.chunks_exact(16));
        let mixes: Vec<f32> = rows.flat_map(|(post, comb)| [post, comb].concat()).collect();
        let (y, mixes) = (f32s(&[n, dim], &y), f32s(&[n, MIXES], &mixes));
        run(|planner| hc_expand::record(planner, [&y, &mixes, &streams], &call(0, n, 0), numerics));
        match numerics {
            Precision::F32 => assert_close(&read(&streams), &expected, SUMS),
            Precision::Released => assert_bf16_close(&read(&streams), &expected),
        }
    }
}

/// Each target has its own place; the others' are left alone.
#[test]
fn mean_over_the_streams() {
    for numerics in BOTH {
        let (n, dim, targets) = (3, 70, 3);
        let context = Context::new(&config(dim), numerics, Precision::F32);
        let streams = numbers("streams", n * 4 * dim, 9.0);
        let rows = Rows { start: 0, types: vec![TokenType::Text; n], streams: streams.clone(), pre: Vec::new() };
        let expected = head::stream_mean(&context, &rows);
        let (streams, mean) = (f32s(&[n, 4, dim], &streams), output(&[n, targets, dim]));
        run(|planner| stream_mean::record(planner, &streams, &mean, 1, n, numerics));
        let all = read(&mean);
        let place = |target: usize| -> Vec<f32> {
            (0..n).flat_map(|token| all[(token * targets + target) * dim..][..dim].to_vec()).collect()
        };
        assert!(place(0).iter().chain(&place(2)).all(|&v| v == UNWRITTEN));
        match numerics {
            Precision::F32 => assert_close(&place(1), &expected, SUMS),
            Precision::Released => assert_bf16_close(&place(1), &expected),
        }
    }
}
