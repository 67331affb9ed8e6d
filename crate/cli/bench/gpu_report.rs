//! The figures of the GPU's part of `bench`, its tables and its targets.

use super::drafts::{self, Drafts};
use super::gpu::{LONG, SETTLED, TAIL, TURNS};
use super::product::{self, Product};
use super::profile::{self, KernelTime};
use super::target::{self, Target};
use crate::gpu::AdapterSummary;
use crate::model::gpu::GpuModel;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// What was measured on the adapter.
#[derive(Debug, Serialize)]
pub(super) struct GpuReport {
    pub(super) adapter: String,
    pub(super) driver: String,
    pub(super) backend: String,
    pub(super) software: bool,
    pub(super) limits: Limits,
    pub(super) shape: Shape,
    /// Speed of the lab checkpoint in released numerics.
    pub(super) lines: Vec<Line>,
    /// Decoding with drafts and without.
    pub(super) drafts: Vec<Drafts>,
    pub(super) token: Token,
    /// Pipelines that the lab checkpoint needs.
    pub(super) pipelines: usize,
    /// Time of the first prompt and the first token less that of the second ones: recording and compiling.
    pub(super) first_use_ms: f64,
    /// GPU memory in bytes after ten turns of a conversation and after a hundred, where the backend counts it.
    pub(super) memory: Option<[u64; 2]>,
    /// Bytes read and written per second by a copy from buffer to buffer, in units of 10^9.
    pub(super) copy_gb_per_s: f64,
    /// One decoded token, and a piece of a prompt.
    pub(super) kernels: Vec<KernelTime>,
    pub(super) kernels_of_chunk: Vec<KernelTime>,
    pub(super) products: Vec<Product>,
    pub(super) targets: Vec<Target>,
    /// Seconds that all this took.
    pub(super) seconds: f64,
}

/// What the adapter grants.
#[derive(Debug, Serialize)]
pub(super) struct Limits {
    pub(super) binding_bytes: u64,
    pub(super) buffer_bytes: u64,
    pub(super) workgroup_bytes: u32,
    pub(super) invocations: u32,
    pub(super) storage_buffers: u32,
}

/// Of the checkpoint that is run.
#[derive(Debug, Serialize)]
pub(super) struct Shape {
    pub(super) layers: usize,
    pub(super) dim: usize,
    pub(super) experts: usize,
    pub(super) vocab: usize,
}

/// One decoded token.
#[derive(Debug, Serialize)]
pub(super) struct Token {
    pub(super) dispatches: usize,
    /// The most that a layer takes: of those that only read KV, and of those that choose or write it.
    pub(super) plain_layer: usize,
    pub(super) source_layer: usize,
    pub(super) submits: u64,
    pub(super) bytes_read_back: u64,
    /// Bytes of weights that its kernels read.
    pub(super) weight_bytes: usize,
}

/// One row of the table, in the terms of llama-bench: `pp64 @ d256` reads 64 tokens behind 256, `tg16` writes 16.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) test: String,
    pub(super) tokens_per_s: f64,
    /// Milliseconds per token that half, 95 and 99 of 100 tokens stay within.
    pub(super) percentiles: Option<[f64; 3]>,
}

impl Line {
    /// A prompt that was read in one piece.
    pub(super) fn read(test: String, tokens: usize, time: Duration) -> Self {
        Line { test, tokens_per_s: tokens as f64 / time.as_secs_f64(), percentiles: None }
    }

    /// Tokens that were written one by one.
    pub(super) fn written(test: String, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let total: Duration = times.iter().sum();
        let at = |percent: usize| 1e3 * times[(times.len() * percent).div_ceil(100).max(1) - 1].as_secs_f64();
        let tokens_per_s = times.len() as f64 / total.as_secs_f64();
        Line { test, tokens_per_s, percentiles: Some([at(50), at(95), at(99)]) }
    }
}

impl Limits {
    pub(super) fn of(adapter: &AdapterSummary, granted: &wgpu::Limits) -> Self {
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
    pub(super) fn of(model: &GpuModel) -> Self {
        let config = model.config();
        let (layers, dim, experts) = (config.n_layers, config.dim, config.n_routed_experts);
        Shape { layers, dim, experts, vocab: config.vocab_size }
    }
}

impl GpuReport {
    /// The targets: `half` is the median time per token by depth, `tail` the time of a prompt with a tail as a share of the whole.
    pub(super) fn judged(&self, half: &[(usize, f64)], tail: f64) -> Vec<Target> {
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
