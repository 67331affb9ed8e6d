//! The npm package: `tests/web/pack.mjs` takes from the built page what a page of others needs.

use super::core::node;
use crate::process;
use crate::setup::npm;
use crate::workspace::Workspace;

/// Makes the package in `target/npm/flash890`. The page must have been built.
pub(crate) fn make(workspace: &Workspace) -> Result<(), String> {
    let script = npm::folder(&workspace.root).join("pack.mjs");
    let out = workspace.target_dir.join("npm").join("flash890");
    process::run(node(&script).arg(&out).env("FLASH890_DIST", workspace.root.join("dist")))
}
