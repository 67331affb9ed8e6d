//! Running programs without a shell.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often a program with a time limit is asked whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a program to its end, its output shown as it comes.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| not_started(command, &error))?;
    require_success(command, status)
}

/// Runs a program as [`run`] does, but ends it when it takes longer than `limit`.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<(), String> {
    let mut child = command.stdin(Stdio::null()).spawn().map_err(|error| not_started(command, &error))?;
    match wait_within(&mut child, limit) {
        Ok(Some(status)) => require_success(command, status),
        Ok(None) => Err(format!("`{}` did not end within {} s", display(command), limit.as_secs())),
        Err(error) => Err(format!("lost track of `{}`: {error}", display(command))),
    }
}

/// The exit status of `child`, or `None` when it had to be ended after `limit`.
fn wait_within(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Runs a program and returns what it writes to stdout; stderr is quoted in the error when it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| not_started(command, &error))?;
    require_success(command, output.status)
        .map_err(|problem| format!("{problem}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program whose stdout is shown line by line and kept. Returns whether it succeeded, and the text.
pub(crate) fn show_and_keep(command: &mut Command) -> Result<(bool, String), String> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| not_started(command, &error))?;
    let kept = match child.stdout.take() {
        Some(stdout) => copy_lines(BufReader::new(stdout)),
        None => Ok(String::new()),
    };
    // The child is waited for in any case, so that a broken pipe leaves no process behind.
    let status = child.wait();
    let lost = |error: std::io::Error| format!("lost the output of `{}`: {error}", display(command));
    Ok((status.map_err(lost)?.success(), kept.map_err(lost)?))
}

/// Copies lines to stdout and returns them all. Bytes that are not UTF-8 are shown as they are.
fn copy_lines(mut reader: impl BufRead) -> std::io::Result<String> {
    let mut kept = String::new();
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()?;
        kept.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(kept)
}

/// Whether a program can be started and succeeds; what it prints is not shown. For "is it installed?".
pub(crate) fn answers(program: impl AsRef<OsStr>, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The command as a user would type it; for messages.
pub(crate) fn display(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    // `CARGO` is an absolute path, of which only the name matters to the reader.
    let name = program.file_stem().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn require_success(command: &Command, status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", display(command))) }
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start `{}`: {error}", display(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn output_is_returned_and_a_failure_quotes_stderr() {
        let version = output(Command::new(workspace::cargo()).arg("--version")).unwrap();
        assert!(version.starts_with("cargo "), "{version}");
        let problem = output(Command::new(workspace::cargo()).arg("no-such-command")).unwrap_err();
        assert!(problem.starts_with("`cargo no-such-command` failed"), "{problem}");
        assert!(problem.contains("no such command"), "{problem}");
    }

    #[test]
    fn a_missing_program_is_a_sentence_and_not_a_panic() {
        let problem = run(&mut Command::new("no-such-program-890")).unwrap_err();
        assert!(problem.starts_with("cannot start `no-such-program-890`"), "{problem}");
        assert!(!answers("no-such-program-890", &[]));
    }

    #[test]
    fn a_program_is_ended_at_its_time_limit() {
        // This very test binary, asked to run the sleeping test below.
        let mut sleeper = Command::new(std::env::current_exe().unwrap());
        sleeper.args(["--exact", "process::tests::sleeps_when_asked_to"]).env("XTASK_TEST_SLEEP", "1");
        sleeper.stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let problem = run_within(&mut sleeper, Duration::from_millis(200)).unwrap_err();
        assert!(problem.contains("did not end within"), "{problem}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    /// The other half of the test above; on its own it checks that a quick program stays within its limit.
    #[test]
    fn sleeps_when_asked_to() {
        if std::env::var_os("XTASK_TEST_SLEEP").is_some() {
            thread::sleep(Duration::from_secs(60));
        }
        let mut quick = Command::new(workspace::cargo());
        quick.arg("--version").stdout(Stdio::null());
        assert_eq!(run_within(&mut quick, Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn commands_are_shown_without_their_folder() {
        let mut command = Command::new(std::path::Path::new("some").join("bin").join("cargo"));
        command.args(["fmt", "--check"]);
        assert_eq!(display(&command), "cargo fmt --check");
    }
}
