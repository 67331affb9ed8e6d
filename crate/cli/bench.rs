//! `flash890 bench`: how quick the CPU reference is on this machine, and the GPU if there is one.
//!
//! Tables: products of the linear layers beside plain loops over f32 weights, and the embedded lab checkpoint reading a prompt and writing
//! tokens. Every figure is the best of a few rounds after a warm-up; what else the machine does still shows in it.

mod budget;
mod deep;
mod drafts;
mod gpu;
mod gpu_report;
mod product;
mod profile;
mod target;

use super::backend::{AdapterArgs, Backend};
use super::console::Console;
use crate::Result;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::tap::{Observer, Silent, Tap, Values};
use crate::model::{Prefill, Reference};
use crate::numerics::hash::Stream;
use crate::numerics::linear::Matrix;
use crate::numerics::precision::Precision;
use crate::numerics::{bf16, e4m3};
use crate::weights::tiny;
use clap::Args;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `[outputs, inputs]` of the products: an expert's projections up and down in the release, and a square.
const SHAPES: [[usize; 2]; 3] = [[2048, 4096], [4096, 2048], [4096, 4096]];
/// Activation rows of a product: one token, and a piece of a prompt.
const TOKENS: [usize; 2] = [1, 32];
/// Rounds of every measurement.
const ROUNDS: usize = 3;
/// Tokens of the prompt that the lab model reads.
const PROMPT: usize = 256;
/// Tokens that it then writes.
const WRITTEN: usize = 16;

/// Options of `bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// Markdown tables, or one JSON object.
    #[arg(short, long, value_enum, default_value_t = Format::Md)]
    output: Format,
    /// The same as --output json.
    #[arg(long, hide = true)]
    json: bool,
    /// What is measured: the CPU reference, a GPU, or both where there is a GPU.
    #[arg(long, value_enum, default_value = "auto")]
    backend: Backend,
    #[command(flatten)]
    adapter: AdapterArgs,
    /// Tokens in front of what is measured on the GPU.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1024, 32_768])]
    depths: Vec<usize>,
}

/// How the figures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Markdown tables.
    Md,
    /// One JSON object.
    Json,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Report {
    threads: usize,
    /// How many processes wanted to run in the minute before, where the system tells.
    load: Option<f64>,
    products: Vec<Product>,
    /// The lab checkpoint on the CPU, unless it was left out.
    lab: Option<Lab>,
    /// Decoding with a part of the experts in memory.
    budgets: Vec<budget::Budget>,
    /// The adapter that shaders would run on, if there is one.
    gpu: Option<gpu_report::GpuReport>,
}

/// One product of a weight format.
#[derive(Debug, Serialize)]
struct Product {
    format: &'static str,
    rows: usize,
    cols: usize,
    n: usize,
    ms: f64,
    /// Stored weight bytes per second, in units of 10^9.
    gb_per_s: f64,
    /// Time of plain loops over f32 weights on one thread, divided by `ms`.
    times_plain: f64,
}

/// The lab checkpoint, in released numerics.
#[derive(Debug, Serialize)]
struct Lab {
    prompt_tokens: usize,
    prefill_tokens_per_s: f64,
    written_tokens: usize,
    decode_tokens_per_s: f64,
    /// Decoding with drafts and without.
    drafts: Vec<drafts::Drafts>,
    /// Share of the prefill's time by block of the diagram.
    share: BTreeMap<&'static str, f64>,
}

/// Measures, and prints the result to standard output.
///
/// # Errors
/// [`Error::Gpu`](crate::Error::Gpu) if a GPU was asked for and there is none, what running says, [`Error::Io`](crate::Error::Io) if standard output is closed.
pub(super) fn run(args: BenchArgs, console: &Console) -> Result<()> {
    args.adapter.check(args.backend)?;
    let gpu = match args.backend {
        Backend::Cpu => None,
        Backend::Gpu => Some(args.adapter.open()?),
        Backend::Auto => args.adapter.open().ok(),
    };
    let cpu = args.backend != Backend::Gpu;
    if cpu {
        console.notice("đo CPU", "measuring the CPU reference");
    }
    let report = Report {
        threads: rayon::current_num_threads(),
        load: load(),
        products: if cpu { measure_products()? } else { Vec::new() },
        lab: cpu.then(measure_lab).transpose()?,
        budgets: budget::measure(cpu, &|| if args.backend == Backend::Cpu { None } else { args.adapter.open().ok() })?,
        gpu: gpu.map(|gpu| pollster::block_on(gpu::measure(gpu, &args.depths, console))).transpose()?,
    };
    let text = if args.json || args.output == Format::Json {
        format!("{:#}\n", serde_json::json!(report))
    } else {
        report.as_markdown()
    };
    console.print(&text)
}

