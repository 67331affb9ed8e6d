//! The GPU's part of `bench`: the lab checkpoint at several context lengths, kernel by kernel, and large products beside the adapter's own copy.

use super::super::console::Console;
use super::drafts::{self, Drafts};
use super::product::{self, Product};
use super::profile::{self, KernelTime};
use super::target::{self, Target};
use super::{ROUNDS, best_of, deep, prompt};
use crate::Result;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::gpu::{AdapterSummary, Element, Gpu, Tensor, Tier};
use crate::model::gpu::{GpuModel, GpuState};
use crate::model::{Engine, Prefill};
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
/// Tokens of the prompt that is read behind a context.
const READ: usize = 64;
/// Tokens that are written behind a context, one by one.
const WRITTEN: usize = 16;
/// Turns of a conversation after which memory must not have grown, and when it is first looked at.
const TURNS: usize = 100;
const SETTLED: usize = 10;
/// Bytes that are copied.
const COPIED: usize = 64 << 20;
/// Copies and products per submit.
pub(super) const REPEATS: usize = 4;

/// What was measured on the adapter.
#[derive(Debug, Serialize)]
pub(super) struct GpuReport {
    adapter: String,
    driver: String,
    backend: String,
    software: bool,
    limits: Limits,
    shape: Shape,
    /// Speed of the lab checkpoint in released numerics.
    lines: Vec<Line>,
    /// Decoding with drafts and without.
    drafts: Vec<Drafts>,
    token: Token,
    /// Pipelines that the lab checkpoint needs.
    pipelines: usize,
    /// Time of the first prompt and the first token less that of the second ones: recording and compiling.
    first_use_ms: f64,
    /// GPU memory in bytes after ten turns of a conversation and after a hundred, where the backend counts it.
    memory: Option<[u64; 2]>,
    /// Bytes read and written per second by a copy from buffer to buffer, in units of 10^9.
    copy_gb_per_s: f64,
    /// One decoded token, and a piece of a prompt.
    kernels: Vec<KernelTime>,
    kernels_of_chunk: Vec<KernelTime>,
    products: Vec<Product>,
    targets: Vec<Target>,
    /// Seconds that all this took.
    seconds: f64,
}

/// What the adapter grants.
#[derive(Debug, Serialize)]
struct Limits {
    binding_bytes: u64,
    buffer_bytes: u64,
    workgroup_bytes: u32,
    invocations: u32,
    storage_buffers: u32,
}

/// Of the checkpoint that is run.
#[derive(Debug, Serialize)]
struct Shape {
    layers: usize,
    dim: usize,
    experts: usize,
    vocab: usize,
}

