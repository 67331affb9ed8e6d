//! Developer commands of flash890, behind the alias `cargo xtask` of `.cargo/config.toml`.
//!
//! The crate has no dependencies, so that it compiles in seconds on a machine that has nothing but Rust, and it runs
//! programs directly, without a shell, so that it behaves alike on Linux, macOS and Windows.
//!
//! | module | what it holds |
//! |---|---|
//! | `workspace` | where the repository and its build output are, and how to start `cargo` |
//! | `process` | running programs: time limits, output that is both shown and kept |
//! | `setup` | the tables of what the commands need, and their installation |
//! | `steps` | the steps of `cargo xtask test` |
//! | `checks`, `files`, `modules` | the repository checks |
//! | `counts` | reading test results, the closing line |
//! | `lab` | the lab: as a page, or in the terminal |
//! | `web` | building, serving and testing the page |
//! | `bench` | the two measurements |

mod bench;
mod checks;
mod counts;
mod files;
mod lab;
mod modules;
mod process;
mod setup;
mod steps;
mod web;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

/// What `help` prints, and what a wrong command prints on stderr.
const USAGE: &str = "\
Usage: cargo xtask <command>

  lab [--port N] [--no-open]  build the lab page, serve it on this machine and open it in the browser
  lab --check                 build the page and run all its checks in a browser without a display
  lab --terminal [args...]    print the lab in the terminal; arguments go to `flash890 lab`
  package                     build the page and make the npm package target/npm/flash890
  bench                       measure the linear layers beside ndarray, then run `flash890 bench`
  test                        run every check and every test; the last line is `N passed, N failed`
  setup                       install what `test` needs and this machine lacks
  help                        print this text
";

/// Exit code of a command that ran and failed.
const FAILED: u8 = 1;
/// Exit code of a command line that makes no sense.
const WRONG_USAGE: u8 = 2;

/// One command line, understood.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Lab(lab::Lab),
    Package,
    Bench,
    Test,
    Setup,
    Help,
}

/// Reads the arguments after the program name. The error is a sentence for the user.
fn parse(args: &[String]) -> Result<Command, String> {
    let (name, rest) = args.split_first().ok_or("a command is missing")?;
    let command = match name.as_str() {
        "lab" => return lab::parse(rest).map(Command::Lab),
        "package" => Command::Package,
        "bench" => Command::Bench,
        "test" => Command::Test,
        "setup" => Command::Setup,
        "help" | "--help" | "-h" => Command::Help,
        other => return Err(format!("there is no command `{other}`")),
    };
    match rest.first() {
        None => Ok(command),
        Some(extra) => Err(format!("`{name}` takes no arguments, found `{extra}`")),
    }
}

/// Runs a command; returns the exit code, or a sentence on why it could not run at all.
fn run(command: Command) -> Result<u8, String> {
    match command {
        Command::Help => {
            print!("{USAGE}");
            Ok(0)
        }
        Command::Lab(request) => lab::run(&Workspace::find()?, request),
        Command::Package => {
            let workspace = Workspace::find()?;
            eprintln!("{}", setup::run(&workspace, setup::Purpose::Page)?);
            eprintln!("{}", web::build(&workspace)?.summary);
            web::package::make(&workspace).map(|()| 0)
        }
        Command::Bench => bench::run(&Workspace::find()?).map(|()| 0),
        Command::Test => Ok(if steps::run_all(&Workspace::find()?).is_success() { 0 } else { FAILED }),
        Command::Setup => {
            let summary = setup::run(&Workspace::find()?, setup::Purpose::Tests)?;
            println!("{summary}");
            Ok(0)
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let command = match parse(&args) {
        Ok(command) => command,
        Err(problem) => {
            eprint!("error: {problem}\n\n{USAGE}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match run(command) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&args)
    }

    #[test]
    fn lab_reads_its_own_arguments() {
        assert_eq!(parse_line("lab --check"), Ok(Command::Lab(lab::Lab::Check)));
        assert!(parse_line("lab --no-such").unwrap_err().contains("`--no-such`"));
    }

    #[test]
    fn the_other_commands_take_no_arguments() {
        assert_eq!(parse_line("package"), Ok(Command::Package));
        assert_eq!(parse_line("bench"), Ok(Command::Bench));
        assert_eq!(parse_line("test"), Ok(Command::Test));
        assert_eq!(parse_line("setup"), Ok(Command::Setup));
        assert_eq!(parse_line("--help"), Ok(Command::Help));
        assert!(parse_line("test --fast").unwrap_err().contains("`--fast`"));
    }

    #[test]
    fn unknown_and_missing_commands_are_errors() {
        assert!(parse_line("tset").unwrap_err().contains("`tset`"));
        assert!(parse_line("").is_err());
    }

    #[test]
    fn the_usage_names_every_command() {
        for name in ["lab", "package", "bench", "test", "setup", "help"] {
            assert!(USAGE.lines().any(|line| line.trim_start().starts_with(name)), "{name} is missing");
        }
    }
}
