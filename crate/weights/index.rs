//! `model.safetensors.index.json`: which shard holds which tensor.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::{Error, Result};

/// Name of the index file.
pub const INDEX_FILE: &str = "model.safetensors.index.json";
/// Name of the one file of a checkpoint without an index.
pub const SINGLE_FILE: &str = "model.safetensors";
/// Longest file name that file systems take.
const MAX_NAME: usize = 255;

/// The parsed index. A tensor's shard is a number, so that 96,085 entries do not repeat its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex {
    /// Shard file names in order of first mention.
    pub shards: Vec<String>,
    /// Tensor name and shard number, in file order.
    pub tensors: Vec<(String, usize)>,
    /// Bytes of all tensors together, where the file says so.
    pub total_size: Option<u64>,
}

#[derive(Deserialize)]
struct RawIndex {
    #[serde(default)]
    metadata: RawMetadata,
    weight_map: WeightMap,
}

#[derive(Deserialize, Default)]
struct RawMetadata {
    total_size: Option<u64>,
}

impl ShardIndex {
    /// Parses an index and refuses names that could lead out of the folder.
    ///
    /// # Errors
    /// [`Error::Json`] if it is no such document, [`Error::Index`] if a file name is not a plain name ending in `.safetensors`, a tensor is
    /// listed twice, or nothing is listed. `file` is the name for these messages.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<ShardIndex> {
        let raw: RawIndex = serde_json::from_slice(bytes).map_err(|error| Error::Json {
            file: file.into(),
            what: "a safetensors index",
            problem: error.to_string(),
        })?;
        let wrong = |problem| Error::Index { file: file.into(), problem };
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut shards = Vec::new();
        let mut tensors = Vec::with_capacity(raw.weight_map.0.len());
        for (tensor, shard) in raw.weight_map.0 {
            let number = match numbers.get(&shard) {
                Some(&number) => number,
                None => {
                    check_name(&shard)
                        .map_err(|problem| wrong(format!("tensor {tensor}: file name {shard:?} {problem}")))?;
                    numbers.insert(shard.clone(), shards.len());
                    shards.push(shard);
                    shards.len() - 1
                }
            };
            tensors.push((tensor, number));
        }
        let mut seen = std::collections::HashSet::with_capacity(tensors.len());
        if let Some((tensor, _)) = tensors.iter().find(|(tensor, _)| !seen.insert(tensor.as_str())) {
            return Err(wrong(format!("tensor {tensor} is listed twice")));
        }
        if tensors.is_empty() {
            return Err(wrong("weight_map lists no tensor".into()));
        }
        Ok(ShardIndex { shards, tensors, total_size: raw.metadata.total_size })
    }
}

/// Whether a name is one of a file in the checkpoint's own folder.
pub(super) fn is_plain_name(name: &str) -> bool {
    let outside = name.contains(['/', '\\', ':']) || name.contains(char::is_control) || name.starts_with('.');
    !outside && !name.is_empty() && name.len() <= MAX_NAME
}

/// A shard is a file in the checkpoint's own folder: no path, no URL, nothing hidden.
fn check_name(name: &str) -> Result<(), String> {
    let refuse = |problem: &str| Err(problem.to_string());
    if name.len() > MAX_NAME {
        return refuse("is too long");
    }
    if name.contains(['/', '\\', ':']) || name.contains(char::is_control) {
        return refuse("must be a plain name without path, drive or scheme");
    }
    if name.starts_with('.') {
        return refuse("must not begin with a dot");
    }
    if !name.ends_with(".safetensors") {
        return refuse("must end in .safetensors");
    }
    Ok(())
}

/// Entries in file order, duplicates included.
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of tensor and file names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(WeightMap(entries))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<ShardIndex> {
        ShardIndex::parse("index", text.as_bytes())
    }

    #[test]
    fn shards_are_numbered_in_order_of_mention() {
        let index = parse(
            r#"{"metadata": {"total_size": 12, "other": [1]}, "weight_map":
            {"b": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"}}"#,
        )
        .unwrap();
        assert_eq!(index.shards, ["model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"]);
        assert_eq!(index.tensors, [("b".into(), 0), ("a".into(), 1), ("c".into(), 0)]);
        assert_eq!(index.total_size, Some(12));
        assert_eq!(parse(r#"{"weight_map": {"a": "x.safetensors"}}"#).unwrap().total_size, None);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = format!("{}.safetensors", "x".repeat(300));
        for name in [
            "/etc/x.safetensors",
            "../x.safetensors",
            "..",
            "a/../x.safetensors",
            r"a\\x.safetensors",
            "https://h/x.safetensors",
            "C:x.safetensors",
            ".x.safetensors",
            "",
            "x.bin",
            r"a\u0000.safetensors",
            "sub/x.safetensors",
            &long,
        ] {
            let text = format!(r#"{{"weight_map": {{"t": "{name}"}}}}"#);
            assert!(matches!(parse(&text), Err(Error::Index { .. })), "{name}");
        }
    }

    #[test]
    fn damaged_documents_are_refused() {
        for text in ["", "[]", "{}", r#"{"weight_map": []}"#, r#"{"weight_map": {"a": 1}}"#, r#"{"weight_map": {"a": "#]
        {
            assert!(matches!(parse(text), Err(Error::Json { .. })), "{text}");
        }
        let total = r#"{"metadata": {"total_size": -1}, "weight_map": {"a": "x.safetensors"}}"#;
        assert!(matches!(parse(total), Err(Error::Json { .. })));
        for text in [r#"{"weight_map": {}}"#, r#"{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}"#] {
            assert!(matches!(parse(text), Err(Error::Index { .. })), "{text}");
        }
    }

    proptest! {
        #[test]
        fn mutated_indexes_never_panic(at in 0usize..200, byte in any::<u8>(), cut in 0usize..200) {
            let text = r#"{"metadata": {"total_size": 12}, "weight_map": {"b": "model-2.safetensors", "a": "model-1.safetensors"}}"#;
            let mut bytes = text.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(cut.max(10));
            if let Ok(index) = ShardIndex::parse("index", &bytes) {
                prop_assert!(index.shards.iter().all(|name| check_name(name).is_ok()));
            }
        }

        #[test]
        fn random_bytes_are_no_index(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(ShardIndex::parse("index", &bytes).is_err());
        }
    }
}
