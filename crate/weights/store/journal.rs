//! The journal of one kept file: a line of fixed length per chunk, with its number, length and SHA-256, in the order in which they arrived.
//!
//! A line counts only if it is whole, and a chunk only if its bytes have the hash of its line. So nothing has to be flushed in any order, and
//! whatever a killed process or a lost power leaves behind is either right or fetched again.

use sha2::{Digest, Sha256};

use crate::weights::checksums::{from_hex, hex};

/// Bytes of a chunk; the last one of a file may have fewer.
pub const CHUNK: u64 = 1 << 20;
/// `nnnnnnnn llllllll` and 64 digits of hash, with spaces between and a line end.
pub(super) const LINE: usize = 8 + 1 + 8 + 1 + 64 + 1;

/// SHA-256.
pub(super) type Hash = [u8; 32];

/// SHA-256 of bytes.
pub(crate) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// Number of chunks of a file.
pub(super) fn chunk_count(len: u64) -> u64 {
    len.div_ceil(CHUNK)
}

/// Length of chunk `number` of a file of `len` bytes.
pub(super) fn chunk_len(number: u64, len: u64) -> u64 {
    len.saturating_sub(number * CHUNK).min(CHUNK)
}

/// The line of a chunk.
pub(super) fn line(number: u64, bytes: &[u8]) -> String {
    format!("{number:08x} {:08x} {}\n", bytes.len(), hex(&hash(bytes)))
}

/// Which chunks a journal speaks of, for a file of `len` bytes: the last whole line of a chunk counts, others are passed over.
pub(super) fn read(journal: &[u8], len: u64) -> Vec<Option<Hash>> {
    let mut chunks = vec![None; chunk_count(len) as usize];
    for line in journal.chunks_exact(LINE) {
        if let Some((number, hash)) = parse(line, len)
            && let Some(chunk) = chunks.get_mut(number as usize)
        {
            *chunk = Some(hash);
        }
    }
    chunks
}

fn parse(line: &[u8], len: u64) -> Option<(u64, Hash)> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let mut words = text.split(' ');
    let number = u64::from_str_radix(words.next()?, 16).ok()?;
    let length = u64::from_str_radix(words.next()?, 16).ok()?;
    let hash = from_hex(words.next()?)?;
    (words.next().is_none() && number < chunk_count(len) && length == chunk_len(number, len)).then_some((number, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        let len = 2 * CHUNK + 5;
        let (a, b) = (vec![1; CHUNK as usize], vec![2; 5]);
        let journal = line(0, &a) + &line(2, &b);
        assert_eq!(journal.len(), 2 * LINE);
        assert_eq!(read(journal.as_bytes(), len), [Some(hash(&a)), None, Some(hash(&b))]);
        assert_eq!(hex(&hash(b"abc"))[..16], *"ba7816bf8f01cfea");
        assert_eq!(from_hex(&hex(&hash(&a))), Some(hash(&a)));
    }

    #[test]
    fn torn_and_foreign_lines_do_not_count() {
        let whole = line(0, b"12345");
        for cut in 0..LINE {
            assert_eq!(read(&whole.as_bytes()[..cut], 5), [None], "{cut}");
        }
        for wrong in [line(1, b"12345"), line(0, b"1234"), whole.replace(' ', "x"), whole.replace('\n', " ")] {
            assert_eq!(read(wrong.as_bytes(), 5), [None], "{wrong:?}");
        }
        assert_eq!(read(&[255; LINE], 5), [None]);
        // The later line of a chunk is that of the bytes that were written later.
        let both = line(0, b"54321") + &whole;
        assert_eq!(read(both.as_bytes(), 5), [Some(hash(b"12345"))]);
    }
}
