//! Matrix-vector products of a size that matters, in every weight format: beside the adapter's own copy, and beside f32.

use super::gpu::{REPEATS, time};
use crate::Result;
use crate::gpu::kernel::Pipelines;
use crate::gpu::{Element, Gpu, Plan, Planner, Tensor, Tier};
use crate::kernels::call::Call;
use crate::kernels::experts::{self, experts_down, experts_up};
use crate::kernels::linear::{self, GpuMatrix};
use crate::numerics::hash::Stream;
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision;
use serde::Serialize;
use std::fmt::Write as _;

/// Outputs and inputs: 32 MiB in FP4 on a real GPU, beyond what caches hold; a quarter of that on a software adapter.
const SIDES: [usize; 2] = [8192, 4096];
/// Experts that a token chooses.
const CHOSEN: usize = 4;
/// Scale of every block: 2^-7.
const SCALE: u8 = 120;

/// A matrix-vector product.
#[derive(Debug, Serialize)]
pub(super) struct Product {
    pub(super) format: &'static str,
    /// Outputs and inputs; of experts, those of one.
    pub(super) shape: [usize; 2],
    pub(super) weight_bytes: usize,
    pub(super) ms: f64,
    pub(super) gb_per_s: f64,
    /// `gb_per_s` divided by that of the copy.
    pub(super) of_copy: f64,
    /// `ms` divided by that of the same product in f32.
    pub(super) of_f32: Option<f64>,
}

/// Measures the products in every weight format that fits, and those of the experts that one token chooses.
///
/// # Errors
/// What recording and waiting say.
pub(super) fn measure(gpu: &Gpu, copy: f64) -> Result<Vec<Product>> {
    let side = SIDES[usize::from(gpu.adapter.tier == Tier::Software)];
    let mut out: Vec<Product> = Vec::new();
    for format in ["f32", "bf16", "fp8", "fp4"] {
        let Ok(plan) = matvec(gpu, format, side) else { continue };
        let mut row = timed(gpu, format, [side, side], &plan, copy)?;
        row.of_f32 = out.iter().find(|product| product.format == "f32").map(|plain| row.ms / plain.ms);
        out.push(row);
    }
    let [up, down] = chosen_experts(gpu, side / 2)?;
    out.push(timed(gpu, "experts up", [side, side / 2], &up, copy)?);
    out.push(timed(gpu, "experts down", [side / 2, side / 2], &down, copy)?);
    Ok(out)
}

fn timed(gpu: &Gpu, format: &'static str, shape: [usize; 2], plan: &Plan, copy: f64) -> Result<Product> {
    let seconds = time(gpu, |encoder| plan.encode(encoder))? / REPEATS as f64;
    let weight_bytes = plan.steps.first().map_or(0, |step| step.weights);
    let gb_per_s = weight_bytes as f64 / seconds / 1e9;
    Ok(Product { format, shape, weight_bytes, ms: 1e3 * seconds, gb_per_s, of_copy: gb_per_s / copy, of_f32: None })
}

/// Bytes without a NaN in any format.
fn bytes(count: usize) -> Vec<u8> {
    let stream = Stream::new("bench");
    (0..count.div_ceil(8) as u64)
        .flat_map(|i| (stream.at(i) & 0x3f3f_3f3f_3f3f_3f3f).to_le_bytes())
        .take(count)
        .collect()
}

fn matrix(format: &str, rows: usize, cols: usize) -> Result<Matrix> {
    let all = rows * cols;
    match format {
        "f32" => Matrix::f32(rows, cols, bytes(all).into_iter().map(|b| f32::from(b) / 64.0).collect()),
        "bf16" => Matrix::bf16(rows, cols, bytes(all).into_iter().map(|b| 0x3f00 + u16::from(b)).collect()),
        "fp8" => Matrix::fp8(rows, cols, bytes(all), vec![SCALE; all / 32 / 32]),
        _ => Matrix::fp4(rows, cols, bytes(all / 2), vec![SCALE; all / 32]),
    }
}

/// The same product several times.
fn matvec(gpu: &Gpu, format: &'static str, side: usize) -> Result<Plan> {
    let weight = GpuMatrix::new(gpu, format, &matrix(format, side, side)?)?;
    let x = Tensor::f32(gpu, "x", &[1, side], &vec![0.5; side])?;
    let y = Tensor::zeros(gpu, "y", Element::F32, &[1, side])?;
    recorded(gpu, |planner, call| linear::record(planner, &weight, [&x, &y], call, 1, Precision::F32))
}

/// Both products of a token's experts, of as many inputs as inner outputs.
fn chosen_experts(gpu: &Gpu, side: usize) -> Result<[Plan; 2]> {
    let fp4 = |label: &str, rows: usize| -> Result<[Tensor; 2]> {
        let all = CHOSEN * rows * side;
        Ok([
            Tensor::bytes(gpu, label, &[CHOSEN, rows, side / 2], &bytes(all / 2))?,
            Tensor::bytes(gpu, "scales", &[CHOSEN, rows, side / 32], &vec![SCALE; all / 32])?,
        ])
    };
    let ([up, up_scales], [down, down_scales]) = (fp4("up", 2 * side)?, fp4("down", side)?);
    let shared = |rows| experts::shared(gpu, "shared", &matrix("fp8", rows, side)?);
    let [shared_up, shared_down] = [shared(2 * side)?, shared(side)?];
    let ids: Vec<u32> = (0..CHOSEN as u32).collect();
    let ids = Tensor::u32(gpu, "ids", &[1, CHOSEN], &ids)?;
    let weights = Tensor::f32(gpu, "weights", &[1, CHOSEN], &[0.25; CHOSEN])?;
    let x = Tensor::f32(gpu, "x", &[1, side], &vec![0.5; side])?;
    let h = Tensor::zeros(gpu, "h", Element::F32, &[1, CHOSEN + 1, side])?;
    let y = Tensor::zeros(gpu, "y", Element::F32, &[1, side])?;
    let grid = (Precision::F32, true);
    Ok([
        recorded(gpu, |planner, call| {
            experts_up::record(planner, [&x, &up, &up_scales, &shared_up, &ids, &weights, &h], call, 10.0, grid)
        })?,
        recorded(gpu, |planner, call| {
            experts_down::record(planner, [&h, &down, &down_scales, &shared_down, &ids, &y], call, Precision::F32)
        })?,
    ])
}

fn recorded(gpu: &Gpu, record: impl Fn(&mut Planner<'_>, &Tensor) -> Result<()>) -> Result<Plan> {
    let call = Call::buffer(gpu)?;
    Call::new(0, 1, 0).write(gpu, &call);
    let mut pipelines = Pipelines::default();
    let mut planner = Planner::new(gpu, &mut pipelines);
    for _ in 0..REPEATS {
        record(&mut planner, &call)?;
    }
    Ok(planner.finish())
}

/// The rows as a table.
pub(super) fn as_markdown(rows: &[Product]) -> String {
    let mut out =
        String::from("| product | rows x cols | ms | GB/s | of copy | times f32 |\n|---|---|---|---|---|---|\n");
    for Product { format, shape: [rows, cols], ms, gb_per_s, of_copy, of_f32, .. } in rows {
        let (of_copy, of_f32) = (100.0 * of_copy, of_f32.map_or_else(String::new, |times| format!("{times:.2}")));
        let _ = writeln!(out, "| {format} | {rows} x {cols} | {ms:.2} | {gb_per_s:.2} | {of_copy:.0} % | {of_f32} |");
    }
    out
}
