//! The vision tower.

use super::{ROWS, WIDTH, f32s, numbers, zeros};
use crate::Result;
use crate::gpu::Planner;
use crate::kernels::canary::Case;
use crate::kernels::vision::add_bias::{self, Activation};
use crate::kernels::vision::{residual_add, unfold, vit_attention, vit_rope, vit_swiglu};
use crate::numerics::ops::{gelu, silu, softmax};
use crate::numerics::precision::Precision::F32;

/// Heads of the tower.
const HEADS: usize = 4;
/// Width of a head.
const HEAD: usize = WIDTH / HEADS;

pub(super) fn record(planner: &mut Planner<'_>) -> Result<Vec<Case>> {
    let mut cases = elementwise(planner)?;
    cases.push(rotated(planner)?);
    cases.push(attended(planner)?);
    cases.push(unfolded(planner)?);
    Ok(cases)
}

/// Two tensors of a size, and an operation in place on the second.
fn elementwise(planner: &mut Planner<'_>) -> Result<Vec<Case>> {
    let (x, y) = (numbers("canary x", ROWS * WIDTH), numbers("canary y", ROWS * WIDTH));
    let each = |f: fn(f32, f32) -> f32| x.iter().zip(&y).map(|(&x, &y)| f(x, y)).collect();
    let biased = x.iter().zip(y[..WIDTH].iter().cycle()).map(|(x, bias)| gelu(x + bias)).collect();
    let (expected_sum, expected_product) = (each(|x, y| x + y), each(|gate, up| silu(gate) * up));
    let other = f32s(planner, &[ROWS, WIDTH], &y)?;
    let bias = f32s(planner, &[WIDTH], &y[..WIDTH])?;
    let own = || f32s(planner, &[ROWS, WIDTH], &x);
    let [with_bias, sum, product] = [own()?, own()?, own()?];
    add_bias::record(planner, [&bias, &with_bias], Activation::Gelu, F32)?;
    residual_add::record(planner, [&other, &sum], F32)?;
    vit_swiglu::record(planner, [&other, &product], F32)?;
    Ok(vec![
        Case::f32("add_bias", with_bias, biased),
        Case::f32("residual_add", sum, expected_sum),
        Case::f32("vit_swiglu", product, expected_product),
    ])
}

/// Queries and keys turn by halves, values stay (section 1.5).
fn rotated(planner: &mut Planner<'_>) -> Result<Case> {
    let pairs = HEAD / 2;
    let turns: Vec<[f32; 2]> = numbers("canary angles", ROWS * pairs).iter().map(|a| [a.cos(), a.sin()]).collect();
    let x = numbers("canary qkv", ROWS * 3 * WIDTH);
    let mut expected = x.clone();
    for place in 0..ROWS * 2 * HEADS * pairs {
        let (token, head, i) = (place / (2 * HEADS * pairs), place / pairs % (2 * HEADS), place % pairs);
        let at = token * 3 * WIDTH + head * HEAD + i;
        let ([cos, sin], a, b) = (turns[token * pairs + i], x[at], x[at + pairs]);
        (expected[at], expected[at + pairs]) = (a * cos - b * sin, b * cos + a * sin);
    }
    let angles = f32s(planner, &[ROWS, pairs, 2], turns.as_flattened())?;
    let output = f32s(planner, &[ROWS, 3 * WIDTH], &x)?;
    vit_rope::record(planner, [&angles, &output], F32)?;
    Ok(Case::f32("vit_rope", output, expected))
}

/// Every patch over all patches.
fn attended(planner: &mut Planner<'_>) -> Result<Case> {
    let qkv = numbers("canary qkv", ROWS * 3 * WIDTH);
    let part = |token: usize, which: usize, head: usize| &qkv[(token * 3 + which) * WIDTH + head * HEAD..][..HEAD];
    let mut expected = vec![0.0; ROWS * WIDTH];
    for (place, out) in expected.chunks_exact_mut(HEAD).enumerate() {
        let (token, head) = (place / HEADS, place % HEADS);
        let dot = |other: usize| part(token, 0, head).iter().zip(part(other, 1, head)).map(|(q, k)| q * k).sum::<f32>();
        let mut p: Vec<f32> = (0..ROWS).map(|other| dot(other) / (HEAD as f32).sqrt()).collect();
        softmax(&mut p);
        for (other, p) in p.iter().enumerate() {
            out.iter_mut().zip(part(other, 2, head)).for_each(|(out, value)| *out += p * value);
        }
    }
    let (qkv, output) = (f32s(planner, &[ROWS, 3 * WIDTH], &qkv)?, zeros(planner, &[ROWS, WIDTH])?);
    vit_attention::record(planner, [&qkv, &output], HEADS, F32)?;
    Ok(Case::f32("vit_attention", output, expected))
}

/// Squares of 2 x 2 patches in a grid of 2 x 3: the last column is filled up with zeros.
fn unfolded(planner: &mut Planner<'_>) -> Result<Case> {
    let (rows, cols, ratio, width) = (2, 3, 2, 5);
    let x = numbers("canary patches", rows * cols * width);
    let value = |place: usize| {
        let (cell, channel, y, kx) = (place / (4 * width), place / 4 % width, place / 2 % 2, place % 2);
        let col = 2 * cell + kx;
        if col < cols { x[(y * cols + col) * width + channel] } else { 0.0 }
    };
    let expected = (0..2 * 4 * width).map(value).collect();
    let (x, output) = (f32s(planner, &[rows * cols, width], &x)?, zeros(planner, &[2, 4 * width])?);
    unfold::record(planner, [&x, &output], [rows, cols], ratio)?;
    Ok(Case::f32("unfold", output, expected))
}
