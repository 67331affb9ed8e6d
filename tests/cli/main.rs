//! The command line as its users see it: every command, every exit code, every way an input can be wrong.

mod bad_input;
mod chat;
mod commands;
mod gpu;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program, in English whatever the machine's language, with a cache folder of the tests. What does not name a backend tests the CPU's.
fn flash890(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flash890"));
    command
        .args(args)
        .env("LC_ALL", "C")
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        // Mesa says "error: " on standard error where the environment has none.
        .env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null());
    if args.len() > 1 && args[0] == "generate" && !args.iter().any(|arg| ["--backend", "--list-devices"].contains(arg))
    {
        command.args(["--backend", "cpu"]);
    }
    command
}

/// What one run gave.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(args: &[&str]) -> Run {
        Run::from(flash890(args).output().unwrap())
    }

    fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let code = output.status.code().expect("ended by a signal");
        Run { code, stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }
}

/// Runs and expects an exit code, nothing on standard output, and one error line that holds all of `words`.
fn fails(args: &[&str], code: i32, words: &[&str]) {
    let run = Run::of(args);
    assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{args:?}: {}", run.stderr);
    let errors: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{args:?}: {}", run.stderr);
    for word in words {
        assert!(errors[0].contains(word), "{args:?}: no {word:?} in {}", errors[0]);
    }
}

fn golden(path: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path))
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}

/// A copy of the checkpoint t12 to damage.
struct Copy {
    folder: TempDir,
}

impl Copy {
    fn new() -> Copy {
        let folder = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(golden("t12")).unwrap() {
            let entry = entry.unwrap();
            if !entry.file_name().to_str().unwrap().starts_with("golden") {
                std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
        Copy { folder }
    }

    fn path(&self) -> String {
        text(self.folder.path())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces `from`, which must be there, in a text file.
    fn edit(&self, name: &str, from: &str, to: &str) {
        let before = std::fs::read_to_string(self.file(name)).unwrap();
        assert!(before.contains(from), "{name} has no {from}");
        std::fs::write(self.file(name), before.replacen(from, to, 1)).unwrap();
    }

    /// Overwrites bytes of a file.
    fn patch(&self, name: &str, at: usize, bytes: &[u8]) {
        let mut all = std::fs::read(self.file(name)).unwrap();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(self.file(name), all).unwrap();
    }

    fn generate_fails(&self, code: i32, words: &[&str]) {
        fails(&["generate", "--model", &self.path(), "--prompt", "Hello", "--max-tokens", "1"], code, words);
    }
}
