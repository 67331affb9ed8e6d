//! The native command line.

fn main() -> std::process::ExitCode {
    flash890::cli::main()
}
