//! Where bytes come from. Everything above reads ranges through [`ByteSource::read`], so that memory, a file, a file on a server, and one of
//! which some chunks are kept look the same.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::http::HttpFile;
use super::store::{CHUNK, StoredFile};
use crate::{Error, Result};

/// Most bytes of one read. The largest tensor that is read whole is the release's embedding with 1.3 GB; an Engram table of 98 GB is read by
/// rows, and asking for all of it is a mistake that would take the machine down (P-27).
pub const MAX_READ: u64 = 4 << 30;

/// Files in memory, name to content.
pub type Files = BTreeMap<String, Arc<[u8]>>;

/// A named sequence of bytes that is read in pieces. Offsets are 64 bits wide everywhere: one Engram table alone is 98 GB.
#[derive(Debug)]
pub struct ByteSource {
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Memory(Arc<[u8]>),
    #[cfg(not(target_arch = "wasm32"))]
    File {
        file: std::fs::File,
        len: u64,
    },
    Http(Box<HttpFile>),
    Stored(Box<StoredFile>),
}

impl ByteSource {
    /// Bytes in memory under a name for error messages.
    pub fn memory(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        ByteSource { name: name.into(), kind: Kind::Memory(bytes.into()) }
    }

    /// Opens a file for positioned reads.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened or is not a file.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<Self> {
        let name = path.display().to_string();
        let io = |source| Error::Io { path: name.clone(), source };
        let file = std::fs::File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(io(std::io::Error::other("needed a file, found a folder or device")));
        }
        Ok(ByteSource { name, kind: Kind::File { file, len: metadata.len() } })
    }

    /// A file of a server.
    pub(crate) fn http(file: HttpFile) -> Self {
        ByteSource { name: file.url().to_string(), kind: Kind::Http(Box::new(file)) }
    }

    /// A file of a server with kept chunks.
    pub(crate) fn stored(file: StoredFile) -> Self {
        ByteSource { name: file.origin().url().to_string(), kind: Kind::Stored(Box::new(file)) }
    }

    /// Name for error messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match &self.kind {
            Kind::Memory(bytes) => bytes.len() as u64,
            #[cfg(not(target_arch = "wasm32"))]
            Kind::File { len, .. } => *len,
            Kind::Http(file) => file.len(),
            Kind::Stored(file) => file.origin().len(),
        }
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a read costs a request to a server, so that several neighbours are better read at once.
    pub fn is_remote(&self) -> bool {
        self.grain().is_some()
    }

    /// Remote sources: what reads should begin and end at multiples of, lest something be fetched twice.
    pub(super) fn grain(&self) -> Option<u64> {
        match &self.kind {
            Kind::Memory(_) => None,
            #[cfg(not(target_arch = "wasm32"))]
            Kind::File { .. } => None,
            Kind::Http(_) => Some(1),
            Kind::Stored(_) => Some(CHUNK),
        }
    }

    /// Drops what opening a remote file brought along; its header has been read.
    pub(super) fn forget_beginning(&self) {
        match &self.kind {
            Kind::Http(file) => file.forget(),
            Kind::Stored(file) => file.origin().forget(),
            _ => {}
        }
    }

    /// Drops what is kept of this file: it is not what its checksum says, or is not wanted. Returns the bytes that it was.
    pub(super) fn discard_kept(&self) -> u64 {
        if let Kind::Stored(file) = &self.kind { file.discard() } else { 0 }
    }

    /// Bytes that are kept of this file.
    pub(super) fn kept_bytes(&self) -> u64 {
        if let Kind::Stored(file) = &self.kind { file.kept_bytes() } else { 0 }
    }

    /// [`ByteSource::read`] of bytes that a store should not fetch whole chunks for.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    pub(super) async fn peek(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let Kind::Stored(file) = &self.kind else { return self.read(range).await };
        if range.start > range.end || range.end > self.len() {
            return self.read(range).await;
        }
        let mut bytes = self.buffer(range.end - range.start)?;
        bytes.resize((range.end - range.start) as usize, 0);
        file.peek(range.start, &mut bytes).await?;
        Ok(bytes)
    }

    /// The bytes of `range`, all of them.
    ///
    /// # Errors
    /// [`Error::Http`] for what a server does wrong; [`Error::Io`] naming file and offset if the range passes the end or fewer bytes come than the file promised;
    /// [`Error::DoesNotFit`] if they are more than [`MAX_READ`] or the memory for them is not there.
    pub async fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.start > range.end || range.end > self.len() {
            return Err(
                self.short(range.start, &format!("needed bytes up to {}, the file has {}", range.end, self.len()))
            );
        }
        let mut bytes = self.buffer(range.end - range.start)?;
        match &self.kind {
            // Both ends were compared with the length, which is a usize.
            Kind::Memory(all) => bytes.extend_from_slice(&all[range.start as usize..range.end as usize]),
            #[cfg(not(target_arch = "wasm32"))]
            Kind::File { file, .. } => {
                bytes.resize((range.end - range.start) as usize, 0);
                self.fill(file, range.start, &mut bytes)?;
            }
            Kind::Http(file) => {
                bytes.resize((range.end - range.start) as usize, 0);
                file.fill(range.start, &mut bytes).await?;
            }
            Kind::Stored(file) => {
                bytes.resize((range.end - range.start) as usize, 0);
                file.fill(range.start, &mut bytes).await?;
            }
        }
        Ok(bytes)
    }

    /// An empty buffer with room for `len` bytes; a size from a file must not abort the process.
    fn buffer(&self, len: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let refuse = |available: String| Error::DoesNotFit {
            what: format!("one read from {}", self.name),
            needed: format!("{len} bytes"),
            available,
        };
        if len > MAX_READ {
            return Err(refuse(format!("{MAX_READ} bytes at once")));
        }
        match usize::try_from(len).map(|len| bytes.try_reserve_exact(len)) {
            Ok(Ok(())) => Ok(bytes),
            _ => Err(refuse("less memory than that".into())),
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn fill(&self, file: &std::fs::File, start: u64, bytes: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let offset = start + done as u64;
            match read_at(file, &mut bytes[done..], offset) {
                Ok(0) => return Err(self.short(offset, &format!("needed {} more, found the end", bytes.len() - done))),
                Ok(n) => done += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.short(offset, &error.to_string())),
            }
        }
        Ok(())
    }

    fn short(&self, offset: u64, problem: &str) -> Error {
        let source = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, format!("at byte {offset}: {problem}"));
        Error::Io { path: self.name.clone(), source }
    }
}

#[cfg(unix)]
fn read_at(file: &std::fs::File, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &std::fs::File, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

/// Fills `bytes` from `start` on, or fails.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn read_exact_at(file: &std::fs::File, bytes: &mut [u8], start: u64) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match read_at(file, &mut bytes[done..], start + done as u64) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes` from `start` on.
#[cfg(unix)]
pub(super) fn write_all_at(file: &std::fs::File, bytes: &[u8], start: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, start)
}

/// Writes all of `bytes` from `start` on.
#[cfg(windows)]
pub(super) fn write_all_at(file: &std::fs::File, bytes: &[u8], start: u64) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match std::os::windows::fs::FileExt::seek_write(file, &bytes[done..], start + done as u64)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(())
}
