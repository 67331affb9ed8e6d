//! Going back (section 10.8), and a second copy of a sequence.
//!
//! A ring has room for a window and one call, and a source keeps the first tokens of a call's groups: so going back within a call is a matter of
//! the position alone. Further back the window rows are gone, and a replay makes them again.

use super::record::Part;
use super::state::OPEN_SLOTS;
use super::{GpuModel, GpuState, MOST_ROWS, Trace, fault};
use crate::blocks::b1a_input::Prompt;
use crate::error::{Error, Result};
use crate::model::replay::{check_rewind, compressed, replay_from};
use std::ops::Range;

// As many groups as a call has.
const _: () = assert!(2 * OPEN_SLOTS >= MOST_ROWS);

impl GpuState {
    /// The sequence has grown to `position` tokens.
    pub(super) fn advance(&mut self, position: usize) {
        self.position = position;
        self.written = self.written.max(position);
    }

    /// First position to which [`Self::step_back`] can go. Window rows, open groups and history reach back by a call; a draft takes the slots of
    /// `block` rows more.
    fn earliest(&self, block: usize) -> usize {
        self.rewind_from.max((self.written + block.max(1)).saturating_sub(MOST_ROWS))
    }

    /// Goes back to `position` without any computation, if everything that it needs is still there.
    fn step_back(&mut self, position: usize, block: usize) -> bool {
        if position > self.position || position < self.earliest(block) {
            return false;
        }
        let dropped = self.position - position;
        self.engram_history.truncate(self.engram_history.len().saturating_sub(dropped));
        self.position = position;
        true
    }
}

impl GpuModel {
    /// Goes back by a few tokens, those of a verified draft: nothing is computed.
    ///
    /// # Errors
    /// [`Error::Usage`] if `position` lies after the end, or too far back for the rows that are left: the state stays as it is.
    pub fn settle(&self, state: &mut GpuState, position: usize) -> Result<()> {
        let config = self.config();
        if state.step_back(position, config.dspark_block_size) {
            return Ok(());
        }
        let earliest = state.earliest(config.dspark_block_size);
        let known = earliest..state.position + 1;
        Err(Error::Usage(format!("a speculation was to keep {position} tokens: it can keep {known:?}")))
    }

    /// Goes back to `position`, as [`Reference::rewind`](crate::model::Reference::rewind); nothing is computed where the rows are still there.
    ///
    /// # Errors
    /// As [`Reference::rewind`](crate::model::Reference::rewind), [`Error::Gpu`], and [`Error::NotFiniteActivation`] where a replay meets a number
    /// that is not finite.
    pub async fn rewind(&self, state: &mut GpuState, sequence: &Prompt, position: usize) -> Result<()> {
        let config = self.config();
        check_rewind(config, state.position, sequence, position)?;
        if state.step_back(position, config.dspark_block_size) {
            return Ok(());
        }
        let from = replay_from(config, position);
        self.replay(state, sequence, from..position).await
    }

    /// Feeds `range` of a sequence whose entries and index keys are there, and ends at its end.
    pub(in crate::model) async fn replay(
        &self,
        state: &mut GpuState,
        sequence: &Prompt,
        range: Range<usize>,
    ) -> Result<()> {
        self.gpu.alive()?;
        state.clear_fault(&self.gpu);
        let first = range.start.saturating_sub(self.config().engram_max_ngram_size - 1);
        state.engram_history = compressed(sequence, first..range.start, &self.checkpoint.engram.token_map);
        (state.encoder_oldest, state.decoder_oldest) = (range.start, range.start);
        (state.rewind_from, state.written) = (range.end, range.end);
        for from in range.clone().step_by(MOST_ROWS) {
            let rows = from..(from + MOST_ROWS).min(range.end);
            let memory = self.memory(state, sequence, rows.clone(), &mut Trace::default()).await?;
            self.write_rows(state, sequence, rows.clone(), from, &memory)?;
            self.run(state, Part::Replay, (from, rows.len()), (&[], &mut Trace::default())).await?;
        }
        // Rows that later tokens do not see: the window in front of them is whole.
        state.encoder_oldest = 0;
        state.position = range.end;
        // No logits and no choice come back from a replay: the word is all that tells.
        match fault::read(&self.gpu, &state.fault).await? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// A copy of a sequence that goes its own way.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub async fn fork(&self, state: &GpuState) -> Result<GpuState> {
        let mut fork = self.state()?;
        fork.reserve(&self.gpu, state.capacity()).await?;
        let mut encoder = self.gpu.encoder();
        let drafts = |state: &GpuState| state.drafting.iter().flat_map(|d| d.rings.clone()).collect::<Vec<_>>();
        for (from, to) in state.rings.iter().chain(&drafts(state)).zip(fork.rings.iter().chain(&drafts(&fork))) {
            from.copy_to(to, &mut encoder);
        }
        for (from, to) in state.sources.values().zip(fork.sources.values()) {
            from.entries.copy_to(&to.entries, &mut encoder);
            from.keys.copy_to(&to.keys, &mut encoder);
            for (from, to) in from.open.iter().zip(&to.open) {
                encoder.copy_buffer_to_buffer(&from.buffer, 0, &to.buffer, 0, from.buffer.size());
            }
        }
        self.gpu.submit(encoder);
        fork.position = state.position;
        fork.engram_history.clone_from(&state.engram_history);
        fork.decoder_oldest = state.decoder_oldest;
        (fork.rewind_from, fork.written) = (state.rewind_from, state.written);
        Ok(fork)
    }
}
