//! Files that are damaged or of another kind are refused with a reason, and nothing panics.

use flash890::text::Tokenizer;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{SMALL, golden};

fn small() -> Value {
    serde_json::from_slice(&golden("small.json")).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    Tokenizer::from_json(bytes).unwrap_err().to_string()
}

/// Sets the value at a JSON pointer of the small tokenizer and returns why that is refused.
fn refusal_with(pointer: &str, value: Value) -> String {
    let mut file = small();
    *file.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
    refusal(&serde_json::to_vec(&file).unwrap())
}

#[test]
fn other_kinds_of_tokenizer_are_refused() {
    let cases = [
        ("/model/type", json!("Unigram"), r#"tokenizer.json: model.type: needed "BPE", found "Unigram""#),
        ("/model/type", json!(null), r#"tokenizer.json: model.type: needed "BPE", found nothing"#),
        ("/model/dropout", json!(0.1), "tokenizer.json: model.dropout: needed null, found 0.1"),
        ("/model/unk_token", json!("<unk>"), "tokenizer.json: model.unk_token: needed null, found <unk>"),
        (
            "/model/end_of_word_suffix",
            json!("</w>"),
            "tokenizer.json: model.end_of_word_suffix: needed null, found </w>",
        ),
        ("/model/byte_fallback", json!(true), "tokenizer.json: model.byte_fallback: needed false, found true"),
        ("/model/ignore_merges", json!(true), "tokenizer.json: model.ignore_merges: needed false, found true"),
        (
            "/normalizer",
            json!({"type": "NFC"}),
            r#"tokenizer.json: normalizer: needed null or an empty Sequence, found {"type":"NFC"}"#,
        ),
        (
            "/pre_tokenizer",
            json!({"type": "Whitespace"}),
            r#"tokenizer.json: pre_tokenizer: needed a Sequence of three Splits and ByteLevel, found {"type":"Whitespace"}"#,
        ),
        (
            "/pre_tokenizer/pretokenizers/0/pattern",
            json!({"Regex": r"\p{N}"}),
            r#"tokenizer.json: pre_tokenizer, split 1: needed the pattern \p{N}{1,3}, found {"Regex":"\\p{N}"}"#,
        ),
        (
            "/post_processor",
            json!({"type": "BertProcessing"}),
            "tokenizer.json: post_processor: needed null, ByteLevel, or a template without special tokens, \
             found {\"type\":\"BertProcessing\"}",
        ),
        (
            "/post_processor/single",
            json!([{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]),
            "a template without special tokens, found",
        ),
        (
            "/decoder",
            json!({"type": "WordPiece"}),
            r#"tokenizer.json: decoder: needed ByteLevel, found {"type":"WordPiece"}"#,
        ),
        ("/truncation", json!({"max_length": 4}), r#"tokenizer.json: truncation: needed null, found {"max_length":4}"#),
        ("/pre_tokenizer/pretokenizers/1/behavior", json!("Removed"), "split 2: needed an isolated Split that is not"),
        ("/pre_tokenizer/pretokenizers/3/use_regex", json!(true), "last step: needed ByteLevel without prefix space"),
    ];
    for (pointer, value, expected) in cases {
        let refusal = refusal_with(pointer, value);
        assert!(refusal.contains(expected), "{pointer}: {refusal}");
    }
}

#[test]
fn contradictions_are_refused() {
    let added = |id: u64, content: &str| json!({"id": id, "content": content, "special": true});
    let with_flag = |flag: &str| json!({"id": 0, "content": "<s>", flag: true});
    let cases = [
        ("/added_tokens/3", added(4, "<x>"), r#"id 4: needed one token, found "<｜User｜>" and "<x>""#),
        (
            "/added_tokens/3",
            added(2, "<｜User｜>"),
            r#"added_tokens: needed each spelling once, found "<｜User｜>" twice"#,
        ),
        ("/added_tokens/0/content", json!(""), "added token 0: needed a content, found an empty string"),
        ("/added_tokens/0", with_flag("lstrip"), "added token 0: lstrip: needed false, found true"),
        ("/added_tokens/0", with_flag("rstrip"), "added token 0: rstrip: needed false, found true"),
        ("/added_tokens/0", with_flag("single_word"), "added token 0: single_word: needed false, found true"),
        ("/added_tokens/3", added(1 << 20, "<x>"), r#"token "<x>": needed an id below 1048576, found 1048576"#),
        ("/added_tokens/3/id", json!(u64::MAX), "18446744073709551615"),
        ("/model/vocab/!", json!(600), "ids: needed all of 0 to 600, found no token 7"),
        ("/model/vocab/!", json!(u64::MAX), "needed an id below 1048576, found 18446744073709551615"),
        (
            "/model/vocab/<｜User｜>",
            json!(9),
            r#"token "<｜User｜>": needed one id, found 9 in model.vocab and 4 in added"#,
        ),
        (
            "/added_tokens/3/content",
            json!("<x>"),
            r#"model.vocab: needed spellings in the byte-level alphabet, found "<｜dspark_noise｜>""#,
        ),
        ("/model/vocab/!", json!(-1), "invalid value: integer `-1`"),
        (
            "/model/merges/5",
            json!(["t", "no such token"]),
            r#"model.merges, entry 5: needed tokens of model.vocab, found"#,
        ),
        ("/model/merges/5", json!("t h e"), "entry 5: needed two tokens with one space between, found another number"),
        ("/model/merges/5", json!("the"), "entry 5: needed two tokens with one space between, found another number"),
        ("/model/merges/1", json!(["á", "»"]), r#"entry 1: needed each pair once, found "á" "»" again"#),
        ("/model/merges", json!([7]), "did not match any variant"),
    ];
    for (pointer, value, expected) in cases {
        let refusal = refusal_with(pointer, value);
        assert!(refusal.contains(expected), "{pointer}: {refusal}");
    }
}

/// Otherwise a user who writes the right letters would get a control token.
#[test]
fn a_merge_must_not_make_an_added_token() {
    let mut file = small();
    let id = file["model"]["vocab"]["Ġt"].clone();
    file["added_tokens"].as_array_mut().unwrap().push(json!({"id": id, "content": "Ġt", "special": true}));
    let refusal = refusal(&serde_json::to_vec(&file).unwrap());
    assert!(refusal.contains(r#"entry 1: needed ordinary tokens, found the added token "Ġt""#), "{refusal}");
}

#[test]
fn every_byte_needs_a_token() {
    let mut file = small();
    let vocab = file["model"]["vocab"].as_object_mut().unwrap();
    let id = vocab.remove("ÿ").unwrap();
    vocab.insert("ÿÿ".into(), id);
    let refusal = refusal(&serde_json::to_vec(&file).unwrap());
    assert!(refusal.contains(r#"model.vocab, byte 0xff: needed tokens of model.vocab, found "ÿ""#), "{refusal}");
}

#[test]
fn a_spelling_listed_twice_is_refused() {
    let text = String::from_utf8(golden("small.json")).unwrap();
    let start = text.find("\"vocab\"").unwrap();
    let open = start + text[start..].find('{').unwrap() + 1;
    let doubled = format!("{}\"zzzz\": 512, \"zzzz\": 513, {}", &text[..open], &text[open..]);
    let refusal = refusal(doubled.as_bytes());
    assert!(refusal.contains(r#"model.vocab: needed each spelling once, found "zzzz" twice"#), "{refusal}");
}

#[test]
fn what_is_not_json_is_refused() {
    for bytes in [&b""[..], b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"{\"model\": 3}"] {
        let refusal = refusal(bytes);
        assert!(refusal.starts_with("tokenizer.json: "), "{refusal}");
    }
    let deep = "[".repeat(100_000);
    assert!(refusal(format!("{{\"normalizer\": {deep}").as_bytes()).starts_with("tokenizer.json: "));
}

/// Both spellings of the merge list give the same tokenizer.
#[test]
fn merges_may_be_strings_or_pairs() {
    let mut file = small();
    for merge in file["model"]["merges"].as_array_mut().unwrap() {
        *merge = json!(format!("{} {}", merge[0].as_str().unwrap(), merge[1].as_str().unwrap()));
    }
    let joined = Tokenizer::from_json(&serde_json::to_vec(&file).unwrap()).unwrap();
    let text = "the quick brown fox, tiếng Việt <｜User｜>";
    assert_eq!(joined.encode(text), SMALL.encode(text));
    assert!(joined.encode(text).len() < text.len(), "no merge was used");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Tokenizer::from_json(&bytes).is_err());
    }

    /// A damaged file is refused, or read as a tokenizer that still brings text back.
    #[test]
    fn damaged_files_never_panic(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = golden("small.json");
        for (place, value) in &places {
            let at = place.index(bytes.len());
            bytes[at] = *value;
        }
        if let Ok(tokenizer) = Tokenizer::from_json(&bytes) {
            let text = "the end, tiếng Việt 🌍 \n\n123";
            prop_assert_eq!(tokenizer.decode(&tokenizer.encode_plain(text)), text);
        }
    }

    /// The same with a value of the document replaced, so that the file stays JSON.
    #[test]
    fn damaged_values_never_panic(which in any::<prop::sample::Index>(), value in damage()) {
        let mut file = small();
        let mut pointers = Vec::new();
        collect_pointers(&file, String::new(), &mut pointers);
        let pointer = which.get(&pointers);
        *file.pointer_mut(pointer).unwrap() = value;
        if let Ok(tokenizer) = Tokenizer::from_json(&serde_json::to_vec(&file).unwrap()) {
            let text = "the end, tiếng Việt 🌍 \n\n123";
            prop_assert_eq!(tokenizer.decode(&tokenizer.encode_plain(text)), text);
        }
    }
}

fn damage() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..600).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!(["a", "b"])),
    ]
}

fn collect_pointers(value: &Value, here: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect_pointers(child, format!("{here}/{key}"), pointers);
            }
        }
        Value::Array(list) => {
            for (at, child) in list.iter().enumerate() {
                collect_pointers(child, format!("{here}/{at}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(here);
}
