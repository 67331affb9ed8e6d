//! The checks of the page: types of the scripts, tests in a real browser, and the page's own checks.

use std::path::PathBuf;
use std::process::Command;

use super::core::node;
use crate::counts::{self, TestRun};
use crate::process;
use crate::setup::{self, npm};
use crate::workspace::Workspace;

/// Compiler settings, one per kind of script: a page and a worker have different global objects.
const TYPE_SETTINGS: &[&str] = &["tsconfig.json", "tsconfig.worker.json"];

/// Checks the types that the scripts of `web/` state in their comments. The page must have been built.
pub(crate) fn types(workspace: &Workspace) -> Result<String, String> {
    let web = npm::folder(&workspace.root);
    for settings in TYPE_SETTINGS {
        let tsc = web.join("node_modules").join("typescript").join("bin").join("tsc");
        process::run(node(&tsc).arg("--project").arg(web.join(settings)))?;
    }
    Ok(String::new())
}

/// Runs `tests/web/*.test.mjs` on the built page with the test runner of Node.js.
pub(crate) fn browser_tests(workspace: &Workspace) -> Result<TestRun, String> {
    let web = npm::folder(&workspace.root);
    let entries = std::fs::read_dir(&web).map_err(|error| format!("cannot list {}: {error}", web.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".test.mjs"));
    files.sort();
    let mut tests = Command::new("node");
    // One browser at a time: on a software adapter two would only wait for each other.
    tests.args(["--test", "--test-concurrency=1", "--test-reporter=spec"]).args(files);
    let (succeeded, stdout) = process::show_and_keep(prepared(&mut tests, workspace)?)?;
    Ok(counts::read_node_run(succeeded, &stdout))
}

/// Has the page at `url` run all its checks in a browser without a display. Whether they passed.
pub(crate) fn own_checks(workspace: &Workspace, url: &str) -> Result<bool, String> {
    let mut check = node(&npm::folder(&workspace.root).join("check.mjs"));
    let status = prepared(check.arg(url), workspace)?.status();
    status.map(|status| status.success()).map_err(|error| format!("cannot start node: {error}"))
}

/// Tells a script of `tests/web` where browser, page and pictures are.
fn prepared<'a>(command: &'a mut Command, workspace: &Workspace) -> Result<&'a mut Command, String> {
    let browser = setup::browser().ok_or("no Chromium, Chrome or Edge was found; `FLASH890_BROWSER` may name one")?;
    Ok(command
        .current_dir(&workspace.root)
        .env("FLASH890_BROWSER", browser)
        .env("FLASH890_DIST", workspace.root.join("dist"))
        .env("FLASH890_PROGRAM", workspace.program())
        .env("FLASH890_SCREENSHOTS", workspace.target_dir.join("web-screenshots")))
}
