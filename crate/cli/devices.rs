//! `flash890 devices`: the adapters that could run the shaders.

use super::console::{Console, size};
use crate::Result;
use crate::gpu::{AdapterSummary, Tier, device};
use clap::Args;
use pollster::block_on;
use serde_json::{Value, json};
use std::fmt::Write;

/// Options of `devices`.
#[derive(Debug, Args)]
pub(super) struct DevicesArgs {
    /// Print a JSON list.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: DevicesArgs, console: &Console) -> Result<bool> {
    list(args.json, console)?;
    Ok(true)
}

/// Prints every adapter; that there is none is not an error.
///
/// # Errors
/// [`crate::Error::Io`] if standard output is closed.
pub(super) fn list(json: bool, console: &Console) -> Result<()> {
    let adapters = block_on(device::list());
    if adapters.is_empty() {
        console.notice(
            "không có GPU nào chạy được shader; trên Linux hãy cài gói mesa-vulkan-drivers",
            "no adapter that runs shaders; on Linux install the package mesa-vulkan-drivers",
        );
    }
    console.print(&if json {
        format!("{:#}\n", Value::Array(adapters.iter().map(as_json).collect()))
    } else {
        adapters.iter().map(|adapter| as_text(adapter, console)).collect()
    })
}

fn tier(adapter: &AdapterSummary) -> &'static str {
    if adapter.tier == Tier::Software { "software" } else { "hardware" }
}

fn as_json(adapter: &AdapterSummary) -> Value {
    json!({
        "name": adapter.name,
        "driver": adapter.driver,
        "backend": adapter.backend,
        "tier": tier(adapter),
        "limits": {
            "binding_bytes": adapter.max_binding,
            "buffer_bytes": adapter.max_buffer,
            "workgroup_bytes": adapter.max_workgroup_memory,
            "workgroup_invocations": adapter.max_invocations,
            "storage_buffers": adapter.max_storage_buffers,
        },
    })
}

fn as_text(adapter: &AdapterSummary, console: &Console) -> String {
    let AdapterSummary { name, driver, backend, max_invocations, max_storage_buffers, .. } = adapter;
    let [binding, buffer] = [adapter.max_binding, adapter.max_buffer].map(size);
    let workgroup = size(adapter.max_workgroup_memory.into());
    let pick = |vi: &'static str, en: &'static str| console.lang.pick(vi, en);
    let mut out = format!("{name}\n");
    for (label, value) in [
        (pick("trình điều khiển", "driver"), driver.clone()),
        (pick("giao diện", "backend"), backend.clone()),
        (pick("loại", "tier"), tier(adapter).to_string()),
        (pick("giới hạn", "limits"), format!("{binding} per binding, {buffer} per buffer")),
        (
            "",
            format!(
                "{workgroup} and {max_invocations} invocations per workgroup, {max_storage_buffers} storage buffers"
            ),
        ),
    ] {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "  {label:<18} {value}");
    }
    out
}
