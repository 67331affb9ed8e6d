//! One decoded token, kernel by kernel: all dispatches of a kernel in one submit, and the weights that they read beside what the adapter copies.

use super::gpu::time;
use crate::Result;
use crate::gpu::{Gpu, Plan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// All dispatches of one kernel in one token.
#[derive(Debug, Serialize)]
pub(super) struct KernelTime {
    pub(super) kernel: &'static str,
    pub(super) dispatches: usize,
    pub(super) ms: f64,
    /// Bytes of weights read.
    pub(super) weight_bytes: usize,
    pub(super) gb_per_s: f64,
    /// `gb_per_s` divided by that of the copy.
    pub(super) of_copy: f64,
}

/// Times every kernel of a plan, the slowest first. The time of an empty submit is taken off.
///
/// # Errors
/// What waiting says.
pub(super) fn measure(gpu: &Gpu, plan: &Plan, copy_gb_per_s: f64) -> Result<Vec<KernelTime>> {
    let mut kernels: BTreeMap<&'static str, Plan> = BTreeMap::new();
    for step in &plan.steps {
        kernels.entry(step.kernel).or_default().steps.push(step.clone());
    }
    let empty = time(gpu, |_| ())?;
    let mut rows = Vec::with_capacity(kernels.len());
    for (kernel, plan) in kernels {
        let seconds = (time(gpu, |encoder| plan.encode(encoder))? - empty).max(1e-9);
        let weight_bytes = plan.steps.iter().map(|step| step.weights).sum();
        let gb_per_s = weight_bytes as f64 / seconds / 1e9;
        rows.push(KernelTime {
            kernel,
            dispatches: plan.steps.len(),
            ms: 1e3 * seconds,
            weight_bytes,
            gb_per_s,
            of_copy: gb_per_s / copy_gb_per_s,
        });
    }
    rows.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    Ok(rows)
}

/// The rows as a table; kernels without weights have no speed.
pub(super) fn as_markdown(rows: &[KernelTime]) -> String {
    let mut out =
        String::from("| kernel | dispatches | ms | weights, MB | GB/s | of copy |\n|---|---|---|---|---|---|\n");
    for KernelTime { kernel, dispatches, ms, weight_bytes, gb_per_s, of_copy } in rows {
        let weights = match *weight_bytes {
            0 => "| | |".into(),
            bytes => format!("| {:.2} | {gb_per_s:.2} | {:.1} % |", bytes as f64 / 1e6, 100.0 * of_copy),
        };
        let _ = writeln!(out, "| {kernel} | {dispatches} | {ms:.2} {weights}");
    }
    out
}
