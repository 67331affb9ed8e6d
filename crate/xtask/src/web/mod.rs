//! The browser page: Trunk builds it, then the wasm core is optimised and everything gets one build id.
//!
//! | module | what it holds |
//! |---|---|
//! | `build_id` | the id, and how it gets into the files |
//! | `cache` | steps whose input has not changed are not repeated |
//! | `core` | wasm-opt, and the size of the wasm core |
//! | `recorded` | the run that ships with the page |
//! | `serve`, `request` | the static server of `cargo xtask lab` |
//! | `check` | types, browser tests, and the page's own checks |
//! | `vendor` | the Markdown parser, from npm |
//! | `package` | the npm package |

mod build_id;
mod cache;
pub(crate) mod check;
mod core;
pub(crate) mod package;
mod recorded;
mod request;
pub(crate) mod serve;
mod vendor;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::setup;
use crate::workspace::Workspace;

/// A built page.
pub(crate) struct Page {
    /// The folder to serve.
    pub(crate) dist: PathBuf,
    /// A sentence on what was built.
    pub(crate) summary: String,
}

/// Builds the page into `dist`. What it needs must be installed.
pub(crate) fn build(workspace: &Workspace) -> Result<Page, String> {
    eprintln!("building the page (some minutes the first time)");
    // Trunk runs cargo offline, which fails in a fresh clone unless everything is here.
    process::run(&mut workspace.cargo(&["fetch", "--quiet", "--locked"]))?;
    let dist = workspace.root.join("dist");
    let mut trunk = Command::new(setup::trunk(workspace)?);
    trunk.args(["build", "--config", "Trunk.toml", "--dist"]).arg(&dist).current_dir(&workspace.root);
    trunk.env("PATH", setup::search_path(workspace)?);
    if std::env::var_os("NO_COLOR").is_some() {
        // Trunk takes only `true` and `false` here and refuses the usual 1; cargo takes anything.
        trunk.env("NO_COLOR", "true");
    }
    process::run(&mut trunk)?;

    let core = core::shrink(workspace, &dist)?;
    vendor::add(workspace, &dist)?;
    let build = build_id::stamp(&dist)?;
    let recorded = recorded::add(workspace, &dist)?;
    let about = format!(
        "{{\"build\": \"{build}\", \"wasm\": {{\"bytes\": {}, \"brotli\": {}}}, \"recorded\": {recorded}}}\n",
        core.bytes, core.brotli
    );
    write(&dist.join("build.json"), about.as_bytes())?;
    let run = if recorded { "with a recorded run" } else { "without a recorded run" };
    Ok(Page { dist, summary: format!("build {build}, {}, {run}", core.within_limit()?) })
}

/// Reads a file; the error names it.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Writes a file; the error names it.
fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(file, bytes).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
