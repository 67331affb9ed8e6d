//! The GPU's part of `bench`: the lab checkpoint at several context lengths, and matrix-vector products beside the adapter's own copy.

use super::drafts::{self, Drafts};
use super::{ROUNDS, WRITTEN, best_of, prompt};
use crate::Result;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::gpu::kernel::Pipelines;
use crate::gpu::{Choice, Element, Gpu, Planner, Tensor, Tier};
use crate::kernels::call::Call;
use crate::kernels::linear::{self, GpuMatrix};
use crate::model::gpu::GpuModel;
use crate::model::{Engine, Prefill};
use crate::numerics::hash::Stream;
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision;
use crate::weights::tiny;
use serde::Serialize;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A long prompt, and how many of its last tokens run through the decoder with a tail.
const LONG: usize = 1024;
const TAIL: usize = 128;
/// Tokens of the prompt that is read behind them.
const READ: usize = 64;
/// Outputs and inputs of the products: 32 MiB in FP4 on a real GPU, beyond what caches hold; a quarter of that on a software adapter.
const SIDES: [usize; 2] = [8192, 4096];
/// Products per submit.
const REPEATS: usize = 4;
/// Bytes that are copied.
const COPIED: usize = 64 << 20;

/// What was measured on the adapter.
#[derive(Debug, Serialize)]
pub(super) struct GpuReport {
    adapter: String,
    driver: String,
    backend: String,
    /// Largest storage binding in bytes.
    max_binding: u64,
    /// Layers, width and vocabulary of the lab checkpoint.
    shape: [usize; 3],
    /// Speed of the lab checkpoint in released numerics.
    lines: Vec<Line>,
    /// Decoding with drafts and without.
    drafts: Vec<Drafts>,
    /// Of one decoded token.
    dispatches: usize,
    submits: usize,
    bytes_read: usize,
    /// Pipelines that the lab checkpoint needs.
    pipelines: usize,
    /// Time of the first prompt and the first token less that of the second ones: recording and compiling.
    first_use_ms: f64,
    /// Bytes read and written per second by a copy from buffer to buffer, in units of 10^9.
    copy_gb_per_s: f64,
    products: Vec<Product>,
}

/// One row of the table, in the terms of llama-bench: `pp64 @ d256` reads 64 tokens behind 256, `tg16` writes 16.
#[derive(Debug, Serialize)]
struct Line {
    test: String,
    tokens_per_s: f64,
    /// Milliseconds per token that half, 95 and 99 of 100 tokens stay within.
    percentiles: Option<[f64; 3]>,
}

impl Line {
    /// A prompt that was read in one piece.
    fn read(test: String, tokens: usize, time: Duration) -> Self {
        Line { test, tokens_per_s: tokens as f64 / time.as_secs_f64(), percentiles: None }
    }

    /// Tokens that were written one by one.
    fn written(test: String, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let total: Duration = times.iter().sum();
        let at = |percent: usize| 1e3 * times[(times.len() * percent).div_ceil(100).max(1) - 1].as_secs_f64();
        let tokens_per_s = times.len() as f64 / total.as_secs_f64();
        Line { test, tokens_per_s, percentiles: Some([at(50), at(95), at(99)]) }
    }
}

/// A matrix-vector product.
#[derive(Debug, Serialize)]
struct Product {
    format: &'static str,
    /// Outputs, and as many inputs.
    side: usize,
    ms: f64,
    gb_per_s: f64,
    /// `gb_per_s` divided by that of the copy.
    of_copy: f64,
    /// `ms` divided by that of the same product in f32.
    of_f32: Option<f64>,
}

/// Measures the adapter that would be used; `None` if there is none.
///
/// # Errors
/// What loading and running say.
pub(super) fn measure(depths: &[usize]) -> Result<Option<GpuReport>> {
    let Ok(gpu) = pollster::block_on(Gpu::open(&Choice::default())) else { return Ok(None) };
    pollster::block_on(measure_on(gpu, depths)).map(Some)
}

