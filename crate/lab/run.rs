//! The run behind the lab: one prompt, one decoded token, one draft, with everything recorded on the way.
//!
//! The prompt is fed in two calls: up to the followed token, and the rest. A reference gives the same bits for any way to cut, and the taps
//! that show only a call's last row then show the followed token.

use super::prompt::{Request, Seen, build, cut};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::blocks::b6a_kv_cache::State;
use crate::blocks::b6b_head_dspark::Draft;
use crate::blocks::context::Context;
use crate::blocks::tap::{Observer, Recorded, Recorder, Silent, Tap};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::{Prefill, Reference};
use crate::numerics::ops::argmax;
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::weights::Checkpoint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest checkpoint that the lab loads: everything is held in memory.
pub const MAX_BYTES: u64 = 4 << 30;

/// Recorded tensors by tap and layer.
#[derive(Debug, Clone, Default)]
pub struct Tensors(BTreeMap<(Tap, usize), Recorded>);

impl Tensors {
    /// The tensor of a tap and layer, if it was recorded.
    pub fn get(&self, tap: Tap, layer: usize) -> Option<&Recorded> {
        self.0.get(&(tap, layer))
    }

    /// Its real numbers; empty if it was not recorded.
    pub fn values(&self, tap: Tap, layer: usize) -> &[f32] {
        self.get(tap, layer).map_or(&[], |tensor| &tensor.f32)
    }

    /// Its indices; empty if it was not recorded.
    pub fn indices(&self, tap: Tap, layer: usize) -> &[i64] {
        self.get(tap, layer).map_or(&[], |tensor| &tensor.i64)
    }

    /// One row of its real numbers; empty if there is none.
    pub fn row(&self, tap: Tap, layer: usize, row: usize) -> &[f32] {
        let Some(tensor) = self.get(tap, layer) else { return &[] };
        let width: usize = tensor.shape[1..].iter().product();
        tensor.f32.get(row * width..(row + 1) * width).unwrap_or(&[])
    }

    /// One row of its indices without the padding; empty if there is none.
    pub fn index_row(&self, tap: Tap, layer: usize, row: usize) -> Vec<usize> {
        let Some(tensor) = self.get(tap, layer) else { return Vec::new() };
        let width: usize = tensor.shape[1..].iter().product();
        let row = tensor.i64.get(row * width..(row + 1) * width).unwrap_or(&[]);
        row.iter().filter_map(|&id| usize::try_from(id).ok()).collect()
    }
}

/// Everything that the chapters look at.
#[derive(Debug)]
pub struct Run {
    /// The checkpoint; its config is the truth that the run is compared with.
    pub checkpoint: Arc<Checkpoint>,
    /// The loaded model.
    pub model: Reference,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The prompt.
    pub prompt: Prompt,
    /// The picture, if there is one.
    pub picture: Option<Seen>,
    /// Position of the followed token.
    pub at: usize,
    /// The chosen layer, which the chapters look into: at first the last one that writes global KV, where encoder and decoder meet (20).
    pub layer: usize,
    /// Tensors of positions 0 to [`Run::at`].
    pub seen: Tensors,
    /// State after the followed token.
    pub state_at: State,
    /// State after the prompt.
    pub state: State,
    /// Logits behind the prompt `[vocab]`.
    pub logits: Vec<f32>,
    /// What the model says next.
    pub next: u32,
    /// The draft after that token, and whether a second try gave the same and left the state alone.
    pub draft: Option<(Draft, bool)>,
    /// Which rows ran through which layer when that token was decoded.
    pub decoded: Tensors,
    /// State after it.
    pub state_decoded: State,
    /// Logits behind it `[vocab]`.
    pub logits_decoded: Vec<f32>,
    /// Rows of the prompt that ran through the decoder in a second run with a tail.
    pub tail: usize,
    /// Which rows ran through which layer in that run.
    pub tail_rows: Tensors,
    /// State after it.
    pub state_tail: State,
    /// Rows of the embedding table as stored, one per position (bf16 or f32, little endian; unused for pictures).
    pub table_rows: Vec<Vec<u8>>,
    /// The first row of an expert's `w1` as stored.
    pub stored_row: StoredRow,
}

/// The first row of `w1` of an expert that the followed token uses, as it lies in the file.
#[derive(Debug, Clone, Default)]
pub struct StoredRow {
    /// The expert.
    pub expert: usize,
    /// Two E2M1 codes per byte.
    pub codes: Vec<u8>,
    /// One E8M0 scale per 32 columns.
    pub scales: Vec<u8>,
}

impl Run {
    /// Loads `checkpoint` and runs `request`, in f32 with caches as released.
    ///
    /// # Errors
    /// [`Error::Usage`] if the prompt is longer than [`super::prompt::MAX_POSITIONS`] or the followed position is not in it, [`Error::DoesNotFit`] for a
    /// checkpoint beyond [`MAX_BYTES`], and whatever loading, picture or run say.
    pub async fn new(checkpoint: Arc<Checkpoint>, request: Request) -> Result<Self> {
        let context = Context::new(&checkpoint.config, Precision::F32, Precision::Released);
        Self::with_context(checkpoint, context, request).await
    }

