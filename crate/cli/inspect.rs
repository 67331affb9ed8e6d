//! `flash890 inspect`: what a checkpoint says about itself. Headers only; no weight is read.

use super::config_lines;
use super::console::{Console, grouped, size};
use super::place::Place;
use crate::blocks::b3a_encoder_decoder::active_parameters;
use crate::weights::Checkpoint;
use crate::weights::contract::{Part, contract};
use crate::weights::verdict::Verdict;
use crate::{Error, Result};
use clap::Args;
use pollster::block_on;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Differences and extra tensors that are listed; the rest is counted.
const LISTED: usize = 10;

/// Options of `inspect`.
#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// Checkpoint: a folder, or its address on a web server.
    #[arg(value_name = "DIR|URL")]
    place: Place,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Tensors and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    tensors: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.tensors += 1;
        self.bytes += bytes;
    }

    fn json(self) -> Value {
        json!({ "tensors": self.tensors, "bytes": self.bytes })
    }
}

/// What the headers sum up to.
struct Summary {
    parts: BTreeMap<Part, Count>,
    dtypes: BTreeMap<String, Count>,
    shards: BTreeMap<usize, Count>,
}

pub(super) fn run(args: InspectArgs, console: &Console) -> Result<bool> {
    let (checkpoint, verdict) = block_on(Checkpoint::inspect(&args.place.files()?))?;
    let summary = summary(&checkpoint);
    console.print(&if args.json {
        format!("{:#}\n", as_json(&checkpoint, &summary, &verdict))
    } else {
        as_text(&checkpoint, &summary, &verdict, console)
    })?;
    match verdict.differences.len() {
        0 => Ok(true),
        count => Err(Error::Integrity(format!("{count} tensors are not as config.json asks for"))),
    }
}

fn summary(checkpoint: &Checkpoint) -> Summary {
    let mut summary = Summary { parts: BTreeMap::new(), dtypes: BTreeMap::new(), shards: BTreeMap::new() };
    for spec in contract(&checkpoint.config) {
        let found = checkpoint.info(&spec.name).ok();
        let count = summary.parts.entry(spec.part).or_default();
        found.into_iter().for_each(|info| count.add(info.bytes()));
    }
    for tensor in checkpoint.tensors() {
        summary.dtypes.entry(tensor.dtype.to_string()).or_default().add(tensor.bytes());
        summary.shards.entry(tensor.file).or_default().add(tensor.bytes());
    }
    summary
}

fn part_name(part: Part) -> &'static str {
    match part {
        Part::RoutedExperts => "routed experts",
        Part::EngramTables => "n-gram tables",
        Part::DraftExperts => "DSpark experts",
        Part::Attention => "attention",
        Part::SharedExperts => "shared experts",
        Part::Embedding => "embedding",
        Part::Head => "head",
        Part::Vision => "vision tower",
        Part::DraftRest => "DSpark, the rest",
        Part::EngramProjections => "n-gram projections",
        Part::Routers => "routers",
        Part::HyperConnections => "hyper-connections",
        Part::Aligner => "aligner",
        Part::Indexers => "indexers",
        Part::Compressors => "compressors",
        Part::Norms => "norms",
        Part::ImageVectors => "image vectors",
    }
}

fn as_text(checkpoint: &Checkpoint, summary: &Summary, verdict: &Verdict, console: &Console) -> String {
    let mut out = String::new();
    let lang = console.lang;
    for (vi, en, value) in config_lines::of(&checkpoint.config) {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "{:<18} {value}", lang.pick(vi, en));
    }
    let mut table = |title: &str, rows: Vec<(String, Count)>| {
        let _ = writeln!(out, "\n{title:<40} {:>8} {:>20}", lang.pick("tensor", "tensors"), "bytes");
        for (name, count) in rows {
            let (tensors, bytes) = (grouped(count.tensors), grouped(count.bytes));
            let _ = writeln!(out, "{name:<40} {tensors:>8} {bytes:>20}");
        }
    };
    let mut parts: Vec<(String, Count)> = summary.parts.iter().map(|(&p, &c)| (part_name(p).into(), c)).collect();
    parts.sort_by_key(|(_, count)| std::cmp::Reverse(count.bytes));
    table(lang.pick("phần", "part"), parts);
    table(lang.pick("kiểu", "type"), summary.dtypes.iter().map(|(name, &count)| (name.clone(), count)).collect());
    let shard = |(&file, &count): (&usize, &Count)| {
        let path = std::path::Path::new(checkpoint.shard_name(file));
        (path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()), count)
    };
    table(lang.pick("tệp", "shard"), summary.shards.iter().map(shard).collect());
    let all = Count { tensors: checkpoint.tensors().len() as u64, bytes: checkpoint.total_bytes() };
    table(lang.pick("tất cả", "all"), vec![(size(all.bytes), all)]);
    out + &verdict_text(verdict, console)
}

fn verdict_text(verdict: &Verdict, console: &Console) -> String {
    let mut out = String::from("\n");
    let lang = console.lang;
    if verdict.is_good() {
        let good = lang
            .pick("hợp lệ: mọi tensor đúng như config.json yêu cầu", "good: every tensor is as config.json asks for");
        let _ = writeln!(out, "{good}");
    }
    let mut list = |title: String, lines: Vec<String>| {
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(out, "{title}");
        lines.iter().take(LISTED).for_each(|line| out += &format!("  {line}\n"));
        if lines.len() > LISTED {
            let more = lines.len() - LISTED;
            let _ = writeln!(out, "  {}", lang.pick(format!("và {more} tensor nữa"), format!("and {more} more")));
        }
    };
    let (bad, extra) = (verdict.differences.len(), verdict.extra.len());
    list(
        lang.pick(
            format!("sai: {bad} tensor thiếu hoặc không đúng"),
            format!("bad: {bad} tensors are missing or unfit"),
        ),
        verdict.differences.iter().map(|difference| format!("{}: {difference}", difference.name)).collect(),
    );
    list(
        lang.pick(
            format!("{extra} tensor mà config.json không cần"),
            format!("{extra} tensors that config.json does not ask for"),
        ),
        verdict.extra.clone(),
    );
    out
}

fn as_json(checkpoint: &Checkpoint, summary: &Summary, verdict: &Verdict) -> Value {
    let config = &checkpoint.config;
    let active = active_parameters(config);
    let parts: serde_json::Map<String, Value> =
        summary.parts.iter().map(|(&part, count)| (part_name(part).into(), count.json())).collect();
    let dtypes: serde_json::Map<String, Value> =
        summary.dtypes.iter().map(|(name, count)| (name.clone(), count.json())).collect();
    let shards: Vec<Value> = (summary.shards.iter())
        .map(|(&file, count)| json!({ "file": checkpoint.shard_name(file), "tensors": count.tensors, "bytes": count.bytes }))
        .collect();
    let differences: Vec<Value> = (verdict.differences.iter())
        .map(|difference| json!({ "tensor": difference.name, "problem": difference.to_string() }))
        .collect();
    json!({
        "config": serde_json::from_str::<Value>(&config.to_json()).unwrap_or_default(),
        "roles": (0..config.n_layers).map(|layer| config.role(layer).name()).collect::<Vec<_>>(),
        "kv_bytes_per_token": config.kv_bytes_per_token(),
        "active_parameters": { "prefill": active.prefill, "layers": active.layers, "decode": active.decode },
        "tensors": checkpoint.tensors().len(),
        "bytes": checkpoint.total_bytes(),
        "parts": parts,
        "types": dtypes,
        "shards": shards,
        "verdict": { "good": verdict.is_good(), "differences": differences, "extra": verdict.extra },
    })
}