impl Report {
    fn as_markdown(&self) -> String {
        let mut out = format!("Threads: {}", self.threads);
        if let Some(load) = self.load {
            let _ = write!(out, ", load before: {load:.1}");
        }
        out.push('\n');
        if !self.products.is_empty() {
            out += "\nProducts\n\n| format | rows x cols | n | ms | GB/s of weights | times plain f32 |\n|---|---|---|---|---|---|\n";
        }
        for Product { format, rows, cols, n, ms, gb_per_s, times_plain } in &self.products {
            let _ = writeln!(out, "| {format} | {rows} x {cols} | {n} | {ms:.2} | {gb_per_s:.2} | {times_plain:.1} |");
        }
        out += &self.lab.as_ref().map_or_else(String::new, Lab::as_markdown);
        out += &budget::as_markdown(&self.budgets);
        out + &self.gpu.as_ref().map_or_else(|| "\nGPU: no adapter\n".into(), gpu_report::GpuReport::as_markdown)
    }
}

impl Lab {
    fn as_markdown(&self) -> String {
        let Lab { prompt_tokens, prefill_tokens_per_s, written_tokens, decode_tokens_per_s, drafts, share } = self;
        let mut out = "\nLab checkpoint\n\n| phase | tokens | tokens/s |\n|---|---|---|\n".to_string();
        let _ = writeln!(out, "| prefill | {prompt_tokens} | {prefill_tokens_per_s:.0} |");
        let _ = writeln!(out, "| decode | {written_tokens} | {decode_tokens_per_s:.0} |");
        out += &drafts::as_markdown(drafts);
        out += "\n| block | share of prefill |\n|---|---|\n";
        for (block, share) in share {
            let _ = writeln!(out, "| {} | {:.1} % |", block.to_uppercase(), 100.0 * share);
        }
        out
    }
}

fn measure_products() -> Result<Vec<Product>> {
    let mut products = Vec::new();
    for [rows, cols] in SHAPES {
        let stream = Stream::new("weights");
        let weights: Vec<f32> = (0..(rows * cols) as u64).map(|i| stream.unit(i)).collect();
        let formats = every_format(rows, cols, &weights)?;
        for n in TOKENS {
            let x = &weights[..n * cols];
            let plain = best_of(ROUNDS, || plain_product(&weights, x, cols));
            for (format, matrix) in &formats {
                let time = best_of(ROUNDS + 1, || matrix.matmul(x, n)).as_secs_f64();
                products.push(Product {
                    format,
                    rows,
                    cols,
                    n,
                    ms: 1e3 * time,
                    gb_per_s: matrix.bytes() as f64 / time / 1e9,
                    times_plain: plain.as_secs_f64() / time,
                });
            }
        }
    }
    Ok(products)
}