async fn measure_on(gpu: Gpu, depths: &[usize]) -> Result<GpuReport> {
    let checkpoint = Arc::new(tiny::lab().await?);
    let mut silent = |_: usize, _: usize, _: &str| {};
    let (released, adapter) = (Precision::Released, gpu.adapter.clone());
    let model = Rc::new(GpuModel::load(gpu.clone(), checkpoint, released, released, &mut silent).await?);
    let start = Instant::now();
    read_and_write(&model, 0).await?;
    let first = start.elapsed();
    let start = Instant::now();
    read_and_write(&model, 0).await?;
    let first_use = first.saturating_sub(start.elapsed());
    let mut lines = Vec::new();
    for &depth in depths {
        let (read, written) = read_and_write(&model, depth).await?;
        let behind = if depth == 0 { String::new() } else { format!(" @ d{depth}") };
        lines.push(Line::read(format!("pp{READ}{behind}"), READ, read));
        lines.push(Line::written(format!("tg{WRITTEN}{behind}"), written));
    }
    for tail in [DecoderTail::All, DecoderTail::Last(TAIL)] {
        let name = if tail == DecoderTail::All { String::new() } else { format!(" tail {TAIL}") };
        let start = Instant::now();
        model.prefill(&mut model.state()?, &prompt(LONG), Prefill { tail, ..Prefill::default() }).await?;
        lines.push(Line::read(format!("pp{LONG}{name}"), LONG, start.elapsed()));
    }
    let copy_gb_per_s = copy_speed(&gpu)?;
    let config = model.config();
    Ok(GpuReport {
        adapter: adapter.name,
        driver: adapter.driver,
        backend: adapter.backend,
        max_binding: gpu.limits.max_storage_buffer_binding_size,
        shape: [config.n_layers, config.dim, config.vocab_size],
        lines,
        drafts: drafts::measure(&Engine::Gpu(model.clone())).await?,
        dispatches: model.dispatches().await?.1,
        submits: 1,
        bytes_read: 4,
        pipelines: model.pipelines(),
        first_use_ms: 1e3 * first_use.as_secs_f64(),
        copy_gb_per_s,
        products: products(&gpu, copy_gb_per_s)?,
    })
}

/// Time to read a prompt behind `depth` tokens, and of each token that is written after it.
async fn read_and_write(model: &GpuModel, depth: usize) -> Result<(Duration, Vec<Duration>)> {
    let mut state = model.state()?;
    if depth > 0 {
        model.prefill(&mut state, &prompt(depth), Prefill::default()).await?;
    }
    let start = Instant::now();
    model.prefill(&mut state, &prompt(READ), Prefill::default()).await?;
    let read = start.elapsed();
    // The first token records what decoding needs; it is not counted.
    let mut id = model.decode_greedy(&mut state, 65).await?;
    let mut written = Vec::with_capacity(WRITTEN);
    for _ in 0..WRITTEN {
        let start = Instant::now();
        id = model.decode_greedy(&mut state, id).await?;
        written.push(start.elapsed());
    }
    Ok((read, written))
}

/// Waits for everything that was submitted.
fn wait(gpu: &Gpu) -> Result<()> {
    let waited = gpu.device.poll(wgpu::PollType::wait_indefinitely());
    waited.map(|_| ()).map_err(|error| crate::Error::Gpu(format!("waiting: {error}")))
}

/// The best time of a submit that `encode` fills.
fn time(gpu: &Gpu, encode: impl Fn(&mut wgpu::CommandEncoder)) -> Result<f64> {
    let mut failed = Ok(());
    let best = best_of(ROUNDS + 1, || {
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encode(&mut encoder);
        gpu.queue.submit([encoder.finish()]);
        if let Err(error) = wait(gpu) {
            failed = Err(error);
        }
    });
    failed.map(|()| best.as_secs_f64())
}

fn copy_speed(gpu: &Gpu) -> Result<f64> {
    let tensor = |label: &str| Tensor::zeros(gpu, label, Element::Byte, &[COPIED]);
    let (from, to) = (tensor("copied from")?, tensor("copied to")?);
    let seconds = time(gpu, |encoder| {
        for _ in 0..REPEATS {
            encoder.copy_buffer_to_buffer(&from.buffer, 0, &to.buffer, 0, COPIED as u64);
        }
    })?;
    Ok((2 * REPEATS * COPIED) as f64 / seconds / 1e9)
}

