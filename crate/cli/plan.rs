//! `flash890 plan`: what a checkpoint needs and whether this machine has it. Reads headers, and 16 MiB to see how quick the source is.

use super::cache::{CacheArgs, gigabytes};
use super::console::{Console, grouped, size};
use super::memory;
use super::place::Place;
use crate::gpu::{AdapterSummary, Tier, device};
use crate::numerics::precision::Precision;
use crate::weights::needs::Needs;
use crate::weights::verdict::Verdict;
use crate::weights::{Checkpoint, Folder};
use crate::{Error, Result};
use clap::Args;
use pollster::block_on;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

/// Bytes that are read to see how quick the source is.
const SAMPLE: u64 = 16 << 20;
/// Words of a buffer that no cache of a processor holds.
const BUFFER: usize = 32 << 20;

/// Options of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// Checkpoint: a folder, or its address on a web server.
    #[arg(value_name = "DIR|URL")]
    place: Place,
    #[command(flatten)]
    cache: CacheArgs,
    /// Memory to plan for, in units of 10^9 bytes [default: what this machine has free].
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    memory: Option<u64>,
    /// Plan for room for this share of the routed experts only; the others are read as the router asks.
    #[arg(long, value_name = "PERCENT", value_parser = super::options::percent)]
    expert_budget: Option<f64>,
    /// Memory of the GPU, which drivers do not tell, in units of 10^9 bytes.
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    gpu_memory: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is needed, what there is, and what follows.
struct Plan {
    tensors: u64,
    bytes: u64,
    /// Bytes read from a server to make this plan, without the sample.
    asked: Option<u64>,
    verdict: Verdict,
    needs: Needs,
    rings: u64,
    /// Share of the routed experts of the backbone that stays in memory, from 0 to 1.
    budget: f64,
    /// Bytes of all of them.
    routed: u64,
    memory: Option<u64>,
    memory_rate: f64,
    /// Bytes per second of the source.
    source_rate: f64,
    /// Room of the store, for checkpoints on servers.
    room: Option<u64>,
    gpu: Option<AdapterSummary>,
    gpu_memory: Option<u64>,
}

pub(super) fn run(args: PlanArgs, console: &Console) -> Result<bool> {
    let folder = args.place.files()?;
    let (checkpoint, verdict) = block_on(Checkpoint::inspect(&folder))?;
    let asked = match &folder {
        Folder::Http(remote) => Some(remote.folder().received()),
        _ => None,
    };
    let room = match &args.place {
        Place::Url(_) => args.cache.open(console)?.map(|store| store.available()),
        Place::Folder(_) => None,
    };
    let adapters = block_on(device::list());
    let plan = Plan {
        tensors: checkpoint.tensors().len() as u64,
        bytes: checkpoint.total_bytes(),
        asked,
        verdict,
        needs: Needs::of(&checkpoint.config),
        rings: memory::ring_bytes(&checkpoint.config, Precision::Released),
        budget: args.expert_budget.map_or(1.0, |percent| percent / 100.0),
        routed: memory::routed_experts(&checkpoint),
        memory: args.memory.or_else(memory::available),
        memory_rate: memory_rate(),
        source_rate: source_rate(&checkpoint)?,
        room,
        gpu: adapters.into_iter().find(|adapter| adapter.tier == Tier::Hardware),
        gpu_memory: args.gpu_memory,
    };
    console.print(&if args.json { format!("{:#}\n", plan.as_json()) } else { plan.as_text(console) })?;
    plan.into_result()
}

impl Plan {
    fn needed(&self) -> u64 {
        self.needs.loaded() - self.streamed() + self.rings
    }

    /// Bytes of routed experts that have no place in memory.
    fn streamed(&self) -> u64 {
        ((1.0 - self.budget) * self.routed as f64) as u64
    }

    /// Bytes of experts that a token has to wait for, if it chooses any expert as often as any other.
    fn missed(&self) -> f64 {
        (1.0 - self.budget) * self.needs.token.experts as f64
    }

    /// Whether the CPU reference can hold it. A machine that does not tell its memory is believed to have enough.
    fn fits_memory(&self) -> bool {
        self.memory.is_none_or(|memory| self.needed() <= memory)
    }

