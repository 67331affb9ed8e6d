//! Byte-pair merging of one word (section 12.1).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The merge list and the ids of the 256 single bytes.
#[derive(Debug, Clone)]
pub(crate) struct Bpe {
    /// Id of the token that stands for one byte.
    byte_ids: [u32; 256],
    /// Pair of neighbouring ids to its rank: the place in the merge list, smaller first.
    ranks: HashMap<(u32, u32), u32>,
    /// Rank to the id of the merged token.
    merged: Vec<u32>,
}

/// A token of the word under work. The tokens form a doubly linked list, so that a merge costs constant time.
struct Symbol {
    id: u32,
    prev: usize,
    next: usize,
}

/// Stands for "no neighbour".
const NONE: usize = usize::MAX;
/// Id of a symbol that was merged into its left neighbour. Real ids are far smaller (`file::MAX_VOCAB`).
const GONE: u32 = u32::MAX;

impl Bpe {
    /// No merges yet.
    pub(crate) fn new(byte_ids: [u32; 256]) -> Self {
        Bpe { byte_ids, ranks: HashMap::new(), merged: Vec::new() }
    }

    /// Adds the next merge, `left` and `right` to `merged`; false if the pair was added before.
    pub(crate) fn add_merge(&mut self, left: u32, right: u32, merged: u32) -> bool {
        let rank = self.merged.len() as u32;
        self.merged.push(merged);
        self.ranks.insert((left, right), rank).is_none()
    }

    /// Appends the tokens of `word` to `ids`.
    ///
    /// Repeats "merge the pair of lowest rank, the leftmost of equals" until no pair is in the list. A heap holds the
    /// candidates, so a word of n bytes takes O(n log n) steps.
    pub(crate) fn encode_word(&self, word: &[u8], ids: &mut Vec<u32>) {
        let mut symbols: Vec<Symbol> = word
            .iter()
            .enumerate()
            .map(|(at, &byte)| Symbol {
                id: self.byte_ids[usize::from(byte)],
                prev: at.wrapping_sub(1), // the first has NONE
                next: if at + 1 < word.len() { at + 1 } else { NONE },
            })
            .collect();
        let mut candidates: BinaryHeap<Reverse<(u32, usize)>> =
            (0..symbols.len()).filter_map(|at| Some(Reverse((self.rank_at(&symbols, at)?, at)))).collect();
        while let Some(Reverse((rank, at))) = candidates.pop() {
            // A candidate is out of date when one of its two symbols has changed since: then its rank has, too.
            if self.rank_at(&symbols, at) != Some(rank) {
                continue;
            }
            self.merge(&mut symbols, at, rank);
            for changed in [symbols[at].prev, at] {
                candidates.extend(self.rank_at(&symbols, changed).map(|rank| Reverse((rank, changed))));
            }
        }
        ids.extend(symbols.iter().map(|symbol| symbol.id).filter(|&id| id != GONE));
    }

    /// Rank of the pair that begins at symbol `at`, if there is such a symbol, it has a right neighbour and the pair
    /// is in the list.
    fn rank_at(&self, symbols: &[Symbol], at: usize) -> Option<u32> {
        let left = symbols.get(at)?;
        let right = symbols.get(left.next)?;
        self.ranks.get(&(left.id, right.id)).copied()
    }

    /// Replaces symbol `at` and its right neighbour by the token of merge `rank`.
    fn merge(&self, symbols: &mut [Symbol], at: usize, rank: u32) {
        let right = symbols[at].next;
        let after = symbols[right].next;
        symbols[at].id = self.merged[rank as usize];
        symbols[at].next = after;
        if after != NONE {
            symbols[after].prev = at;
        }
        symbols[right] = Symbol { id: GONE, prev: NONE, next: NONE };
    }
}
