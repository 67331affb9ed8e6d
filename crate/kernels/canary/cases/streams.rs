//! What enters the streams, and what goes through them.

use super::{ROWS, WIDTH, f32s, numbers, u32s, zeros};
use crate::Result;
use crate::blocks::b1b_engram as engram;
use crate::blocks::b2a_hyper_connection as hyper;
use crate::blocks::context::Context;
use crate::blocks::layer::collapse_and_norm;
use crate::config::Config;
use crate::gpu::{Planner, Tensor};
use crate::image::TokenType;
use crate::kernels::canary::Case;
use crate::kernels::hyper::sublayer_input::{self, MIXES, Way};
use crate::kernels::hyper::{hc_expand, stream_mean};
use crate::kernels::input::{embed, engram_gate};
use crate::numerics::bf16;
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision::F32;

/// Streams of a token.
const LANES: usize = 4;

pub(super) fn record(planner: &mut Planner<'_>, call: &Tensor) -> Result<Vec<Case>> {
    let config = Config { dim: WIDTH, hc_mult: LANES, ..Config::lab() };
    let context = Context::new(&config, F32, F32);
    let mut cases = mixed(planner, call, &context)?;
    cases.push(mean(planner)?);
    cases.push(embedded(planner, call)?);
    cases.push(remembered(planner, call, &context)?);
    Ok(cases)
}

/// Input and mixes of a sub-layer, then its output back into the streams.
fn mixed(planner: &mut Planner<'_>, call: &Tensor, context: &Context) -> Result<Vec<Case>> {
    let config = &context.config;
    let weights = hyper::Weights {
        projection: Matrix::f32(24, LANES * WIDTH, numbers("canary projection", 24 * LANES * WIDTH))?,
        scale: numbers("canary scale", 3),
        base: numbers("canary base", 24),
    };
    let (norm, before) = (numbers("canary norm", WIDTH), numbers("canary pre", ROWS * LANES));
    let mut streams = numbers("canary streams", ROWS * LANES * WIDTH);
    let expected_x = collapse_and_norm(context, &streams, &before, &norm, ROWS);
    let mixes = hyper::mixes(config, &weights, &streams, ROWS);
    let rows = mixes.post.chunks_exact(LANES).zip(mixes.comb.chunks_exact(LANES * LANES));
    let expected_mixes = rows.flat_map(|(post, comb)| [post, comb].concat()).collect();

    let stream_tensor = f32s(planner, &[ROWS, LANES, WIDTH], &streams)?;
    let before = f32s(planner, &[ROWS, LANES], &before)?;
    let weights = sublayer_input::weights(planner.gpu, "canary", &norm, &weights)?;
    let (x, x_q) = (zeros(planner, &[ROWS, WIDTH])?, zeros(planner, &[ROWS, WIDTH])?);
    let (pre, mixed) = (zeros(planner, &[ROWS, LANES])?, zeros(planner, &[ROWS, MIXES])?);
    let way = Way { mixes: true, last: false, quantise: false, numerics: F32 };
    let tensors = [&stream_tensor, &before, &weights, &x, &x_q, &pre, &mixed];
    sublayer_input::record(planner, tensors, call, config, way)?;
    hc_expand::record(planner, [&x, &mixed, &stream_tensor], call, F32)?;
    hyper::expand(config, &mut streams, &expected_x, &mixes, None);
    Ok(vec![
        Case::f32("sublayer_input", x, expected_x),
        Case::f32("sublayer_input", mixed, expected_mixes),
        Case::f32("hc_expand", stream_tensor, streams),
    ])
}

fn mean(planner: &mut Planner<'_>) -> Result<Case> {
    let streams = numbers("canary streams", ROWS * LANES * WIDTH);
    let at = |token: usize, lane: usize, d: usize| streams[(token * LANES + lane) * WIDTH + d];
    let mean = |i: usize| (0..LANES).map(|lane| at(i / WIDTH, lane, i % WIDTH)).sum::<f32>() / LANES as f32;
    let expected = (0..ROWS * WIDTH).map(mean).collect();
    let (streams, output) = (f32s(planner, &[ROWS, LANES, WIDTH], &streams)?, zeros(planner, &[ROWS, 1, WIDTH])?);
    stream_mean::record(planner, &streams, &output, 0, ROWS, F32)?;
    Ok(Case::f32("stream_mean", output, expected))
}

/// Rows of a table, the last one of a picture.
fn embedded(planner: &mut Planner<'_>, call: &Tensor) -> Result<Case> {
    let table: Vec<u16> = numbers("canary table", 8 * WIDTH).iter().map(|&v| bf16::encode(v)).collect();
    let picture = numbers("canary picture", WIDTH);
    let ids = [7, 0, 3, 3, 1, 2];
    let mut images = [embed::TEXT; ROWS];
    images[ROWS - 1] = 0;
    let row = |token: usize| -> Vec<f32> {
        match images[token] {
            embed::TEXT => table[ids[token] as usize * WIDTH..][..WIDTH].iter().map(|&v| bf16::decode(v)).collect(),
            _ => picture.clone(),
        }
    };
    let expected = (0..ROWS).flat_map(|token| row(token).repeat(LANES)).collect();
    let table = embed::Table::new(planner.gpu, "canary table", [8, WIDTH], bytemuck::cast_slice(&table))?;
    let (ids, images) = (u32s(planner, &[ROWS], &ids)?, u32s(planner, &[ROWS], &images)?);
    let picture = f32s(planner, &[1, WIDTH], &picture)?;
    let (output, pre) = (zeros(planner, &[ROWS, LANES, WIDTH])?, zeros(planner, &[ROWS, LANES])?);
    embed::record(planner, &table, [&ids, &images, &picture, &output, &pre], call, ROWS)?;
    Ok(Case::f32("embed", output, expected))
}

/// The n-gram memory through its gates, closed inside a picture.
fn remembered(planner: &mut Planner<'_>, call: &Tensor, context: &Context) -> Result<Case> {
    let width = (LANES + 1) * WIDTH;
    // The projection is the identity: the gate alone is compared.
    let mut identity = vec![0.0; width * width];
    (0..width).for_each(|i| identity[i * width + i] = 1.0);
    let weights = engram::Weights {
        wkv: Matrix::f32(width, width, identity)?,
        q_weight: numbers("canary q", LANES * WIDTH),
        k_weight: numbers("canary k", LANES * WIDTH),
    };
    let mut types = [TokenType::Text; ROWS];
    types[2] = TokenType::Image;
    let projected = numbers("canary projected", ROWS * width);
    let mut expected = numbers("canary streams", ROWS * LANES * WIDTH);
    let streams = f32s(planner, &[ROWS, LANES, WIDTH], &expected)?;
    engram::apply(context, &weights, &mut expected, &projected, &types);
    let q = f32s(planner, &[LANES, WIDTH], &weights.q_weight)?;
    let k = f32s(planner, &[LANES, WIDTH], &weights.k_weight)?;
    let mask = u32s(planner, &[ROWS], &types.map(|kind| kind.is_image().into()))?;
    let projected = f32s(planner, &[ROWS, LANES + 1, WIDTH], &projected)?;
    let gates = zeros(planner, &[ROWS, LANES])?;
    let tensors = [&projected, &q, &k, &mask, &streams, &gates];
    engram_gate::record(planner, tensors, call, ROWS, context.config.norm_eps, F32)?;
    Ok(Case::f32("engram_gate", streams, expected))
}
