//! `flash890 parity`: a checkpoint against a golden file.

use super::backend::{AdapterArgs, Backend};
use super::cache::CacheArgs;
use super::console::Console;
use super::model;
use super::options::Rounding;
use super::place::Place;
use crate::blocks::context::Context;
use crate::blocks::mistake::Mistake;
use crate::gpu::Tier;
use crate::lab::golden::GoldenFile;
use crate::lab::parity::{self, Check, Report};
use crate::numerics::precision::Precision;
use crate::weights::{ByteSource, Checkpoint};
use crate::{Error, Result};
use clap::Args;
use pollster::block_on;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Failed comparisons of one tap that are listed without --verbose.
const LISTED: usize = 3;

/// Head of the table that [`line()`] fills.
const HEADER: &str = "  tap                        checks  worst layer     error     limit";

/// Options of `parity`.
#[derive(Debug, Args)]
pub(super) struct ParityArgs {
    /// Checkpoint: a folder, or its address on a web server.
    #[arg(long, value_name = "DIR|URL")]
    model: Place,
    #[command(flatten)]
    cache: CacheArgs,
    /// Golden file: what an independent implementation computed from the same weights.
    #[arg(long, value_name = "FILE")]
    golden: PathBuf,
    /// Only this case; may be given several times.
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// What computes.
    #[arg(long, value_enum, default_value = "cpu")]
    backend: Backend,
    #[command(flatten)]
    adapter: AdapterArgs,
    /// Roundings between operations. The limits are those of f32.
    #[arg(long, value_enum, default_value = "f32")]
    numerics: Rounding,
    /// Plant a mistake on purpose, to see that the comparison finds it.
    #[arg(long, value_name = "MISTAKE")]
    plant: Option<String>,
    /// Every comparison in a line of its own.
    #[arg(long)]
    verbose: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ParityArgs, console: &Console) -> Result<bool> {
    args.adapter.check(args.backend)?;
    if args.backend != Backend::Cpu && args.plant.is_some() {
        return Err(Error::Usage("--plant is for the CPU reference: a mistake has no shader".into()));
    }
    let mistake = args.plant.as_deref().map(mistake).transpose()?;
    let source = ByteSource::open(&args.golden)?;
    let golden = GoldenFile::parse(source.name(), &block_on(source.read(0..source.len()))?)?;
    let checkpoint = model::open(Some(&args.model), &args.cache, console)?;
    let mut context = Context::new(&checkpoint.config, args.numerics.into(), Precision::Released);
    if let Some(mistake) = mistake {
        context = context.with_mistake(mistake);
        let name = mistake.name();
        console.notice(format!("đã cố ý gài lỗi {name}"), format!("planted the mistake {name}"));
    }
    let (report, device) = args.compare(&checkpoint, context, &golden, console)?;
    console.print(&if args.json {
        format!("{:#}\n", args.as_json(&report, &device))
    } else {
        as_text(&report, &args, console)
    })?;
    Ok(report.counts().1 == 0)
}

fn mistake(name: &str) -> Result<Mistake> {
    let unknown = || {
        let all: Vec<&str> = Mistake::ALL.iter().map(|mistake| mistake.name()).collect();
        Error::Usage(format!("no mistake {name}; there are {}", all.join(", ")))
    };
    Mistake::from_name(name).ok_or_else(unknown)
}

fn as_text(report: &Report, args: &ParityArgs, console: &Console) -> String {
    let mut out = String::new();
    for case in report.checks.chunk_by(|a, b| a.case == b.case) {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "{}\n{HEADER}", case[0].case);
        if args.verbose {
            case.iter().for_each(|check| out += &line(check, 1));
        } else {
            summarise(case, &mut out);
        }
        out.push('\n');
    }
    if let Some(first) = report.first_failure() {
        let place = first.layer.map_or(String::new(), |layer| format!(", layer {layer}"));
        let limit = first.limit.unwrap_or_default();
        let _ = writeln!(out, "first failure: {} in case {}{place}", first.tap, first.case);
        let _ = writeln!(out, "  {}: {}, limit {}; {}", first.measure, number(first.error), number(limit), first.worst);
    }
    let (judged, failed) = report.counts();
    let (passed, shown) = (judged - failed, report.checks.len() - judged);
    if shown > 0 {
        let why = console.lang.pick(
            "limit -: chỉ để xem; bộ đệm 4 bit có thể lệch một mã, và mô hình sâu khuếch đại điều đó",
            "limit -: shown only; a 4-bit cache may flip a code, and a deep model amplifies that",
        );
        let _ = writeln!(out, "{why}");
    }
    out + &console.lang.pick(
        format!("{passed} trên {judged} phép so sánh đạt, {failed} không đạt; {shown} chỉ để xem\n"),
        format!("{passed} of {judged} comparisons passed, {failed} failed; {shown} shown without judgement\n"),
    )
}

