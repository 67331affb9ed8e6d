//! Rust programs of one exact version. They are taken from where they are, else compiled into `target/tools`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::workspace::Workspace;

/// A program of one version.
pub(super) struct Tool {
    /// As it is called.
    pub(super) program: &'static str,
    /// The package that holds it, and what `cargo install` needs besides its name and version.
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    options: &'static [&'static str],
    pub(super) why: &'static str,
}

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        program: "wasm-bindgen",
        package: "wasm-bindgen-cli",
        version: WASM_BINDGEN,
        options: &[],
        why: "the JavaScript side of the wasm core; compiling it takes about three minutes on two cores",
    },
    Tool {
        program: "trunk",
        package: "trunk",
        version: "0.21.14",
        // Without the OpenSSL of the system and without its own updates.
        options: &["--locked", "--no-default-features", "--features", "rustls"],
        why: "builds the page; compiling it takes six to eight minutes on two cores",
    },
];

/// Version of the wasm-bindgen program, which must be the version of the library in `Cargo.lock`.
const WASM_BINDGEN: &str = "0.2.130";

/// Compares the library in `Cargo.lock` with the program.
pub(super) fn check_lock(root: &Path) -> Result<(), String> {
    let file = root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let locked = locked_version(&lock, "wasm-bindgen").unwrap_or("none");
    if locked == WASM_BINDGEN {
        return Ok(());
    }
    Err(format!(
        "Cargo.lock has wasm-bindgen {locked}, the program is pinned to {WASM_BINDGEN}, and they must be the same. Change the \
         version in Cargo.toml, Trunk.toml and crate/xtask/src/setup/tools.rs together."
    ))
}

/// The version of a package in the text of a `Cargo.lock`.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Where the tool is, in its version: as the PATH finds it, in cargo's folder, or in `target/tools`.
pub(super) fn find(workspace: &Workspace, tool: &Tool) -> Option<PathBuf> {
    let file = format!("{}{}", tool.program, std::env::consts::EXE_SUFFIX);
    let folders = [cargo_folder(), Some(tools_folder(workspace))].into_iter().flatten();
    let candidates = [PathBuf::from(tool.program)].into_iter().chain(folders.map(|root| root.join("bin").join(&file)));
    candidates.into_iter().find(|path| has_version(path, tool.version))
}

/// Whether the program prints this version, as in `trunk 0.21.14`.
fn has_version(program: &Path, version: &str) -> bool {
    let printed = process::output(Command::new(program).arg("--version"));
    printed.is_ok_and(|text| text.split_whitespace().any(|word| word == version))
}

/// Compiles a tool. cargo shows its progress.
pub(super) fn install(workspace: &Workspace, tool: &Tool) -> Result<(), String> {
    let package = format!("{}@{}", tool.package, tool.version);
    let mut cargo = workspace.cargo(&["install", &package]);
    cargo.args(tool.options).arg("--root").arg(tools_folder(workspace));
    process::run(&mut cargo).map_err(|problem| {
        let options = tool.options.join(" ");
        let command = format!("cargo install {package} {options}");
        format!(
            "{} {} could not be installed: {problem}. By hand: `{}`",
            tool.program,
            tool.version,
            command.trim_end()
        )
    })?;
    find(workspace, tool).map(|_| ()).ok_or_else(|| format!("{} was installed and is not found", tool.program))
}

/// Trunk, in its version.
pub(crate) fn trunk(workspace: &Workspace) -> Result<PathBuf, String> {
    let tool = TOOLS.iter().find(|tool| tool.program == "trunk");
    tool.and_then(|tool| find(workspace, tool)).ok_or_else(|| "trunk is not installed; `cargo xtask setup`".to_owned())
}

/// The PATH with the folders of all tools in front, for Trunk to find wasm-bindgen.
pub(crate) fn search_path(workspace: &Workspace) -> Result<OsString, String> {
    let found = TOOLS.iter().filter_map(|tool| find(workspace, tool));
    let folders = found.filter_map(|path| path.parent().map(Path::to_path_buf)).filter(|path| path.is_absolute());
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(folders.chain(std::env::split_paths(&path))).map_err(|error| format!("PATH: {error}"))
}

fn tools_folder(workspace: &Workspace) -> PathBuf {
    workspace.target_dir.join("tools")
}

/// Where cargo installs programs for the user; not every machine has it on the PATH.
fn cargo_folder() -> Option<PathBuf> {
    let home = || std::env::home_dir().map(|home| home.join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("..")
    }

    #[test]
    fn library_program_and_trunk_agree_on_wasm_bindgen() {
        assert_eq!(check_lock(&root()), Ok(()));
        let trunk = std::fs::read_to_string(root().join("Trunk.toml")).unwrap();
        assert!(trunk.contains(&format!("wasm_bindgen = \"{WASM_BINDGEN}\"")), "{trunk}");
    }

    #[test]
    fn versions_are_read_from_the_lock_file() {
        let lock =
            "[[package]]\nname = \"a-b\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.1.0\"\n";
        assert_eq!(locked_version(lock, "a"), Some("2.1.0"));
        assert_eq!(locked_version(&lock.replace('\n', "\r\n"), "a-b"), Some("1.0.0"));
        assert_eq!(locked_version(lock, "b"), None);
    }

    #[test]
    fn only_the_exact_version_will_do() {
        let cargo = PathBuf::from(workspace::cargo());
        let printed = process::output(Command::new(&cargo).arg("--version")).unwrap();
        let version = printed.split_whitespace().nth(1).unwrap();
        assert!(has_version(&cargo, version));
        assert!(!has_version(&cargo, &version[..version.len() - 1]));
        assert!(!has_version(Path::new("no-such-program-890"), version));
    }
}
