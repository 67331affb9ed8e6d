//! The store in a folder of the file system.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::{About, Listener, Store, is_key, key, noted_bytes};
use crate::weights::source::{read_exact_at, write_all_at};
use crate::{Error, Result};

/// Free disk space that is left to others.
const RESERVE: u64 = 1 << 30;

/// Where everything lies.
pub(super) type Root = PathBuf;

/// An open file.
#[derive(Debug)]
pub(super) struct Disk(File);

impl Disk {
    pub(super) fn len(&self) -> std::result::Result<u64, String> {
        self.0.metadata().map(|metadata| metadata.len()).map_err(|error| error.to_string())
    }

    pub(super) fn set_len(&self, len: u64) -> std::result::Result<(), String> {
        self.0.set_len(len).map_err(|error| error.to_string())
    }

    pub(super) fn read_exact_at(&self, bytes: &mut [u8], start: u64) -> std::result::Result<(), String> {
        read_exact_at(&self.0, bytes, start).map_err(|error| error.to_string())
    }

    pub(super) fn write_all_at(&self, bytes: &[u8], start: u64) -> std::result::Result<(), String> {
        write_all_at(&self.0, bytes, start).map_err(|error| error.to_string())
    }
}

/// Bytes that the disk still takes. One that does not tell has to show it by refusing.
pub(super) fn free(root: &Root) -> u64 {
    fs4::available_space(root).unwrap_or(u64::MAX).saturating_sub(RESERVE)
}

/// Whether that is what a full disk says: one that does not tell how full it is.
pub(super) fn is_full(problem: &str) -> bool {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull).to_string();
    problem.contains(&full) || problem.contains("No space left")
}

/// Folder of a copy, for messages.
pub(super) fn describe(root: &Root, about: &About) -> String {
    folder(root, about).display().to_string()
}

fn folder(root: &Root, about: &About) -> PathBuf {
    let [model, file] = about.keys();
    root.join(model).join(file)
}

/// Opens data and journal of a copy, emptied if they are of something else; what is kept of other revisions is removed. `None` if another
/// process has it.
pub(super) async fn open(root: &Root, about: &About) -> std::result::Result<Option<[Disk; 2]>, String> {
    let folder = folder(root, about);
    for old in folders(&root.join(key(&about.model))).unwrap_or_default() {
        if old != folder && read_about(&old).is_some_and(|old| old.file == about.file) {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(&old);
        }
    }
    open_files(&folder, about).map_err(|error| error.to_string())
}

fn open_files(folder: &Path, about: &About) -> std::io::Result<Option<[Disk; 2]>> {
    std::fs::create_dir_all(folder)?;
    let open =
        |name: &str| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(name));
    let (journal, data) = (open("journal")?, open("data")?);
    match journal.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    if read_about(folder).as_ref() != Some(about) {
        journal.set_len(0)?;
        write_about(folder, about)?;
    }
    Ok(Some([Disk(data), Disk(journal)]))
}

fn read_about(folder: &Path) -> Option<About> {
    serde_json::from_slice(&std::fs::read(folder.join("about.json")).ok()?).ok()
}

/// By way of another name, so that there is never half a document.
fn write_about(folder: &Path, about: &About) -> std::io::Result<()> {
    let (new, old) = (folder.join("about.new"), folder.join("about.json"));
    std::fs::write(&new, serde_json::to_string_pretty(about)?)?;
    std::fs::rename(new, old)
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
        Ok(Arc::new(Store { root, limit, used: AtomicU64::new(used), found: Arc::default(), listener }))
    }
}

/// Everything that is kept below `root`, by model and file. A folder that is not there holds nothing.
///
/// # Errors
/// [`Error::Io`] if it cannot be read.
pub fn list(root: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for folder in folders(root)?.iter().map(|model| folders(model)).collect::<Result<Vec<_>>>()?.concat() {
        let Some(about) = read_about(&folder) else { continue };
        let journal = std::fs::read(folder.join("journal")).unwrap_or_default();
        let bytes = noted_bytes(&journal, about.len);
        entries.push(Entry { bytes, about, folder });
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
        if name.to_str().is_some_and(is_key) && entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}
