//! `checksums.json`: SHA-256 of a checkpoint's files, as `{"<file>": "<64 hexadecimal digits>", ...}`. Optional; where it is, it can be checked.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::folder::Folder;
use super::index::is_plain_name;
use super::source::ByteSource;
use crate::{Error, Result};

/// Name of the file.
pub const CHECKSUMS_FILE: &str = "checksums.json";
/// Largest such file that is read; a line per shard is a few kilobytes.
const MAX_CHECKSUMS: u64 = 4 << 20;
/// Bytes hashed at a time: enough for all requests that may run at once.
const STEP: u64 = 48 << 20;

/// File names and their SHA-256.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checksums(BTreeMap<String, [u8; 32]>);

/// Called with the file that is read, bytes of it that are done, and its length.
pub type Watch<'a> = &'a mut dyn FnMut(&str, u64, u64);

impl Checksums {
    /// The checksums of a checkpoint, or `None` if it has none.
    ///
    /// # Errors
    /// As [`Folder::small`] and [`Checksums::parse`].
    pub async fn of_folder(folder: &Folder) -> Result<Option<Checksums>> {
        let document = folder.small(CHECKSUMS_FILE, MAX_CHECKSUMS).await?;
        document.map(|document| Checksums::parse(&document)).transpose()
    }

    /// Checksums of files in memory.
    pub fn of_files(files: &super::Files) -> Checksums {
        Checksums(files.iter().map(|(name, bytes)| (name.clone(), Sha256::digest(bytes).into())).collect())
    }

    /// Parses the document.
    ///
    /// # Errors
    /// [`Error::Json`] if it is no object of strings, [`Error::Integrity`] if a name leads out of the folder or a hash is none.
    pub fn parse(document: &[u8]) -> Result<Checksums> {
        let raw: BTreeMap<String, String> = serde_json::from_slice(document).map_err(|error| Error::Json {
            file: CHECKSUMS_FILE.into(),
            what: "checksums",
            problem: error.to_string(),
        })?;
        let mut checksums = BTreeMap::new();
        for (name, digits) in raw {
            let wrong = |problem: &str| Error::Integrity(format!("{CHECKSUMS_FILE}: {name:?}: {problem}"));
            if !is_plain_name(&name) {
                return Err(wrong("needed a plain file name"));
            }
            let hash = from_hex(&digits).ok_or_else(|| wrong("needed 64 hexadecimal digits"))?;
            checksums.insert(name, hash);
        }
        Ok(Checksums(checksums))
    }

    /// The document.
    pub fn to_json(&self) -> String {
        let map: BTreeMap<&str, String> = self.0.iter().map(|(name, hash)| (name.as_str(), hex(hash))).collect();
        format!("{:#}\n", serde_json::json!(map))
    }

    /// The checksum of a file.
    pub fn of(&self, name: &str) -> Option<[u8; 32]> {
        self.0.get(name).copied()
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no file is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads every listed file and compares. What is kept on disk of a file that differs is dropped, so that the next run fetches it again.
    /// Returns the bytes that were read.
    ///
    /// # Errors
    /// [`Error::Integrity`] naming the files that are missing or differ, after all have been read; what reading says, at once.
    pub async fn verify(&self, folder: &Folder, watch: Watch<'_>) -> Result<u64> {
        let (mut bytes, mut wrong) = (0, Vec::new());
        for (name, needed) in &self.0 {
            let Some(source) = folder.open(name).await? else {
                wrong.push(format!("{name} is not there"));
                continue;
            };
            let found = hash_of(&source, name, watch).await?;
            bytes += source.len();
            if found != *needed {
                source.discard_kept();
                wrong.push(format!("{name} has SHA-256 {}, needed {}", hex(&found), hex(needed)));
            }
        }
        if wrong.is_empty() { Ok(bytes) } else { Err(Error::Integrity(wrong.join("; "))) }
    }
}

async fn hash_of(source: &ByteSource, name: &str, watch: Watch<'_>) -> Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut done = 0;
    watch(name, done, source.len());
    while done < source.len() {
        let end = (done + STEP).min(source.len());
        hash.update(source.read(done..end).await?);
        done = end;
        watch(name, done, source.len());
    }
    Ok(hash.finalize().into())
}

/// Hexadecimal digits of bytes.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The 32 bytes that 64 hexadecimal digits stand for, if that is what the text is.
pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.as_chunks::<2>().0) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Files;

    fn files() -> Files {
        Files::from([("a.json".into(), b"abc".to_vec().into()), ("b.safetensors".into(), vec![7; 1000].into())])
    }

    #[test]
    fn the_document_is_read_back() {
        let checksums = Checksums::of_files(&files());
        assert_eq!(Checksums::parse(checksums.to_json().as_bytes()).unwrap(), checksums);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(checksums.of("a.json").map(|hash| hex(&hash)).as_deref(), Some(abc));
        for wrong in [r#"{"a": "00"}"#, r#"{"../a": "#, r#"[]"#, r#"{"a": 1}"#] {
            assert!(Checksums::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let outside = format!(r#"{{"../a": "{abc}"}}"#);
        assert!(matches!(Checksums::parse(outside.as_bytes()), Err(Error::Integrity(_))));
    }

    #[test]
    fn every_file_that_differs_is_named() {
        let checksums = Checksums::of_files(&files());
        let verify = |files: Files| pollster::block_on(checksums.verify(&Folder::Memory(files), &mut |_, _, _| {}));
        assert_eq!(verify(files()).unwrap(), 1003);
        let mut damaged = files();
        damaged.remove("a.json");
        damaged.insert("b.safetensors".into(), vec![8; 1000].into());
        let problem = verify(damaged).unwrap_err();
        assert_eq!(problem.exit_code(), 4);
        let text = problem.to_string();
        assert!(text.contains("a.json is not there; b.safetensors has SHA-256"), "{text}");
    }
}
