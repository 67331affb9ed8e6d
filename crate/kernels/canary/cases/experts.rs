//! The mixture of experts.

use super::{ROWS, WIDTH, f32s, numbers, u32s, zeros, zeros_u32};
use crate::Result;
use crate::blocks::b5a_experts::{self as experts, Expert, Route, Weights};
use crate::blocks::context::Context;
use crate::config::Config;
use crate::gpu::{Planner, Tensor};
use crate::kernels::canary::Case;
use crate::kernels::experts::{
    experts_down, experts_down_many, experts_sum, experts_up, experts_up_many, route, shared,
};
use crate::numerics::linear::Matrix;
use crate::numerics::ops::softplus;
use crate::numerics::precision::Precision::F32;

/// Experts, and how many a token chooses.
const EXPERTS: usize = 5;
const K: usize = 2;
/// Inner width.
const INTER: usize = 32;

pub(super) fn record(planner: &mut Planner<'_>, call: &Tensor) -> Result<Vec<Case>> {
    let mut cases = routed(planner, call)?;
    cases.extend(mixture(planner, call)?);
    Ok(cases)
}

fn routed(planner: &mut Planner<'_>, call: &Tensor) -> Result<Vec<Case>> {
    let logits: Vec<f32> = numbers("canary logits", ROWS * EXPERTS).iter().map(|v| 4.0 * v).collect();
    let (bias, bias_vl) = (numbers("canary bias", EXPERTS), numbers("canary bias vl", EXPERTS));
    let mask = [0, 0, 1, 0, 1, 0];
    let (mut ids, mut weights) = (Vec::new(), Vec::new());
    for (logits, &mask) in logits.chunks_exact(EXPERTS).zip(&mask) {
        let scores: Vec<f32> = logits.iter().map(|&logit| softplus(logit).sqrt()).collect();
        let (chosen, own) = experts::choose(&scores, if mask == 1 { &bias_vl } else { &bias }, K, 1.5);
        ids.extend(chosen.into_iter().map(|id| id as u32));
        weights.extend(own);
    }
    let logits = f32s(planner, &[ROWS, EXPERTS], &logits)?;
    let (bias, bias_vl) = (f32s(planner, &[EXPERTS], &bias)?, f32s(planner, &[EXPERTS], &bias_vl)?);
    let (mask, scores) = (u32s(planner, &[ROWS], &mask)?, zeros(planner, &[ROWS, EXPERTS])?);
    let (id_tensor, weight_tensor) = (zeros_u32(planner, &[ROWS, K])?, zeros(planner, &[ROWS, K])?);
    let tensors = [&logits, &bias, &bias_vl, &mask, &scores, &id_tensor, &weight_tensor];
    route::record(planner, tensors, call, 1.5)?;
    Ok(vec![Case::u32("route", id_tensor, ids), Case::f32("route", weight_tensor, weights)])
}

fn fp4(seed: &str, rows: usize, cols: usize) -> Result<Matrix> {
    let codes = numbers(seed, rows * cols / 2).iter().map(|v| (v * 127.0) as i8 as u8).collect();
    Matrix::fp4(rows, cols, codes, (0..rows * cols / 32).map(|i| 122 + (i % 3) as u8).collect())
}

/// Codes of about one, of both signs.
fn fp8(seed: &str, rows: usize, cols: usize) -> Result<Matrix> {
    let codes = numbers(seed, rows * cols).iter().map(|v| crate::numerics::e4m3::encode(v * 16.0)).collect();
    Matrix::fp8(rows, cols, codes, (0..rows / 32 * cols / 32).map(|i| 120 + (i % 3) as u8).collect())
}

/// Codes and scales of the same matrices of all experts.
fn stacked(planner: &Planner<'_>, parts: &[&Matrix], shape: [usize; 3]) -> Result<(Tensor, Tensor)> {
    let (mut codes, mut all) = (Vec::new(), Vec::new());
    for part in parts {
        if let Matrix::Fp4 { packed, scales, .. } = part {
            codes.extend_from_slice(packed);
            all.extend_from_slice(scales);
        }
    }
    let codes = Tensor::bytes(planner.gpu, "canary experts", &shape, &codes)?;
    Ok((codes, Tensor::bytes(planner.gpu, "canary scales", &[all.len()], &all)?))
}