    /// Whether the adapter can hold it; `None` without an adapter, or if nobody says how much memory it has.
    fn fits_gpu(&self) -> Option<bool> {
        let gpu = self.gpu.as_ref()?;
        // Slots lie in banks of any size.
        if self.budget >= 1.0 && self.needs.largest_binding > gpu.max_binding {
            return Some(false);
        }
        self.gpu_memory.map(|memory| self.needed() <= memory)
    }

    /// Tokens per second if memory and source do nothing but read weights: no run is quicker.
    fn at_most(&self) -> f64 {
        let from_memory = self.needs.token.total().max(1) as f64 / self.memory_rate;
        1.0 / (from_memory + self.missed() / self.source_rate)
    }

    fn load_seconds(&self) -> f64 {
        (self.needs.loaded() - self.streamed()) as f64 / self.source_rate
    }

    fn into_result(self) -> Result<bool> {
        match self.verdict.differences.len() {
            0 if self.fits_memory() || self.fits_gpu() == Some(true) => Ok(true),
            0 => Err(Error::DoesNotFit {
                what: "the model in memory, n-gram tables left out,".into(),
                needed: size(self.needed()),
                available: self.memory.map_or("unknown".into(), size),
            }),
            count => Err(Error::Integrity(format!("{count} tensors are not as config.json asks for"))),
        }
    }

    fn as_text(&self, console: &Console) -> String {
        let pick = |vi: &'static str, en: &'static str| console.lang.pick(vi, en);
        let (needs, token) = (&self.needs, &self.needs.token);
        let mut out = String::new();
        let mut line = |label: &str, value: String| {
            // Writing into a string cannot fail.
            let _ = writeln!(out, "{label:<22} {value}");
        };
        let tensors = grouped(self.tensors);
        line(
            pick("mô hình", "checkpoint"),
            format!("{tensors} tensors, {} ({})", grouped(self.bytes), size(self.bytes)),
        );
        let good = pick("mọi tensor đúng như config.json yêu cầu", "every tensor is as config.json asks for");
        let bad = |count: usize| {
            pick("tensor thiếu hoặc sai: ", "tensors missing or unfit: ").to_string() + &count.to_string()
        };
        line(
            pick("kiểm tra", "contract"),
            match self.verdict.differences.len() {
                0 => good.into(),
                count => bad(count),
            },
        );
        if let Some(asked) = self.asked {
            line(pick("đã tải để xem", "read for this"), size(asked));
        }
        let (loaded, experts) = (size(needs.loaded() - self.streamed()), size(needs.experts - self.streamed()));
        line(
            pick("nằm trong bộ nhớ", "held in memory"),
            format!("{loaded}, {experts} {}", pick("là chuyên gia", "of it experts")),
        );
        if self.budget < 1.0 {
            let each = pick("mỗi token, nếu mọi chuyên gia được chọn như nhau", "per token, if all are chosen alike");
            line(
                pick("đọc khi router cần", "read as routed"),
                format!("{}; {} {each}", size(self.streamed()), size(self.missed() as u64)),
            );
        }
        let (tables, rows) = (size(needs.tables), grouped(token.table_rows));
        let streamed = pick("byte mỗi token, đọc khi cần", "bytes per token, read as needed");
        line(pick("bảng n-gram", "n-gram tables"), format!("{tables}; {rows} {streamed}"));
        let parts = format!(
            "{} ({} dense, {} experts, {} head)",
            grouped(token.total()),
            size(token.dense),
            size(token.experts),
            size(token.head)
        );
        line(pick("byte mỗi token", "bytes per token"), parts);
        let unknown = || pick("không rõ", "unknown").to_string();
        let fits = |fits: bool| if fits { pick("đủ", "fits") } else { pick("không đủ", "does not fit") };
        let memory = format!("{}: {}", self.memory.map_or_else(unknown, size), fits(self.fits_memory()));
        line(pick("bộ nhớ còn trống", "memory free"), memory);
        line("GPU", self.gpu_line(console));
        if let Some(room) = self.room {
            let (room, of) = (size(room.min(needs.total)), size(needs.total));
            line(pick("lưu được trên đĩa", "kept on disk"), format!("{room} / {of}"));
        }
        let (memory_rate, source_rate) = (self.memory_rate / 1e9, self.source_rate / 1e9);
        let measured = format!(
            "{} {memory_rate:.1} GB/s, {} {source_rate:.2} GB/s",
            pick("bộ nhớ", "memory"),
            pick("nguồn", "source")
        );
        line(pick("đo được", "measured"), measured);
        line(pick("thời gian nạp", "loading"), format!("{:.1} s", self.load_seconds()));
        let rate = format!("{:.2} token/s", self.at_most());
        line(
            pick("tốc độ tối đa", "at most"),
            format!("{rate} {}", pick("(chỉ tính đọc trọng số)", "(reading weights alone)")),
        );
        out
    }

