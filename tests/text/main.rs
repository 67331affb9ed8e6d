//! Text against its oracles: the probes of the specification, Hugging Face's `tokenizers`, and DeepSeek's own prompt
//! encoder.

mod hostile;
mod oracle;
mod probes;
mod prompts;

use std::path::PathBuf;
use std::sync::LazyLock;

use flash890::text::Tokenizer;
use sha2::{Digest, Sha256};

fn golden(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/golden/tokenizer", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The released tokenizer, read once for all tests.
static RELEASED: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::from_json(&golden("tokenizer.json")).unwrap());

/// The tokenizer of the small golden checkpoints: merges as pairs, 512 ids.
static SMALL: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::from_json(&golden("small.json")).unwrap());

#[test]
fn the_golden_file_is_the_released_one() {
    let bytes = golden("tokenizer.json");
    assert_eq!(bytes.len(), 6_367_257);
    let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b");
}
