//! Installing what the steps need.
//!
//! Everything is a line in a table: what it is called, how to see that it is there, why it is needed. A run first looks
//! and then installs only what is missing, so a second run does nothing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process;
use crate::workspace::{self, Workspace};

/// A part of the Rust toolchain that rustup installs.
struct RustPart {
    /// `component` or `target`, as in `rustup component add`.
    kind: &'static str,
    name: &'static str,
    why: &'static str,
    present: fn() -> bool,
}

const RUST_PARTS: &[RustPart] = &[
    RustPart { kind: "component", name: "rustfmt", why: "format check", present: || cargo_has("fmt") },
    RustPart { kind: "component", name: "clippy", why: "lints", present: || cargo_has("clippy") },
    RustPart {
        kind: "target",
        name: WASM_TARGET,
        why: "the library compiled for the browser",
        present: || has_target(WASM_TARGET),
    },
];

/// A package of Debian and its relatives.
struct DebianPackage {
    name: &'static str,
    why: &'static str,
    present: fn() -> bool,
}

const DEBIAN_PACKAGES: &[DebianPackage] = &[
    DebianPackage {
        name: "git",
        why: "list of the repository's files for the repository checks",
        present: || process::answers("git", &["--version"]),
    },
    DebianPackage {
        name: "mesa-vulkan-drivers",
        why: "a software adapter for the GPU tests where there is no GPU",
        present: || !cfg!(target_os = "linux") || has_file_in(&["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]),
    },
    DebianPackage {
        name: "libvulkan1",
        why: "the loader of Vulkan drivers",
        present: || {
            !cfg!(target_os = "linux")
                || ["/usr/lib", "/usr/lib64"].iter().any(|root| has_vulkan_loader(Path::new(root)))
        },
    },
];

/// Whether one of the folders holds a file.
fn has_file_in(folders: &[&str]) -> bool {
    folders.iter().any(|folder| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()))
}

/// Whether a library folder, or a folder of one architecture in it, holds the Vulkan loader.
fn has_vulkan_loader(root: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(root) else { return false };
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.chain([root.to_path_buf()]).any(|folder| folder.join("libvulkan.so.1").exists())
}

/// The target of the browser build.
pub(crate) const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// rustup waits very long for a network that does not answer; two seconds are usual.
const RUSTUP_LIMIT: Duration = Duration::from_secs(60);

/// Installs what is missing. Returns a sentence on what was done; the error says what to install by hand.
///
/// Tries everything even when a part fails, so that one run names all that is missing.
pub(crate) fn run(workspace: &Workspace) -> Result<String, String> {
    let mut installed = Vec::new();
    let mut problems = Vec::new();
    for part in RUST_PARTS.iter().filter(|part| !(part.present)()) {
        match with_progress(part.name, part.why, || add_rust_part(workspace, part)) {
            Ok(()) => installed.push(part.name),
            Err(problem) => problems.push(problem),
        }
    }
    let packages: Vec<_> = DEBIAN_PACKAGES.iter().filter(|package| !(package.present)()).collect();
    if !packages.is_empty() {
        let names: Vec<_> = packages.iter().map(|package| package.name).collect();
        let reasons: Vec<_> = packages.iter().map(|package| package.why).collect();
        match with_progress(&names.join(" "), &reasons.join(", "), || install_debian_packages(&names)) {
            Ok(()) => installed.extend(names),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(summary(&installed)) } else { Err(problems.join(" ")) }
}

/// The sentence on what was done.
fn summary(installed: &[&str]) -> String {
    if installed.is_empty() {
        "everything needed is already installed".to_owned()
    } else {
        format!("installed {}", installed.join(", "))
    }
}

/// Says on stderr what is installed and why, and how long it took.
fn with_progress(name: &str, why: &str, install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    eprintln!("installing {name} ({why})");
    let start = Instant::now();
    install()?;
    eprintln!("installed {name} in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn add_rust_part(workspace: &Workspace, part: &RustPart) -> Result<(), String> {
    let mut rustup = Command::new("rustup");
    // In the root of the repository, so that rustup means the toolchain that builds it.
    rustup.args([part.kind, "add", part.name]).current_dir(&workspace.root);
    process::run_within(&mut rustup, RUSTUP_LIMIT).map_err(|problem| rust_part_advice(part, &problem))?;
    if (part.present)() {
        return Ok(());
    }
    Err(rust_part_advice(part, "rustup reports success, but cargo still does not find it"))
}

/// What to do when rustup is absent or has failed.
fn rust_part_advice(part: &RustPart, problem: &str) -> String {
    format!(
        "{} {} is missing ({}), and installing it failed: {problem}. Run `rustup {} add {}` with a network connection, or \
         install the {} of the same version from where your Rust comes from.",
        part.kind, part.name, part.why, part.kind, part.name, part.kind
    )
}

/// apt-get runs only as root: a developer command does not ask for passwords.
fn install_debian_packages(names: &[&str]) -> Result<(), String> {
    if !(is_root() && process::answers("apt-get", &["--version"])) {
        return Err(debian_advice(names));
    }
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        process::run(&mut command).map_err(|problem| format!("{problem}. {}", debian_advice(names)))
    };
    apt(&["update", "--quiet"])?;
    apt(&[&["install", "--quiet", "--yes", "--no-install-recommends"], names].concat())
}

/// The sentence that names the packages where they cannot be installed from here.
fn debian_advice(names: &[&str]) -> String {
    let names = names.join(" ");
    format!(
        "Missing programs: {names}. On Debian and Ubuntu, `sudo apt-get install {names}`; elsewhere, the same programs."
    )
}

/// `id` exists wherever apt-get does, and asking it needs no unsafe call into the C library.
fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
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
    fn table_lines_are_complete_and_unique() {
        let rust = RUST_PARTS.iter().map(|part| (part.name, part.why));
        let debian = DEBIAN_PACKAGES.iter().map(|package| (package.name, package.why));
        let mut names = Vec::new();
        for (name, why) in rust.chain(debian) {
            assert!(!name.is_empty() && !name.contains(char::is_whitespace), "{name:?}");
            assert!(!why.is_empty(), "{name} says no reason");
            assert!(!names.contains(&name), "{name} is listed twice");
            names.push(name);
        }
        assert!(RUST_PARTS.iter().all(|part| ["component", "target"].contains(&part.kind)));
    }

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
        let advice = rust_part_advice(&RUST_PARTS[2], "no network");
        assert!(advice.contains("no network"), "{advice}");
        assert!(advice.contains("`rustup target add wasm32-unknown-unknown`"), "{advice}");
        assert!(debian_advice(&["git", "curl"]).contains("`sudo apt-get install git curl`"));
    }

    #[test]
    fn the_summary_says_when_there_was_nothing_to_do() {
        assert_eq!(summary(&[]), "everything needed is already installed");
        assert_eq!(summary(&["git", "clippy"]), "installed git, clippy");
    }
}