/// One decoded token.
#[derive(Debug, Serialize)]
struct Token {
    dispatches: usize,
    /// The most that a layer takes: of those that only read KV, and of those that choose or write it.
    plain_layer: usize,
    source_layer: usize,
    submits: usize,
    bytes_read_back: usize,
    /// Bytes of weights that its kernels read.
    weight_bytes: usize,
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

/// Measures an adapter.
///
/// # Errors
/// What loading and running say.
pub(super) async fn measure(gpu: Gpu, depths: &[usize], console: &Console) -> Result<GpuReport> {
    let begin = Instant::now();
    let say = |vi: &str, en: &str| console.notice(format!("đo {vi}"), format!("measuring {en}"));
    let checkpoint = Arc::new(tiny::lab().await?);
    let mut silent = |_: usize, _: usize, _: &str| {};
    let (released, adapter, limits) = (Precision::Released, gpu.adapter.clone(), gpu.limits.clone());
    let model = Rc::new(GpuModel::load(gpu.clone(), checkpoint, released, released, &mut silent).await?);
    say("lần dùng đầu tiên", "the first use");
    let first_use = first_use(&model).await?;
    say("từng kernel", "kernel by kernel");
    let copy_gb_per_s = copy_speed(&gpu)?;
    // The calls before are those that the kernels see.
    let mut state = context(&model, READ, None).await?;
    model.decode_greedy(&mut state, 65).await?;
    let [plan, chunk] = [model.plan_of(&mut state, 1).await?, model.plan_of(&mut state, READ).await?];
    let kernels = profile::measure(&gpu, &plan, copy_gb_per_s)?;
    let kernels_of_chunk = profile::measure(&gpu, &chunk, copy_gb_per_s)?;
    say("câu dài", "long prompts");
    let long = long_prompts(&model).await?;
    let (mut lines, mut half) = (Vec::new(), Vec::new());
    for &depth in depths {
        say(&format!("ngữ cảnh {depth}"), &format!("a context of {depth}"));
        let (read, written) = read_and_write(&model, &mut context(&model, depth, Some(&long.state)).await?).await?;
        let behind = if depth == 0 { String::new() } else { format!(" @ d{depth}") };
        lines.push(Line::read(format!("pp{READ}{behind}"), READ, read));
        let line = Line::written(format!("tg{WRITTEN}{behind}"), written);
        half.push((depth, line.percentiles.map_or(0.0, |[p50, ..]| p50)));
        lines.push(line);
    }
    lines.push(Line::read(format!("pp{LONG}"), LONG, long.all));
    lines.push(Line::read(format!("pp{LONG} tail {TAIL}"), LONG, long.tail));
    let products = product::measure(&gpu, copy_gb_per_s)?;
    let token = token(&model, plan.steps.iter().map(|step| step.weights).sum()).await?;
    say("bộ nhớ và bản nháp", "memory and drafts");
    let memory = conversation(&model).await?;
    let mut report = GpuReport {
        adapter: adapter.name.clone(),
        driver: adapter.driver.clone(),
        backend: adapter.backend.clone(),
        software: adapter.tier == Tier::Software,
        limits: Limits::of(&adapter, &limits),
        shape: Shape::of(&model),
        lines,
        drafts: drafts::measure(&Engine::Gpu(model.clone())).await?,
        token,
        pipelines: model.pipelines(),
        first_use_ms: 1e3 * first_use.as_secs_f64(),
        memory,
        copy_gb_per_s,
        kernels,
        kernels_of_chunk,
        products,
        targets: Vec::new(),
        seconds: 0.0,
    };
    report.targets = report.judged(&half, long.tail.as_secs_f64() / long.all.as_secs_f64());
    report.seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// What the first use costs more than the second: pipelines are compiled, plans recorded.
async fn first_use(model: &GpuModel) -> Result<Duration> {
    let run = async || -> Result<Duration> {
        let begin = Instant::now();
        let mut state = model.state()?;
        model.prefill(&mut state, &prompt(READ), Prefill::default()).await?;
        model.decode_greedy(&mut state, 65).await?;
        Ok(begin.elapsed())
    };
    let first = run().await?;
    Ok(first.saturating_sub(run().await?))
}

/// The same long prompt in full and with a tail.
struct Long {
    all: Duration,
    tail: Duration,
    /// What reading it in full leaves.
    state: GpuState,
}

async fn long_prompts(model: &GpuModel) -> Result<Long> {
    let read = async |tail: DecoderTail| -> Result<(Duration, GpuState)> {
        let mut state = model.state()?;
        state.reserve(&model.gpu, 2 * LONG).await?;
        let how = Prefill { tail, ..Prefill::default() };
        // Plans are recorded before the clock starts.
        let warm = if tail == DecoderTail::All { tail } else { DecoderTail::Last(READ / 4) };
        model.prefill(&mut state, &prompt(READ + READ / 4), Prefill { tail: warm, ..how }).await?;
        let begin = Instant::now();
        model.prefill(&mut state, &prompt(LONG), how).await?;
        Ok((begin.elapsed(), state))
    };
    let (tail, _) = read(DecoderTail::Last(TAIL)).await?;
    let (all, state) = read(DecoderTail::All).await?;
    Ok(Long { all, tail, state })
}

/// A state of `depth` tokens: read, if it is short, and otherwise cut or stretched from what a long prompt left.
async fn context(model: &GpuModel, depth: usize, long: Option<&GpuState>) -> Result<GpuState> {
    if let Some(long) = long.filter(|_| depth >= LONG) {
        return model.upload(&deep::stretched(&model.download(long).await?, depth / 2 * 2)).await;
    }
    let mut state = model.state()?;
    if depth > 0 {
        model.prefill(&mut state, &prompt(depth), Prefill::default()).await?;
    }
    Ok(state)
}

/// Time to read a prompt behind what a state holds, and of each token that is written after it.
async fn read_and_write(model: &GpuModel, state: &mut GpuState) -> Result<(Duration, Vec<Duration>)> {
    state.reserve(&model.gpu, state.position + 2 * READ + WRITTEN + 2).await?;
    // The first prompt and the first token record what is needed; they are not counted.
    model.prefill(state, &prompt(READ), Prefill::default()).await?;
    let begin = Instant::now();
    model.prefill(state, &prompt(READ), Prefill::default()).await?;
    let read = begin.elapsed();
    let mut id = model.decode_greedy(state, 65).await?;
    let mut written = Vec::with_capacity(WRITTEN);
    for _ in 0..WRITTEN {
        let begin = Instant::now();
        id = model.decode_greedy(state, id).await?;
        written.push(begin.elapsed());
    }
    Ok((read, written))
}

/// Memory after some turns of a conversation and after many.
async fn conversation(model: &GpuModel) -> Result<Option<[u64; 2]>> {
    let allocated = || model.gpu.device.generate_allocator_report().map(|report| report.total_allocated_bytes);
    let mut state = model.state()?;
    state.reserve(&model.gpu, 4 * TURNS).await?;
    let mut settled = None;
    for turn in 1..=TURNS {
        model.prefill(&mut state, &prompt(2), Prefill::default()).await?;
        model.decode_greedy(&mut state, turn as u32).await?;
        if turn == SETTLED {
            settled = allocated();
        }
    }
    Ok(settled.zip(allocated()).map(|(early, late)| [early, late]))
}

/// Counts of one decoded token.
async fn token(model: &GpuModel, weight_bytes: usize) -> Result<Token> {
    let (layers, dispatches) = model.dispatches().await?;
    // Layers with n-gram memory have its dispatches on top, which the targets do not count.
    let config = model.config();
    let plain = |layer: &usize| !config.engram_layer_ids.contains(layer);
    let is_source = |layer: &usize| config.index_source(*layer) == Some(*layer);
    let most = |of: &dyn Fn(&usize) -> bool| {
        (0..config.n_layers).filter(|layer| plain(layer) && of(layer)).map(|layer| layers[layer]).max().unwrap_or(0)
    };
    Ok(Token {
        dispatches,
        plain_layer: most(&|layer| !is_source(layer)),
        source_layer: most(&is_source),
        submits: 1,
        bytes_read_back: 4,
        weight_bytes,
    })
}

/// Waits for everything that was submitted.
fn wait(gpu: &Gpu) -> Result<()> {
    let waited = gpu.device.poll(wgpu::PollType::wait_indefinitely());
    waited.map(|_| ()).map_err(|error| crate::Error::Gpu(format!("waiting: {error}")))
}

/// The best time in seconds of a submit that `encode` fills.
///
/// # Errors
/// What waiting says.
pub(super) fn time(gpu: &Gpu, encode: impl Fn(&mut wgpu::CommandEncoder)) -> Result<f64> {
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

impl Limits {
    fn of(adapter: &AdapterSummary, granted: &wgpu::Limits) -> Self {
        Limits {
            binding_bytes: granted.max_storage_buffer_binding_size.min(adapter.max_binding),
            buffer_bytes: granted.max_buffer_size,
            workgroup_bytes: granted.max_compute_workgroup_storage_size,
            invocations: granted.max_compute_invocations_per_workgroup,
            storage_buffers: granted.max_storage_buffers_per_shader_stage,
        }
    }
}

impl Shape {
    fn of(model: &GpuModel) -> Self {
        let config = model.config();
        let (layers, dim, experts) = (config.n_layers, config.dim, config.n_routed_experts);
        Shape { layers, dim, experts, vocab: config.vocab_size }
    }
}

impl GpuReport {
    /// The targets: `half` is the median time per token by depth, `tail` the time of a prompt with a tail as a share of the whole.
    fn judged(&self, half: &[(usize, f64)], tail: f64) -> Vec<Target> {
        let token = &self.token;
        let mut targets = vec![
            Target::at_most("dispatches of a plain layer", token.plain_layer as f64, 18.0),
            Target::at_most("dispatches of a source layer", token.source_layer as f64, 24.0),
            Target::at_most("submits per token", token.submits as f64, 1.0),
            Target::at_most("bytes read back per token", token.bytes_read_back as f64, 4.0),
        ];
        for product in self.products.iter().filter(|product| matches!(product.format, "fp8" | "fp4")) {
            let what = format!("{} matvec, ", product.format);
            if let Some(times) = product.of_f32.filter(|_| self.software) {
                targets.push(Target::at_most(what.clone() + "times f32", times, 1.3));
            }
            // Smaller matrices lie in caches.
            if !self.software && product.weight_bytes >= 32 << 20 {
                targets.push(Target::at_least(what + "share of copy speed", product.of_copy, 0.5));
            }
        }
        targets.push(Target::at_most(format!("pp{LONG} tail {TAIL}, time as a share of pp{LONG}"), tail, 0.6));
        let at = |depth: usize| half.iter().find(|(d, _)| *d == depth).map(|(_, ms)| *ms);
        if let (Some(short), Some(deep)) = (at(1024), at(32_768)) {
            targets.push(Target::at_most("time per token at 32768, times that at 1024", deep / short, 1.5));
        }
        if let Some([early, late]) = self.memory {
            let what = format!("GPU memory after {TURNS} turns, times that after {SETTLED}");
            targets.push(Target::at_most(what, late as f64 / early as f64, 1.0));
        }
        targets
    }

    /// The tables, and the conditions under which they hold.
    pub(super) fn as_markdown(&self) -> String {
        let GpuReport { adapter, driver, backend, limits, shape, .. } = self;
        let Limits { binding_bytes, buffer_bytes, workgroup_bytes, invocations, storage_buffers } = limits;
        let Shape { layers, dim, experts, vocab } = shape;
        let software = if self.software { ", software" } else { "" };
        let (binding, buffer) = (binding_bytes >> 20, buffer_bytes >> 20);
        let mut out = format!("\nGPU: {adapter}, {driver}, {backend}{software}\n");
        let _ = writeln!(
            out,
            "Limits: bindings of {binding} MiB, buffers of {buffer} MiB, {workgroup_bytes} bytes of workgroup memory, {invocations} invocations, {storage_buffers} storage buffers"
        );
        let _ = writeln!(
            out,
            "Model: lab checkpoint, {layers} layers, width {dim}, {experts} experts, {vocab} tokens, released numerics and caches; contexts beyond {LONG} repeat its caches\n"
        );
        out += "| model | backend | test | t/s | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|---|---|---|\n";
        for Line { test, tokens_per_s, percentiles } in &self.lines {
            let [p50, p95, p99] = percentiles.map_or_else(Default::default, |all| all.map(|ms| format!("{ms:.1}")));
            let _ = writeln!(out, "| lab | {backend} | {test} | {tokens_per_s:.1} | {p50} | {p95} | {p99} |");
        }
        out += &drafts::as_markdown(&self.drafts);
        let GpuReport { pipelines, first_use_ms, copy_gb_per_s, .. } = self;
        let Token { dispatches, submits, bytes_read_back, weight_bytes, .. } = self.token;
        let _ = writeln!(
            out,
            "\nPer token: {dispatches} dispatches, {submits} submit, {bytes_read_back} bytes read back, {:.2} MB of weights read",
            weight_bytes as f64 / 1e6
        );
        let _ = writeln!(out, "Pipelines: {pipelines}, recorded and compiled in {first_use_ms:.0} ms");
        if let Some([early, late]) = self.memory {
            let _ = writeln!(
                out,
                "GPU memory: {} KiB after {SETTLED} turns, {} KiB after {TURNS}",
                early >> 10,
                late >> 10
            );
        }
        let _ = writeln!(out, "Copy: {copy_gb_per_s:.2} GB/s, read and written\n");
        for (what, rows) in [("one token", &self.kernels), ("64 tokens of a prompt", &self.kernels_of_chunk)] {
            let _ = writeln!(out, "Kernels of {what}\n\n{}", profile::as_markdown(rows));
        }
        out += &product::as_markdown(&self.products);
        out.push('\n');
        out += &target::as_markdown(&self.targets);
        let _ = writeln!(out, "\nMeasured in {:.0} s", self.seconds);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> GpuReport {
        GpuReport {
            adapter: "llvmpipe".into(),
            driver: "llvmpipe 1".into(),
            backend: "vulkan".into(),
            software: true,
            limits: Limits {
                binding_bytes: 128 << 20,
                buffer_bytes: 256 << 20,
                workgroup_bytes: 16384,
                invocations: 256,
                storage_buffers: 8,
            },
            shape: Shape { layers: 40, dim: 64, experts: 8, vocab: 384 },
            lines: vec![
                Line::read("pp64".into(), 64, Duration::from_secs(2)),
                Line::written("tg4 @ d256".into(), [80, 100, 70, 90].map(Duration::from_millis).to_vec()),
            ],
            drafts: Vec::new(),
            token: Token {
                dispatches: 300,
                plain_layer: 17,
                source_layer: 25,
                submits: 1,
                bytes_read_back: 4,
                weight_bytes: 1_500_000,
            },
            pipelines: 30,
            first_use_ms: 1500.0,
            memory: Some([4096, 4096]),
            copy_gb_per_s: 8.0,
            kernels: Vec::new(),
            kernels_of_chunk: Vec::new(),
            products: vec![Product {
                format: "fp4",
                shape: [8192, 8192],
                weight_bytes: 1 << 20,
                ms: 20.0,
                gb_per_s: 2.0,
                of_copy: 0.25,
                of_f32: Some(1.25),
            }],
            targets: Vec::new(),
            seconds: 12.0,
        }
    }

    #[test]
    fn markdown_has_a_row_per_measurement() {
        let text = report().as_markdown();
        for row in [
            "GPU: llvmpipe, llvmpipe 1, vulkan, software",
            "| lab | vulkan | pp64 | 32.0 |  |  |  |",
            "| lab | vulkan | tg4 @ d256 | 11.8 | 80.0 | 100.0 | 100.0 |",
            "Per token: 300 dispatches, 1 submit, 4 bytes read back, 1.50 MB of weights read",
            "GPU memory: 4 KiB after 10 turns, 4 KiB after 100",
            "| fp4 | 8192 x 8192 | 20.00 | 2.00 | 25 % | 1.25 |",
        ] {
            assert!(text.lines().any(|line| line == row), "{text}");
        }
    }

    #[test]
    fn targets_are_judged() {
        let targets = report().judged(&[(1024, 10.0), (32_768, 16.0)], 0.55);
        let missed: Vec<&str> = targets.iter().filter(|t| !t.met).map(|t| t.what.as_str()).collect();
        assert_eq!(missed, ["dispatches of a source layer", "time per token at 32768, times that at 1024"]);
        assert_eq!(targets.len(), 8);
    }
}
