//! The header of a safetensors file: eight bytes of length, then JSON with type, shape and place of every tensor.
//!
//! Read without touching the data, and stricter than the library: it also wants every name once and every byte of the file in exactly one tensor.
//! Offsets are 64 bits wide on every target (P-27).

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use safetensors::Dtype;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::source::ByteSource;
use crate::{Error, Result};

/// Largest header that is read: a layer shard of the release has about 0.3 MB, one file with all 96,085 tensors about 13 MB.
pub const MAX_HEADER: u64 = 256 << 20;

/// One tensor of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderEntry {
    /// Full tensor name.
    pub name: String,
    /// Stored type.
    pub dtype: Dtype,
    /// Stored shape; for packed FP4 (I8) the last dimension counts bytes.
    pub shape: Vec<usize>,
    /// Bytes in the file, counted from its beginning.
    pub range: Range<u64>,
}

/// Reads and checks the header of one file; tensors come back in the order of their data.
///
/// # Errors
/// [`Error::Header`] naming the file, and the tensor where there is one, for every way a header can be wrong; [`Error::Io`] if it cannot be read.
pub async fn read_header(source: &ByteSource) -> Result<Vec<HeaderEntry>> {
    let damaged = |problem| Error::Header { file: source.name().to_string(), problem };
    if source.len() < 8 {
        return Err(damaged(format!("needed 8 bytes of length, the file has {}", source.len())));
    }
    let mut length = [0; 8];
    length.copy_from_slice(&source.peek(0..8).await?);
    let length = u64::from_le_bytes(length);
    if length == 0 || length > MAX_HEADER {
        return Err(damaged(format!("needed a length of 1 to {MAX_HEADER} bytes, found {length}")));
    }
    if length > source.len() - 8 {
        return Err(damaged(format!("says it has {length} bytes, the file has {} after the length", source.len() - 8)));
    }
    let json = source.peek(8..8 + length).await?;
    parse_header(&json, 8 + length, source.len()).map_err(damaged)
}

/// Checks the JSON of a header against the file: `data_start` is its end, `file_len` the end of the file. The error says what is wrong.
fn parse_header(json: &[u8], data_start: u64, file_len: u64) -> Result<Vec<HeaderEntry>, String> {
    if json.first() != Some(&b'{') {
        return Err("does not begin with {".into());
    }
    let Entries(raw) = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let mut names = HashSet::with_capacity(raw.len());
    if let Some((name, _)) = raw.iter().find(|(name, _)| !names.insert(name.as_str())) {
        return Err(format!("tensor {name} is listed twice"));
    }
    let data_len = file_len - data_start;
    let mut entries = Vec::with_capacity(raw.len());
    for (name, entry) in raw {
        let [start, end] = entry.data_offsets;
        if start > end || end > data_len {
            return Err(format!("tensor {name}: bytes {start} to {end}, the file has {data_len} bytes of data"));
        }
        let needed = byte_len(entry.dtype, &entry.shape).ok_or_else(|| {
            format!("tensor {name}: {} {:?} is no whole number of bytes in 64 bits", entry.dtype, entry.shape)
        })?;
        if needed != end - start {
            return Err(format!(
                "tensor {name}: {} {:?} needs {needed} bytes, found {}",
                entry.dtype,
                entry.shape,
                end - start
            ));
        }
        entries.push(HeaderEntry {
            name,
            dtype: entry.dtype,
            shape: entry.shape,
            range: data_start + start..data_start + end,
        });
    }
    check_coverage(&mut entries, data_start, file_len)?;
    Ok(entries)
}

/// Every byte of data belongs to exactly one tensor. Sorts the entries by place.
fn check_coverage(entries: &mut [HeaderEntry], data_start: u64, file_len: u64) -> Result<(), String> {
    entries.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut end = data_start;
    for entry in entries.iter() {
        if entry.range.start < end {
            return Err(format!("tensor {} overlaps the one before it", entry.name));
        }
        if entry.range.start > end {
            return Err(format!(
                "{} bytes in front of tensor {} belong to no tensor",
                entry.range.start - end,
                entry.name
            ));
        }
        end = entry.range.end;
    }
    if end != file_len {
        return Err(format!("{} bytes at the end belong to no tensor", file_len - end));
    }
    Ok(())
}

/// Bytes of a tensor; `None` if the product passes 64 bits or ends inside a byte.
pub(super) fn byte_len(dtype: Dtype, shape: &[usize]) -> Option<u64> {
    let elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))?;
    let bits = elements.checked_mul(dtype.bitsize() as u64)?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    dtype: Dtype,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// All entries in file order, duplicates included: a map type would silently keep one of them.
struct Entries(Vec<(String, RawEntry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match map.next_value() {
                Ok(entry) => entries.push((name, entry)),
                Err(error) => return Err(A::Error::custom(format!("tensor {name}: {error}"))),
            }
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
