//! Files on a web server, read by ranges.
//!
//! Any static server that answers ranges will do. An answer is believed only if it says exactly what was asked for: status 206,
//! the range, the length of the file and its ETag. What passes by itself (a broken connection, a status 5xx) is tried again with growing
//! pauses; nothing else is. Pieces have at most [`PIECE`] bytes, and at most [`IN_FLIGHT`] requests run at once.

mod answer;
#[cfg(target_arch = "wasm32")]
mod browser;
mod client;
mod join;
#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
use browser as platform;
#[cfg(not(target_arch = "wasm32"))]
use native as platform;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use answer::Identity;
pub(crate) use join::join;
#[cfg(target_arch = "wasm32")]
pub(crate) use platform::pause;

use crate::error::{Error, HttpFault, Result};
use answer::Want;

/// Most bytes of one request.
pub const PIECE: u64 = 8 << 20;
/// Most requests at once.
pub const IN_FLIGHT: usize = 6;
/// Bytes that the first request of a file asks for; with them come its length and identity. The header of a small shard fits.
const BEGINNING: u64 = 16 << 10;

/// How long to wait, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Tries of one request.
    pub tries: u32,
    /// Pause after the first failed try; every further one is twice as long, up to ten seconds.
    pub first_pause: Duration,
    /// How long a server may be silent (natively; a browser has its own limits).
    pub patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { tries: 5, first_pause: Duration::from_millis(250), patience: Duration::from_secs(30) }
    }
}

/// The folder of a web server that a checkpoint lies in.
#[derive(Debug, Clone)]
pub struct HttpFolder {
    base: String,
    client: platform::Client,
    timing: Timing,
}

impl HttpFolder {
    /// Files below `base`, which begins with `http://` or `https://`. Nothing is asked for yet.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no such address, or has a query or a fragment.
    pub fn new(base: &str, timing: Timing) -> Result<HttpFolder> {
        let rest = base.strip_prefix("http://").or_else(|| base.strip_prefix("https://"));
        let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
        if host.is_none_or(str::is_empty) || base.contains(['?', '#']) || base.contains(char::is_whitespace) {
            let problem = "needed the address of a folder, http:// or https://, without ? and #";
            return Err(Error::Usage(format!("{base}: {problem}")));
        }
        let client = platform::Client::new(&timing);
        Ok(HttpFolder { base: base.trim_end_matches('/').into(), client, timing })
    }

    /// Address of the folder, without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Address of the file `name`.
    pub fn url(&self, name: &str) -> String {
        let mut url = format!("{}/", self.base);
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                url.push(byte.into());
            } else {
                url += &format!("%{byte:02X}");
            }
        }
        url
    }

    /// Bytes of bodies received so far, by this folder and its files.
    pub fn received(&self) -> u64 {
        self.counter().load(Relaxed)
    }

    /// What [`HttpFolder::received`] reads, for whoever watches while others read. In a browser it counts bytes as they arrive, natively whole
    /// answers.
    pub(crate) fn counter(&self) -> &Arc<AtomicU64> {
        &self.client.received
    }

    /// The whole of a small file, or `None` if there is none of that name.
    ///
    /// # Errors
    /// [`Error::Http`], among others if it has more than `most` bytes.
    pub async fn small(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let reply = client::ask(&self.client, &self.timing, &self.url(name), &Want::Whole { most }).await?;
        Ok(reply.map(|reply| reply.body))
    }

    /// Opens a file by reading its beginning, or `None` if there is none of that name.
    ///
    /// # Errors
    /// [`Error::Http`].
    pub async fn open(&self, name: &str) -> Result<Option<HttpFile>> {
        let url = self.url(name);
        let want = Want::Beginning(BEGINNING);
        let Some(reply) = client::ask(&self.client, &self.timing, &url, &want).await? else { return Ok(None) };
        let needed = BEGINNING;
        // An admitted beginning has its length from Content-Range.
        let len = reply.len.ok_or(Error::Http {
            url: url.clone(),
            offset: 0,
            fault: HttpFault::Length { needed, found: 0 },
        })?;
        let beginning = Mutex::new(reply.body);
        Ok(Some(HttpFile { url, len, identity: reply.identity, beginning, folder: self.clone() }))
    }
}

/// An opened file of a web server: its length and identity are known and every further answer must agree with them.
#[derive(Debug)]
pub struct HttpFile {
    url: String,
    len: u64,
    identity: Identity,
    /// What the first answer brought; dropped with [`HttpFile::forget`].
    beginning: Mutex<Vec<u8>>,
    folder: HttpFolder,
}

impl HttpFile {
    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What the server knows it by.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Drops the kept beginning; its reader is done.
    pub(crate) fn forget(&self) {
        *self.beginning.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
    }

    /// Fills `out` with the bytes from `start` on, in pieces.
    ///
    /// # Errors
    /// [`Error::Http`] with the first fault that did not pass.
    pub(crate) async fn fill(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let pieces = out.chunks_mut(PIECE as usize).enumerate().map(|(number, out)| {
            let start = start + number as u64 * PIECE;
            async move {
                out.copy_from_slice(&self.piece(start..start + out.len() as u64).await?);
                Ok(())
            }
        });
        join(pieces, IN_FLIGHT).await
    }

    /// One request, or none if the beginning has it. The range lies within the file, is not empty and has at most [`PIECE`] bytes.
    ///
    /// # Errors
    /// As [`HttpFile::fill`].
    pub(crate) async fn piece(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if let Some(kept) = self.kept(&range) {
            return Ok(kept);
        }
        let offset = range.start;
        let want = Want::Part { range, len: self.len, identity: self.identity.clone() };
        let reply = client::ask(&self.folder.client, &self.folder.timing, &self.url, &want).await?;
        let gone = || Error::Http { url: self.url.clone(), offset, fault: HttpFault::Status(404) };
        Ok(reply.ok_or_else(gone)?.body)
    }

    fn kept(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        beginning.get(start..end).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let folder = HttpFolder::new("http://h:8000/a/b/", Timing::default()).unwrap();
        assert_eq!(folder.url("model-1.safetensors"), "http://h:8000/a/b/model-1.safetensors");
        assert_eq!(folder.url("a b%?ü"), "http://h:8000/a/b/a%20b%25%3F%C3%BC");
        for wrong in ["h/a", "ftp://h/a", "http://", "https:///a", "http://h/a?x=1", "http://h/a#b", "http://h/a b"] {
            assert!(matches!(HttpFolder::new(wrong, Timing::default()), Err(Error::Usage(_))), "{wrong}");
        }
    }
}
