//! The canary's cases: fixed inputs, and what the reference makes of them. Every kernel is in one; a test holds the list against theirs.

mod experts;
mod head;
mod index;
mod streams;
mod vision;

use super::{Case, Expected};
use crate::Result;
use crate::blocks::b4a_latent_attention::attend;
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::config::Config;
use crate::gpu::{Element, Planner, Tensor};
use crate::kernels::attend::attention::{self, Sees};
use crate::kernels::cache::GpuPlane;
use crate::kernels::cache::plane_write::{self, Way};
use crate::kernels::call::Call;
use crate::kernels::index::top_k;
use crate::kernels::linear::{self, GpuMatrix};
use crate::kernels::norm::rms_norm;
use crate::numerics::hash::Stream;
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision;
use crate::numerics::{bf16, e4m3, ops};

/// Rows of every case.
const ROWS: usize = 6;
/// Width of a matrix, a norm and a head.
const WIDTH: usize = 64;
/// Outputs of a matrix.
const OUTPUTS: usize = 40;
/// Entries that a query selects.
const SELECTED: usize = 4;

/// Records all cases.
pub(super) fn record(planner: &mut Planner<'_>) -> Result<Vec<Case>> {
    let call = Call::buffer(planner.gpu)?;
    Call::new(0, ROWS, 0).write(planner.gpu, &call);
    let mut cases = linears(planner, &call)?;
    cases.push(norm(planner, &call)?);
    cases.push(selection(planner, &call)?);
    for (ring, entries) in [(Format::F32, Format::F32), (Format::Fp8, Format::Kv4)] {
        cases.push(cached_attention(planner, &call, ring, entries)?);
    }
    cases.extend(streams::record(planner, &call)?);
    cases.extend(experts::record(planner, &call)?);
    cases.extend(index::record(planner, &call)?);
    cases.extend(head::record(planner, &call)?);
    cases.extend(vision::record(planner)?);
    Ok(cases)
}

/// Fixed numbers between -1 and 1.
fn numbers(seed: &str, count: usize) -> Vec<f32> {
    let stream = Stream::new(seed);
    (0..count as u64).map(|i| stream.unit(i)).collect()
}

fn f32s(planner: &Planner<'_>, shape: &[usize], values: &[f32]) -> Result<Tensor> {
    Tensor::f32(planner.gpu, "canary", shape, values)
}

fn u32s(planner: &Planner<'_>, shape: &[usize], values: &[u32]) -> Result<Tensor> {
    Tensor::u32(planner.gpu, "canary", shape, values)
}

fn zeros(planner: &Planner<'_>, shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(planner.gpu, "canary output", Element::F32, shape)
}

fn zeros_u32(planner: &Planner<'_>, shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(planner.gpu, "canary output", Element::U32, shape)
}

/// The four weight formats.
fn linears(planner: &mut Planner<'_>, call: &Tensor) -> Result<Vec<Case>> {
    let (weights, x) = (numbers("canary weights", OUTPUTS * WIDTH), numbers("canary input", ROWS * WIDTH));
    let codes = weights.iter().map(|w| e4m3::encode(w * 256.0)).collect();
    let packed = weights[..OUTPUTS * WIDTH / 2].iter().map(|w| (w * 127.0) as i8 as u8).collect();
    // Exponents of the scales differ from tile to tile and from block to block.
    let tiles = (0..OUTPUTS.div_ceil(32) * WIDTH / 32).map(|i| 117 + (i % 3) as u8).collect();
    let blocks = (0..OUTPUTS * WIDTH / 32).map(|i| 124 + (i % 5) as u8).collect();
    let halves = weights.iter().map(|&w| bf16::encode(w)).collect();
    let x_tensor = Tensor::f32(planner.gpu, "canary input", &[ROWS, WIDTH], &x)?;
    let matrices = [
        ("linear_fp8", Matrix::fp8(OUTPUTS, WIDTH, codes, tiles)?),
        ("linear_fp4", Matrix::fp4(OUTPUTS, WIDTH, packed, blocks)?),
        ("linear_bf16", Matrix::bf16(OUTPUTS, WIDTH, halves)?),
        ("linear_f32", Matrix::f32(OUTPUTS, WIDTH, weights)?),
    ];
    let case = |(name, matrix): (&'static str, Matrix)| {
        let weight = GpuMatrix::new(planner.gpu, name, &matrix)?;
        let output = Tensor::zeros(planner.gpu, name, Element::F32, &[ROWS, OUTPUTS])?;
        linear::record(planner, &weight, [&x_tensor, &output], call, 1, Precision::F32)?;
        Ok(Case { name, output, expected: Expected::F32(matrix.matmul(&x, ROWS)) })
    };
    matrices.into_iter().map(case).collect()
}