/// The weights in every format; those of FP4 are other numbers, which makes no difference to the time.
fn every_format(rows: usize, cols: usize, weights: &[f32]) -> Result<[(&'static str, Matrix); 4]> {
    let codes = weights.iter().map(|w| e4m3::encode(w * 256.0)).collect();
    let packed = weights[..rows * cols / 2].iter().map(|w| (w * 127.0) as i8 as u8).collect();
    let (tile_scale, block_scale) = (119, 125);
    Ok([
        ("f32", Matrix::f32(rows, cols, weights.to_vec())?),
        ("bf16", Matrix::bf16(rows, cols, weights.iter().map(|&w| bf16::encode(w)).collect())?),
        ("fp8", Matrix::fp8(rows, cols, codes, vec![tile_scale; rows.div_ceil(32) * cols.div_ceil(32)])?),
        ("fp4", Matrix::fp4(rows, cols, packed, vec![block_scale; rows * cols / 32])?),
    ])
}

/// The system's load average, which a quiet machine has near zero.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// What one would write first: three loops, one thread.
fn plain_product(weights: &[f32], x: &[f32], cols: usize) -> Vec<f32> {
    let dot = |(w, x): (&[f32], &[f32])| w.iter().zip(x).map(|(w, x)| w * x).sum::<f32>();
    x.chunks_exact(cols).flat_map(|x| weights.chunks_exact(cols).map(move |w| dot((w, x)))).collect()
}

/// A prompt of `n` bytes.
fn prompt(n: usize) -> Prompt {
    Prompt::text((0..n as u32).map(|i| (7 * i + 3) % 256).collect())
}

fn measure_lab() -> Result<Lab> {
    let checkpoint = Arc::new(pollster::block_on(tiny::lab())?);
    let mut silent = |_: usize, _: usize, _: &str| {};
    let load = Reference::load(checkpoint, Precision::Released, Precision::Released, &mut silent);
    let model = Arc::new(pollster::block_on(load)?);
    let prompt = prompt(PROMPT);
    let read = |observer: &mut dyn Observer| -> Result<_> {
        let mut state = model.state();
        pollster::block_on(model.prefill(&mut state, &prompt, Prefill::default(), observer))?;
        Ok(state)
    };
    let before = read(&mut Silent)?;
    let (mut prefill, mut decode, mut blocks) = (Duration::MAX, Duration::MAX, BTreeMap::new());
    for _ in 0..ROUNDS {
        let mut clock = Clock::default();
        let start = Instant::now();
        read(&mut clock)?;
        if start.elapsed() < prefill {
            (prefill, blocks) = (start.elapsed(), clock.blocks.into_inner());
        }
        let mut state = before.clone();
        let start = Instant::now();
        for id in 0..WRITTEN as u32 {
            black_box(pollster::block_on(model.decode(&mut state, 65 + id, &mut Silent))?);
        }
        decode = decode.min(start.elapsed());
    }
    let total: Duration = blocks.values().sum();
    let drafts = pollster::block_on(drafts::measure(&model.clone().into(), None))?;
    Ok(Lab {
        drafts,
        prompt_tokens: PROMPT,
        prefill_tokens_per_s: PROMPT as f64 / prefill.as_secs_f64(),
        written_tokens: WRITTEN,
        decode_tokens_per_s: WRITTEN as f64 / decode.as_secs_f64(),
        share: blocks.into_iter().map(|(block, time)| (block, time.as_secs_f64() / total.as_secs_f64())).collect(),
    })
}

/// Wants nothing, but notes when it is asked: the time since the last question belongs to the block that asks.
struct Clock {
    last: RefCell<Instant>,
    blocks: RefCell<BTreeMap<&'static str, Duration>>,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { last: RefCell::new(Instant::now()), blocks: RefCell::default() }
    }
}

impl Observer for Clock {
    fn wants(&self, tap: Tap, _: usize) -> bool {
        let now = Instant::now();
        let passed = now - self.last.replace(now);
        // The name of a tap begins with its block: "4a.heads".
        *self.blocks.borrow_mut().entry(&tap.name()[..2]).or_default() += passed;
        false
    }

    fn see(&mut self, _: Tap, _: usize, _: &[usize], _: Values<'_>) {}
}

/// The shortest of `rounds` runs.
fn best_of<T>(rounds: usize, mut work: impl FnMut() -> T) -> Duration {
    let run = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed()
    };
    (0..rounds).map(run).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_product_is_the_product() {
        let weights = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(plain_product(&weights, &[1.0, 1.0, 0.0, 2.0], 2), [3.0, 7.0, 4.0, 8.0]);
    }

    #[test]
    fn formats_have_their_sizes() {
        let formats = every_format(64, 64, &[0.5; 64 * 64]).unwrap();
        assert_eq!(
            formats.map(|(name, matrix)| (name, matrix.bytes())),
            [("f32", 16384), ("bf16", 8192), ("fp8", 4096 + 4), ("fp4", 2048 + 128)]
        );
    }

    #[test]
    fn the_clock_gives_time_to_the_block_that_asks() {
        let clock = Clock::default();
        assert!(!clock.wants(Tap::Embedding, 0) && !clock.wants(Tap::AttnOut, 3) && !clock.wants(Tap::Heads, 3));
        let blocks: Vec<_> = clock.blocks.into_inner().into_keys().collect();
        assert_eq!(blocks, ["1a", "4a"]);
    }

    #[test]
    fn markdown_has_a_row_per_measurement() {
        let product = Product { format: "fp8", rows: 2, cols: 32, n: 1, ms: 0.5, gb_per_s: 1.25, times_plain: 2.0 };
        let lab = Lab {
            drafts: Vec::new(),
            prompt_tokens: 8,
            prefill_tokens_per_s: 100.0,
            written_tokens: 2,
            decode_tokens_per_s: 10.0,
            share: BTreeMap::from([("4a", 0.25)]),
        };
        let report =
            Report { threads: 2, products: vec![product], lab: Some(lab), budgets: Vec::new(), gpu: None, load: None };
        let text = report.as_markdown();
        for row in ["| fp8 | 2 x 32 | 1 | 0.50 | 1.25 | 2.0 |", "| prefill | 8 | 100 |", "| 4A | 25.0 % |"] {
            assert!(text.lines().any(|line| line == row), "{text}");
        }
    }
}