    /// [`Run::new`] with a context of one's own: a planted mistake. The chapters expect f32 between operations and caches as released.
    ///
    /// # Errors
    /// As [`Run::new`].
    pub async fn with_context(checkpoint: Arc<Checkpoint>, context: Context, request: Request) -> Result<Self> {
        if checkpoint.total_bytes() > MAX_BYTES {
            return Err(Error::DoesNotFit {
                what: "the lab, which holds a whole checkpoint in memory,".into(),
                needed: format!("{} bytes", checkpoint.total_bytes()),
                available: format!("{MAX_BYTES} bytes"),
            });
        }
        let tokenizer = Tokenizer::from_json(checkpoint.tokenizer_json()?)?;
        let model = Reference::load_with(checkpoint.clone(), context, &mut |_, _, _| {}).await?;
        let (prompt, picture) = build(&model, &tokenizer, &request)?;
        let at = followed(&prompt, request.token)?;

        let focus = focus(&checkpoint.config);
        let mut seen = Recorder::new(|tap, layer| !matches!(tap, Tap::Query | Tap::Heads) || layer == focus);
        let mut state = model.state();
        let (first, rest) = cut(&prompt, at + 1, checkpoint.config.dim);
        let mut logits = feed(&model, &mut state, &first, DecoderTail::All, &mut seen).await?;
        let state_at = state.clone();
        if !rest.is_empty() {
            logits = feed(&model, &mut state, &rest, DecoderTail::All, &mut Silent).await?;
        }

        let next = argmax(&logits) as u32;
        let draft = draft(&model, &state, next);
        let mut decoded = rows_recorder();
        let mut state_decoded = state.clone();
        let logits_decoded = model.decode(&mut state_decoded, next, &mut decoded).await?;

        let tail = match checkpoint.config.window_size {
            window if prompt.len() > window => window,
            _ => prompt.len().div_ceil(2),
        };
        let mut tail_rows = rows_recorder();
        let mut state_tail = model.state();
        feed(&model, &mut state_tail, &prompt, DecoderTail::Last(tail), &mut tail_rows).await?;

        let seen = Tensors(seen.tensors);
        let table_rows = table_rows(&checkpoint, &prompt).await?;
        let stored_row = stored_row(&checkpoint, &seen, focus, at).await?;
        let (decoded, tail_rows) = (Tensors(decoded.tensors), Tensors(tail_rows.tensors));
        Ok(Run {
            checkpoint,
            model,
            tokenizer,
            prompt,
            picture,
            at,
            layer: focus,
            seen,
            state_at,
            state,
            logits,
            next,
            draft,
            decoded,
            state_decoded,
            logits_decoded,
            tail,
            tail_rows,
            state_tail,
            table_rows,
            stored_row,
        })
    }

    /// The config as the checkpoint states it.
    pub fn config(&self) -> &Config {
        &self.checkpoint.config
    }

    /// The layer that the chapters look into.
    pub fn focus(&self) -> usize {
        self.layer
    }

    /// Positions that were recorded: up to the followed one.
    pub fn n(&self) -> usize {
        self.at + 1
    }
}

/// A recorder of [`Tap::Rows`] alone.
fn rows_recorder() -> Recorder<fn(Tap, usize) -> bool> {
    Recorder::new(|tap, _| tap == Tap::Rows)
}

fn focus(config: &Config) -> usize {
    config.last_kv_source().unwrap_or(0)
}

fn followed(prompt: &Prompt, token: Option<usize>) -> Result<usize> {
    let n = prompt.len();
    match token {
        Some(at) if at >= n => {
            Err(Error::Usage(format!("position {at} cannot be followed: this prompt has positions 0 to {}", n - 1)))
        }
        Some(at) => Ok(at),
        None => Ok(n - 1),
    }
}

async fn feed(
    model: &Reference,
    state: &mut State,
    prompt: &Prompt,
    tail: DecoderTail,
    observer: &mut dyn Observer,
) -> Result<Vec<f32>> {
    let how = Prefill { chunk: prompt.len(), tail, all_logits: false };
    Ok(model.prefill(state, prompt, how, observer).await?.logits)
}

/// Drafts twice: the second time must see the same state and say the same.
fn draft(model: &Reference, state: &State, anchor: u32) -> Option<(Draft, bool)> {
    let before = state.clone();
    let first = model.draft(state, anchor)?;
    let again = model.draft(state, anchor);
    let unchanged = before == *state && again.as_ref() == Some(&first);
    Some((first, unchanged))
}

async fn table_rows(checkpoint: &Checkpoint, prompt: &Prompt) -> Result<Vec<Vec<u8>>> {
    let mut rows = Vec::with_capacity(prompt.len());
    for &id in &prompt.ids {
        rows.push(checkpoint.read_rows("embed.weight", u64::from(id), 1).await?);
    }
    Ok(rows)
}

async fn stored_row(checkpoint: &Checkpoint, seen: &Tensors, layer: usize, at: usize) -> Result<StoredRow> {
    let expert = seen.index_row(Tap::ExpertIds, layer, at).first().copied().unwrap_or(0);
    let name = format!("layers.{layer}.ffn.experts.{expert}.w1");
    Ok(StoredRow {
        expert,
        codes: checkpoint.read_rows(&format!("{name}.weight"), 0, 1).await?,
        scales: checkpoint.read_rows(&format!("{name}.scale"), 0, 1).await?,
    })
}
