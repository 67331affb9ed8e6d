//! One file of a server, of which some chunks are kept in a folder.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::journal::{self, CHUNK, Hash, LINE};
use super::{About, Notice, Store};
use crate::Result;
use crate::weights::http::{HttpFile, IN_FLIGHT, PIECE, join};
use crate::weights::source::{read_exact_at, write_all_at};

/// A file of a server behind a store: kept chunks come from the disk, the others from the server, and are kept from then on.
#[derive(Debug)]
pub struct StoredFile {
    origin: HttpFile,
    store: Arc<Store>,
    /// `None` once keeping has failed: then everything comes from the server.
    kept: Mutex<Option<Kept>>,
}

/// What is on the disk.
#[derive(Debug)]
struct Kept {
    data: File,
    /// Locked: one process writes.
    journal: File,
    chunks: Vec<Chunk>,
}

#[derive(Debug, Clone, Copy)]
enum Chunk {
    Absent,
    /// In the journal; whether the bytes have this hash shows when they are read.
    Noted(Hash),
    /// Written or checked by this process.
    Good,
}

impl StoredFile {
    /// A file without anything kept goes on uncached: whoever opens it is told by the store's notice.
    pub(super) fn new(origin: HttpFile, store: Arc<Store>, folder: &Path, about: &About) -> StoredFile {
        let kept = match Kept::open(folder, about) {
            Ok(Some(kept)) => Some(kept),
            Ok(None) => {
                store.notify(Notice::InUse { folder: folder.display().to_string() });
                None
            }
            Err(error) => {
                store.notify(Notice::Broken { problem: format!("{}: {error}", folder.display()) });
                None
            }
        };
        StoredFile { origin, store, kept: Mutex::new(kept) }
    }

    /// The file on the server.
    pub fn origin(&self) -> &HttpFile {
        &self.origin
    }

    /// Forgets everything that is kept of this file, for example because its checksum is not as it should be.
    pub(crate) fn discard(&self) {
        if let Some(kept) = &mut *self.lock() {
            kept.chunks.fill(Chunk::Absent);
            // If that fails, the hashes still say what the chunks are worth.
            let _ = kept.journal.set_len(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills `out` with the bytes from `start` on.
    ///
    /// # Errors
    /// [`Error::Http`](crate::Error::Http) for what has to come from the server. The disk never fails: it is left aside.
    pub(crate) async fn fill(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let missing = self.fill_from_disk(start, out);
        let wanted = start..start + out.len() as u64;
        let out = Mutex::new(out);
        let (out, wanted) = (&out, &wanted);
        let fetches = missing.into_iter().map(|range| async move {
            let bytes = self.origin.piece(range.clone()).await?;
            self.keep(range.start, &bytes);
            let overlap = range.start.max(wanted.start)..range.end.min(wanted.end);
            let from = (overlap.start - range.start) as usize..(overlap.end - range.start) as usize;
            let to = (overlap.start - wanted.start) as usize..(overlap.end - wanted.start) as usize;
            out.lock().unwrap_or_else(PoisonError::into_inner)[to].copy_from_slice(&bytes[from]);
            Ok(())
        });
        join(fetches, IN_FLIGHT).await
    }

    /// Copies what is kept; returns what is not, in runs of whole chunks of at most [`PIECE`] bytes.
    fn fill_from_disk(&self, start: u64, out: &mut [u8]) -> Vec<Range<u64>> {
        let end = start + out.len() as u64;
        let len = self.origin.len();
        let mut kept = self.lock();
        let mut missing: Vec<Range<u64>> = Vec::new();
        for number in start / CHUNK..end.div_ceil(CHUNK) {
            let chunk = number * CHUNK..number * CHUNK + journal::chunk_len(number, len);
            let overlap = chunk.start.max(start)..chunk.end.min(end);
            let part = &mut out[(overlap.start - start) as usize..(overlap.end - start) as usize];
            if kept.as_mut().is_some_and(|kept| kept.load(number, &chunk, overlap.start, part)) {
                continue;
            }
            match missing.last_mut() {
                Some(run) if run.end == chunk.start && chunk.end - run.start <= PIECE => run.end = chunk.end,
                _ => missing.push(chunk),
            }
        }
        missing
    }

    /// Writes whole chunks that came from the server, the first at byte `start`: data first, then the journal.
    fn keep(&self, start: u64, bytes: &[u8]) {
        let mut kept = self.lock();
        let Some(disk) = &mut *kept else { return };
        let problem = match self.store.reserve(bytes.len() as u64) {
            Err(notice) => notice,
            Ok(()) => match disk.write(start, bytes) {
                Ok(()) => return,
                Err(error) => Notice::Broken { problem: error.to_string() },
            },
        };
        *kept = None;
        drop(kept);
        self.store.notify(problem);
    }
}

impl Kept {
    /// `None` if another process has it.
    fn open(folder: &Path, about: &About) -> std::io::Result<Option<Kept>> {
        std::fs::create_dir_all(folder)?;
        let open =
            |name: &str| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(name));
        let (mut journal, data) = (open("journal")?, open("data")?);
        match journal.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        if About::read(folder).as_ref() != Some(about) {
            journal.set_len(0)?;
            about.write(folder)?;
        }
        let lines = std::fs::read(folder.join("journal"))?;
        let chunks = journal::read(&lines, about.len);
        // A line that was torn would shift all that follow it.
        journal.set_len((lines.len() - lines.len() % LINE) as u64)?;
        journal.seek(SeekFrom::End(0))?;
        let chunk = |hash: Option<Hash>| hash.map_or(Chunk::Absent, Chunk::Noted);
        Ok(Some(Kept { data, journal, chunks: chunks.into_iter().map(chunk).collect() }))
    }

    /// Copies the bytes of chunk `number` from `start` on; `false` if the chunk is not there or is damaged.
    fn load(&mut self, number: u64, chunk: &Range<u64>, start: u64, out: &mut [u8]) -> bool {
        let state = self.chunks[number as usize];
        let loaded = match state {
            Chunk::Absent => false,
            Chunk::Good => read_exact_at(&self.data, out, start).is_ok(),
            Chunk::Noted(hash) => {
                let mut whole = vec![0; (chunk.end - chunk.start) as usize];
                let good = read_exact_at(&self.data, &mut whole, chunk.start).is_ok() && journal::hash(&whole) == hash;
                if good {
                    let from = (start - chunk.start) as usize;
                    out.copy_from_slice(&whole[from..from + out.len()]);
                    self.chunks[number as usize] = Chunk::Good;
                }
                good
            }
        };
        if !loaded {
            self.chunks[number as usize] = Chunk::Absent;
        }
        loaded
    }

    fn write(&mut self, start: u64, bytes: &[u8]) -> std::io::Result<()> {
        write_all_at(&self.data, bytes, start)?;
        let first = start / CHUNK;
        let numbered = || (first..).zip(bytes.chunks(CHUNK as usize));
        let lines: String = numbered().map(|(number, chunk)| journal::line(number, chunk)).collect();
        self.journal.write_all(lines.as_bytes())?;
        numbered().for_each(|(number, _)| self.chunks[number as usize] = Chunk::Good);
        Ok(())
    }
}
