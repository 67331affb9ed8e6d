//! A checkpoint's files, found by plain name.

use super::checksums::Checksums;
use super::http::{HttpFolder, Timing};
use super::source::{ByteSource, Files};
use super::store::Store;
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A checkpoint's files, found by plain name.
#[derive(Debug)]
pub enum Folder {
    /// All files in memory.
    Memory(Files),
    /// A folder of the file system.
    #[cfg(not(target_arch = "wasm32"))]
    Dir(std::path::PathBuf),
    /// A folder of a web server.
    Http(Remote),
}

/// A folder of a web server, and what goes with it.
#[derive(Debug)]
pub struct Remote {
    folder: HttpFolder,
    store: Option<(Arc<Store>, Checksums)>,
}

impl Remote {
    /// The folder itself.
    pub fn folder(&self) -> &HttpFolder {
        &self.folder
    }

    async fn open(&self, name: &str) -> Result<Option<ByteSource>> {
        let Some(file) = self.folder.open(name).await? else { return Ok(None) };
        if let Some((store, checksums)) = &self.store {
            let sha256 = checksums.of(name).map(|hash| super::checksums::hex(&hash));
            return Ok(Some(ByteSource::stored(store.file(file, self.folder.base(), name, sha256).await)));
        }
        Ok(Some(ByteSource::http(file)))
    }
}

/// How many bytes of a checkpoint have come, for whoever watches while it is read.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    received: Arc<AtomicU64>,
    found: Arc<AtomicU64>,
}

impl Meter {
    /// Bytes that came from the server.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Bytes that came from the store.
    pub fn found(&self) -> u64 {
        self.found.load(Relaxed)
    }
}

impl Folder {
    /// The folder of a web server at `base`. Nothing is asked for yet.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no address of a folder.
    pub fn http(base: &str, timing: Timing) -> Result<Folder> {
        Ok(Folder::Http(Remote { folder: HttpFolder::new(base, timing)?, store: None }))
    }

    /// [`Folder::http`] with a store that keeps what is read. The checkpoint's checksums, if it has any, are part of its keys.
    ///
    /// # Errors
    /// As [`Folder::http`], and what reading the checksums says.
    pub async fn http_stored(base: &str, timing: Timing, store: Arc<Store>) -> Result<Folder> {
        let mut folder = Folder::http(base, timing)?;
        let checksums = Checksums::of_folder(&folder).await?.unwrap_or_default();
        if let Folder::Http(remote) = &mut folder {
            remote.store = Some((store, checksums));
        }
        Ok(folder)
    }

    /// The file `name`, or `None` if there is none of that name.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Http`] if it is there and cannot be opened.
    pub async fn open(&self, name: &str) -> Result<Option<ByteSource>> {
        match self {
            Folder::Memory(files) => Ok(files.get(name).map(|bytes| ByteSource::memory(name, bytes.clone()))),
            #[cfg(not(target_arch = "wasm32"))]
            Folder::Dir(path) => match ByteSource::open(&path.join(name)) {
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
                opened => opened.map(Some),
            },
            Folder::Http(remote) => remote.open(name).await,
        }
    }

    /// All bytes of a small file, or `None` if there is none of that name.
    ///
    /// # Errors
    /// As [`Folder::open`] and [`ByteSource::read`]; [`Error::Integrity`] if the file has more than `most` bytes.
    pub async fn small(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        if let Folder::Http(remote) = self {
            return remote.folder.small(name, most).await;
        }
        let Some(source) = self.open(name).await? else { return Ok(None) };
        if source.len() > most {
            return Err(Error::Integrity(format!(
                "{}: needed at most {most} bytes, found {}",
                source.name(),
                source.len()
            )));
        }
        source.read(0..source.len()).await.map(Some)
    }

    /// Counts what comes from a server and its store; of other folders it stays at nothing.
    pub fn meter(&self) -> Meter {
        let Folder::Http(remote) = self else { return Meter::default() };
        let found = remote.store.as_ref().map_or_else(Arc::default, |(store, _)| Arc::clone(store.found()));
        Meter { received: Arc::clone(remote.folder.counter()), found }
    }

    /// What a store has of a checkpoint of this folder, if there is one.
    pub(super) fn kept(&self, checkpoint: &super::Checkpoint) -> Option<super::opened::Kept> {
        let Folder::Http(Remote { store: Some((store, _)), .. }) = self else { return None };
        Some(super::opened::Kept { bytes: checkpoint.kept_bytes(), room: store.available() })
    }

    /// Where `name` would be, for error messages.
    pub fn locate(&self, name: &str) -> String {
        match self {
            Folder::Memory(_) => name.to_string(),
            #[cfg(not(target_arch = "wasm32"))]
            Folder::Dir(path) => path.join(name).display().to_string(),
            Folder::Http(remote) => remote.folder.url(name),
        }
    }
}
