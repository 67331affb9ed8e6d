//! The form of tokenizer.json, and the checks that it describes the one kind of tokenizer this crate implements.
//!
//! The file format can describe many tokenizers. Anything that would make another implementation of the format encode
//! a text differently from ours is refused here, with what was needed and what was found.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::split::PATTERNS;
use crate::{Error, Result};

/// Ids must be smaller than this. The released vocabulary has 129,280; the bound keeps a damaged file from asking for
/// gigabytes of empty table.
pub(crate) const MAX_VOCAB: u64 = 1 << 20;

/// tokenizer.json as far as it matters.
#[derive(Deserialize)]
pub(crate) struct File {
    #[serde(default)]
    truncation: Value,
    #[serde(default)]
    padding: Value,
    pub(crate) added_tokens: Option<Vec<AddedToken>>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    pub(crate) model: Model,
}

/// An entry of `added_tokens`.
#[derive(Deserialize)]
pub(crate) struct AddedToken {
    pub(crate) id: u64,
    pub(crate) content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    /// Matched after the normaliser instead of before it. With an empty normaliser all that remains of the difference
    /// is the order: tokens with `false` are looked for first.
    #[serde(default)]
    pub(crate) normalized: bool,
}

/// The `model` object of byte-pair encoding.
#[derive(Deserialize)]
pub(crate) struct Model {
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    pub(crate) vocab: Vocab,
    pub(crate) merges: Vec<Merge>,
}

