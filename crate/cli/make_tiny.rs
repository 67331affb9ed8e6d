//! `flash890 make-tiny`: a small checkpoint on disk.

use super::console::{Console, size};
use crate::config::Config;
use crate::weights::checksums::{CHECKSUMS_FILE, Checksums};
use crate::weights::tiny::{TinySpec, write_dir};
use crate::{Error, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// Options of `make-tiny`.
#[derive(Debug, Args)]
pub(super) struct MakeTinyArgs {
    /// Folder to write into; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Which small model: `lab`, the one that runs without --model.
    #[arg(long, default_value = "lab")]
    preset: String,
    /// A config.json in place of the preset's. The vocabulary stays the preset's.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of safetensors files [default: the preset's].
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Write into a folder that already holds files.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: MakeTinyArgs, console: &Console) -> Result<bool> {
    let mut spec = match args.preset.as_str() {
        "lab" => TinySpec::lab(),
        other => return Err(Error::Usage(format!("no preset {other}; there is: lab"))),
    };
    if !args.force && holds_files(&args.out)? {
        let out = args.out.display();
        return Err(Error::Usage(format!("{out} is not empty; --force writes into it all the same")));
    }
    if let Some(path) = &args.config {
        let document = std::fs::read(path).map_err(|source| io(path, source))?;
        spec.config = Config::from_json(&document)?;
    }
    if let Some(shards) = args.shards {
        spec.shards = shards;
    }
    let mut files = spec.files()?;
    let checksums = Checksums::of_files(&files).to_json();
    files.insert(CHECKSUMS_FILE.into(), checksums.into_bytes().into());
    write_dir(&files, &args.out)?;
    let bytes = files.values().map(|bytes| bytes.len() as u64).sum();
    let (out, count, bytes) = (args.out.display(), files.len(), size(bytes));
    console.notice(
        format!("đã ghi {count} tệp, {bytes}, vào {out}; trọng số là ngẫu nhiên"),
        format!("wrote {count} files, {bytes}, to {out}; the weights are random"),
    );
    Ok(true)
}

fn holds_files(folder: &Path) -> Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io(folder, source)),
    }
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), source }
}
