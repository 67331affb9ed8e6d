//! Installing what the commands need.
//!
//! Everything is a line in a table: what it is called, how to see that it is there, why it is needed and for what. A run
//! first looks and then installs only what its purpose needs and this machine lacks, so a second run does nothing.

pub(crate) mod npm;
mod rust;
mod system;
mod tools;

use std::time::Instant;

use crate::workspace::Workspace;

pub(crate) use rust::WASM_TARGET;
pub(crate) use system::browser;
pub(crate) use tools::{search_path, trunk};

/// What is to be done. Each purpose needs what the ones before it need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Building the page.
    Page,
    /// Opening the page in a browser without a display.
    Browser,
    /// Every check and every test.
    Tests,
}

/// What was installed, and what could not be.
#[derive(Default)]
struct Report {
    installed: Vec<&'static str>,
    problems: Vec<String>,
}

impl Report {
    /// Says on stderr what is installed and why, and how long it took.
    fn install(&mut self, names: &[&'static str], why: &str, install: impl FnOnce() -> Result<(), String>) {
        let list = names.join(" ");
        eprintln!("installing {list} ({why})");
        let start = Instant::now();
        match install() {
            Ok(()) => {
                eprintln!("installed {list} in {:.1} s", start.elapsed().as_secs_f64());
                self.installed.extend(names);
            }
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// Installs what is missing for `purpose`. Returns a sentence on what was done; the error says what to install by hand.
///
/// Tries everything even when a part fails, so that one run names all that is missing.
pub(crate) fn run(workspace: &Workspace, purpose: Purpose) -> Result<String, String> {
    let mut report = Report::default();
    for part in rust::RUST_PARTS.iter().filter(|part| part.purpose <= purpose && !(part.present)()) {
        report.install(&[part.name], part.why, || rust::add(workspace, part));
    }
    let is_missing = |package: &&system::DebianPackage| package.purpose <= purpose && !(package.present)();
    let packages: Vec<_> = system::DEBIAN_PACKAGES.iter().filter(is_missing).collect();
    if !packages.is_empty() {
        let names: Vec<_> = packages.iter().map(|package| package.name).collect();
        let reasons: Vec<_> = packages.iter().map(|package| package.why).collect();
        report.install(&names, &reasons.join(", "), || system::install(&names));
    }
    report.problems.extend(tools::check_lock(&workspace.root).err());
    for tool in tools::TOOLS.iter().filter(|tool| tools::find(workspace, tool).is_none()) {
        report.install(&[tool.program], tool.why, || tools::install(workspace, tool));
    }
    if !npm::is_current(&workspace.root) {
        report.install(&["npm packages"], "wasm-opt, and what the browser tests use", || npm::install(&workspace.root));
    }
    if report.problems.is_empty() { Ok(summary(&report.installed)) } else { Err(report.problems.join(" ")) }
}

/// The sentence on what was done.
fn summary(installed: &[&str]) -> String {
    if installed.is_empty() {
        "everything needed is already installed".to_owned()
    } else {
        format!("installed {}", installed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_lines_are_complete_and_unique() {
        let rust = rust::RUST_PARTS.iter().map(|part| (part.name, part.why));
        let debian = system::DEBIAN_PACKAGES.iter().map(|package| (package.name, package.why));
        let tools = tools::TOOLS.iter().map(|tool| (tool.package, tool.why));
        let mut names = Vec::new();
        for (name, why) in rust.chain(debian).chain(tools) {
            assert!(!name.is_empty() && !name.contains(char::is_whitespace), "{name:?}");
            assert!(!why.is_empty(), "{name} says no reason");
            assert!(!names.contains(&name), "{name} is listed twice");
            names.push(name);
        }
        assert!(rust::RUST_PARTS.iter().all(|part| ["component", "target"].contains(&part.kind)));
        assert!(tools::TOOLS.iter().all(|tool| tool.version.split('.').count() == 3));
    }

    #[test]
    fn a_page_needs_neither_a_browser_nor_the_linters() {
        let needed = |purpose| {
            let debian = system::DEBIAN_PACKAGES.iter().filter(move |package| package.purpose <= purpose);
            let rust = rust::RUST_PARTS.iter().filter(move |part| part.purpose <= purpose);
            debian.map(|package| package.name).chain(rust.map(|part| part.name)).collect::<Vec<_>>()
        };
        assert_eq!(needed(Purpose::Page), ["nodejs", "npm", WASM_TARGET]);
        assert!(needed(Purpose::Browser).contains(&"chromium"));
        assert_eq!(needed(Purpose::Tests).len(), system::DEBIAN_PACKAGES.len() + rust::RUST_PARTS.len());
    }

    #[test]
    fn the_summary_says_when_there_was_nothing_to_do() {
        assert_eq!(summary(&[]), "everything needed is already installed");
        assert_eq!(summary(&["git", "clippy"]), "installed git, clippy");
    }
}
