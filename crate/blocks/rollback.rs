//! Going back: what a sequence must keep while tokens are fed that may turn out wrong (section 10.8).
//!
//! [`State::begin`] opens a speculation, tokens are fed as ever, and [`State::settle`] keeps some of them: the state is then the one that
//! feeding only these would have left, in every bit.
//!
//! ```text
//! window and draft rings   each displaced row is kept, and put back
//! entries, index keys      written once per group: cutting them is enough
//! open groups              (a, g) as it was after every token
//! n-gram history           the ids from before the beginning on
//! position                 set
//! ```

use super::b3b_compressor::Partial;
use super::b6a_kv_cache::{Plane, Ring, State};
use crate::error::{Error, Result};
use std::ops::Range;

/// A ring row that another one took the slot of.
#[derive(Debug, Clone)]
pub(super) struct Displaced {
    /// What the ring held before.
    pub(super) positions: Range<usize>,
    /// The row in the slot, as it was stored.
    pub(super) row: Plane,
}

/// What a state keeps while a speculation is open.
#[derive(Debug, Clone)]
pub(super) struct Undo {
    /// Position at the beginning.
    begin: usize,
    /// Compressed ids: the history at the beginning, and of every token since.
    history: Vec<Option<u32>>,
    /// Open group by layer: at the beginning, and after every token since; empty where a layer is no source.
    partials: Vec<Vec<Partial>>,
}

impl Ring {
    /// Takes back the newest rows until the ring ends at `position`.
    fn go_back(&mut self, position: usize) {
        for Displaced { positions, row } in self.displaced.take().unwrap_or_default().into_iter().rev() {
            if self.end <= position {
                break;
            }
            let slot = self.slot(self.end - 1);
            self.plane.copy_row(slot, &row, 0);
            (self.start, self.end) = (positions.start, positions.end);
        }
    }
}

impl State {
    /// Opens a speculation: from now on nothing that is overwritten is lost. A speculation that is open already is settled as it is.
    pub fn begin(&mut self) {
        let partials = self.sources.iter().map(|source| source.iter().map(|s| s.partial.clone()).collect()).collect();
        self.undo = Some(Undo { begin: self.position, history: self.engram_history.clone(), partials });
        self.rings().for_each(|ring| ring.displaced = Some(Vec::new()));
    }

    /// Whether a speculation is open.
    pub fn is_speculating(&self) -> bool {
        self.undo.is_some()
    }

    /// Closes the speculation, keeping the tokens before `position`.
    ///
    /// # Errors
    /// [`Error::Usage`] if none is open, or `position` is not between its beginning and the end: the state stays as it is.
    pub fn settle(&mut self, position: usize) -> Result<()> {
        let range = self.undo.as_ref().map(|undo| undo.begin..self.position + 1);
        let Some(undo) = self.undo.take_if(|_| range.as_ref().is_some_and(|range| range.contains(&position))) else {
            let known = range.map_or("none is open".into(), |range| format!("it can keep {range:?}"));
            return Err(Error::Usage(format!("a speculation was to keep {position} tokens: {known}")));
        };
        self.rings().for_each(|ring| ring.go_back(position));
        let kept = position - undo.begin;
        for (source, mut partials) in self.sources.iter_mut().zip(undo.partials) {
            let Some(source) = source else { continue };
            if position < self.position {
                source.partial = partials.swap_remove(kept);
            }
        }
        self.cut(position);
        // As many as the longest n-gram looks back on, or all there are.
        let held = self.engram_history.len().min(position);
        let end = undo.history.len() - (self.position - position);
        self.engram_history = undo.history[end - held..end].to_vec();
        self.position = position;
        Ok(())
    }

    /// Drops entries and index keys of groups that `position` tokens do not complete.
    pub(crate) fn cut(&mut self, position: usize) {
        for source in self.sources.iter_mut().flatten() {
            source.entries.resize(position / source.ratio);
            source.keys.resize(position / source.ratio);
        }
    }

    /// Remembers the open group of source `layer` after a token, while a speculation is open.
    pub(crate) fn keep_partial(&mut self, layer: usize) {
        if let (Some(undo), Some(source)) = (&mut self.undo, &self.sources[layer]) {
            undo.partials[layer].push(source.partial.clone());
        }
    }

    /// Remembers compressed ids, while a speculation is open.
    pub(crate) fn keep_history(&mut self, ids: &[Option<u32>]) {
        if let Some(undo) = &mut self.undo {
            undo.history.extend(ids);
        }
    }

    fn rings(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.windows.iter_mut().chain(&mut self.draft_windows)
    }
}