/// The products in every weight format that fits in a binding.
fn products(gpu: &Gpu, copy: f64) -> Result<Vec<Product>> {
    let stream = Stream::new("bench");
    let bytes = |count: usize| (0..count as u64).map(|i| (stream.at(i) & 0x3f) as u8).collect::<Vec<u8>>();
    let side = SIDES[usize::from(gpu.adapter.tier == Tier::Software)];
    let (all, scale) = (side * side, 120);
    let mut out: Vec<Product> = Vec::new();
    for format in ["f32", "bf16", "fp8", "fp4"] {
        let matrix = match format {
            "f32" => Matrix::f32(side, side, bytes(all).into_iter().map(|b| f32::from(b) / 64.0).collect())?,
            "bf16" => Matrix::bf16(side, side, bytes(all).into_iter().map(|b| 0x3f00 + u16::from(b)).collect())?,
            "fp8" => Matrix::fp8(side, side, bytes(all), vec![scale; all / 32 / 32])?,
            _ => Matrix::fp4(side, side, bytes(all / 2), vec![scale; all / 32])?,
        };
        let Ok(weight) = GpuMatrix::new(gpu, format, &matrix) else { continue };
        let (x, y) = (Tensor::f32(gpu, "x", &[1, side], &vec![0.5; side])?, [1, side]);
        let y = Tensor::zeros(gpu, "y", Element::F32, &y)?;
        let call = Call::buffer(gpu)?;
        Call::new(0, 1, 0).write(gpu, &call);
        let mut pipelines = Pipelines::default();
        let mut planner = Planner::new(gpu, &mut pipelines);
        for _ in 0..REPEATS {
            linear::record(&mut planner, &weight, [&x, &y], &call, 1, Precision::F32)?;
        }
        let plan = planner.finish();
        let seconds = time(gpu, |encoder| plan.encode(encoder))? / REPEATS as f64;
        let gb_per_s = weight.bytes() as f64 / seconds / 1e9;
        let ms = 1e3 * seconds;
        let of_f32 = out.iter().find(|product| product.format == "f32").map(|plain| ms / plain.ms);
        out.push(Product { format, side, ms, gb_per_s, of_copy: gb_per_s / copy, of_f32 });
    }
    Ok(out)
}

impl GpuReport {
    /// The tables, and the conditions under which they hold.
    pub(super) fn as_markdown(&self) -> String {
        let GpuReport { adapter, driver, backend, max_binding, shape: [layers, dim, vocab], .. } = self;
        let mut out = format!("\nGPU: {adapter}, {driver}, {backend}, bindings up to {} MiB.\n", max_binding >> 20);
        let _ = writeln!(out, "Lab checkpoint: {layers} layers, width {dim}, {vocab} tokens, released numerics.\n");
        out += "| model | backend | test | t/s | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|---|---|---|\n";
        for Line { test, tokens_per_s, percentiles } in &self.lines {
            let [p50, p95, p99] = percentiles.map_or_else(Default::default, |all| all.map(|ms| format!("{ms:.1}")));
            let _ = writeln!(out, "| lab | {backend} | {test} | {tokens_per_s:.1} | {p50} | {p95} | {p99} |");
        }
        out += &drafts::as_markdown(&self.drafts);
        let GpuReport { dispatches, submits, bytes_read, pipelines, first_use_ms, .. } = self;
        let _ = writeln!(out, "\nPer token: {dispatches} dispatches, {submits} submit, {bytes_read} bytes read back.");
        let _ = writeln!(out, "Pipelines: {pipelines}, recorded and compiled in {first_use_ms:.0} ms.\n");
        out += "| format | rows x cols | ms | GB/s | of copy | times f32 |\n|---|---|---|---|---|---|\n";
        for Product { format, side, ms, gb_per_s, of_copy, of_f32 } in &self.products {
            let (of_copy, of_f32) = (100.0 * of_copy, of_f32.map_or_else(String::new, |times| format!("{times:.2}")));
            let _ =
                writeln!(out, "| {format} | {side} x {side} | {ms:.2} | {gb_per_s:.2} | {of_copy:.0} % | {of_f32} |");
        }
        let _ = writeln!(out, "| copy | | | {:.2} | | |", self.copy_gb_per_s);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_a_row_per_measurement() {
        let report = GpuReport {
            adapter: "llvmpipe".into(),
            driver: "llvmpipe 1".into(),
            backend: "vulkan".into(),
            max_binding: 128 << 20,
            shape: [40, 64, 259],
            lines: vec![
                Line::read("pp64".into(), 64, Duration::from_secs(2)),
                Line::written("tg4 @ d256".into(), [80, 100, 70, 90].map(Duration::from_millis).to_vec()),
            ],
            drafts: Vec::new(),
            dispatches: 300,
            submits: 1,
            bytes_read: 4,
            pipelines: 30,
            first_use_ms: 1500.0,
            copy_gb_per_s: 8.0,
            products: vec![Product {
                format: "fp4",
                side: 8192,
                ms: 20.0,
                gb_per_s: 2.0,
                of_copy: 0.25,
                of_f32: Some(1.25),
            }],
        };
        let text = report.as_markdown();
        for row in [
            "GPU: llvmpipe, llvmpipe 1, vulkan, bindings up to 128 MiB.",
            "| lab | vulkan | pp64 | 32.0 |  |  |  |",
            "| lab | vulkan | tg4 @ d256 | 11.8 | 80.0 | 100.0 | 100.0 |",
            "Per token: 300 dispatches, 1 submit, 4 bytes read back.",
            "| fp4 | 8192 x 8192 | 20.00 | 2.00 | 25 % | 1.25 |",
        ] {
            assert!(text.lines().any(|line| line == row), "{text}");
        }
    }
}
