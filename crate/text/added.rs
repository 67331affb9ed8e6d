//! Added tokens found in text, leftmost first and longest of those that begin at the same place.

use std::collections::HashMap;

/// A set of spellings to look for, as a tree of bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spellings {
    /// (node, byte) to the node behind it; node 0 is the root.
    children: HashMap<(u32, u8), u32>,
    /// Node to the id whose spelling ends there.
    ends: HashMap<u32, u32>,
    /// Bytes a spelling can begin with: most of a text is passed over with this one look-up.
    first: Vec<u8>,
}

impl Spellings {
    /// Adds a spelling, which must not be empty.
    pub(crate) fn add(&mut self, spelling: &str, id: u32) {
        let mut node = 0;
        for &byte in spelling.as_bytes() {
            let fresh = self.children.len() as u32 + 1;
            node = *self.children.entry((node, byte)).or_insert(fresh);
        }
        self.ends.insert(node, id);
        if let Some(&byte) = spelling.as_bytes().first()
            && !self.first.contains(&byte)
        {
            self.first.push(byte);
        }
    }

    /// Id of the spelling that is exactly `text`.
    pub(crate) fn get(&self, text: &str) -> Option<u32> {
        match self.longest_at(text.as_bytes()) {
            Some((len, id)) if len == text.len() => Some(id),
            _ => None,
        }
    }

    /// Calls `piece` with the matches and the non-empty stretches of text around them, in order.
    pub(crate) fn split<'t>(&self, text: &'t str, mut piece: impl FnMut(Piece<'t>)) {
        let bytes = text.as_bytes();
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            match self.longest_at(&bytes[at..]) {
                // A spelling begins and ends with whole characters, so both cuts are character borders.
                Some((len, id)) => {
                    if from < at {
                        piece(Piece::Text(&text[from..at]));
                    }
                    piece(Piece::Added(id));
                    at += len;
                    from = at;
                }
                None => at += 1,
            }
        }
        if from < text.len() {
            piece(Piece::Text(&text[from..]));
        }
    }

    /// Length and id of the longest spelling at the start of `bytes`.
    fn longest_at(&self, bytes: &[u8]) -> Option<(usize, u32)> {
        if !self.first.contains(bytes.first()?) {
            return None;
        }
        let (mut node, mut longest) = (0, None);
        for (at, &byte) in bytes.iter().enumerate() {
            let Some(&child) = self.children.get(&(node, byte)) else { break };
            node = child;
            if let Some(&id) = self.ends.get(&node) {
                longest = Some((at + 1, id));
            }
        }
        longest
    }
}

/// A part of a text that was searched for added tokens.
pub(crate) enum Piece<'t> {
    /// Ordinary text.
    Text(&'t str),
    /// An added token.
    Added(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(spellings: &[&str], text: &str) -> Vec<String> {
        let mut set = Spellings::default();
        for (id, spelling) in spellings.iter().enumerate() {
            set.add(spelling, id as u32);
        }
        let mut pieces = Vec::new();
        set.split(text, |piece| {
            pieces.push(match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Added(id) => format!("#{id}"),
            });
        });
        pieces
    }

    #[test]
    fn leftmost_then_longest() {
        assert_eq!(split(&["ab", "abcd", "bc"], "xabcabcd"), ["x", "#0", "c", "#1"]);
        assert_eq!(split(&["｜a｜", "｜"], "｜a｜｜ab"), ["#0", "#1", "ab"]);
        assert_eq!(split(&["ab"], ""), Vec::<String>::new());
    }

    #[test]
    fn exact_look_up_needs_the_whole_spelling() {
        let mut set = Spellings::default();
        set.add("<think>", 7);
        assert_eq!(set.get("<think>"), Some(7));
        assert_eq!(set.get("<think"), None);
        assert_eq!(set.get("<think>x"), None);
        assert_eq!(set.get(""), None);
    }
}