    fn gpu_line(&self, console: &Console) -> String {
        let pick = |vi: &'static str, en: &'static str| console.lang.pick(vi, en);
        let Some(gpu) = &self.gpu else { return pick("không có", "none").into() };
        let (needed, limit) = (size(self.needs.largest_binding), size(gpu.max_binding));
        let verdict = match self.fits_gpu() {
            Some(true) => pick("đủ", "fits").to_string(),
            Some(false) if self.needs.largest_binding > gpu.max_binding => {
                let text = pick("vùng lớn nhất cần", "the largest binding needs");
                format!("{}: {text} {needed}, {limit}", pick("không đủ", "does not fit"))
            }
            Some(false) => pick("không đủ", "does not fit").to_string(),
            None => pick("không rõ bộ nhớ; dùng --gpu-memory", "memory unknown; --gpu-memory tells").to_string(),
        };
        format!("{}: {verdict}", gpu.name)
    }

    fn as_json(&self) -> Value {
        let (needs, token) = (&self.needs, &self.needs.token);
        json!({
            "tensors": self.tensors,
            "bytes": self.bytes,
            "asked_bytes": self.asked,
            "contract": { "good": self.verdict.is_good(), "differences": self.verdict.differences.len() },
            "needs": {
                "loaded_bytes": needs.loaded(),
                "expert_bytes": needs.experts,
                "table_bytes": needs.tables,
                "ring_bytes": self.rings,
                "largest_binding_bytes": needs.largest_binding,
            },
            "bytes_per_token": {
                "dense": token.dense,
                "experts": token.experts,
                "head": token.head,
                "table_rows": token.table_rows,
                "rest": token.rest,
                "total": token.total(),
            },
            "memory_bytes": self.memory,
            "streamed_expert_bytes": self.streamed(),
            "needed_bytes": self.needed(),
            "fits_memory": self.fits_memory(),
            "gpu": self.gpu.as_ref().map(|gpu| gpu.describe()),
            "fits_gpu": self.fits_gpu(),
            "store_room_bytes": self.room,
            "memory_bytes_per_second": self.memory_rate,
            "source_bytes_per_second": self.source_rate,
            "loading_seconds": self.load_seconds(),
            "tokens_per_second_at_most": self.at_most(),
        })
    }
}

/// Bytes per second that all threads together read from memory.
fn memory_rate() -> f64 {
    let buffer: Vec<u64> = (0..BUFFER as u64 / 8).collect();
    let read = || {
        let begin = Instant::now();
        black_box(buffer.par_chunks(1 << 16).map(|part| part.iter().fold(0, |a, b| a ^ b)).reduce(|| 0, |a, b| a ^ b));
        BUFFER as f64 / begin.elapsed().as_secs_f64()
    };
    (0..4).map(|_| read()).fold(0.0, f64::max)
}

/// Bytes per second of the source, from rows of its largest tensor.
fn source_rate(checkpoint: &Checkpoint) -> Result<f64> {
    let largest = checkpoint.tensors().iter().max_by_key(|tensor| tensor.bytes());
    let Some(tensor) = largest.filter(|tensor| tensor.bytes() > 0) else { return Ok(f64::INFINITY) };
    let rows = tensor.shape.first().map_or(1, |&rows| rows as u64);
    let wanted = (SAMPLE / (tensor.bytes() / rows).max(1)).clamp(1, rows);
    let begin = Instant::now();
    let bytes = block_on(checkpoint.read_rows(&tensor.name, 0, wanted))?;
    Ok(bytes.len() as f64 / begin.elapsed().as_secs_f64().max(1e-9))
}
