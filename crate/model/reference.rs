//! The whole model on the CPU: exact, readable, and quick enough to use where there is no GPU.
//!
//! [`Reference::prefill`] reads a prompt in chunks, [`Reference::decode`] adds one token. Both do the same thing: a chunk of rows runs through
//! the layers in the order of section R.5, each reading and extending the [`State`]. Any way to cut a sequence into chunks gives the same bits,
//! because no row's arithmetic depends on the rows beside it.

use super::slots::Slots;
use crate::blocks::b1a_input::{self as input, Prompt};
use crate::blocks::b1b_engram as engram;
use crate::blocks::b3a_encoder_decoder::{DecoderTail, Tail};
use crate::blocks::b3b_compressor as compressor;
use crate::blocks::b3c_window_indexer::{self as indexer, Pool};
use crate::blocks::b6a_kv_cache::{Plane, State};
use crate::blocks::b6b_head_dspark::{self as head, Draft, Drafter, Head};
use crate::blocks::context::Context;
use crate::blocks::layer::{Layer, Rows, observe};
use crate::blocks::tap::{Observer, Tap, Values};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::image::{Patches, TokenType};
use crate::numerics::ops::argmax;
use crate::numerics::precision::Precision;
use crate::weights::Checkpoint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A loaded model.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Config and roundings.
    pub context: Context,
    /// 1A.
    pub input: input::Weights,
    /// The backbone.
    pub layers: Vec<Backbone>,
    /// 6B's head.
    pub head: Head,
    /// 6B's drafter, if the checkpoint has one.
    pub drafter: Option<Drafter>,
    pub(super) checkpoint: Arc<Checkpoint>,
    /// Where routed experts come from if they are not in `layers`.
    pub(crate) slots: Option<Arc<Slots>>,
}

/// One backbone layer: what every layer has, and what only some have.
#[derive(Debug, Clone)]
pub struct Backbone {
    /// Attention and experts.
    pub layer: Layer,
    /// 1B in front of it: hash and weights.
    pub engram: Option<(engram::Hash, engram::Weights)>,
    /// 3B: only KV sources.
    pub compressor: Option<compressor::Weights>,
    /// 3C: only index sources.
    pub indexer: Option<indexer::Weights>,
}

/// How to read a prompt.
#[derive(Debug, Clone, Copy)]
pub struct Prefill {
    /// Tokens per chunk, at least 1. Changes memory and speed, never the result.
    pub chunk: usize,
    /// Rows that run through the decoder.
    pub tail: DecoderTail,
    /// Logits of every row that ran through the decoder instead of the last only.
    pub all_logits: bool,
}

impl Default for Prefill {
    fn default() -> Self {
        Prefill { chunk: 256, tail: DecoderTail::All, all_logits: false }
    }
}

/// What a call returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Logits `[rows, vocab]`.
    pub logits: Vec<f32>,
    /// Position of the first row of the logits.
    pub first_row: usize,
}

/// What a parity run puts in place of computed values, so that one layer can be judged alone.
#[derive(Debug, Clone)]
pub struct Forced {
    /// Global KV of the layer's source.
    pub entries: Plane,
    /// Index keys of the layer's source.
    pub keys: Plane,
    /// The selection per row, ascending.
    pub selection: Vec<Vec<u32>>,
}

/// What passes from layer to layer within one call.
#[derive(Default)]
pub(super) struct Call {
    /// The newest index source's choice, per row.
    pub(super) selection: Vec<Vec<u32>>,
    /// Candidate blocks, per row.
    pub(super) pool: Option<Pool>,
    /// Decoded n-gram rows by layer `[n, columns * row width]`.
    pub(super) memory: BTreeMap<usize, Vec<f32>>,
    /// Stream means of the tapped layers `[n, dim]` each.
    pub(super) target_hidden: Vec<Vec<f32>>,
}

