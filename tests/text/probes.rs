//! Token-exact probes of section 12.2, and the tables behind them.

use std::time::{Duration, Instant};

use flash890::text::Tokenizer;
use flash890::text::prompt::SpecialIds;

use crate::{RELEASED, SMALL, golden};

/// Text and ids, no BOS added.
const PROBES: &[(&str, &[u32])] = &[
    ("Hello, world! 123\nsecond line", &[19923, 14, 2058, 3, 223, 6895, 201, 10930, 2562]),
    (
        "你好，世界！ Καλημέρα κόσμε 🌍",
        &[30594, 303, 3427, 1175, 51901, 25696, 29537, 11983, 122189, 2781, 30619, 73369, 238],
    ),
    ("10", &[553]),
    ("1234567", &[6895, 18009, 25]),
    ("3.14159", &[21, 16, 9926, 3318]),
    ("x=1\ny=2\n", &[90, 31, 19, 201, 91, 31, 20, 201]),
    ("    return x\n", &[361, 1354, 1527, 201]),
    ("\t\tfoo();\r\n", &[200, 200, 40897, 12184, 204, 201]),
    ("don't", &[20385, 1664]),
    ("I'm", &[43, 4571]),
    ("naïve café", &[2720, 91223, 57664]),
    ("e\u{301}", &[71, 17793]),
    ("日本語テスト", &[88768, 109288]),
    ("中文abc123", &[21134, 32372, 6895]),
    ("Привет, мир!", &[24797, 8919, 14, 74779, 3]),
    ("🙂👍🏽", &[80300, 227, 92526, 40965, 124]),
    ("http://a.b/c?d=e&f=g", &[6900, 2272, 67, 6229, 5252, 33, 70, 91343, 8, 72, 98045]),
    ("a  b   c", &[67, 223, 291, 262, 274]),
    ("\u{a0}x", &[2162, 90]),
    ("Xin chào Việt Nam", &[58, 261, 537, 61360, 19239, 96272, 24191]),
    ("#include <stdio.h>", &[6201, 818, 21968, 5196, 32]),
    ("<think></think>", &[128821, 128822]),
    ("<｜DSML｜ calls>", &[30, 128825, 10699, 32]),
    ("</｜DSML｜ invoke>", &[1718, 128825, 34756, 32]),
    ("<|User|>", &[30, 94, 6756, 94, 32]),
    ("<｜User｜>", &[128803]),
    (
        "<｜begin▁of▁sentence｜><｜User｜>question<｜Assistant｜><think>reason</think>answer<｜end▁of▁sentence｜>",
        &[0, 128803, 20072, 128804, 128821, 86512, 128822, 19995, 1],
    ),
];

#[test]
fn probes_are_token_exact() {
    for (text, ids) in PROBES {
        assert_eq!(RELEASED.encode(text), *ids, "{text:?}");
        assert_eq!(RELEASED.decode(ids), *text);
    }
}

#[test]
fn spellings_of_control_tokens_are_text_in_user_text() {
    for (text, ids) in PROBES {
        let plain = RELEASED.encode_plain(text);
        assert!(plain.iter().all(|&id| !RELEASED.is_added(id)), "{text:?}");
        assert_eq!(RELEASED.decode(&plain), *text);
        let has_control = ids.iter().any(|&id| RELEASED.is_added(id));
        assert_eq!(plain != *ids, has_control, "{text:?}");
    }
}

#[test]
fn the_vocabulary_is_the_released_one() {
    assert_eq!(RELEASED.vocab_size(), 129_280);
    let added: Vec<u32> = (0..129_280).filter(|&id| RELEASED.is_added(id)).collect();
    assert_eq!(added, (0..3).chain(128_000..129_280).collect::<Vec<u32>>());
    assert_eq!(RELEASED.token_bytes(270), Some(" the".as_bytes()));
    assert_eq!(RELEASED.token_bytes(238), Some(&[0x8d][..]), "last byte of the globe");
    assert_eq!(RELEASED.token_bytes(128_822), Some("</think>".as_bytes()));
    assert_eq!(RELEASED.token_bytes(129_280), None);
    assert!(!RELEASED.is_added(129_280));
    assert_eq!(RELEASED.id_of("｜DSML｜"), Some(128_825));
    assert_eq!(RELEASED.id_of("｜DSML"), None);
}

#[test]
fn control_ids_are_found_by_spelling() {
    let released = SpecialIds {
        bos: Some(0),
        eos: Some(1),
        system: Some(128_799),
        user: Some(128_803),
        assistant: Some(128_804),
        think: Some(128_821),
        end_think: Some(128_822),
        image: Some(129_264),
    };
    assert_eq!(SpecialIds::find(&RELEASED), released);
    let small = SpecialIds {
        bos: Some(0),
        eos: Some(1),
        system: None,
        user: Some(4),
        assistant: Some(6),
        think: None,
        end_think: None,
        image: Some(5),
    };
    assert_eq!(SpecialIds::find(&SMALL), small);
}

/// The specification counts the ids whose bytes are not UTF-8 on their own (section 2.1).
#[test]
fn fragments_of_characters_are_as_many_as_specified() {
    let fragments = (0..129_280).filter(|&id| RELEASED.decode(&[id]).contains('\u{fffd}')).count();
    assert_eq!(fragments, 1484);
}

/// A word of n bytes takes O(n log n) steps: 200 KB of one letter take milliseconds. Merging pair by pair over the
/// whole word, or over a list that moves on each removal, takes many seconds.
#[test]
fn long_words_are_quick() {
    let words = ["a".repeat(200_000), "ab\u{301}".repeat(60_000), "<".repeat(200_000), " ".repeat(200_000)];
    let started = Instant::now();
    for word in &words {
        assert_eq!(RELEASED.decode(&RELEASED.encode(word)), *word);
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn reading_the_file_is_quick() {
    let bytes = golden("tokenizer.json");
    let started = Instant::now();
    assert_eq!(Tokenizer::from_json(&bytes).unwrap().vocab_size(), 129_280);
    let took = started.elapsed();
    println!("read in {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}
