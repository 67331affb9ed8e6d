//! The native command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    match flash890::cli::run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
