//! Text in and out: byte-level BPE, chat prompts, incremental detokenising, stop strings (section 12 of the specification).
//!
//! The way of a conversation: [`prompt::render`] turns messages into token ids with pictures standing between them;
//! the model answers with ids; [`Detokeniser`] turns them into text that never holds half a character; [`StopStrings`]
//! cuts that text where the caller asked for it.
//!
//! Nothing here uses a regular expression at run time: the released tokenizer's three splits are fixed, so they are a
//! small scanner (`split.rs`), which also keeps the WebAssembly binary small.

mod added;
pub(crate) mod base64;
mod bpe;
mod detokenise;
mod file;
pub mod prompt;
mod split;
mod stop;
mod tokenizer;

pub use detokenise::Detokeniser;
pub use stop::StopStrings;
pub use tokenizer::Tokenizer;

/// The released tokenizer, read once for all tests.
#[cfg(test)]
static RELEASED: std::sync::LazyLock<Tokenizer> = std::sync::LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tokenizer/tokenizer.json");
    Tokenizer::from_json(&std::fs::read(path).unwrap()).unwrap()
});