/// What a layer takes from outside instead of computing it.
#[derive(Clone, Copy)]
pub(super) enum Given<'a> {
    /// Nothing.
    Nothing,
    /// Global KV is written already, and these are the window rows (the tail's first layer).
    Window(&'a Tail),
    /// Global KV is written already; window rows and open groups are made again.
    Stored,
    /// Global KV and selection of a golden file.
    Forced(&'a Forced),
}

impl Reference {
    /// A copy of the model, weights included, with other caches.
    pub fn with_kv(&self, kv: Precision) -> Self {
        let mut model = self.clone();
        model.context.kv = kv;
        model
    }

    /// The state before the first token.
    pub fn state(&self) -> State {
        State::new(&self.context.config, self.context.kv)
    }

    /// The model's config.
    pub fn config(&self) -> &Config {
        &self.context.config
    }

    /// Runs a picture's patches through the vision tower: rows for its IMAGE positions `[cells, dim]`.
    pub fn image_rows(&self, patches: &Patches) -> Result<Vec<f32>> {
        input::image_rows(&self.context, &self.input, patches)
    }

    /// Feeds a prompt; returns the logits of the last row, or of all that ran through the decoder.
    ///
    /// # Errors
    /// An empty prompt, one that passes the position limit, ids beyond the vocabulary, pictures without rows: found before the state is
    /// touched. After [`Error::NotFiniteActivation`] the state is not usable any more.
    pub async fn prefill(
        &self,
        state: &mut State,
        prompt: &Prompt,
        how: Prefill,
        observer: &mut dyn Observer,
    ) -> Result<Output> {
        check_prompt(self.config(), state.position, prompt, self.input.image_marks.is_some())?;
        let (config, begin) = (self.config(), state.position);
        let split = config.last_kv_source().unwrap_or(0);
        let mut tail = match how.tail {
            DecoderTail::Last(keep) if split > 0 => {
                let held = state.windows[split].positions();
                Some(Tail::new(config, keep, state.windows[split].read(held.clone()), held.start))
            }
            _ => None,
        };
        let mut images = 0;
        let mut output = Output { logits: Vec::new(), first_row: begin };
        for from in (0..prompt.len()).step_by(how.chunk.max(1)) {
            let to = (from + how.chunk.max(1)).min(prompt.len());
            let embedding = input::embed(&self.input, prompt, from..to, images)?;
            images += prompt.types[from..to].iter().filter(|&&t| t == TokenType::Image).count();
            observe(observer, Tap::Embedding, 0, &[to - from, config.dim], &embedding);
            let mut call = Call { memory: self.memory(state, prompt, from..to, observer).await?, ..Call::default() };
            let mut rows = Rows::enter(&self.context, &embedding, prompt.types[from..to].to_vec(), begin + from);
            let end = if tail.is_some() { split } else { config.n_layers };
            for layer in 0..end {
                self.run_layer(layer, &mut rows, state, &mut call, Given::Nothing, observer).await?;
            }
            state.position = begin + to;
            if let Some(tail) = &mut tail {
                let window = self.feed_source(split, &mut rows, &call, state, observer);
                let older = window.rows.len() - rows.n() * config.head_dim;
                tail.push(config, rows, &window.rows[older..], call.memory.split_off(&(split + 1)));
            } else {
                let wanted = if how.all_logits { rows.n() } else { usize::from(to == prompt.len()) };
                self.finish(state, &rows, &call, wanted, &mut output, observer)?;
            }
        }
        if let Some(tail) = tail {
            let mut rows = tail.rows.clone();
            let mut call = Call { memory: tail.memory.clone(), ..Call::default() };
            self.run_layer(split, &mut rows, state, &mut call, Given::Window(&tail), observer).await?;
            for layer in split + 1..config.n_layers {
                self.run_layer(layer, &mut rows, state, &mut call, Given::Nothing, observer).await?;
            }
            output.first_row = rows.start;
            self.finish(state, &rows, &call, if how.all_logits { rows.n() } else { 1 }, &mut output, observer)?;
        }
        if !how.all_logits {
            output.first_row = state.position - 1;
        }
        Ok(output)
    }

    /// Feeds one text token; returns the logits for the next.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub async fn decode(&self, state: &mut State, id: u32, observer: &mut dyn Observer) -> Result<Vec<f32>> {
        Ok(self.prefill(state, &Prompt::text(vec![id]), Prefill::default(), observer).await?.logits)
    }

    /// Drafts the tokens after `anchor`, which was chosen from the last logits (6B). `None` if the checkpoint has no drafter, before the first
    /// token, or for an anchor beyond the vocabulary. Changes nothing.
    pub fn draft(&self, state: &State, anchor: u32) -> Option<Draft> {
        self.draft_with(state, anchor, &mut |_, logits| argmax(logits) as u32)
    }

    /// [`Self::draft`] whose tokens are chosen by `choose`, from a token's number in the block and its logits.
    pub fn draft_with(
        &self,
        state: &State,
        anchor: u32,
        choose: &mut dyn FnMut(usize, &[f32]) -> u32,
    ) -> Option<Draft> {
        let drafter =
            self.drafter.as_ref().filter(|_| state.position > 0 && (anchor as usize) < self.config().vocab_size)?;
        let embedding = |ids: &[u32]| {
            let embed = &self.input.embed;
            let mut rows = vec![0.0; ids.len() * embed.cols()];
            rows.chunks_exact_mut(embed.cols()).zip(ids).for_each(|(row, &id)| embed.decode_row(id as usize, row));
            rows
        };
        Some(head::draft(&self.context, drafter, &self.head, &state.draft_windows, anchor, embedding, choose))
    }

    /// Runs one layer alone on given rows, with the global KV and the selection of a golden file: teacher forcing for parity reports. The
    /// window holds only what these rows bring. `ids` are the rows' token ids, for the n-gram memory; `pool` carries the candidate blocks
    /// from the candidate source to the index sources after it.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub async fn layer_alone(
        &self,
        layer: usize,
        rows: &mut Rows,
        ids: &[u32],
        forced: Option<&Forced>,
        pool: &mut Option<Pool>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut state = self.state();
        let prompt = Prompt { ids: ids.to_vec(), types: rows.types.clone(), image_rows: Vec::new() };
        let memory = self.memory(&mut state, &prompt, 0..ids.len(), observer).await?;
        let mut call = Call { memory, pool: pool.take(), ..Call::default() };
        let given = forced.map_or(Given::Nothing, Given::Forced);
        self.run_layer(layer, rows, &mut state, &mut call, given, observer).await?;
        *pool = call.pool;
        Ok(())
    }

    /// Appends the compressed ids of a chunk to the history, and reads its n-gram rows: their addresses follow from the ids alone, so this
    /// is the only reading from the checkpoint, and it happens before any arithmetic.
    pub(super) async fn memory(
        &self,
        state: &mut State,
        prompt: &Prompt,
        range: std::ops::Range<usize>,
        observer: &mut dyn Observer,
    ) -> Result<BTreeMap<usize, Vec<f32>>> {
        let config = self.config();
        let before = state.engram_history.len();
        let map = &self.checkpoint.engram.token_map;
        let mut history = state.engram_history.clone();
        history.extend(range.map(|p| (!prompt.types[p].is_image()).then(|| map[prompt.ids[p] as usize])));
        let mut memory = BTreeMap::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let Some((hash, _)) = &layer.engram else { continue };
            let ids: Vec<u64> = (before..history.len())
                .flat_map(|p| hash.rows(&history[(p + 1).saturating_sub(config.engram_max_ngram_size)..=p]))
                .collect();
            if observer.wants(Tap::EngramRows, index) {
                let shown: Vec<i64> = ids.iter().map(|&row| row as i64).collect();
                let shape = [history.len() - before, config.engram_columns()];
                observer.see(Tap::EngramRows, index, &shape, Values::I64(&shown));
            }
            let table = format!("layers.{index}.engram.embed");
            self.checkpoint.announce_rows(&table, &ids).await?;
            let mut rows = Vec::with_capacity(ids.len() * config.engram_head_dim);
            for id in ids {
                rows.extend(self.checkpoint.table_row(&table, id).await?);
            }
            memory.insert(index, rows);
        }
        state.keep_history(&history[before..]);
        let kept = history.len().min(config.engram_max_ngram_size - 1);
        state.engram_history = history.split_off(history.len() - kept);
        Ok(memory)
    }

    /// Final norm and head for the last `wanted` rows, and the drafter's rings.
    pub(super) fn finish(
        &self,
        state: &mut State,
        rows: &Rows,
        call: &Call,
        wanted: usize,
        output: &mut Output,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let (n, config) = (rows.n(), self.config());
        if let Some(drafter) = &self.drafter {
            let taps: Vec<f32> = (0..n)
                .flat_map(|t| call.target_hidden.iter().flat_map(move |mean| &mean[t * config.dim..][..config.dim]))
                .copied()
                .collect();
            let width = config.dspark_target_layer_ids.len() * config.dim;
            observe(observer, Tap::TargetHidden, 0, &[n, width], &taps);
            let first = n.saturating_sub(config.window_size);
            head::seed(&self.context, drafter, &mut state.draft_windows, &taps[first * width..], rows.start + first);
        }
        if wanted > 0 {
            let normed = head::final_norm(&self.context, &self.head, rows);
            let normed = &normed[(n - wanted) * config.dim..];
            observe(observer, Tap::FinalNorm, 0, &[wanted, config.dim], normed);
            let logits = self.head.head.matmul(normed, wanted);
            check_finite(Tap::Logits, config.n_layers, &logits)?;
            observe(observer, Tap::Logits, 0, &[wanted, config.vocab_size], &logits);
            output.logits.extend(logits);
        }
        Ok(())
    }
}