fn norm(planner: &mut Planner<'_>, call: &Tensor) -> Result<Case> {
    let (gpu, eps) = (planner.gpu, 1e-6);
    let (weight, x) = (numbers("canary norm", WIDTH), numbers("canary input", ROWS * WIDTH));
    let mut expected = vec![0.0; x.len()];
    for (x, out) in x.chunks_exact(WIDTH).zip(expected.chunks_exact_mut(WIDTH)) {
        ops::rms_norm(x, &weight, eps, out);
    }
    let weight = Tensor::f32(gpu, "canary norm", &[WIDTH], &weight)?;
    let x = Tensor::f32(gpu, "canary input", &[ROWS, WIDTH], &x)?;
    let output = Tensor::zeros(gpu, "rms_norm", Element::F32, &[ROWS, WIDTH])?;
    rms_norm::record(planner, [&weight, &x, &output], call, eps, (Precision::F32, false))?;
    Ok(Case { name: "rms_norm", output, expected: Expected::F32(expected) })
}

/// The row at position p sees p + 1 scores; among them are equal ones.
fn selection(planner: &mut Planner<'_>, call: &Tensor) -> Result<Case> {
    let scores: Vec<f32> =
        numbers("canary scores", ROWS * WIDTH).iter().map(|score| (4.0 * score).round() - 0.5).collect();
    let mut expected = Vec::new();
    for (row, scores) in scores.chunks_exact(WIDTH).enumerate() {
        let mut best: Vec<u32> = ops::top_k(&scores[..=row], SELECTED).into_iter().map(|i| i as u32).collect();
        best.sort_unstable();
        best.resize(SELECTED, top_k::NONE);
        expected.extend(best);
    }
    let scores = Tensor::f32(planner.gpu, "canary scores", &[ROWS, WIDTH], &scores)?;
    let output = Tensor::zeros(planner.gpu, "top_k", Element::U32, &[ROWS, SELECTED])?;
    top_k::record(planner, &scores, &output, call, 1)?;
    Ok(Case { name: "top_k", output, expected: Expected::U32(expected) })
}

/// Rows into a ring and a plane of entries, then two heads over both.
fn cached_attention(planner: &mut Planner<'_>, call: &Tensor, ring: Format, entries: Format) -> Result<Case> {
    let (gpu, heads, window) = (planner.gpu, 2, 4);
    let config = Config { n_heads: heads, head_dim: WIDTH, window_size: window, ..Config::lab() };
    let rows = numbers("canary rows", ROWS * WIDTH);
    let q = numbers("canary queries", ROWS * heads * WIDTH);
    let sink = numbers("canary sink", heads);
    // Every row selects entry 5, a later one twice as many; the rest of the list is empty.
    let selected = |row: usize| if row < 3 { vec![5] } else { vec![0, 5] };
    let lists: Vec<u32> = (0..ROWS).flat_map(|row| padded(selected(row))).collect();

    let seen = |format| {
        let mut plane = Plane::new(format, WIDTH);
        plane.extend(&rows);
        plane.read_from(0)
    };
    let (seen_ring, seen_entries) = (seen(ring), seen(entries));
    let scale = 1.0 / (WIDTH as f32).sqrt();
    let mut expected = vec![0.0; q.len()];
    for (place, (q, out)) in q.chunks_exact(WIDTH).zip(expected.chunks_exact_mut(WIDTH)).enumerate() {
        let (row, head) = (place / heads, place % heads);
        let mut list = seen_ring[(row + 1).saturating_sub(window) * WIDTH..(row + 1) * WIDTH].to_vec();
        selected(row).iter().for_each(|&entry| list.extend(&seen_entries[entry as usize * WIDTH..][..WIDTH]));
        attend(Precision::F32, scale, q, &list, sink[head], out);
    }

    let rows = Tensor::f32(gpu, "canary rows", &[ROWS, WIDTH], &rows)?;
    let ring = GpuPlane::new(gpu, "canary ring", ring, WIDTH, 2 * ROWS)?;
    let entries = GpuPlane::new(gpu, "canary entries", entries, WIDTH, 2 * ROWS)?;
    // Neither norm nor rotation: the bytes are then exact. What they would read is bound but unused.
    let unused = || Tensor::zeros(gpu, "canary unused", Element::F32, &[2]);
    let (angles, still, weight) = (Tensor { shape: vec![ROWS, 0, 2], ..unused()? }, unused()?, unused()?);
    let numerics = Precision::F32;
    let way = Way {
        angles: &angles,
        q: &still,
        heads: 0,
        index: None,
        keep: false,
        weight: &weight,
        eps: None,
        offset: 0,
        ratio: 0,
        numerics,
    };
    plane_write::record(planner, &rows, &ring, call, way, ROWS)?;
    plane_write::record(planner, &rows, &entries, call, Way { ratio: 1, ..way }, ROWS)?;
    let q = Tensor::f32(gpu, "canary queries", &[ROWS, heads, WIDTH], &q)?;
    let ids = Tensor::u32(gpu, "canary lists", &[ROWS, SELECTED], &lists)?;
    let sink = Tensor::f32(gpu, "canary sink", &[heads], &sink)?;
    let output = Tensor::zeros(gpu, "attention", Element::F32, &[ROWS, heads, WIDTH])?;
    let tensors = [&q, &ids, &sink, &output];
    attention::record(planner, tensors, (&ring, &entries), call, &config, Sees::Selected(SELECTED), Precision::F32)?;
    Ok(Case { name: "plane_write with attention", output, expected: Expected::F32(expected) })
}

fn padded(mut list: Vec<u32>) -> Vec<u32> {
    list.resize(SELECTED, top_k::NONE);
    list
}
