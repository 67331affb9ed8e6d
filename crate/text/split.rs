//! The pre-tokenizer: three splits, each cutting the pieces of the one before (section 12.1).
//!
//! 1. Runs of numbers (`\p{N}`), three at a time.
//! 2. Runs of Han (U+4E00 to U+9FA5), Hiragana and Katakana.
//! 3. A list of six alternatives, tried in order at each place; what none of them takes stays together as one piece.
//!
//! The categories are those of Unicode 16, as in the regex engine of Hugging Face's `tokenizers` 0.23; a test compares
//! both on every code point. Code points that a later Unicode version assigns stay "other" here as they do there.

use unicode_general_category::{GeneralCategory as G, get_general_category};

/// The three patterns as the released tokenizer.json spells them: a file with other patterns is refused, because the
/// scanner below implements exactly these.
pub(crate) const PATTERNS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
        r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
        r"| ?[\p{P}\p{S}]+[\r\n]*",
        r"|\s*[\r\n]+",
        r"|\s+(?!\S)",
        r"|\s+",
    ),
];

/// Calls `visit` with each word of `text` in order. The words cover the text without gaps.
pub(crate) fn for_each_word<'t>(text: &'t str, mut visit: impl FnMut(&'t str)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let script = Script::of(first);
        let limit = if script == Script::Number { 3 } else { usize::MAX };
        let (mut run, after) = rest.split_at(prefix_len(rest, limit, |c| Script::of(c) == script));
        rest = after;
        if script == Script::Number {
            // None of the six alternatives takes a number without a letter behind it, so the piece stays whole.
            visit(run);
            continue;
        }
        while !run.is_empty() {
            let (word, after) = run.split_at(word_len(run));
            visit(word);
            run = after;
        }
    }
}

/// What the first two splits tell apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Number,
    HanKana,
    Rest,
}

impl Script {
    fn of(c: char) -> Self {
        match c {
            '0'..='9' => Script::Number,
            '\0'..='\x7f' => Script::Rest,
            '\u{4e00}'..='\u{9fa5}' | '\u{3040}'..='\u{30ff}' => Script::HanKana,
            _ if Class::of(c) == Class::Number => Script::Number,
            _ => Script::Rest,
        }
    }
}

/// What the third split tells apart. The classes exclude each other: no white space is a letter, mark, number,
/// punctuation or symbol. Letters and marks are one class, because a mark that leads a word is also part of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// `\p{L}` or `\p{M}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\p{P}` or `\p{S}`
    Symbol,
    /// `\r` or `\n`
    Newline,
    /// Any other white space.
    Space,
    /// Controls, formats, private use, unassigned.
    Other,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => return Class::Letter,
            '\r' | '\n' => return Class::Newline,
            _ if c.is_whitespace() => return Class::Space,
            _ => {}
        }
        match get_general_category(c) {
            G::UppercaseLetter
            | G::LowercaseLetter
            | G::TitlecaseLetter
            | G::ModifierLetter
            | G::OtherLetter
            | G::NonspacingMark
            | G::SpacingMark
            | G::EnclosingMark => Class::Letter,
            G::DecimalNumber | G::LetterNumber | G::OtherNumber => Class::Number,
            G::ConnectorPunctuation
            | G::DashPunctuation
            | G::OpenPunctuation
            | G::ClosePunctuation
            | G::InitialPunctuation
            | G::FinalPunctuation
            | G::OtherPunctuation
            | G::MathSymbol
            | G::CurrencySymbol
            | G::ModifierSymbol
            | G::OtherSymbol => Class::Symbol,
            _ => Class::Other,
        }
    }

    fn is_letter(c: char) -> bool {
        Class::of(c) == Class::Letter
    }

    fn is_symbol(c: char) -> bool {
        Class::of(c) == Class::Symbol
    }

    fn is_newline(c: char) -> bool {
        Class::of(c) == Class::Newline
    }
}

/// Bytes of the longest beginning of `text`, of at most `limit` characters, in which all characters satisfy `keep`.
fn prefix_len(text: &str, limit: usize, keep: impl Fn(char) -> bool) -> usize {
    text.chars().take(limit).take_while(|&c| keep(c)).map(char::len_utf8).sum()
}

/// Bytes of the first word of a non-empty piece under the third split: a match, or everything before the next match.
fn word_len(piece: &str) -> usize {
    if let Some(len) = match_len(piece) {
        return len;
    }
    let next_match = piece.char_indices().skip(1).find(|&(at, _)| match_len(&piece[at..]).is_some());
    next_match.map_or(piece.len(), |(at, _)| at)
}

