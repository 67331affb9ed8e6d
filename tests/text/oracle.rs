//! Ids compared with Hugging Face's `tokenizers`, the released tokenizer's own engine, on generated text.

use std::sync::LazyLock;

use flash890::text::{Detokeniser, Tokenizer};
use proptest::prelude::*;

use crate::{RELEASED, SMALL, golden};

static HF_RELEASED: LazyLock<tokenizers::Tokenizer> =
    LazyLock::new(|| tokenizers::Tokenizer::from_bytes(golden("tokenizer.json")).unwrap());
static HF_SMALL: LazyLock<tokenizers::Tokenizer> =
    LazyLock::new(|| tokenizers::Tokenizer::from_bytes(golden("small.json")).unwrap());

/// Numbers from a seed (SplitMix64), so that every run compares the same texts.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Stretches of text that go through every alternative of the splits.
const WORDS: &[&str] = &[
    "the",
    " the",
    "Hello",
    "don't",
    "I'LL",
    "naïve",
    "Straße",
    "ǅ",
    "Việt",
    "Tiê\u{301}ng",
    "e\u{301}\u{323}",
    "nghiêng",
    "Nguyễn",
    "中文",
    "中華人民共和國",
    "日本語",
    "ひらがな",
    "カタカナ",
    "ー",
    "・",
    "ｶﾅ",
    "㍿",
    "龥",
    "龦",
    "한국어",
    "हिन्दी",
    "ไทย",
    "العربية",
    "עִבְרִית",
    "Ελληνικά",
    "Привет",
    "🌍",
    "👩‍👩‍👧‍👦",
    "👍🏽",
    "🇻🇳",
    "❤\u{fe0f}",
    "∑∫√",
    "½",
    "Ⅷ",
    "٣٤٥",
    "१२३",
    "²³",
    "0",
    "12",
    "123",
    "1234567",
    "3.14159",
    "1,000",
    "x=1;",
    "foo();",
    "->",
    "=>",
    "!=",
    "#include <stdio.h>",
    "fn main() {",
    "}\n",
    "// comment\n",
    "\"quoted\"",
    "`code`",
    "\\n",
    "$x^2$",
    "@user",
    "https://a.b/c?d=e",
    "<",
    ">",
    "<think>",
    "</think>",
    "<｜User｜>",
    "<｜User",
    "｜DSML｜",
    "<|User|>",
    "<dsml:",
    "<｜deepseek_image｜>",
    "<｜System｜>",
    "…",
    "—",
    "«x»",
    "’s",
    "'s",
    "¿",
    "€",
    "_",
    "__init__",
    "-",
    "–",
    "*",
    "**",
];
const SPACES: &[&str] = &[
    " ", "  ", "   ", "        ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", " \n \n  ", "\u{a0}",
    "\u{3000}", "\u{2003}", "\u{85}", "\u{2028}", "\u{200b}", "\u{b}", "\u{c}", "\0", "\u{1b}", "\u{feff}", "\u{ad}",
    "\u{e000}",
];

fn text(random: &mut Random) -> String {
    let mut text = String::new();
    let kind = random.below(6);
    for _ in 0..random.below(40) {
        match kind {
            0 => text += random.pick(WORDS),
            1 => text.extend(char::from_u32(random.below(0x11_0000) as u32)),
            2 => text.extend(char::from_u32(random.below(0x3100) as u32)),
            3 => {
                let bytes: Vec<u8> = (0..random.below(8)).map(|_| random.next() as u8).collect();
                text += &String::from_utf8_lossy(&bytes);
            }
            _ => {
                text += random.pick(WORDS);
                text += random.pick(SPACES);
            }
        }
    }
    text
}

fn assert_same_ids(ours: &Tokenizer, theirs: &tokenizers::Tokenizer, text: &str) {
    let expected = theirs.encode_fast(text, false).unwrap();
    let ids = ours.encode(text);
    assert_eq!(ids, expected.get_ids(), "{text:?}");
    assert_eq!(ours.decode(&ids), text);
    assert_eq!(theirs.decode(&ids, false).unwrap(), text);
}

#[test]
fn ids_are_those_of_hugging_face() {
    let mut random = Random(890);
    for _ in 0..6000 {
        let text = text(&mut random);
        assert_same_ids(&RELEASED, &HF_RELEASED, &text);
        assert_same_ids(&SMALL, &HF_SMALL, &text);
    }
}

#[test]
fn plain_ids_are_those_of_hugging_face_without_added_tokens() {
    let mut without = HF_RELEASED.clone();
    without.with_added_vocabulary(tokenizers::AddedVocabulary::new());
    let mut random = Random(891);
    for _ in 0..3000 {
        let text = text(&mut random);
        let expected = without.encode_fast(text.as_str(), false).unwrap();
        assert_eq!(RELEASED.encode_plain(&text), expected.get_ids(), "{text:?}");
    }
}

/// Every word of the vocabulary stands in a text of its own: covers each merge at least once.
#[test]
fn every_token_encodes_as_hugging_face_does() {
    for id in 0..RELEASED.vocab_size() as u32 {
        let text = RELEASED.decode(&[id]);
        let expected = HF_RELEASED.encode_fast(text.as_str(), false).unwrap();
        assert_eq!(RELEASED.encode(&text), expected.get_ids(), "token {id}, {text:?}");
    }
}

#[test]
fn any_ids_decode_as_with_hugging_face_and_in_parts_as_whole() {
    let mut random = Random(892);
    for _ in 0..500 {
        let ids: Vec<u32> = (0..random.below(30)).map(|_| random.below(129_280) as u32).collect();
        let whole = RELEASED.decode(&ids);
        assert_eq!(whole, HF_RELEASED.decode(&ids, false).unwrap(), "{ids:?}");
        let mut parts = Detokeniser::new();
        let mut text: String = ids.iter().map(|&id| parts.push(&RELEASED, id)).collect();
        text += &parts.finish();
        assert_eq!(text, whole, "{ids:?}");
    }
}

proptest! {
    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        prop_assert_eq!(RELEASED.decode(&RELEASED.encode_plain(&text)), text.as_str());
        prop_assert_eq!(SMALL.decode(&SMALL.encode_plain(&text)), text.as_str());
        prop_assert!(RELEASED.encode_plain(&text).iter().all(|&id| !RELEASED.is_added(id)));
    }
}
