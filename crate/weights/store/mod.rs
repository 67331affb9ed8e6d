//! What was read from servers and is kept in a folder, so that the next run need not ask again.
//!
//! ```text
//! <root>/<model>/<file>/about.json      address, file, ETag, length, checksum: what this is a copy of
//!                       data            the chunks, in their places; the rest is a hole
//!                       journal         which chunks are there, with hashes
//! ```
//!
//! Names of folders are hashes of what they hold, so that a new revision never meets the chunks of an old one. The old one is removed.
//! Nothing here can stop a run: when a disk is full or broken, the run goes on without it and the store says so ([`Notice`]).

mod file;
mod journal;

pub use file::StoredFile;
pub use journal::CHUNK;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use super::checksums::hex;
use super::http::HttpFile;
use crate::{Error, Result};

/// Free disk space that is left to others.
const RESERVE: u64 = 1 << 30;
/// Hexadecimal digits of a folder's name: 64 bits tell all files of all models apart.
const KEY_DIGITS: usize = 16;

/// Why something is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The limit of the store or of the disk is reached.
    Full {
        /// Bytes that were to be kept.
        needed: u64,
        /// Bytes that may still be kept.
        available: u64,
    },
    /// Another process keeps this file.
    InUse {
        /// The file's folder.
        folder: String,
    },
    /// The disk cannot be read or written.
    Broken {
        /// What the operating system said.
        problem: String,
    },
}

/// Who is told about a [`Notice`].
pub type Listener = Box<dyn Fn(&Notice) + Send + Sync>;

/// A folder of kept files.
pub struct Store {
    root: PathBuf,
    limit: u64,
    used: AtomicU64,
    listener: Listener,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("root", &self.root).field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// What one kept file is a copy of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Address of the checkpoint.
    pub model: String,
    /// Name of the file.
    pub file: String,
    /// ETag or date of the file.
    pub tag: String,
    /// Its length in bytes.
    pub len: u64,
    /// Its SHA-256 where the checkpoint has checksums.
    pub sha256: Option<String>,
}

impl About {
    fn read(folder: &Path) -> Option<About> {
        serde_json::from_slice(&std::fs::read(folder.join("about.json")).ok()?).ok()
    }

    /// By way of another name, so that there is never half a document.
    fn write(&self, folder: &Path) -> std::io::Result<()> {
        let (new, old) = (folder.join("about.new"), folder.join("about.json"));
        std::fs::write(&new, serde_json::to_string_pretty(self)?)?;
        std::fs::rename(new, old)
    }

    fn folder(&self, root: &Path) -> PathBuf {
        let what = format!("{}\n{}\n{}\n{}", self.file, self.tag, self.len, self.sha256.as_deref().unwrap_or_default());
        root.join(key(&self.model)).join(key(&what))
    }
}

fn key(text: &str) -> String {
    hex(&journal::hash(text.as_bytes()))[..KEY_DIGITS].to_string()
}

/// One kept file of [`list()`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is a copy of.
    pub about: About,
    /// Bytes of it that the journal speaks of.
    pub bytes: u64,
    /// Its folder.
    pub folder: PathBuf,
}

impl Store {
    /// Opens a store of at most `limit` bytes in a folder, which is made if it is not there. `listener` hears why something is not kept.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be made or read.
    pub fn open(root: impl Into<PathBuf>, limit: u64, listener: Listener) -> Result<Arc<Store>> {
        let root = root.into();
        std::fs::create_dir_all(&root).map_err(|source| Error::Io { path: root.display().to_string(), source })?;
        let used = list(&root)?.iter().map(|entry| entry.bytes).sum();
        Ok(Arc::new(Store { root, limit, used: AtomicU64::new(used), listener }))
    }

    /// Bytes that may still be kept: what the limit and the disk leave.
    pub fn available(&self) -> u64 {
        let allowed = self.limit.saturating_sub(self.used.load(Relaxed));
        // A disk that does not tell has to show it by refusing.
        let free = fs4::available_space(&self.root).unwrap_or(u64::MAX);
        allowed.min(free.saturating_sub(RESERVE))
    }

    /// A file of a server with what is kept of it; what is kept of its other revisions is removed.
    pub(crate) fn file(
        self: &Arc<Self>,
        origin: HttpFile,
        model: &str,
        name: &str,
        sha256: Option<String>,
    ) -> StoredFile {
        let (tag, len) = (origin.identity().tag().to_string(), origin.len());
        let about = About { model: model.into(), file: name.into(), tag, len, sha256 };
        let folder = about.folder(&self.root);
        for old in folders(&self.root.join(key(model))).unwrap_or_default() {
            if old != folder && About::read(&old).is_some_and(|old| old.file == about.file) {
                // What cannot be removed is in nobody's way.
                let _ = std::fs::remove_dir_all(&old);
            }
        }
        StoredFile::new(origin, Arc::clone(self), &folder, &about)
    }

    /// Counts bytes that are about to be written.
    fn reserve(&self, bytes: u64) -> std::result::Result<(), Notice> {
        let available = self.available();
        if bytes > available {
            return Err(Notice::Full { needed: bytes, available });
        }
        self.used.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn notify(&self, notice: Notice) {
        (self.listener)(&notice);
    }
}

/// Everything that is kept below `root`, by model and file. A folder that is not there holds nothing.
///
/// # Errors
/// [`Error::Io`] if it cannot be read.
pub fn list(root: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for folder in folders(root)?.iter().map(|model| folders(model)).collect::<Result<Vec<_>>>()?.concat() {
        let Some(about) = About::read(&folder) else { continue };
        let journal = std::fs::read(folder.join("journal")).unwrap_or_default();
        let chunks = journal::read(&journal, about.len).into_iter().enumerate();
        let bytes =
            chunks.filter(|(_, hash)| hash.is_some()).map(|(number, _)| journal::chunk_len(number as u64, about.len));
        entries.push(Entry { bytes: bytes.sum(), about, folder });
    }
    entries.sort_by(|a, b| (&a.about.model, &a.about.file).cmp(&(&b.about.model, &b.about.file)));
    Ok(entries)
}

/// Removes everything that is kept of a model, or everything; returns the bytes that were kept.
///
/// # Errors
/// [`Error::Io`] if something cannot be removed.
pub fn clear(root: &Path, model: Option<&str>) -> Result<u64> {
    let mut bytes = 0;
    for entry in list(root)? {
        if model.is_none_or(|model| model.trim_end_matches('/') == entry.about.model) {
            remove(&entry.folder)?;
            bytes += entry.bytes;
        }
    }
    if model.is_none() {
        // Whatever has lost its description, too.
        for folder in folders(root)? {
            remove(&folder)?;
        }
    }
    Ok(bytes)
}

fn remove(folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder).map_err(|source| Error::Io { path: folder.display().to_string(), source })
}

/// Folders whose names are keys; others are not of this store.
fn folders(root: &Path) -> Result<Vec<PathBuf>> {
    let io = |source| Error::Io { path: root.display().to_string(), source };
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        let name = entry.file_name();
        let is_key =
            name.to_str().is_some_and(|name| name.len() == KEY_DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit()));
        if is_key && entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}
