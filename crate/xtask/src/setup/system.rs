//! Programs and libraries of the system. On Debian and its relatives they are packages; elsewhere they are looked for and named.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Purpose;
use crate::process;

/// The oldest Node.js whose test runner and whose Playwright do what the browser tests need.
const OLDEST_NODE: u32 = 18;

/// The program that npm is: on Windows a script, which is only found with its ending.
pub(crate) const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// A package of Debian and its relatives.
pub(super) struct DebianPackage {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
    pub(super) purpose: Purpose,
    pub(super) present: fn() -> bool,
}

pub(super) const DEBIAN_PACKAGES: &[DebianPackage] = &[
    DebianPackage {
        name: "nodejs",
        why: "Node.js, which runs wasm-opt and the browser tests",
        purpose: Purpose::Page,
        present: || process::output(Command::new("node").arg("--version")).is_ok_and(|version| is_new_enough(&version)),
    },
    DebianPackage {
        name: "npm",
        why: "installs the packages of tests/web",
        purpose: Purpose::Page,
        present: || process::answers(NPM, &["--version"]),
    },
    DebianPackage {
        name: "chromium",
        why: "the browser of the browser tests; Chrome and Edge do as well",
        purpose: Purpose::Browser,
        present: || browser().is_some(),
    },
    DebianPackage {
        name: "git",
        why: "list of the repository's files for the repository checks",
        purpose: Purpose::Tests,
        present: || process::answers("git", &["--version"]),
    },
    DebianPackage {
        name: "mesa-vulkan-drivers",
        why: "a software adapter for the GPU tests where there is no GPU",
        purpose: Purpose::Tests,
        present: || !cfg!(target_os = "linux") || has_file_in(&["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]),
    },
    DebianPackage {
        name: "libvulkan1",
        why: "the loader of Vulkan drivers",
        purpose: Purpose::Tests,
        present: || {
            !cfg!(target_os = "linux")
                || ["/usr/lib", "/usr/lib64"].iter().any(|root| has_vulkan_loader(Path::new(root)))
        },
    },
];

/// The browser for the tests: `FLASH890_BROWSER`, else a Chromium, Chrome or Edge in its usual place.
pub(crate) fn browser() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("FLASH890_BROWSER") {
        return Some(PathBuf::from(path)).filter(|path| path.is_file());
    }
    browser_candidates(|name| std::env::var_os(name)).into_iter().find(|path| path.is_file())
}

/// Where browsers are usually installed.
fn browser_candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let below = |folders: Vec<PathBuf>, files: &[&str]| -> Vec<PathBuf> {
        files.iter().flat_map(|file| folders.iter().map(move |folder| folder.join(file))).collect()
    };
    if cfg!(windows) {
        let roots = ["ProgramFiles", "ProgramFiles(x86)", "LOCALAPPDATA"];
        let folders = roots.iter().filter_map(|name| variable(name)).map(PathBuf::from).collect();
        let files = ["Google/Chrome/Application/chrome.exe", "Chromium/Application/chrome.exe"];
        below(folders, &[files.as_slice(), &["Microsoft/Edge/Application/msedge.exe"]].concat())
    } else if cfg!(target_os = "macos") {
        let names = ["Chromium", "Google Chrome", "Microsoft Edge"];
        names.iter().map(|name| PathBuf::from(format!("/Applications/{name}.app/Contents/MacOS/{name}"))).collect()
    } else {
        let folders = variable("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
        below(folders, &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"])
    }
}

/// Reads `v20.1.0`.
fn is_new_enough(version: &str) -> bool {
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|number| number.parse::<u32>().ok());
    major.is_some_and(|major| major >= OLDEST_NODE)
}

/// apt-get runs only as root: a developer command does not ask for passwords.
pub(super) fn install(names: &[&str]) -> Result<(), String> {
    if !(is_root() && process::answers("apt-get", &["--version"])) {
        return Err(advice(names));
    }
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        process::run(&mut command).map_err(|problem| format!("{problem}. {}", advice(names)))
    };
    apt(&["update", "--quiet"])?;
    apt(&[&["install", "--quiet", "--yes", "--no-install-recommends"], names].concat())
}

/// The sentence that names the packages where they cannot be installed from here.
fn advice(names: &[&str]) -> String {
    let names = names.join(" ");
    format!(
        "Missing programs: {names}. On Debian and Ubuntu, `sudo apt-get install {names}`; elsewhere, the same programs \
         (Node.js from version {OLDEST_NODE}; Chromium, Chrome or Edge, `FLASH890_BROWSER` names one in another place)."
    )
}

/// `id` exists wherever apt-get does, and asking it needs no unsafe call into the C library.
fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_what_to_install() {
        assert!(advice(&["git", "curl"]).contains("`sudo apt-get install git curl`"));
    }

    #[test]
    fn node_versions_are_compared_as_numbers() {
        for (version, expected) in [("v20.1.0\n", true), ("v18.19.1", true), ("v9.0.0", false), ("nodes", false)] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    #[test]
    fn browsers_are_looked_for_where_this_system_puts_them() {
        let folder = std::env::temp_dir();
        let candidates = browser_candidates(|_| Some(folder.clone().into_os_string()));
        assert!(candidates.len() >= 3 && candidates.iter().all(|path| path.is_absolute()), "{candidates:?}");
    }
}
