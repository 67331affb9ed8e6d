//! The steps of `cargo xtask test`.
//!
//! The order is from quick to slow, so that a slip shows early; a failed step does not stop the others. Cargo shares
//! what it compiles between them: clippy and rustdoc use the same checked dependencies, the browser build and the tests
//! have their own. `-D warnings` is given to clippy and rustdoc only, as RUSTFLAGS it would make cargo rebuild all.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::counts::{self, Counts, TestRun};
use crate::setup::{self, Purpose, WASM_TARGET};
use crate::workspace::Workspace;
use crate::{checks, process, web};

/// What a step found: its counts, and a note for its line in the summary.
struct Outcome {
    counts: Counts,
    note: String,
}

impl From<TestRun> for Outcome {
    fn from(run: TestRun) -> Self {
        let ignored = if run.ignored == 0 { String::new() } else { format!(", {} IGNORED", run.ignored) };
        Self { counts: run.counts, note: format!("{}{ignored}", run.counts) }
    }
}

impl From<Result<String, String>> for Outcome {
    fn from(result: Result<String, String>) -> Self {
        let counts = Counts::one(result.is_ok());
        Self { counts, note: result.unwrap_or_else(|problem| problem) }
    }
}

type Step = (&'static str, fn(&Workspace) -> Outcome);

const STEPS: &[Step] = &[
    ("setup", |workspace| setup::run(workspace, Purpose::Tests).into()),
    ("repository", |workspace| checks::run(&workspace.root).into()),
    ("format", |workspace| quiet(&mut workspace.cargo(&["fmt", "--all", "--check"]))),
    ("clippy", |workspace| {
        quiet(&mut workspace.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    }),
    ("clippy for the browser", |workspace| {
        let lib = ["clippy", "--package", "flash890", "--lib", "--target", WASM_TARGET, "--", "-D", "warnings"];
        quiet(&mut workspace.cargo(&lib))
    }),
    ("documentation", |workspace| document(workspace)),
    ("page", |workspace| web::build(workspace).map(|page| page.summary).into()),
    ("types of the page", |workspace| web::check::types(workspace).into()),
    ("browser tests", |workspace| {
        web::check::browser_tests(workspace).map_or_else(|why| Err(why).into(), Outcome::from)
    }),
    ("tests", |workspace| run_tests(workspace)),
];

/// Runs every step and prints the summary, whose last line is the sum of all counts.
pub(crate) fn run_all(workspace: &Workspace) -> Counts {
    let mut total = Counts::default();
    let mut summary = Vec::new();
    for (name, step) in STEPS {
        println!("==> {name}");
        let start = Instant::now();
        let outcome = step(workspace);
        total += outcome.counts;
        let line = summary_line(name, start.elapsed(), &outcome);
        println!("{line}\n");
        summary.push(line);
    }
    println!("Summary\n{}\n\n{total}", summary.join("\n"));
    total
}

/// `ok      tests                      12.3 s  310 passed, 0 failed`.
fn summary_line(name: &str, time: Duration, outcome: &Outcome) -> String {
    let verdict = if outcome.counts.is_success() { "ok" } else { "FAILED" };
    format!("{verdict:<7} {name:<24} {:>6.1} s  {}", time.as_secs_f64(), outcome.note).trim_end().to_owned()
}

/// A step that is one command, with nothing to add when it succeeds.
fn quiet(command: &mut Command) -> Outcome {
    process::run(command).map(|()| String::new()).into()
}

/// Private items too: who reads this code for learning reads their docs, and their links must not break either.
fn document(workspace: &Workspace) -> Outcome {
    let mut doc = workspace.cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    let flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
    quiet(doc.env("RUSTDOCFLAGS", format!("{flags} -D warnings").trim_start()))
}

/// Unit, integration and documentation tests of the workspace. Like the browser tests, it counts each of them.
fn run_tests(workspace: &Workspace) -> Outcome {
    let mut cargo = workspace.cargo(&["test", "--workspace", "--no-fail-fast"]);
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // Without one, a Vulkan driver complains on stderr for every device that a test opens.
        cargo.env("XDG_RUNTIME_DIR", &workspace.target_dir);
    }
    match process::show_and_keep(&mut cargo) {
        Err(problem) => Err(problem).into(),
        Ok((succeeded, stdout)) => counts::read_test_run(succeeded, &stdout).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_counts_one_and_keeps_its_note() {
        let failed = Outcome::from(Err("no such file".to_owned()));
        assert_eq!(failed.counts, Counts { passed: 0, failed: 1 });
        assert_eq!(failed.note, "no such file");
        assert_eq!(Outcome::from(Ok(String::new())).counts, Counts { passed: 1, failed: 0 });
    }

    #[test]
    fn summary_lines_align_and_end_without_spaces() {
        let line =
            |result: Result<String, String>| summary_line("format", Duration::from_millis(1_250), &result.into());
        assert_eq!(line(Ok(String::new())), "ok      format                      1.2 s");
        assert_eq!(line(Err("bad".to_owned())), "FAILED  format                      1.2 s  bad");
    }

    #[test]
    fn ignored_tests_show_in_the_note() {
        let run = TestRun { counts: Counts { passed: 3, failed: 0 }, ignored: 2 };
        assert_eq!(Outcome::from(run).note, "3 passed, 0 failed, 2 IGNORED");
    }

    #[test]
    fn every_step_has_its_own_name() {
        for (index, (name, _)) in STEPS.iter().enumerate() {
            assert!(STEPS[..index].iter().all(|(other, _)| other != name), "{name} is there twice");
        }
    }
}
