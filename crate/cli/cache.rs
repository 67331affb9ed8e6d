//! `flash890 cache`, and the options about what is kept of checkpoints on servers.

use super::console::{Console, size};
use crate::kernels::canary::cache_folder;
use crate::weights::store::{self, Entry, Notice, Store};
use crate::{Error, Result};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write;
use std::mem::discriminant;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Options of commands that read checkpoints.
#[derive(Debug, Clone, Args)]
pub(super) struct CacheArgs {
    /// Keep what is read from a server in this folder [default: flash890/models in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Keep nothing of what is read from a server.
    #[arg(long, conflicts_with_all = ["cache", "cache_limit"])]
    no_cache: bool,
    /// Most that is kept, in units of 10^9 bytes [default: what the disk has, but for one GB].
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    cache_limit: Option<u64>,
}

/// A size in units of 10^9 bytes.
pub(super) fn gigabytes(text: &str) -> std::result::Result<u64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..1e9).contains(&value) => Ok((value * 1e9) as u64),
        _ => Err("needed a number of gigabytes".into()),
    }
}

impl CacheArgs {
    /// The store, unless it is not wanted or there is no place for one. What cannot be kept is announced, once for every reason.
    ///
    /// # Errors
    /// [`Error::Io`] if a folder that was asked for cannot be used.
    pub(super) fn open(&self, console: &Console) -> Result<Option<Arc<Store>>> {
        if self.no_cache {
            return Ok(None);
        }
        let Some(root) = self.cache.clone().or_else(default_root) else {
            console.notice(
                "không có thư mục để lưu: đọc từ máy chủ mỗi lần",
                "no folder to keep things in: reading from the server",
            );
            return Ok(None);
        };
        match Store::open(root, self.cache_limit.unwrap_or(u64::MAX), listener(console)) {
            Ok(store) => Ok(Some(store)),
            Err(error) if self.cache.is_some() => Err(error),
            Err(error) => {
                announce(&Notice::Broken { problem: error.to_string() }, console);
                Ok(None)
            }
        }
    }
}

fn listener(console: &Console) -> store::Listener {
    let (console, said) = (Console::new(console.lang), Mutex::new(HashSet::new()));
    Box::new(move |notice| {
        if said.lock().unwrap_or_else(PoisonError::into_inner).insert(discriminant(notice)) {
            announce(notice, &console);
        }
    })
}

fn announce(notice: &Notice, console: &Console) {
    let (vi, en) = match notice {
        Notice::Full { available, .. } => {
            let available = size(*available);
            (format!("hết chỗ (còn {available})"), format!("no room left ({available})"))
        }
        Notice::InUse { folder } => {
            (format!("tiến trình khác đang dùng {folder}"), format!("another process uses {folder}"))
        }
        Notice::Broken { problem } => (problem.clone(), problem.clone()),
    };
    console.notice(
        format!("không lưu lại nữa: {vi}; vẫn chạy tiếp, đọc từ máy chủ"),
        format!("keeping no more: {en}; going on uncached"),
    );
}

/// `flash890/models` in the user's cache folder, if the environment tells.
fn default_root() -> Option<PathBuf> {
    let env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    Some(cache_folder(&env)?.join("flash890").join("models"))
}

/// Options of `cache`.
#[derive(Debug, Args)]
pub(super) struct CacheCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show what is kept of which checkpoint (xem những gì đã lưu).
    List {
        /// The folder, if it is not the default one.
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
        /// Print a JSON list.
        #[arg(long)]
        json: bool,
    },
    /// Remove what is kept of a checkpoint, or of all (xoá những gì đã lưu).
    Clear {
        /// Address of the checkpoint; all of them otherwise.
        #[arg(value_name = "URL")]
        model: Option<String>,
        /// The folder, if it is not the default one.
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
    },
}

pub(super) fn run(args: CacheCommand, console: &Console) -> Result<bool> {
    let root = |given: Option<PathBuf>| {
        let none = || Error::Usage("the environment names no cache folder; --cache DIR does".into());
        given.or_else(default_root).ok_or_else(none)
    };
    match args.what {
        What::List { cache, json } => {
            let root = root(cache)?;
            let entries = store::list(&root)?;
            console.print(&if json { format!("{:#}\n", as_json(&entries)) } else { as_text(&entries) })?;
            if !json {
                let (root, bytes) = (root.display(), size(entries.iter().map(|entry| entry.bytes).sum()));
                console.notice(format!("{bytes} trong {root}"), format!("{bytes} in {root}"));
            }
        }
        What::Clear { model, cache } => {
            let bytes = size(store::clear(&root(cache)?, model.as_deref())?);
            console.notice(format!("đã xoá {bytes}"), format!("removed {bytes}"));
        }
    }
    Ok(true)
}

fn as_text(entries: &[Entry]) -> String {
    let mut out = String::new();
    for model in entries.chunk_by(|a, b| a.about.model == b.about.model) {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "{}", model[0].about.model);
        for entry in model {
            let (file, kept, len) = (&entry.about.file, size(entry.bytes), size(entry.about.len));
            let _ = writeln!(out, "  {file:<40} {kept:>10} of {len:>10}");
        }
    }
    out
}

fn as_json(entries: &[Entry]) -> Value {
    let entry = |entry: &Entry| {
        let mut value = serde_json::to_value(&entry.about).unwrap_or_default();
        value["bytes"] = entry.bytes.into();
        value["folder"] = entry.folder.display().to_string().into();
        value
    };
    json!(entries.iter().map(entry).collect::<Vec<_>>())
}
