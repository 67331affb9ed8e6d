//! What was read from servers and is kept, so that the next run need not ask again: in a folder natively, in the page's own file system (OPFS) in
//! a browser's worker. Journal, chunks and rules are the same.
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
#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(target_arch = "wasm32")]
mod opfs;

pub use file::StoredFile;
pub use journal::CHUNK;
#[cfg(not(target_arch = "wasm32"))]
pub use native::{Entry, clear, list};
#[cfg(target_arch = "wasm32")]
pub use opfs::{clear, stored};

#[cfg(not(target_arch = "wasm32"))]
use native as platform;
#[cfg(target_arch = "wasm32")]
use opfs as platform;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use super::checksums::hex;
use super::http::HttpFile;
use file::Kept;

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
    /// Another process, or another tab, keeps this file.
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
    root: platform::Root,
    limit: u64,
    used: AtomicU64,
    /// Bytes that were read from it.
    found: Arc<AtomicU64>,
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
    /// Names of the folders of a model and of a file of it.
    fn keys(&self) -> [String; 2] {
        let what = format!("{}\n{}\n{}\n{}", self.file, self.tag, self.len, self.sha256.as_deref().unwrap_or_default());
        [key(&self.model), key(&what)]
    }
}

fn key(text: &str) -> String {
    hex(&journal::hash(text.as_bytes()))[..KEY_DIGITS].to_string()
}

/// Whether a folder's name is a key; others are not of this store.
fn is_key(name: &str) -> bool {
    name.len() == KEY_DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Bytes that a journal speaks of.
fn noted_bytes(lines: &[u8], len: u64) -> u64 {
    let chunks = journal::read(lines, len).into_iter().enumerate();
    chunks.filter(|(_, hash)| hash.is_some()).map(|(number, _)| journal::chunk_len(number as u64, len)).sum()
}

impl Store {
    /// Bytes that may still be kept: what the limit and the disk leave.
    pub fn available(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Relaxed)).min(platform::free(&self.root))
    }

    /// Counts the bytes that are read from it.
    pub(crate) fn found(&self) -> &Arc<AtomicU64> {
        &self.found
    }

    /// A file of a server with what is kept of it; what is kept of its other revisions is removed. If there is no way to keep it, it goes on
    /// uncached, and the listener hears why.
    pub(crate) async fn file(
        self: &Arc<Self>,
        origin: HttpFile,
        model: &str,
        name: &str,
        sha256: Option<String>,
    ) -> StoredFile {
        let (tag, len) = (origin.identity().tag().to_string(), origin.len());
        let about = About { model: model.into(), file: name.into(), tag, len, sha256 };
        let opened = platform::open(&self.root, &about).await;
        let kept = match opened.and_then(|files| files.map(|[data, journal]| Kept::new(data, journal, len)).transpose())
        {
            Ok(Some(kept)) => Some(kept),
            Ok(None) => {
                self.notify(Notice::InUse { folder: platform::describe(&self.root, &about) });
                None
            }
            Err(problem) => {
                let folder = platform::describe(&self.root, &about);
                self.notify(self.refused(0, format!("{folder}: {problem}")));
                None
            }
        };
        StoredFile::new(origin, Arc::clone(self), kept)
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

    /// Why the disk would not take `needed` bytes.
    fn refused(&self, needed: u64, problem: String) -> Notice {
        if platform::is_full(&problem) { Notice::Full { needed, available: 0 } } else { Notice::Broken { problem } }
    }

    /// Takes back what was counted for bytes that are gone.
    fn release(&self, bytes: u64) {
        let _ = self.used.fetch_update(Relaxed, Relaxed, |used| Some(used.saturating_sub(bytes)));
    }

    fn notify(&self, notice: Notice) {
        (self.listener)(&notice);
    }
}
