//! One file of a server, of which some chunks are kept.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Store;
use super::journal::{self, CHUNK, Hash, LINE};
use super::platform::Disk;
use crate::Result;
use crate::weights::http::{HttpFile, IN_FLIGHT, PIECE, join};

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
pub(super) struct Kept {
    data: Disk,
    /// Locked: one process writes.
    journal: Disk,
    /// Bytes of the journal: whole lines.
    end: u64,
    chunks: Vec<Chunk>,
    len: u64,
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
    /// Without anything kept, everything comes from the server.
    pub(super) fn new(origin: HttpFile, store: Arc<Store>, kept: Option<Kept>) -> StoredFile {
        StoredFile { origin, store, kept: Mutex::new(kept) }
    }

    /// The file on the server.
    pub fn origin(&self) -> &HttpFile {
        &self.origin
    }

    /// Forgets everything that is kept of this file, for example because its checksum is not as it should be. Returns the bytes that it was.
    pub(crate) fn discard(&self) -> u64 {
        let mut bytes = 0;
        if let Some(kept) = &mut *self.lock() {
            bytes = kept.bytes();
            kept.chunks.fill(Chunk::Absent);
            kept.end = 0;
            // If that fails, the hashes still say what the chunks are worth.
            let _ = kept.journal.set_len(0).and_then(|()| kept.data.set_len(0));
            self.store.release(bytes);
        }
        bytes
    }

    /// Bytes that are kept, as far as the journal is right.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.lock().as_ref().map_or(0, Kept::bytes)
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

    /// [`StoredFile::fill`] that fetches no more than is asked for and keeps nothing: for headers, which are read before anybody has agreed to
    /// fetch whole chunks.
    ///
    /// # Errors
    /// As [`StoredFile::fill`].
    pub(crate) async fn peek(&self, start: u64, out: &mut [u8]) -> Result<()> {
        if self.fill_from_disk(start, out).is_empty() {
            return Ok(());
        }
        self.origin.fill(start, out).await
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
                self.store.found.fetch_add(part.len() as u64, Relaxed);
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
                Err(problem) => self.store.refused(bytes.len() as u64, problem),
            },
        };
        *kept = None;
        drop(kept);
        self.store.notify(problem);
    }
}

impl Kept {
    /// Takes over what the files of a copy of `len` bytes hold.
    pub(super) fn new(data: Disk, journal: Disk, len: u64) -> std::result::Result<Kept, String> {
        let mut lines = vec![0; journal.len()? as usize];
        journal.read_exact_at(&mut lines, 0)?;
        let chunks = journal::read(&lines, len);
        // A line that was torn would shift all that follow it.
        let end = (lines.len() - lines.len() % LINE) as u64;
        journal.set_len(end)?;
        let chunk = |hash: Option<Hash>| hash.map_or(Chunk::Absent, Chunk::Noted);
        Ok(Kept { data, journal, end, chunks: chunks.into_iter().map(chunk).collect(), len })
    }

    fn bytes(&self) -> u64 {
        let here = self.chunks.iter().enumerate().filter(|(_, chunk)| !matches!(chunk, Chunk::Absent));
        here.map(|(number, _)| journal::chunk_len(number as u64, self.len)).sum()
    }

    /// Copies the bytes of chunk `number` from `start` on; `false` if the chunk is not there or is damaged.
    fn load(&mut self, number: u64, chunk: &Range<u64>, start: u64, out: &mut [u8]) -> bool {
        let state = self.chunks[number as usize];
        let loaded = match state {
            Chunk::Absent => false,
            Chunk::Good => self.data.read_exact_at(out, start).is_ok(),
            Chunk::Noted(hash) => {
                let mut whole = vec![0; (chunk.end - chunk.start) as usize];
                let good = self.data.read_exact_at(&mut whole, chunk.start).is_ok() && journal::hash(&whole) == hash;
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

    fn write(&mut self, start: u64, bytes: &[u8]) -> std::result::Result<(), String> {
        self.data.write_all_at(bytes, start)?;
        let first = start / CHUNK;
        let numbered = || (first..).zip(bytes.chunks(CHUNK as usize));
        let lines: String = numbered().map(|(number, chunk)| journal::line(number, chunk)).collect();
        self.journal.write_all_at(lines.as_bytes(), self.end)?;
        self.end += lines.len() as u64;
        numbered().for_each(|(number, _)| self.chunks[number as usize] = Chunk::Good);
        Ok(())
    }
}
