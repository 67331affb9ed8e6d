//! `cargo xtask bench`: how quick the CPU reference and the GPU are here. Targets are printed as met or missed; nothing fails, since figures depend on the machine
//! and on what else it does.

use crate::process;
use crate::workspace::Workspace;

/// Measures the linear layers beside `ndarray`, which only tests depend on, and then what `flash890 bench` measures.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    process::run(&mut workspace.cargo(&["bench", "--quiet", "--package", "flash890", "--bench", "linear"]))?;
    let bench = ["run", "--quiet", "--release", "--package", "flash890", "--bin", "flash890", "--", "bench"];
    process::run(&mut workspace.cargo(&bench))
}
