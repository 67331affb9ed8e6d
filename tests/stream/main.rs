//! Checkpoints that are read from a web server: what a good server gives, and every way a bad one can fail.

mod commands;
mod faults;
mod released;
mod server;

use flash890::weights::Files;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The files of a golden checkpoint, without what others computed from it.
fn files(name: &str) -> Files {
    let mut files = Files::new();
    for entry in std::fs::read_dir(golden(name)).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_string();
        if !file.starts_with("golden") && (file.ends_with(".json") || file.ends_with(".safetensors")) {
            files.insert(file, std::fs::read(path).unwrap().into());
        }
    }
    files
}
