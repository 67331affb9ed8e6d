//! The GPU's part of `bench`: the lab checkpoint at several context lengths, kernel by kernel, and large products beside the adapter's own copy.

use super::super::console::Console;
use super::gpu_report::{GpuReport, Limits, Line, Shape, Token};
use super::{ROUNDS, best_of, deep, prompt};
use super::{drafts, product, profile};
use crate::Result;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::gpu::{Element, Gpu, Tensor, Tier};
use crate::model::gpu::{GpuModel, GpuState};
use crate::model::{Engine, Prefill};
use crate::numerics::precision::Precision;
use crate::weights::tiny;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A long prompt, and how many of its last tokens run through the decoder with a tail.
pub(super) const LONG: usize = 1024;
pub(super) const TAIL: usize = 128;
/// Tokens of the prompt that is read behind a context.
const READ: usize = 64;
/// Tokens that are written behind a context, one by one.
const WRITTEN: usize = 16;
/// Turns of a conversation after which memory must not have grown, and when it is first looked at.
pub(super) const TURNS: usize = 100;
pub(super) const SETTLED: usize = 10;
/// Bytes that are copied.
const COPIED: usize = 64 << 20;
/// Copies and products per submit.
pub(super) const REPEATS: usize = 4;

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
        drafts: drafts::measure(&Engine::Gpu(model.clone()), Some(&gpu)).await?,
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
    let mut state = context(model, READ, None).await?;
    let id = model.decode_greedy(&mut state, 65).await?;
    let before = model.gpu.traffic();
    model.decode_greedy(&mut state, id).await?;
    let after = model.gpu.traffic();
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
        submits: after.submits - before.submits,
        bytes_read_back: after.bytes_read_back - before.bytes_read_back,
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
        let mut encoder = gpu.encoder();
        encode(&mut encoder);
        gpu.submit(encoder);
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
