//! `cargo xtask lab`: the terminal lab. It needs nothing but Rust, so no setup runs before it.

use std::process::Command;
use std::time::Instant;

use crate::process;
use crate::workspace::{self, Workspace};

/// Builds `flash890` in release and runs `flash890 lab` with `args`, in the folder the user is in. Returns its exit
/// code. Progress goes to stderr, so that stdout holds what the lab prints and nothing else.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<u8, String> {
    eprintln!("building flash890 in release (a minute or two the first time)");
    let start = Instant::now();
    process::run(&mut workspace.cargo(&["build", "--release", "--package", "flash890", "--bin", "flash890"]))?;
    eprintln!("built in {:.1} s", start.elapsed().as_secs_f64());
    eprintln!("This version shows the lab in the terminal; the browser page comes in a later version.");

    let mut lab = Command::new(workspace::cargo());
    lab.args(["run", "--quiet", "--release", "--package", "flash890", "--bin", "flash890", "--manifest-path"]);
    lab.arg(workspace.root.join("Cargo.toml")).args(["--", "lab"]).args(args);
    let status = lab.status().map_err(|error| format!("cannot start the lab: {error}"))?;
    // No code means that a signal ended the lab.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::FAILED))
}
