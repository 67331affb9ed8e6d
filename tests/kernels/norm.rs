//! Norms, rotations, and the grids of the activation quantisers; and that a comparison here can fail.

use super::support::*;
use flash890::blocks::context::Context;
use flash890::config::Config;
use flash890::gpu::{Kernel, Tensor};
use flash890::kernels::norm::{fake_quant, rms_norm, rope};
use flash890::numerics::precision::Precision;
use flash890::numerics::quant;

#[test]
fn rows_are_normed() {
    for numerics in [Precision::F32, Precision::Released] {
        for (n, width, eps) in [(1, 1, 1e-6), (3, 63, 1e-20), (5, 64, 1e-6), (2, 257, 1e-6)] {
            let context = Context::new(&Config { norm_eps: eps, ..Config::flash() }, numerics, Precision::F32);
            let (x, weight) = (numbers("x", n * width, 7.0), numbers("weight", width, 2.0));
            let mut expected = x.clone();
            context.norm_rows(&mut expected, &weight);
            // The same rows again as the beginnings of wider ones.
            let wider: Vec<f32> = x.chunks_exact(width).flat_map(|row| [row, &[9.0; 5]].concat()).collect();
            let (weight, x) = (f32s(&[width], &weight), f32s(&[n, width], &x));
            let normed = |x: &Tensor, quantise: bool| {
                let out = output(&[n, width]);
                run(|planner| rms_norm::record(planner, [&weight, x, &out], &call(0, n, 0), eps, (numerics, quantise)));
                read(&out)
            };
            let out = normed(&x, false);
            match numerics {
                Precision::F32 => assert_close(&out, &expected, SUMS),
                Precision::Released => assert_bf16_close(&out, &expected),
            }
            assert_bits(&normed(&f32s(&[n, width + 5], &wider), false), &out);
            // On the grid; widths of matrices are whole groups.
            if width % 32 == 0 {
                let mut grid = out;
                quant::fake_fp8(&mut grid);
                assert_bits(&normed(&x, true), &grid);
            }
        }
    }
}

/// Rotates rows at far positions, and compares; back again it is the input.
fn rotated(kernel: &Kernel, numerics: Precision) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let config = Config { rope_head_dim: 12, ..Config::flash() };
    let context = Context::new(&config, numerics, Precision::F32);
    let (n, heads, width, start) = (5, 3, 23, 1_000_003);
    let x = numbers("x", n * heads * width, 3.0);
    let (mut there, mut back) = (x.clone(), x.clone());
    for (token, (there, back)) in
        there.chunks_exact_mut(heads * width).zip(back.chunks_exact_mut(heads * width)).enumerate()
    {
        let angles = context.rope_compressed.angles(start + token);
        there.chunks_exact_mut(width).for_each(|head| context.rotate_tail(head, &angles));
        back.chunks_exact_mut(width).for_each(|head| context.rotate_tail_back(head, &angles));
    }
    // Dims in front of the rotated ones are rounded already where the model calls this.
    let pairs = config.rope_head_dim / 2;
    for head in there.chunks_exact_mut(width).chain(back.chunks_exact_mut(width)) {
        numerics.round(&mut head[width - 2 * pairs..]);
    }
    let angles: Vec<f32> =
        (start..start + n).flat_map(|p| context.rope_compressed.angles(p)).flat_map(|(cos, sin)| [cos, sin]).collect();
    let angles = f32s(&[n, pairs, 2], &angles);
    let [forwards, backwards] = [0, 1].map(|back| {
        let tensor = f32s(&[n, heads, width], &x);
        let p = rope::Rope { rows: n as u32, heads: heads as u32, width: width as u32, pairs: pairs as u32, back };
        let flag = flash890::kernels::include::round_flag(numerics);
        run_apart(|planner| planner.dispatch(kernel, &[flag], &[&angles, &tensor], &p, [2, 1, 1]));
        read(&tensor)
    });
    assert_eq!(differs(&backwards, &back, 1e-5).is_none(), differs(&forwards, &there, 1e-5).is_none());
    (forwards, there, back)
}

#[test]
fn heads_are_rotated_both_ways() {
    let (forwards, there, back) = rotated(&rope::KERNEL, Precision::F32);
    assert_close(&forwards, &there, SUMS);
    assert!(differs(&there, &back, 1e-3).is_some());
    // Through `record` and in released numerics, there and back.
    let context = Context::new(&Config { rope_head_dim: 4, ..Config::flash() }, Precision::Released, Precision::F32);
    for back in [false, true] {
        let (n, heads, width) = (3, 5, 9);
        let mut x = numbers("x", n * heads * width, 3.0);
        Precision::Released.round(&mut x);
        let tensor = f32s(&[n, heads, width], &x);
        let table: Vec<f32> =
            (7..7 + n).flat_map(|p| context.rope_window.angles(p)).flat_map(|(c, s)| [c, s]).collect();
        let angles = f32s(&[n, 2, 2], &table);
        run(|planner| rope::record(planner, &angles, &tensor, [n, heads, width], back, Precision::Released));
        for (token, row) in x.chunks_exact_mut(heads * width).enumerate() {
            let angles = context.rope_window.angles(7 + token);
            row.chunks_exact_mut(width).for_each(|head| match back {
                true => context.rotate_tail_back(head, &angles),
                false => context.rotate_tail(head, &angles),
            });
        }
        Precision::Released.round(&mut x);
        assert_bf16_close(&read(&tensor), &x);
    }
}

/// The comparison can fail: one sign changed in the shader's text is found.
#[test]
fn a_planted_mistake_is_found() {
    let text = rope::KERNEL.wgsl.replace("a * s + b * c", "a * s - b * c");
    assert_ne!(text, rope::KERNEL.wgsl);
    let planted = Kernel { wgsl: text.leak(), ..rope::KERNEL };
    let (forwards, there, _) = rotated(&planted, Precision::F32);
    assert!(differs(&forwards, &there, SUMS).is_some());
}

#[test]
fn grids_are_exact() {
    let mut x = activations("activations", 32 * 300);
    x.extend(numbers("even", 32 * 70, 448.0));
    x.extend((0..64).map(|i| [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0][i % 8] * if i < 32 { 1.0 } else { -8.0 }));
    // Every E4M3 number and every middle between two of them, with 448 in each group.
    x.extend((0..32 * 32).map(|i| if i % 32 == 0 { 448.0 } else { (i as f32 / 1024.0 * 9.0).exp2() - 1.0 }));
    let mut expected = x.clone();
    quant::fake_fp8(&mut expected);
    let (source, out) = (f32s(&[x.len() / 32, 32], &x), output(&[x.len() / 32, 32]));
    run(|planner| fake_quant::record(planner, &source, &out));
    assert_bits(&read(&out), &expected);
}