/// Row by row, and many rows at a time.
fn mixture(planner: &mut Planner<'_>, call: &Tensor) -> Result<[Case; 2]> {
    let config = Config { dim: WIDTH, moe_inter_dim: INTER, swiglu_limit: 10.0, ..Config::lab() };
    let make = |e: usize| -> Result<Expert> {
        Ok(Expert {
            w1: fp4(&format!("canary w1 {e}"), INTER, WIDTH)?,
            w2: fp4(&format!("canary w2 {e}"), WIDTH, INTER)?,
            w3: fp4(&format!("canary w3 {e}"), INTER, WIDTH)?,
        })
    };
    let (w1, w3) = (fp8("canary shared w1", INTER, WIDTH)?, fp8("canary shared w3", INTER, WIDTH)?);
    let weights = Weights {
        gate: Matrix::bf16(1, 32, vec![0; 32])?,
        bias: Vec::new(),
        bias_vl: Vec::new(),
        experts: (0..EXPERTS).map(make).collect::<Result<_>>()?,
        shared: Expert { w1: w1.clone(), w2: fp8("canary shared w2", WIDTH, INTER)?, w3: w3.clone() },
        top_k: K,
    };
    let ids = vec![4, 0, 2, 1, 2, 3, 3, 4, 1, 0, 0, 2];
    let route_weights: Vec<f32> = numbers("canary route", ROWS * K).into_iter().map(f32::abs).collect();
    let decision = Route { scores: Vec::new(), ids: ids.clone(), weights: route_weights };
    let x = numbers("canary input", ROWS * WIDTH);
    let expected = experts::mixture(&Context::new(&config, F32, F32), &weights, &x, &decision);

    let pairs: Vec<&Matrix> = weights.experts.iter().flat_map(|e| [&e.w1, &e.w3]).collect();
    let up = stacked(planner, &pairs, [EXPERTS, 2 * INTER, WIDTH / 2])?;
    let downs: Vec<&Matrix> = weights.experts.iter().map(|e| &e.w2).collect();
    let down = stacked(planner, &downs, [EXPERTS, WIDTH, INTER / 2])?;
    let shared_up = shared(planner.gpu, "canary shared", &Matrix::join_rows(&[w1, w3])?)?;
    let shared_down = shared(planner.gpu, "canary shared", &weights.shared.w2)?;
    let ids = u32s(planner, &[ROWS, K], &ids.iter().map(|&id| id as u32).collect::<Vec<_>>())?;
    let route_weights = f32s(planner, &[ROWS, K], &decision.weights)?;
    let (x, h) = (f32s(planner, &[ROWS, WIDTH], &x)?, zeros(planner, &[ROWS, K + 1, INTER])?);
    let output = zeros(planner, &[ROWS, WIDTH])?;
    let tensors = [&x, &up.0, &up.1, &shared_up, &ids, &route_weights, &h];
    experts_up::record(planner, tensors, call, config.swiglu_limit, (F32, false))?;
    experts_down::record(planner, [&h, &down.0, &down.1, &shared_down, &ids, &output], call, F32)?;
    let (many_h, rows) = (zeros(planner, &[ROWS, K + 1, INTER])?, zeros(planner, &[ROWS, K + 1, WIDTH])?);
    let many = zeros(planner, &[ROWS, WIDTH])?;
    let tensors = [&x, &up.0, &up.1, &shared_up, &ids, &route_weights, &many_h];
    experts_up_many::record(planner, tensors, call, config.swiglu_limit, (F32, false))?;
    experts_down_many::record(planner, [&many_h, &down.0, &down.1, &shared_down, &ids, &rows], call, F32)?;
    experts_sum::record(planner, [&rows, &ids, &many], call, EXPERTS, F32)?;
    Ok([
        Case::f32("experts_up with experts_down", output, expected.clone()),
        Case::f32("experts_up_many with experts_down_many with experts_sum", many, expected),
    ])
}
