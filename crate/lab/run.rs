//! The run behind the lab: one prompt, one decoded token, one draft, with everything recorded on the way.
//!
//! The prompt is fed in two calls: up to the followed token, and the rest. A reference gives the same bits for any way to cut, and the taps
//! that show only a call's last row then show the followed token.

use super::content::Badge;
use super::judging::{self, Part, held, judge, parts};
use super::prompt::{Request, Seen, build, cut};
use super::record::Everything;
pub use super::record::Tensors;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::blocks::b6a_kv_cache::State;
use crate::blocks::b6b_head_dspark::Draft;
use crate::blocks::context::Context;
use crate::blocks::tap::{Observer, Recorder, Silent, Tap};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::{Prefill, Reference};
use crate::numerics::ops::argmax;
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::weights::Checkpoint;
use std::sync::Arc;

/// Largest checkpoint that the lab loads: everything is held in memory.
pub const MAX_BYTES: u64 = 4 << 30;

/// Everything that the chapters look at.
#[derive(Debug)]
pub struct Run {
    /// The checkpoint; its config is the truth that the run is compared with.
    pub checkpoint: Arc<Checkpoint>,
    /// Whether the GPU computed what [`super::on_gpu`] says; otherwise everything is the reference's.
    pub on_gpu: bool,
    /// The loaded model.
    pub model: Arc<Reference>,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The prompt.
    pub prompt: Prompt,
    /// Positions of the prompt that the reader gave; what follows was written by the model.
    pub prompt_length: usize,
    /// The picture, if there is one.
    pub picture: Option<Seen>,
    /// Position of the followed token.
    pub at: usize,
    /// The layer that the chapters look into: at first the last one that writes global KV, where encoder and decoder meet (20).
    pub layer: usize,
    /// Tensors of positions 0 to [`Run::at`] in every layer; queries and heads of the followed token alone
    /// ([`super::record::last_row_only`]).
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
    /// Logits of the main network at each place of the draft, given the anchor and the draft tokens before that place, and behind the draft
    /// `[draft + 1, vocab]`; empty without a draft.
    pub verified: Vec<f32>,
    /// Which rows ran through which layer in that pass.
    pub judged_rows: Tensors,
    /// What that pass wrote into the state, and what going back left of it, in the order of [`judging::PARTS`]; empty without a draft.
    pub rolled: Vec<Part>,
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
    /// Per layer, the first row of an expert's `w1` as stored `[layers]`.
    pub stored_rows: Vec<StoredRow>,
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
        let tokenizer = Arc::new(Tokenizer::from_json(checkpoint.tokenizer_json()?)?);
        let model = Arc::new(Reference::load_with(checkpoint.clone(), context, &mut |_, _, _| {}).await?);
        let (prompt, picture) = build(&model, &tokenizer, &request)?;
        Self::follow(checkpoint, model, tokenizer, (prompt, picture), request.token).await
    }

    /// Runs a prompt on a model that is loaded, and follows `token`, or the last position.
    ///
    /// # Errors
    /// [`Error::Usage`] if that position is not in the prompt, and what the run says.
    pub async fn follow(
        checkpoint: Arc<Checkpoint>,
        model: Arc<Reference>,
        tokenizer: Arc<Tokenizer>,
        (prompt, picture): (Prompt, Option<Seen>),
        token: Option<usize>,
    ) -> Result<Self> {
        let at = followed(&prompt, token)?;

        let mut seen = Everything::default();
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

        let mut judged_rows = rows_recorder();
        let (mut verified, mut rolled) = (Vec::new(), Vec::new());
        if let Some(prompt) = draft.as_ref().and_then(|(draft, _)| judge(model.config(), state.position, draft)) {
            let mut judged = state.clone();
            judged.begin();
            let how = Prefill { chunk: prompt.len(), tail: DecoderTail::All, all_logits: true };
            verified = model.prefill(&mut judged, &prompt, how, &mut judged_rows).await?.logits;
            let (kept, after) = (judging::kept(&prompt, &verified, model.config().vocab_size), held(&judged));
            judged.settle(state.position + kept)?;
            let mut plain = state_decoded.clone();
            for &id in &prompt.ids[1..kept] {
                model.decode(&mut plain, id, &mut Silent).await?;
            }
            rolled = parts(held(&state), after, &judged, &plain);
        }

        let tail = match checkpoint.config.window_size {
            window if prompt.len() > window => window,
            _ => prompt.len().div_ceil(2),
        };
        let mut tail_rows = rows_recorder();
        let mut state_tail = model.state();
        feed(&model, &mut state_tail, &prompt, DecoderTail::Last(tail), &mut tail_rows).await?;

        let seen = Tensors::from(seen);
        let table_rows = table_rows(&checkpoint, &prompt).await?;
        let stored_rows = stored_rows(&checkpoint, &seen, at).await?;
        Ok(Run {
            layer: checkpoint.config.last_kv_source().unwrap_or(0),
            checkpoint,
            on_gpu: false,
            model,
            tokenizer,
            prompt_length: prompt.len(),
            prompt,
            picture,
            at,
            seen,
            state_at,
            state,
            logits,
            next,
            draft,
            verified,
            judged_rows: judged_rows.into(),
            rolled,
            decoded: decoded.into(),
            state_decoded,
            logits_decoded,
            tail,
            tail_rows: tail_rows.into(),
            state_tail,
            table_rows,
            stored_rows,
        })
    }

    /// Chooses the layer that the chapters look into. Everything they need was recorded for all layers, so nothing runs again.
    ///
    /// # Errors
    /// [`Error::Usage`] for a layer that the model does not have; the choice stays as it was.
    pub fn look_at(&mut self, layer: usize) -> Result<()> {
        let layers = self.config().n_layers;
        if layer >= layers {
            let last = layers - 1;
            return Err(Error::Usage(format!("layer {layer} cannot be shown: this model has layers 0 to {last}")));
        }
        self.layer = layer;
        Ok(())
    }

    /// The config as the checkpoint states it.
    pub fn config(&self) -> &Config {
        &self.checkpoint.config
    }

    /// The chosen layer: [`Run::layer`].
    pub fn focus(&self) -> usize {
        self.layer
    }

    /// Entries of global KV that the followed token may see in `layer`: whole groups up to it. 0 for a layer with a window alone.
    pub fn visible(&self, layer: usize) -> usize {
        self.n().checked_div(self.config().ratio(layer)).unwrap_or(0)
    }

    /// What the main network says at each place of the draft, given the draft tokens before that place.
    pub fn verdicts(&self) -> Vec<u32> {
        self.verified.chunks_exact(self.config().vocab_size).map(|logits| argmax(logits) as u32).collect()
    }

    /// Draft tokens that are kept: those before the first that the main network would not have said.
    pub fn accepted(&self) -> usize {
        let Some((draft, _)) = &self.draft else { return 0 };
        draft.ids.iter().zip(self.verdicts()).take_while(|&(&id, main)| id == main).count()
    }

    /// What a number read from the recorded tensors or the caches is marked with.
    pub fn badge(&self) -> Badge {
        if self.on_gpu { Badge::Gpu } else { Badge::CpuReference }
    }

    /// The prompt without what was written behind it.
    pub fn own_prompt(&self) -> Prompt {
        cut(&self.prompt, self.prompt_length, self.config().dim).0
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

async fn stored_rows(checkpoint: &Checkpoint, seen: &Tensors, at: usize) -> Result<Vec<StoredRow>> {
    let mut rows = Vec::with_capacity(checkpoint.config.n_layers);
    for layer in 0..checkpoint.config.n_layers {
        let expert = seen.index_row(Tap::ExpertIds, layer, at).first().copied().unwrap_or(0);
        let name = format!("layers.{layer}.ffn.experts.{expert}.w1");
        rows.push(StoredRow {
            expert,
            codes: checkpoint.read_rows(&format!("{name}.weight"), 0, 1).await?,
            scales: checkpoint.read_rows(&format!("{name}.scale"), 0, 1).await?,
        });
    }
    Ok(rows)
}
