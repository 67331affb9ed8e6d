//! Stop strings across token edges.

use crate::{Error, Result};

/// Watches a growing text for stop strings. Text that may be the beginning of one is held back until it is certain
/// that it is not, so no part of a stop string reaches the caller, however tokens cut it.
///
/// The text ends where the stop string begins that is complete first; of several complete at once the one that began
/// first counts. This does not depend on how the text was cut into pieces.
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    /// The end of the text so far, as far as it may belong to a stop string.
    held: String,
    stopped: bool,
}

impl StopStrings {
    /// Watches for `stops`; with none, text passes through.
    ///
    /// # Errors
    ///
    /// [`Error::Prompt`] if a stop string is empty: it would end every text before it begins.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let stops: Vec<String> = stops.into_iter().map(Into::into).collect();
        match stops.iter().position(String::is_empty) {
            Some(at) => Err(Error::Prompt(format!("stop string {at}: needed at least one character, found none"))),
            None => Ok(StopStrings { stops, ..Self::default() }),
        }
    }

    /// Adds text. Returns the text that is now certain, and whether a stop string was found: then all that follows is
    /// dropped.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        if self.stopped {
            return (String::new(), true);
        }
        self.held.push_str(text);
        let certain = match self.first_match() {
            Some(start) => {
                self.stopped = true;
                start
            }
            None => self.held.len() - self.longest_open_prefix(),
        };
        let rest = self.held.split_off(certain);
        let certain = std::mem::replace(&mut self.held, rest);
        (certain, self.stopped)
    }

    /// Ends the text: returns what was held back, unless a stop string was found.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.stopped { String::new() } else { held }
    }

    /// Start of the stop string in `held` that ends first.
    fn first_match(&self) -> Option<usize> {
        let matches = self.stops.iter().filter_map(|stop| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start))
        });
        matches.min().map(|(_, start)| start)
    }

    /// Bytes of the longest end of `held` with which a stop string begins.
    fn longest_open_prefix(&self) -> usize {
        let open = |stop: &String| {
            (1..stop.len()).rev().find(|&len| stop.is_char_boundary(len) && self.held.ends_with(&stop[..len]))
        };
        self.stops.iter().filter_map(open).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All the text that comes out for `pieces`, and whether it stopped.
    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut watch = StopStrings::new(stops.iter().copied()).unwrap();
        let (mut text, mut stopped) = (String::new(), false);
        for piece in pieces {
            let (part, now) = watch.push(piece);
            assert!(!stopped || part.is_empty(), "text after the stop");
            text += &part;
            stopped = now;
        }
        text += &watch.finish();
        (text, stopped)
    }

    /// Every way to cut `text` between characters.
    fn all_splits(text: &str) -> Vec<Vec<&str>> {
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
        (0..1u32 << cuts.len())
            .map(|chosen| {
                let mut pieces = Vec::new();
                let mut from = 0;
                for (nth, &cut) in cuts.iter().enumerate() {
                    if chosen >> nth & 1 == 1 {
                        pieces.push(&text[from..cut]);
                        from = cut;
                    }
                }
                pieces.push(&text[from..]);
                pieces
            })
            .collect()
    }

    #[test]
    fn all_splits_give_the_same_text() {
        let cases: &[(&[&str], &str, &str, bool)] = &[
            (&["END"], "one ENEND two", "one EN", true),
            (&["END"], "one ENE two", "one ENE two", false),
            (&["aab"], "xaaaab", "xaa", true),
            (&["bc", "abcd"], "xabcdy", "xa", true), // "bc" is complete first
            (&["bc", "abc"], "xabcdy", "x", true),   // both complete at once: the longer one
            (&["\n\nUser:", "</s>"], "a\n\nUs</s>b", "a\n\nUs", true),
            (&["終わり", "り。"], "これで終わり。", "これで", true),
            (&["é🌍"], "caféé🌍!", "café", true),
            (&["abc"], "ab", "ab", false),
            (&["x"], "x", "", true),
            (&[], "abc", "abc", false),
        ];
        for (stops, text, expected, stopped) in cases {
            for pieces in all_splits(text) {
                assert_eq!(run(stops, &pieces), (expected.to_string(), *stopped), "{stops:?} in {pieces:?}");
            }
        }
    }

    #[test]
    fn only_what_may_be_a_stop_string_is_held_back() {
        let mut watch = StopStrings::new(["<end>", "<eos>"]).unwrap();
        assert_eq!(watch.push("a<"), ("a".into(), false));
        assert_eq!(watch.push("e"), (String::new(), false));
        assert_eq!(watch.push("x"), ("<ex".into(), false));
        assert_eq!(watch.push("<eo"), (String::new(), false));
        assert_eq!(watch.finish(), "<eo");
    }

    #[test]
    fn an_empty_stop_string_is_refused() {
        let error = StopStrings::new(["a", ""]).unwrap_err().to_string();
        assert_eq!(error, "prompt: stop string 1: needed at least one character, found none");
    }
}
