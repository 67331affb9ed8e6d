//! The run that ships with the page, so that it explains before WebGPU is there, or without it.

use std::path::Path;
use std::process::Command;

use super::{cache, read};
use crate::process;
use crate::workspace::Workspace;

/// Records a run into `dist/recorded.json`. It is recorded anew only when the program has changed.
///
/// `false` when the program does not know how to record.
pub(super) fn add(workspace: &Workspace, dist: &Path) -> Result<bool, String> {
    eprintln!("building flash890 in release, which records a run for the page");
    process::run(&mut workspace.cargo(&["build", "--release", "--package", "flash890", "--bin", "flash890"]))?;
    let program = workspace.program();
    let help = process::output(Command::new(&program).args(["lab", "--help"]))?;
    if !help.contains("--record ") {
        return Ok(false);
    }
    let key = cache::key([read(&program)?.as_slice()]);
    let recorded = cache::file(&workspace.target_dir.join("page"), "recorded", &key, |output| {
        eprintln!("recording a run (under a minute)");
        let mut record = Command::new(&program);
        record.args(["lab", "--record"]).arg(output).stdout(std::process::Stdio::null());
        process::run(&mut record)
    })?;
    let file = dist.join("recorded.json");
    std::fs::copy(&recorded, &file).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(true)
}
