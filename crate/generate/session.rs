//! One conversation with a model: read a prompt, write an answer.

use super::prompt::Picture;
use super::sampler::Sampler;
use super::usage::Usage;
use crate::blocks::b1a_input::Prompt;
use crate::model::{Engine, EngineState, Prefill};
use crate::text::prompt::Piece;
use crate::text::{Detokeniser, StopStrings, Tokenizer};
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Seconds from any fixed moment on. Passed in, because the browser's clock is not the operating system's.
pub type Clock<'a> = &'a dyn Fn() -> f64;

/// When an answer ends, besides the model's own end of sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most tokens of the answer, at least 1.
    pub max_tokens: usize,
    /// Texts before which the answer ends.
    pub stop: Vec<String>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model chose its end of sequence.
    Eos,
    /// A stop string came.
    Stop,
    /// [`Limits::max_tokens`].
    MaxTokens,
    /// The model has no position left for another token.
    PositionLimit,
    /// The callback asked to stop.
    Cancelled,
}

impl Finish {
    /// Name in reports: `eos`, `stop`, `max-tokens`, `position-limit`, `cancelled`.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Eos => "eos",
            Finish::Stop => "stop",
            Finish::MaxTokens => "max-tokens",
            Finish::PositionLimit => "position-limit",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// All text that was passed to the callback.
    pub text: String,
    /// All tokens that were chosen: an end of sequence and the tokens of a stop string are here, but not in the text.
    pub ids: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
}

/// A model's state and what belongs to it. Prompts and answers alternate as one growing sequence.
#[derive(Debug)]
pub struct Session {
    model: Engine,
    tokenizer: Arc<Tokenizer>,
    state: EngineState,
    /// Logits for the token after the state; empty before the first prompt.
    logits: Vec<f32>,
    /// A token that was chosen and has not run through the model yet.
    unfed: Option<u32>,
    /// An error came in the middle of a call, so the state is not one of any sequence.
    broken: bool,
    usage: Usage,
}

impl Session {
    /// An empty session.
    ///
    /// # Errors
    /// As [`Engine::state`].
    pub fn new(model: impl Into<Engine>, tokenizer: Arc<Tokenizer>) -> Result<Self> {
        let model = model.into();
        let (state, usage) = (model.state()?, Usage::default());
        Ok(Session { model, tokenizer, state, logits: Vec::new(), unfed: None, broken: false, usage })
    }

    /// Tokens and seconds so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The caches, for their sizes.
    pub fn state(&self) -> &EngineState {
        &self.state
    }

    /// What computes.
    pub fn engine(&self) -> &Engine {
        &self.model
    }

    /// Reads a prompt; `Piece::Image(i)` stands for `pictures[i]`. After an answer, the answer's last token goes in front of it.
    ///
    /// # Errors
    /// [`Error::Prompt`] if it is empty, passes the model's position limit, or names a picture that is not there: the session stays as it was.
    /// After any other error the session is over.
    pub async fn feed(&mut self, pieces: &[Piece], pictures: &[Picture], how: Prefill, clock: Clock<'_>) -> Result<()> {
        self.check_usable()?;
        let (positions, image_tokens) = count(pieces, pictures)?;
        let after = self.state.position() + usize::from(self.unfed.is_some()) + positions;
        let limit = self.model.config().max_position_embeddings;
        // Before the vision tower runs; the model itself would only notice after it.
        if after > limit {
            return Err(Error::Prompt(format!("{after} positions with what is already there; the model has {limit}")));
        }
        if positions == 0 {
            return Err(Error::Prompt("empty: at least one token is needed".into()));
        }
        let begin = clock();
        let prompt = self.assemble(pieces, pictures).await?;
        let how = Prefill { all_logits: false, ..how };
        let read = self.model.prefill(&mut self.state, &prompt, how).await;
        self.logits = self.keep(read)?.logits;
        self.unfed = None;
        self.usage.prefill_seconds += clock() - begin;
        self.usage.prompt_tokens += positions;
        self.usage.image_tokens += image_tokens;
        Ok(())
    }

