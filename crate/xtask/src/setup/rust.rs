//! Parts of the Rust toolchain, which rustup installs.

use std::process::Command;
use std::time::Duration;

use super::Purpose;
use crate::process;
use crate::workspace::{self, Workspace};

/// The target of the browser build.
pub(crate) const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// rustup waits very long for a network that does not answer; two seconds are usual.
const RUSTUP_LIMIT: Duration = Duration::from_secs(60);

/// A part of the Rust toolchain that rustup installs.
pub(super) struct RustPart {
    /// `component` or `target`, as in `rustup component add`.
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) why: &'static str,
    pub(super) purpose: Purpose,
    pub(super) present: fn() -> bool,
}

pub(super) const RUST_PARTS: &[RustPart] = &[
    RustPart {
        kind: "component",
        name: "rustfmt",
        why: "format check",
        purpose: Purpose::Tests,
        present: || cargo_has("fmt"),
    },
    RustPart {
        kind: "component",
        name: "clippy",
        why: "lints",
        purpose: Purpose::Tests,
        present: || cargo_has("clippy"),
    },
    RustPart {
        kind: "target",
        name: WASM_TARGET,
        why: "the library compiled for the browser",
        purpose: Purpose::Page,
        present: || has_target(WASM_TARGET),
    },
];

pub(super) fn add(workspace: &Workspace, part: &RustPart) -> Result<(), String> {
    let mut rustup = Command::new("rustup");
    // In the root of the repository, so that rustup means the toolchain that builds it.
    rustup.args([part.kind, "add", part.name]).current_dir(&workspace.root);
    process::run_within(&mut rustup, RUSTUP_LIMIT).map_err(|problem| advice(part, &problem))?;
    if (part.present)() {
        return Ok(());
    }
    Err(advice(part, "rustup reports success, but cargo still does not find it"))
}

/// What to do when rustup is absent or has failed.
fn advice(part: &RustPart, problem: &str) -> String {
    format!(
        "{} {} is missing ({}), and installing it failed: {problem}. Run `rustup {} add {}` with a network connection, or \
         install the {} of the same version from where your Rust comes from.",
        part.kind, part.name, part.why, part.kind, part.name, part.kind
    )
}

fn cargo_has(subcommand: &str) -> bool {
    process::answers(workspace::cargo(), &[subcommand, "--version"])
}

/// Whether the standard library of `target` is there, whoever installed it (rustup or a distribution).
fn has_target(target: &str) -> bool {
    let mut rustc = Command::new(workspace::rustc());
    rustc.args(["--print", "target-libdir", "--target", target]);
    process::output(&mut rustc)
        .is_ok_and(|folder| std::fs::read_dir(folder.trim()).is_ok_and(|mut files| files.next().is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_probes_tell_present_from_absent() {
        assert!(!cargo_has("no-such-subcommand"));
        // The host's standard library is there, or this test could not have been compiled.
        let host = process::output(Command::new(workspace::rustc()).args(["--print", "host-tuple"])).unwrap();
        assert!(has_target(host.trim()));
        assert!(!has_target("no-such-target"));
    }

    #[test]
    fn advice_names_what_to_install() {
        let advice = advice(&RUST_PARTS[2], "no network");
        assert!(advice.contains("no network"), "{advice}");
        assert!(advice.contains("`rustup target add wasm32-unknown-unknown`"), "{advice}");
    }
}
