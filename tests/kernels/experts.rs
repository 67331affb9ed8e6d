//! The mixture of experts: which are chosen, and what they compute.

use super::support::*;
use flash890::blocks::b5a_experts::{self as experts, Expert, Route, Weights};
use flash890::blocks::context::Context;
use flash890::config::Config;
use flash890::gpu::Tensor;
use flash890::kernels::experts::{self as kernels, experts_down, experts_down_many, experts_sum, experts_up};
use flash890::kernels::experts::{experts_up_many, route};
use flash890::kernels::norm::fake_quant;
use flash890::numerics::linear::Matrix;
use flash890::numerics::ops::softplus;
use flash890::numerics::precision::Precision;
use flash890::numerics::quant;

/// Router logits from -90 to 90 of text and picture tokens, and ties: equal logits with equal biases.
#[test]
fn experts_are_chosen_like_the_reference() {
    let (n, scale) = (5, 1.5f32);
    for (count, k) in [(8, 2), (70, 6), (384, 6), (5, 5)] {
        let mut logits = numbers("logits", n * count, 6.0);
        logits[0] = 90.0;
        logits[1] = -90.0;
        logits[2] = -12.0;
        logits[count..2 * count].fill(0.5);
        let (bias, mut bias_vl) = (vec![0.25; count], numbers("bias", count, 3.0));
        bias_vl[count - 1] = 50.0;
        let mask = [0, 0, 1, 0, 1];
        let tensors = [
            f32s(&[n, count], &logits),
            f32s(&[count], &bias),
            f32s(&[count], &bias_vl),
            u32s(&[n], &mask),
            output(&[n, count]),
            output_u32(&[n, k]),
            output(&[n, k]),
        ];
        run(|planner| route::record(planner, std::array::from_fn(|i| &tensors[i]), &call(0, n, 0), scale));
        let (scores, ids, weights) = (read(&tensors[4]), read_u32(&tensors[5]), read(&tensors[6]));
        for token in 0..n {
            let row = token * count..(token + 1) * count;
            let expected: Vec<f32> = logits[row.clone()].iter().map(|&l| softplus(l).sqrt()).collect();
            assert_close(&scores[row.clone()], &expected, SUMS);
            // The choice follows from the scores as the kernel has them; where they tie, they tie exactly.
            let bias = if mask[token] == 1 { &bias_vl } else { &bias };
            let (chosen, w) = experts::choose(&scores[row], bias, k, scale);
            let chosen: Vec<u32> = chosen.into_iter().map(|e| e as u32).collect();
            assert_eq!(ids[token * k..][..k], chosen, "token {token} of {count} experts");
            assert_close(&weights[token * k..][..k], &w, SUMS);
        }
        assert_eq!(ids[k..2 * k], (0..k as u32).collect::<Vec<_>>(), "of equals the lower index");
    }
}

/// The score of very negative logits keeps its digits: relative, not absolute.
#[test]
fn small_scores_keep_their_digits() {
    let logits: Vec<f32> = (0..64).map(|i| -40.0 + i as f32).collect();
    let tensors = [
        f32s(&[1, 64], &logits),
        f32s(&[64], &[0.0; 64]),
        f32s(&[64], &[0.0; 64]),
        u32s(&[1], &[0]),
        output(&[1, 64]),
        output_u32(&[1, 2]),
        output(&[1, 2]),
    ];
    run(|planner| route::record(planner, std::array::from_fn(|i| &tensors[i]), &call(0, 1, 0), 1.0));
    for (logit, score) in logits.iter().zip(read(&tensors[4])) {
        let expected = softplus(*logit).sqrt();
        assert!((score / expected - 1.0).abs() < 2e-6, "logit {logit}: {score} instead of {expected}");
    }
}

/// With the grid, h is what the quantiser makes of h without, in the chosen experts and in the shared one.
#[test]
fn fused_grids_are_those_of_the_quantiser() {
    let (n, count, k, dim, inter) = (3, 4, 2, 64, 96);
    for numerics in [Precision::F32, Precision::Released] {
        let shared = kernels::shared(&GPU, "shared", &fp8("shared", 2 * inter, dim)).unwrap();
        let pairs: Vec<Matrix> = (0..2 * count).map(|e| fp4(&format!("pair {e}"), inter, dim)).collect();
        let (codes, scales) = stacked(&pairs.iter().collect::<Vec<_>>());
        let up = Tensor { shape: vec![count, 2 * inter, dim / 2], ..codes };
        let (x, ids) = (f32s(&[n, dim], &numbers("x", n * dim, 2.0)), u32s(&[n, k], &[3, 0, 1, 2, 0, 1]));
        let route_weights = f32s(&[n, k], &numbers("route", n * k, 1.0));
        let h = |quantise: bool| {
            let h = output(&[n, k + 1, inter]);
            let tensors = [&x, &up, &scales, &shared, &ids, &route_weights, &h];
            run(|planner| experts_up::record(planner, tensors, &call(0, n, 0), 10.0, (numerics, quantise)));
            read(&h)
        };
        let (mut plain, grid) = (h(false), h(true));
        assert!(!plain.contains(&UNWRITTEN));
        quant::fake_fp8(&mut plain);
        assert_bits(&grid, &plain);
    }
}

/// FP8 weights of about one.
fn fp8(name: &str, rows: usize, cols: usize) -> Matrix {
    let codes = integers(name, rows * cols, 0x7f).into_iter().map(|v| v as u8 ^ (v as u8 & 1) << 7).collect();
    let scales = integers(name, rows / 32 * cols / 32, 3).into_iter().map(|v| 117 + v as u8).collect();
    Matrix::fp8(rows, cols, codes, scales).unwrap()
}

