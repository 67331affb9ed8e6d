//! Rings made again: the way back to a position whose window rows are gone, and into a snapshot that holds none (section 4.3).
//!
//! Global KV lasts; what lies in the windows does not. Feeding the tokens before a position once more, while every layer reads the entries
//! that are stored and writes none, makes the rings, open groups and draft rings anew. A row of layer `l` is right when its window was, so the
//! first `l * (window - 1)` rows of a replay that begins inside a sequence are wrong in layer `l`, and those before [`replay_from`] do not
//! matter: what remains is equal in every bit.

use super::reference::{Call, Given, Output, Reference};
use crate::blocks::b1a_input::{self as input, Prompt};
use crate::blocks::b6a_kv_cache::State;
use crate::blocks::layer::Rows;
use crate::blocks::tap::Silent;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::image::TokenType;

/// Tokens of a chunk.
const CHUNK: usize = 256;

/// First position of a replay that makes the rings at `position` exactly what they were: a window in front of it, and one window less a row
/// for every layer in between. Even, so that groups of two begin with their first token.
pub fn replay_from(config: &Config, position: usize) -> usize {
    let reach = config.window_size + config.n_layers.saturating_sub(1) * config.window_size.saturating_sub(1);
    position.saturating_sub(reach) / 2 * 2
}

impl Reference {
    /// Goes back to `position`: `state` carries the tokens of `sequence`, or its first ones, and global KV for at least `position` of them.
    /// Window rows are made again.
    ///
    /// # Errors
    /// As [`Self::prefill`]; [`Error::Usage`] if the state has fewer tokens, or the sequence is shorter than `position`. Unless that is what is
    /// wrong, the state is not usable after an error.
    pub async fn rewind(&self, state: &mut State, sequence: &Prompt, position: usize) -> Result<()> {
        check_rewind(self.config(), state.position, sequence, position)?;
        let mut again = self.state();
        if position == 0 {
            *state = again;
            return Ok(());
        }
        state.cut(position);
        for (again, source) in again.sources.iter_mut().flatten().zip(state.sources.iter_mut().flatten()) {
            std::mem::swap(&mut again.entries, &mut source.entries);
            std::mem::swap(&mut again.keys, &mut source.keys);
        }
        let from = replay_from(self.config(), position);
        again.engram_history = self.history(sequence, from);
        self.replay(&mut again, sequence, from..position).await?;
        *state = again;
        Ok(())
    }

    async fn replay(&self, state: &mut State, sequence: &Prompt, range: std::ops::Range<usize>) -> Result<()> {
        let mut images = sequence.types[..range.start].iter().filter(|&&t| t == TokenType::Image).count();
        for from in range.clone().step_by(CHUNK) {
            let to = (from + CHUNK).min(range.end);
            let embedding = input::embed(&self.input, sequence, from..to, images)?;
            images += sequence.types[from..to].iter().filter(|&&t| t == TokenType::Image).count();
            let memory = self.memory(state, sequence, from..to, &mut Silent).await?;
            let mut call = Call { memory, ..Call::default() };
            let mut rows = Rows::enter(&self.context, &embedding, sequence.types[from..to].to_vec(), from);
            for layer in 0..self.config().n_layers {
                self.run_layer(layer, &mut rows, state, &mut call, Given::Stored, &mut Silent).await?;
            }
            state.position = to;
            let mut nothing = Output { logits: Vec::new(), first_row: 0 };
            self.finish(state, &rows, &call, 0, &mut nothing, &mut Silent)?;
        }
        Ok(())
    }

    /// Compressed ids that the token at `position` of a sequence looks back on.
    fn history(&self, sequence: &Prompt, position: usize) -> Vec<Option<u32>> {
        let first = position.saturating_sub(self.config().engram_max_ngram_size - 1);
        compressed(sequence, first..position, &self.checkpoint.engram.token_map)
    }
}

/// Compressed ids of some places of a sequence; `None` inside a picture (section 2.1).
pub(crate) fn compressed(sequence: &Prompt, range: std::ops::Range<usize>, map: &[u32]) -> Vec<Option<u32>> {
    range.map(|p| (!sequence.types[p].is_image()).then(|| map[sequence.ids[p] as usize])).collect()
}

/// What can be wrong with a way back, found before anything is touched.
pub(super) fn check_rewind(config: &Config, held: usize, sequence: &Prompt, position: usize) -> Result<()> {
    let found = sequence.len().min(sequence.types.len());
    if position > held || position > found {
        return Err(Error::Usage(format!(
            "going back to {position}: the state has {held} tokens, the sequence {found}"
        )));
    }
    if let Some(id) = sequence.ids[..position].iter().find(|&&id| id as usize >= config.vocab_size) {
        return Err(Error::Prompt(format!("token id {id}: the vocabulary has {} entries", config.vocab_size)));
    }
    let images = |to: usize| sequence.types[..to].iter().filter(|&&t| t == TokenType::Image).count();
    let (before, all) = (images(replay_from(config, position)), images(position));
    if all > before && sequence.image_rows.len() < all * config.dim {
        let (needed, found) = (all * config.dim, sequence.image_rows.len());
        return Err(Error::Prompt(format!("pictures bring {found} numbers for image positions that need {needed}")));
    }
    Ok(())
}
