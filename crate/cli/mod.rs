//! Native commands.

pub mod lab;

use clap::Parser;

/// DeepSeek-V4.1-Flash, block by block.
#[derive(Debug, Parser)]
#[command(name = "flash890", version)]
enum Command {
    /// Follow one token through the ten blocks.
    Lab(lab::LabArgs),
}

/// Runs the command line; whether everything went well.
///
/// # Errors
/// What the command says.
pub fn run() -> crate::Result<bool> {
    match Command::parse() {
        Command::Lab(args) => lab::run(args),
    }
}