/// One line per tap: the worst layer of those that passed, and the failures.
fn summarise(case: &[Check], out: &mut String) {
    let mut taps: Vec<(&str, bool)> = Vec::new();
    for check in case {
        let key = (check.tap.as_str(), check.limit.is_some());
        if !taps.contains(&key) {
            taps.push(key);
        }
    }
    for (tap, judged) in taps {
        let of_tap = || case.iter().filter(|check| check.tap == tap && check.limit.is_some() == judged);
        let passed = || of_tap().filter(|check| check.passed());
        if let Some(worst) = passed().max_by(|a, b| a.error.total_cmp(&b.error)) {
            *out += &line(worst, passed().count());
        }
        let failed: Vec<&Check> = of_tap().filter(|check| !check.passed()).collect();
        failed.iter().take(LISTED).for_each(|check| *out += &line(check, 1));
        if failed.len() > LISTED {
            let _ = writeln!(out, "  {tap:<26} {:>6} more FAIL", failed.len() - LISTED);
        }
    }
}

/// One line for `count` comparisons, of which this is the worst.
fn line(check: &Check, count: usize) -> String {
    let (limit, verdict) = match check.limit {
        None => ("-".into(), "-"),
        Some(limit) => (number(limit), if check.passed() { "ok" } else { "FAIL" }),
    };
    let layer = check.layer.map_or("-".into(), |layer| layer.to_string());
    let (tap, error, measure) = (&check.tap, number(check.error), check.measure);
    format!("  {tap:<26} {count:>6} {layer:>12} {error:>9} {limit:>9} {verdict:<4}  {measure}\n")
}

/// Whole numbers as such, everything else with two digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value < 1e6 { format!("{value}") } else { format!("{value:.1e}") }
}

impl ParityArgs {
    /// Runs the cases, and says what computed.
    fn compare(
        &self,
        checkpoint: &Arc<Checkpoint>,
        context: Context,
        golden: &GoldenFile,
        console: &Console,
    ) -> Result<(Report, Option<String>)> {
        let spin = || console.spinner("đang so sánh", "comparing");
        let gpu = match self.backend {
            Backend::Cpu => None,
            Backend::Gpu => Some(self.adapter.open()?),
            // A report is about exactness, not speed: without a real GPU there is nothing to measure for it.
            Backend::Auto => self.adapter.open().ok().filter(|gpu| gpu.adapter.tier == Tier::Hardware),
        };
        let Some(gpu) = gpu else {
            let mut model = model::load(checkpoint, context, console)?;
            let spinner = spin();
            let report = block_on(parity::run(&mut model, golden, &self.case));
            spinner.finish_and_clear();
            return Ok((report?, None));
        };
        let device = gpu.adapter.describe();
        console.notice(format!("tính bằng: {device}"), format!("computing on: {device}"));
        let mut model = self.adapter.load_gpu(gpu, checkpoint, &context, console)?;
        let spinner = spin();
        let report = block_on(parity::run_gpu(&mut model, golden, &self.case));
        spinner.finish_and_clear();
        Ok((report?, Some(device)))
    }

    fn as_json(&self, report: &Report, device: &Option<String>) -> Value {
        let as_json = |check: &Check| {
            let mut value = serde_json::to_value(check).unwrap_or_default();
            value["passed"] = check.passed().into();
            value
        };
        let (judged, failed) = report.counts();
        json!({
            "model": self.model.to_string(),
            "golden": self.golden.display().to_string(),
            "backend": if device.is_some() { "gpu" } else { "cpu" },
            "device": device,
            "numerics": Precision::from(self.numerics).name(),
            "planted": self.plant,
            "judged": judged,
            "failed": failed,
            "first_failure": report.first_failure().map(as_json),
            "checks": report.checks.iter().map(as_json).collect::<Vec<_>>(),
        })
    }
}
