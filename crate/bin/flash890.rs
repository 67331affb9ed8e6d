//! The native command line; everything is in the library's `cli`.

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    flash890::cli::main()
}

#[cfg(target_arch = "wasm32")]
fn main() {}
