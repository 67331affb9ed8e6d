//! Ids to text, one at a time.

use super::Tokenizer;

/// Turns ids into text as they come. A token may end inside a character: those bytes are held back until the character
/// is complete, so that no caller ever sees half of one.
///
/// All parts together are what [`Tokenizer::decode`] returns for all ids together: bytes that are not UTF-8 become
/// U+FFFD in the same places.
#[derive(Debug, Clone, Default)]
pub struct Detokeniser {
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl Detokeniser {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a token and returns the text that is now certain. Ids beyond the vocabulary add nothing.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        self.push_bytes(tokenizer.token_bytes(id).unwrap_or_default())
    }

    /// Adds the bytes of a token and returns the text that is now certain.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            let (valid, problem) = match std::str::from_utf8(rest) {
                Ok(valid) => (valid.len(), None),
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            text.push_str(&String::from_utf8_lossy(&rest[..valid]));
            rest = &rest[valid..];
            match problem {
                Some(len) => {
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[len..];
                }
                // Either all is done, or the rest may yet become a character.
                None => break,
            }
        }
        self.pending = rest.to_vec();
        text
    }

    /// Ends the text: an incomplete character becomes U+FFFD. The detokeniser is empty afterwards.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_a_character_waits_for_its_end() {
        let mut text = Detokeniser::new();
        assert_eq!(text.push_bytes(b"a\xf0\x9f"), "a");
        assert_eq!(text.push_bytes(b"\x8c"), "");
        assert_eq!(text.push_bytes(b"\x8d!"), "🌍!");
        assert_eq!(text.push_bytes(b"\xe4\xbd"), "");
        assert_eq!(text.finish(), "\u{fffd}");
        assert_eq!(text.finish(), "");
    }

    /// Bytes in which truncated, overlong and stray sequences are likely.
    fn utf8_like() -> impl Strategy<Value = u8> {
        prop_oneof![
            Just(b'a'),
            prop::sample::select(vec![0xc3, 0xe0, 0xe4, 0xed, 0xf0, 0xf4, 0xff, 0xc0]),
            0x80u8..=0xbf,
            any::<u8>(),
        ]
    }

    proptest! {
        #[test]
        fn parts_equal_the_lossy_whole(parts in prop::collection::vec(prop::collection::vec(utf8_like(), 0..5), 0..12)) {
            let mut detokeniser = Detokeniser::new();
            let mut text = String::new();
            for part in &parts {
                text += &detokeniser.push_bytes(part);
            }
            text += &detokeniser.finish();
            prop_assert_eq!(text, String::from_utf8_lossy(&parts.concat()).into_owned());
        }
    }
}