/// Bytes that the first fitting alternative takes at the start of `piece`.
fn match_len(piece: &str) -> Option<usize> {
    let mut chars = piece.chars();
    let first = chars.next()?;
    let second = chars.next();
    let after_first = &piece[first.len_utf8()..];
    let class = Class::of(first);

    // [!-~ punctuation][A-Za-z]+
    if first.is_ascii_punctuation() && second.is_some_and(|c| c.is_ascii_alphabetic()) {
        return Some(1 + prefix_len(after_first, usize::MAX, |c| c.is_ascii_alphabetic()));
    }
    // [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
    let may_lead = !matches!(class, Class::Newline | Class::Symbol);
    if class == Class::Letter || (may_lead && second.is_some_and(Class::is_letter)) {
        return Some(first.len_utf8() + prefix_len(after_first, usize::MAX, Class::is_letter));
    }
    //  ?[\p{P}\p{S}]+[\r\n]*
    if class == Class::Symbol || (first == ' ' && second.is_some_and(Class::is_symbol)) {
        let symbols = first.len_utf8() + prefix_len(after_first, usize::MAX, Class::is_symbol);
        return Some(symbols + prefix_len(&piece[symbols..], usize::MAX, Class::is_newline));
    }
    matches!(class, Class::Newline | Class::Space).then(|| white_space_len(piece))
}

/// Bytes that `\s*[\r\n]+|\s+(?!\S)|\s+` takes of a piece that begins with white space: up to the last line end of the
/// run; without one, all of the run but the character that belongs to the word behind it.
fn white_space_len(piece: &str) -> usize {
    let run = &piece[..prefix_len(piece, usize::MAX, char::is_whitespace)];
    if let Some(line_end) = run.rfind(['\r', '\n']) {
        return line_end + 1;
    }
    if run.len() == piece.len() {
        return run.len();
    }
    match run.char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => run.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        for_each_word(text, |word| words.push(word));
        words
    }

    #[test]
    fn numbers_go_in_threes() {
        assert_eq!(words("1234567"), ["123", "456", "7"]);
        assert_eq!(words("x12½³Ⅷy"), ["x", "12½", "³Ⅷ", "y"]);
    }

    #[test]
    fn white_space_gives_its_last_character_to_the_word_behind() {
        assert_eq!(words("a  b   c"), ["a", " ", " b", "  ", " c"]);
        assert_eq!(words("a  !"), ["a", " ", " !"]);
        assert_eq!(words("a \u{a0}1"), ["a", " \u{a0}", "1"]);
        assert_eq!(words("a  \u{1}"), ["a", " ", " ", "\u{1}"]);
    }

    #[test]
    fn line_ends_take_the_white_space_before_them() {
        assert_eq!(words("a \t\n\r  \n  b"), ["a", " \t\n\r  \n", " ", " b"]);
        assert_eq!(words("a!\r\n\nb"), ["a", "!\r\n\n", "b"]);
    }

    #[test]
    fn han_and_kana_stand_alone() {
        assert_eq!(words("abc中文テスト・テストdef"), ["abc", "中文テスト", "・", "テスト", "def"]);
    }

    #[test]
    fn punctuation_leads_ascii_letters_only() {
        assert_eq!(words("don't"), ["don", "'t"]);
        assert_eq!(words("(é)"), ["(", "é", ")"]);
        assert_eq!(words(" (x"), [" (", "x"]);
    }

    #[test]
    fn what_no_alternative_takes_stays_together() {
        assert_eq!(words("\u{1}\u{2}\u{3}"), ["\u{1}\u{2}\u{3}"]);
        assert_eq!(words("\u{1}\u{2}a"), ["\u{1}", "\u{2}a"]);
    }

    /// Every code point that Unicode 16 assigns, and samples of the planes it does not, in surroundings that tell its
    /// class, splits as by the patterns themselves.
    #[test]
    fn every_code_point_splits_as_by_the_patterns() {
        use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
        let file = include_bytes!("../../tests/golden/tokenizer/small.json");
        let oracle = tokenizers::Tokenizer::from_bytes(file).unwrap();
        let splits = oracle.get_pre_tokenizer().unwrap();
        let filled = |c: &char| matches!(*c, '\0'..='\u{33fff}' | '\u{e0000}'..='\u{e0fff}') || *c as u32 % 256 == 7;
        let chars: Vec<char> = ('\0'..=char::MAX).filter(filled).collect();
        for chars in chars.chunks(64) {
            let text: String = chars.iter().map(|c| format!("x{c} {c}!{c}{c}1 ")).collect();
            let mut expected = PreTokenizedString::from(text.as_str());
            splits.pre_tokenize(&mut expected).unwrap();
            let expected: Vec<&str> = expected
                .get_splits(OffsetReferential::Original, OffsetType::Byte)
                .into_iter()
                .map(|(_, (start, end), _)| &text[start..end])
                .collect();
            assert_eq!(words(&text), expected, "{chars:?}");
        }
    }
}