    /// Writes an answer. `emit` gets the text of each token when it is certain, which may be none, and once more what was held back at the end.
    /// A second call goes on where the first one ended.
    ///
    /// # Errors
    /// [`Error::Usage`] for limits that allow nothing, [`Error::Prompt`] if no prompt was read, a stop string is empty or the model has no
    /// position left. After an error of the model the session is over.
    pub async fn generate(
        &mut self,
        sampler: &mut Sampler,
        limits: &Limits,
        clock: Clock<'_>,
        emit: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Answer> {
        self.check_usable()?;
        if limits.max_tokens == 0 {
            return Err(Error::Usage("max tokens: needed at least 1, found 0".into()));
        }
        if self.logits.is_empty() {
            return Err(Error::Prompt("empty: needed a prompt before an answer".into()));
        }
        let mut text =
            Text { stops: StopStrings::new(&limits.stop)?, detokeniser: Detokeniser::new(), all: String::new() };
        let mut ids = Vec::new();
        let finish = loop {
            let begin = clock();
            if self.is_full() {
                break Finish::PositionLimit;
            }
            let id = self.next(sampler).await?;
            self.usage.decode_seconds += clock() - begin;
            self.usage.generated_tokens += 1;
            ids.push(id);
            if id == self.model.config().eos_token_id {
                break Finish::Eos;
            }
            let from = text.all.len();
            let stopped = text.push(&self.tokenizer, id);
            let flow = emit(&text.all[from..]);
            if stopped {
                break Finish::Stop;
            }
            if flow.is_break() {
                break Finish::Cancelled;
            }
            if ids.len() == limits.max_tokens {
                break Finish::MaxTokens;
            }
        };
        if ids.is_empty() {
            let limit = self.model.config().max_position_embeddings;
            return Err(Error::Prompt(format!("all {limit} positions of the model are taken: no token can follow")));
        }
        let from = text.all.len();
        let stopped = text.finish();
        if text.all.len() > from {
            // Nothing follows that a callback could stop.
            let _ = emit(&text.all[from..]);
        }
        Ok(Answer { text: text.all, ids, finish: if stopped { Finish::Stop } else { finish } })
    }

    /// Whether a chosen token waits, but the model has no position for it.
    fn is_full(&self) -> bool {
        self.unfed.is_some() && self.state.position() >= self.model.config().max_position_embeddings
    }

    /// Runs the token that waits, if there is one, and chooses the next.
    async fn next(&mut self, sampler: &mut Sampler) -> Result<u32> {
        if let Some(id) = self.unfed {
            let logits = self.model.decode(&mut self.state, id).await;
            self.logits = self.keep(logits)?;
            self.usage.decode_steps += 1;
        }
        let id = sampler.sample(&self.logits)?;
        self.unfed = Some(id);
        Ok(id)
    }

    async fn assemble(&self, pieces: &[Piece], pictures: &[Picture]) -> Result<Prompt> {
        let mut prompt = Prompt::text(self.unfed.into_iter().collect());
        for piece in pieces {
            match piece {
                Piece::Ids(ids) => prompt.push_text(ids),
                Piece::Image(index) => {
                    let picture = &pictures[*index]; // `count` saw that it is there
                    let rows = self.model.image_rows(&picture.patches).await?;
                    prompt.push_image(self.model.config().image_token_id, &picture.types, &rows);
                }
            }
        }
        Ok(prompt)
    }

    /// Remembers when an error leaves the state in the middle of something. The model checks a prompt before it touches the state.
    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        self.broken = matches!(&result, Err(error) if !matches!(error, Error::Prompt(_)));
        result
    }

    fn check_usable(&self) -> Result<()> {
        if self.broken {
            return Err(Error::Usage("this session ended with an error; a new one is needed".into()));
        }
        Ok(())
    }
}

/// Positions of all pieces, and of pictures.
fn count(pieces: &[Piece], pictures: &[Picture]) -> Result<(usize, usize)> {
    let (mut positions, mut image_tokens) = (0, 0);
    for piece in pieces {
        match piece {
            Piece::Ids(ids) => positions += ids.len(),
            Piece::Image(index) => {
                let all = pictures.len();
                let missing = || Error::Prompt(format!("picture {index}: needed a place in the list of {all}"));
                image_tokens += pictures.get(*index).ok_or_else(missing)?.types.len();
            }
        }
    }
    Ok((positions + image_tokens, image_tokens))
}

/// The answer's text as it grows.
struct Text {
    detokeniser: Detokeniser,
    stops: StopStrings,
    all: String,
}

impl Text {
    /// Adds a token; returns whether a stop string was found.
    fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> bool {
        let (certain, stopped) = self.stops.push(&self.detokeniser.push(tokenizer, id));
        self.all += &certain;
        stopped
    }

    /// Adds what was held back; returns whether that completes a stop string.
    fn finish(&mut self) -> bool {
        let (certain, stopped) = self.stops.push(&self.detokeniser.finish());
        self.all += &certain;
        self.all += &self.stops.finish();
        stopped
    }
}