fn fp4(name: &str, rows: usize, cols: usize) -> Matrix {
    let codes = integers(name, rows * cols / 2, 256).into_iter().map(|v| v as u8).collect();
    let scales = integers(name, rows * cols / 32, 3).into_iter().map(|v| 122 + v as u8).collect();
    Matrix::fp4(rows, cols, codes, scales).unwrap()
}

/// The same matrices of all experts, one after the other.
fn stacked(matrices: &[&Matrix]) -> (Tensor, Tensor) {
    let (mut codes, mut all_scales) = (Vec::new(), Vec::new());
    for matrix in matrices {
        let Matrix::Fp4 { packed, scales, .. } = matrix else { panic!("experts are FP4") };
        codes.extend_from_slice(packed);
        all_scales.extend_from_slice(scales);
    }
    let [count, rows, cols] = [matrices.len(), matrices[0].rows(), matrices[0].cols()];
    (
        Tensor::bytes(&GPU, "codes", &[count, rows, cols / 2], &codes).unwrap(),
        Tensor::bytes(&GPU, "scales", &[count, rows, cols / 32], &all_scales).unwrap(),
    )
}

/// Both projections of the chosen experts and the shared one against the whole mixture; experts are listed out of order and chosen unevenly.
#[test]
fn mixture_of_chosen_experts() {
    let (n, count, k, dim, inter) = (70, 5, 3, 96, 64);
    let config = Config { dim, moe_inter_dim: inter, swiglu_limit: 10.0, ..Config::flash() };
    let make = |e: usize| Expert {
        w1: fp4(&format!("w1 {e}"), inter, dim),
        w2: fp4(&format!("w2 {e}"), dim, inter),
        w3: fp4(&format!("w3 {e}"), inter, dim),
    };
    let weights = Weights {
        gate: Matrix::bf16(1, 32, vec![0; 32]).unwrap(),
        bias: vec![0.0; count],
        bias_vl: vec![0.0; count],
        experts: (0..count).map(make).collect(),
        shared: Expert { w1: fp8("w1", inter, dim), w2: fp8("w2", dim, inter), w3: fp8("w3", inter, dim) },
        top_k: k,
    };
    let decision = Route {
        scores: Vec::new(),
        // More rows than one turn of the many-row kernels takes; expert 3 is chosen by few of them.
        ids: (0..n).flat_map(|row| if row % 9 == 5 { [3, 4, 1] } else { [4, 0, 1 + row % 2] }).collect(),
        weights: numbers("route", n * k, 1.0).into_iter().map(f32::abs).collect(),
    };
    for numerics in [Precision::F32, Precision::Released] {
        let context = Context::new(&config, numerics, Precision::F32);
        let mut x = numbers("x", n * dim, 2.0);
        numerics.round(&mut x);
        let expected = experts::mixture(&context, &weights, &x, &decision);

        let pairs: Vec<&Matrix> = weights.experts.iter().flat_map(|e| [&e.w1, &e.w3]).collect();
        let (codes, scales) = stacked(&pairs);
        let up = Tensor { shape: vec![count, 2 * inter, dim / 2], ..codes };
        let (down, down_scales) = stacked(&weights.experts.iter().map(|e| &e.w2).collect::<Vec<_>>());
        let joined = Matrix::join_rows(&[weights.shared.w1.clone(), weights.shared.w3.clone()]).unwrap();
        let shared = [&joined, &weights.shared.w2].map(|matrix| kernels::shared(&GPU, "shared", matrix).unwrap());
        let ids = u32s(&[n, k], &decision.ids.iter().map(|&e| e as u32).collect::<Vec<_>>());
        let route_weights = f32s(&[n, k], &decision.weights);
        let (x, x_q, call) = (f32s(&[n, dim], &x), output(&[n, dim]), call(0, n, 0));
        let (h, y) = (output(&[n, k + 1, inter]), output(&[n, dim]));
        run(|planner| {
            let grid = (numerics, numerics == Precision::Released);
            fake_quant::record(planner, &x, &x_q)?;
            let input = if grid.1 { &x_q } else { &x };
            let tensors = [input, &up, &scales, &shared[0], &ids, &route_weights, &h];
            experts_up::record(planner, tensors, &call, 10.0, grid)?;
            experts_down::record(planner, [&h, &down, &down_scales, &shared[1], &ids, &y], &call, numerics)
        });
        // Many rows at a time: the same bits.
        let (many_h, rows, many) = (output(&[n, k + 1, inter]), output(&[n, k + 1, dim]), output(&[n, dim]));
        run(|planner| {
            let grid = (numerics, numerics == Precision::Released);
            let input = if grid.1 { &x_q } else { &x };
            let tensors = [input, &up, &scales, &shared[0], &ids, &route_weights, &many_h];
            experts_up_many::record(planner, tensors, &call, 10.0, grid)?;
            let tensors = [&many_h, &down, &down_scales, &shared[1], &ids, &rows];
            experts_down_many::record(planner, tensors, &call, numerics)?;
            experts_sum::record(planner, [&rows, &ids, &many], &call, count, numerics)
        });
        assert_bits(&read(&many_h), &read(&h));
        assert_bits(&read(&many), &read(&y));
        match numerics {
            Precision::F32 => assert_close(&read(&y), &expected, SUMS),
            // A bf16 step of h that turns an FP8 code moves an output by more than its own last bit.
            Precision::Released => assert_close(&read(&y), &expected, 1e-5),
        }
    }
}