/// The `vocab` object in file order. A map would silently drop a spelling that is listed twice.
pub(crate) struct Vocab(pub(crate) Vec<(String, u64)>);

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vocab;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of token spellings and ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Vocab(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A merge: older files write both halves as one string with a space between, newer ones as a pair.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Merge {
    Joined(String),
    Pair((String, String)),
}

impl Merge {
    /// Both halves, or `None` if the string form does not hold exactly one space.
    pub(crate) fn halves(&self) -> Option<(&str, &str)> {
        match self {
            Merge::Joined(both) => both.split_once(' ').filter(|(_, right)| !right.contains(' ')),
            Merge::Pair((left, right)) => Some((left, right)),
        }
    }
}

impl File {
    /// Parses and checks everything except the tables themselves.
    pub(crate) fn parse(bytes: &[u8]) -> Result<File> {
        check_model_type(bytes)?;
        let file: File = serde_json::from_slice(bytes).map_err(json_problem)?;
        file.check_pipeline()?;
        file.model.check()?;
        for token in file.added_tokens.iter().flatten() {
            token.check()?;
        }
        Ok(file)
    }

    fn check_pipeline(&self) -> Result<()> {
        let must = |holds: bool, key: &str, needed: &str, found: &Value| {
            if holds { Ok(()) } else { Err(needed_found(key, needed, &shorten(found))) }
        };
        must(self.truncation.is_null(), "truncation", "null", &self.truncation)?;
        must(self.padding.is_null(), "padding", "null", &self.padding)?;
        must(is_empty_normaliser(&self.normalizer), "normalizer", "null or an empty Sequence", &self.normalizer)?;
        check_pre_tokenizer(&self.pre_tokenizer)?;
        must(
            adds_no_tokens(&self.post_processor),
            "post_processor",
            "null, ByteLevel, or a template without special tokens",
            &self.post_processor,
        )?;
        must(self.decoder["type"] == "ByteLevel", "decoder", "ByteLevel", &self.decoder)
    }
}

impl Model {
    fn check(&self) -> Result<()> {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let must = |holds: bool, key: &str, needed: &str, found: String| {
            if holds { Ok(()) } else { Err(needed_found(&format!("model.{key}"), needed, &found)) }
        };
        let dropout = self.dropout.unwrap_or(0.0);
        must(dropout == 0.0, "dropout", "null", dropout.to_string())?;
        must(self.unk_token.is_none(), "unk_token", "null", text(&self.unk_token))?;
        let (prefix, suffix) = (text(&self.continuing_subword_prefix), text(&self.end_of_word_suffix));
        must(prefix.is_empty(), "continuing_subword_prefix", "null", prefix)?;
        must(suffix.is_empty(), "end_of_word_suffix", "null", suffix)?;
        must(!self.fuse_unk, "fuse_unk", "false", "true".into())?;
        must(!self.byte_fallback, "byte_fallback", "false", "true".into())?;
        must(!self.ignore_merges, "ignore_merges", "false", "true".into())
    }
}

impl AddedToken {
    fn check(&self) -> Result<()> {
        if self.content.is_empty() {
            return Err(needed_found(&format!("added token {}", self.id), "a content", "an empty string"));
        }
        for (flag, name) in [(self.single_word, "single_word"), (self.lstrip, "lstrip"), (self.rstrip, "rstrip")] {
            if flag {
                return Err(needed_found(&format!("added token {}: {name}", self.id), "false", "true"));
            }
        }
        Ok(())
    }
}

/// Looks at `model.type` alone, so that a tokenizer of another kind is called that, and not a syntax error in `vocab`.
fn check_model_type(bytes: &[u8]) -> Result<()> {
    #[derive(Deserialize)]
    struct Outline {
        model: Option<ModelOutline>,
    }
    #[derive(Deserialize)]
    struct ModelOutline {
        r#type: Option<String>,
        #[serde(rename = "vocab")]
        _vocab: Option<IgnoredAny>,
    }
    let outline: Outline = serde_json::from_slice(bytes).map_err(json_problem)?;
    let kind = outline.model.and_then(|model| model.r#type);
    if kind.as_deref() != Some("BPE") {
        let found = kind.map_or("nothing".into(), |kind| format!("{kind:?}"));
        return Err(needed_found("model.type", "\"BPE\"", &found));
    }
    Ok(())
}

fn is_empty_normaliser(normaliser: &Value) -> bool {
    let empty_list = normaliser["normalizers"].as_array().is_some_and(Vec::is_empty);
    normaliser.is_null() || (normaliser["type"] == "Sequence" && empty_list)
}

/// The released file trims offsets here, which does not touch ids; the template form is accepted as long as it adds
/// nothing.
fn adds_no_tokens(post_processor: &Value) -> bool {
    match post_processor["type"].as_str() {
        None => post_processor.is_null(),
        Some("ByteLevel") => true,
        Some("TemplateProcessing") => {
            let single = post_processor["single"].as_array();
            single.is_some_and(|parts| parts.len() == 1 && parts[0].get("Sequence").is_some())
        }
        Some(_) => false,
    }
}

/// Three isolated splits by [`PATTERNS`], then the byte-level mapping without a regex of its own.
fn check_pre_tokenizer(found: &Value) -> Result<()> {
    let wrong = |key: &str, needed: &str, found: &Value| Err(needed_found(key, needed, &shorten(found)));
    let Some([splits @ .., byte_level]) = found["pretokenizers"].as_array().map(Vec::as_slice) else {
        return wrong("pre_tokenizer", "a Sequence of three Splits and ByteLevel", found);
    };
    if found["type"] != "Sequence" || splits.len() != PATTERNS.len() {
        return wrong("pre_tokenizer", "a Sequence of three Splits and ByteLevel", found);
    }
    for (nth, (split, pattern)) in splits.iter().zip(PATTERNS).enumerate() {
        let key = format!("pre_tokenizer, split {}", nth + 1);
        let regex = split["pattern"]["Regex"].as_str();
        if regex.map(unescape) != Some(unescape(pattern)) {
            return wrong(&key, &format!("the pattern {pattern}"), &split["pattern"]);
        }
        if split["type"] != "Split" || split["behavior"] != "Isolated" || split["invert"] != false {
            return wrong(&key, "an isolated Split that is not inverted", split);
        }
    }
    if byte_level["type"] != "ByteLevel" || byte_level["add_prefix_space"] != false || byte_level["use_regex"] != false
    {
        return wrong("pre_tokenizer, last step", "ByteLevel without prefix space and without regex", byte_level);
    }
    Ok(())
}

/// Files differ in whether a line end or a quote inside a pattern is written as itself or escaped once more.
fn unescape(pattern: &str) -> String {
    pattern.replace(r"\r", "\r").replace(r"\n", "\n").replace(r#"\""#, "\"")
}

pub(crate) fn needed_found(place: &str, needed: &str, found: &str) -> Error {
    Error::Tokenizer(format!("{place}: needed {needed}, found {found}"))
}

fn json_problem(problem: serde_json::Error) -> Error {
    Error::Tokenizer(format!("needed a byte-level BPE tokenizer in JSON, found: {problem}"))
}

/// A JSON value for a message: whole if short, else its beginning.
fn shorten(value: &Value) -> String {
    const LONGEST: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}
