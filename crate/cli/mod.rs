//! The native command line.

pub mod bench;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "flash890", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the CPU reference on this machine.
    Bench(bench::BenchArgs),
}

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let Command::Bench(args) = Cli::parse().command;
    match bench::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
