//! The lab model's tokenizer: byte-level BPE in the released form (section 12.1) with 256 bytes, the special tokens and a few merges.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

/// The first tokens, which also stand in the base vocabulary. The third is the Engram pad too.
const SPECIAL_TOKENS: [&str; 3] = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"];
/// The last tokens, outside of the base vocabulary as in the release. The first is the DSpark noise too, the last stands for an image.
const CHAT_TOKENS: [&str; 6] =
    ["<｜System｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜deepseek_image｜>"];

/// Pieces of English and Vietnamese that become tokens of their own, shorter ones first.
const PIECES: &str = "th he in er an on re ng nh ch tr kh ph en at or es is it ou ă â ê ô ơ ư đ à á ã è é ì í ò ó õ ù ú ạ ả ấ ầ ậ ắ ặ \
    ẽ ế ề ể ệ ị ỏ ọ ố ồ ộ ớ ờ ở ợ ụ ủ ứ ừ ữ ự ing the and iê ươ ông ười được";
/// Pieces that begin a word: they include the space before it.
const WORDS: &str = "t a the of and to in is a c l m n b v đ s token là và của có không một người tiếng trong được cho";

/// The three splits of the released pre-tokenizer, in order.
const SPLITS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];

/// The base vocabulary by id, in the byte-level alphabet, and the merges that make the longer tokens. [`CHAT_TOKENS`] come after it.
struct Vocabulary {
    tokens: Vec<String>,
    merges: Vec<(String, String)>,
}

/// tokenizer.json of the lab model.
pub(super) fn lab_tokenizer_json() -> String {
    let Vocabulary { tokens, merges } = vocabulary();
    let chat = CHAT_TOKENS.iter().enumerate().map(|(i, content)| (tokens.len() + i, *content));
    let added: Vec<Value> = SPECIAL_TOKENS.iter().copied().enumerate().chain(chat).map(added_token).collect();
    let vocab: Map<String, Value> = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let merges: Vec<String> = merges.iter().map(|(left, right)| format!("{left} {right}")).collect();
    let splits = SPLITS
        .map(|regex| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false}));
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let document = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [splits[0], splits[1], splits[2], bytes]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "vocab": vocab,
            "merges": merges,
        },
    });
    format!("{document:#}\n")
}

/// BOS, EOS and pad are special; chat tokens are matched in text but not skipped when decoding; the image token is neither (section 12.1).
fn added_token((id, content): (usize, &str)) -> Value {
    json!({
        "id": id,
        "content": content,
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": id >= SPECIAL_TOKENS.len() && content != CHAT_TOKENS[5],
        "special": id < SPECIAL_TOKENS.len(),
    })
}

/// Compressed ids of the lab model: ASCII letters without case, everything else itself, numbered in order of first appearance.
pub(super) fn lab_token_map() -> Vec<u32> {
    let mut ids = HashMap::new();
    let number = |token: String| {
        let next = ids.len() as u32;
        *ids.entry(token.to_ascii_lowercase()).or_insert(next)
    };
    vocabulary().tokens.into_iter().chain(CHAT_TOKENS.map(String::from)).map(number).collect()
}

/// Special tokens, then the 256 bytes, then what the merges make.
fn vocabulary() -> Vocabulary {
    let alphabet = byte_alphabet();
    let mut tokens: Vec<String> = SPECIAL_TOKENS.map(String::from).to_vec();
    let mut bytes: Vec<char> = alphabet.to_vec();
    bytes.sort_unstable();
    tokens.extend(bytes.into_iter().map(String::from));
    let mut known: HashSet<String> = tokens.iter().cloned().collect();
    let mut merges: Vec<(String, String)> = Vec::new();
    let pieces =
        PIECES.split_whitespace().map(String::from).chain(WORDS.split_whitespace().map(|word| format!(" {word}")));
    for piece in pieces {
        let mut parts = encode(&piece, &alphabet, &merges);
        while parts.len() > 1 {
            let (left, right) = (parts.remove(0), parts.remove(0));
            let joined = format!("{left}{right}");
            if known.insert(joined.clone()) {
                tokens.push(joined.clone());
            }
            merges.push((left, right));
            parts.insert(0, joined);
        }
    }
    Vocabulary { tokens, merges }
}

/// Byte-pair encoding of a piece: the earliest merge first, at its leftmost place.
fn encode(piece: &str, alphabet: &[char; 256], merges: &[(String, String)]) -> Vec<String> {
    let mut parts: Vec<String> = piece.bytes().map(|byte| alphabet[byte as usize].to_string()).collect();
    for (left, right) in merges {
        while let Some(at) = parts.windows(2).position(|pair| &pair[0] == left && &pair[1] == right) {
            let right = parts.remove(at + 1);
            parts[at].push_str(&right);
        }
    }
    parts
}

/// The byte-level alphabet: a printable Latin-1 byte stands for itself, the 68 others get characters from U+0100 on.
fn byte_alphabet() -> [char; 256] {
    let mut next = 0x100;
    let mut character = |byte: u8| match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
        _ => {
            next += 1;
            char::from_u32(next - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    };
    std::array::from_fn(|byte| character(byte as u8))
}