/// What can be wrong with a prompt that continues a sequence at `position`, found before anything is touched.
pub(super) fn check_prompt(config: &Config, position: usize, prompt: &Prompt, has_vision: bool) -> Result<()> {
    if prompt.is_empty() {
        return Err(Error::Prompt("empty: at least one token is needed".into()));
    }
    let (after, limit) = (position + prompt.len(), config.max_position_embeddings);
    if after > limit {
        return Err(Error::Prompt(format!("{after} positions with what is already there; the model has {limit}")));
    }
    if prompt.types.len() != prompt.ids.len() {
        let (ids, types) = (prompt.ids.len(), prompt.types.len());
        return Err(Error::Prompt(format!("{ids} ids but {types} token types")));
    }
    if let Some(place) = prompt.ids.iter().position(|&id| id as usize >= config.vocab_size) {
        let (id, vocab) = (prompt.ids[place], config.vocab_size);
        return Err(Error::Prompt(format!("token id {id} at place {place}: the vocabulary has {vocab} entries")));
    }
    let (needed, found) =
        (prompt.types.iter().filter(|&&t| t == TokenType::Image).count() * config.dim, prompt.image_rows.len());
    if needed != found {
        return Err(Error::Prompt(format!("pictures bring {found} numbers for image positions that need {needed}")));
    }
    if !has_vision && prompt.types.iter().any(|t| t.is_image()) {
        return Err(Error::Prompt("the prompt has a picture, but this checkpoint has no vision tower".into()));
    }
    Ok(())
}

/// Refuses values that are not numbers, naming the first place where they appear.
pub(super) fn check_finite(tap: Tap, layer: usize, values: &[f32]) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(Error::NotFiniteActivation { tap: tap.name(), layer, index }),
        None => Ok(()),
    }
}
