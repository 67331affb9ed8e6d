//! One conversation with a model: read a prompt, write an answer.

use super::answer::{Answer, Limits};
use super::prompt::{Picture, count};
use super::sampler::Sampler;
use super::score::Score;
use super::speculate::{self, Round, Speculation};
use super::usage::Usage;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::model::{Engine, EngineState, Prefill};
use crate::text::Tokenizer;
use crate::text::prompt::Piece;
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Seconds from any fixed moment on. Passed in, because the browser's clock is not the operating system's.
pub type Clock<'a> = &'a dyn Fn() -> f64;

/// A model's state and what belongs to it. Prompts and answers alternate as one growing sequence.
///
/// The session remembers the tokens of its sequence. So it can go back ([`Session::rewind`]), reuse what a new conversation has in common with
/// the old one ([`Session::resume`]), go two ways ([`Session::fork`]), and go on after a lost device or a call that was dropped half-way: the
/// tokens are fed again.
#[derive(Debug)]
pub struct Session {
    pub(super) model: Engine,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) state: EngineState,
    /// Everything that has run through the model, with the rows of its pictures.
    pub(super) sequence: Prompt,
    /// Logits for the token after the state; empty when nobody knows them.
    pub(super) logits: Vec<f32>,
    /// A token that was chosen and has not run through the model yet.
    pub(super) unfed: Option<u32>,
    pub(super) speculation: Option<Speculation>,
    /// The state is in the middle of a call. Seen from outside only if the call was dropped.
    pub(super) in_flight: bool,
    /// An error came in the middle of a call, so the state is not one of any sequence.
    pub(super) broken: bool,
    pub(super) usage: Usage,
}

impl Session {
    /// An empty session. It speculates with the default settings if the model can draft.
    ///
    /// # Errors
    /// As [`Engine::state`].
    pub fn new(model: impl Into<Engine>, tokenizer: Arc<Tokenizer>) -> Result<Self> {
        let model = model.into();
        let state = model.state()?;
        let speculation = speculate::drafts(&model).then(Speculation::default);
        Ok(Session {
            model,
            tokenizer,
            state,
            sequence: Prompt::default(),
            logits: Vec::new(),
            unfed: None,
            speculation,
            in_flight: false,
            broken: false,
            usage: Usage::default(),
        })
    }

    /// Turns speculation off, or on with these settings; a model that cannot draft never speculates. The tokens stay the same.
    pub fn speculate(&mut self, how: Option<Speculation>) {
        self.speculation = how.filter(|_| speculate::drafts(&self.model));
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

    /// Whether an error ended the session, so that only a new one can go on.
    pub fn is_over(&self) -> bool {
        self.broken
    }

    /// Ids of everything that has run through the model.
    pub fn ids(&self) -> &[u32] {
        &self.sequence.ids
    }

    /// Reads a prompt; `Piece::Image(i)` stands for `pictures[i]`. After an answer, the answer's last token goes in front of it.
    ///
    /// # Errors
    /// [`Error::Prompt`] if it is empty, passes the model's position limit, or names a picture that is not there: the session stays as it was.
    /// After any other error the session is over.
    pub async fn feed(&mut self, pieces: &[Piece], pictures: &[Picture], how: Prefill, clock: Clock<'_>) -> Result<()> {
        self.feed_while(pieces, pictures, how, clock, &mut |_| ControlFlow::Continue(())).await.map(|_| ())
    }

    /// [`Self::feed`] that asks `proceed` after each chunk, with the positions that have been read, whether to go on; returns whether all of it
    /// was read. What has been read stays. A decoder's tail needs the whole prompt: then it is asked only at the end.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub async fn feed_while(
        &mut self,
        pieces: &[Piece],
        pictures: &[Picture],
        how: Prefill,
        clock: Clock<'_>,
        proceed: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.check_usable()?;
        let (positions, image_tokens) = count(pieces, pictures)?;
        let after = self.sequence.len() + usize::from(self.unfed.is_some()) + positions;
        let limit = self.model.config().max_position_embeddings;
        // Before the vision tower runs; the model itself would only notice after it.
        if after > limit {
            return Err(Error::Prompt(format!("{after} positions with what is already there; the model has {limit}")));
        }
        if positions == 0 {
            return Err(Error::Prompt("empty: at least one token is needed".into()));
        }
        let begin = clock();
        let mut prompt = Prompt::text(self.unfed.into_iter().collect());
        prompt.append(&self.assemble(pieces, pictures).await?);
        let read = self.read(&prompt, how, proceed).await?;
        self.usage.prefill_seconds += clock() - begin;
        self.usage.prompt_tokens += positions;
        self.usage.image_tokens += image_tokens;
        Ok(read)
    }

    /// Runs a prompt through the model, which begins with the token that waits, if there is one.
    pub(super) async fn read(
        &mut self,
        prompt: &Prompt,
        how: Prefill,
        proceed: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.model.check(self.sequence.len(), prompt)?;
        let how = Prefill { all_logits: false, ..how };
        let step = if how.tail == DecoderTail::All { how.chunk.max(1) } else { prompt.len() };
        for from in (0..prompt.len()).step_by(step) {
            let to = (from + step).min(prompt.len());
            let chunk = prompt.piece(from..to, self.model.config().dim);
            self.recover().await?;
            self.in_flight = true;
            let mut output = self.model.prefill(&mut self.state, &chunk, how).await;
            if self.is_lost(&output) {
                self.recover().await?;
                self.in_flight = true;
                output = self.model.prefill(&mut self.state, &chunk, how).await;
            }
            self.logits = self.keep(output)?.logits;
            self.in_flight = false;
            self.sequence.append(&chunk);
            self.unfed = None;
            if proceed(to).is_break() && to < prompt.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes an answer. `emit` gets the text of each token when it is certain, which may be none, and once more what was held back at the end.
    /// A second call goes on where the first one ended. [`Self::begin`] and [`Self::write`] do the same in steps.
    ///
    /// # Errors
    /// [`Error::Usage`] for limits that allow nothing, [`Error::Prompt`] if no prompt was read, a stop string is empty or the model has no
    /// position left. After an error of the model the session is over.
    pub async fn generate(
        &mut self,
        sampler: &Sampler,
        limits: &Limits,
        clock: Clock<'_>,
        emit: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Answer> {
        let mut writing = self.begin(sampler.clone(), limits.clone(), None)?;
        while self.write(&mut writing, clock, emit).await?.is_none() {}
        Ok(writing.into_answer())
    }

    /// Chooses the next tokens, up to `most`: the first from the logits that are there, others by running the token that waits; with their
    /// scores if `scoring` says how many tokens to name in them. The state is in the middle of something until [`Self::keep_taken`].
    pub(super) async fn next(
        &mut self,
        sampler: &Sampler,
        most: usize,
        scoring: Option<usize>,
    ) -> Result<(Round, Vec<Score>)> {
        let Some(anchor) = self.unfed else {
            let id = sampler.sample(&self.logits, self.sequence.len());
            let id = self.keep(id)?;
            let score = scoring.map(|top| Score::of(&self.logits, id, top));
            return Ok((Round { tokens: vec![id], drafted: 0 }, score.into_iter().collect()));
        };
        self.recover().await?;
        self.in_flight = true;
        let how = self.speculation;
        let mut round =
            speculate::scored_round(&self.model, &mut self.state, anchor, sampler, (how, scoring), most).await;
        if self.is_lost(&round) {
            self.recover().await?;
            self.in_flight = true;
            round = speculate::scored_round(&self.model, &mut self.state, anchor, sampler, (how, scoring), most).await;
        }
        self.keep(round)
    }

    /// Keeps the first `taken` tokens of a round: all but the last have run through the model, which waits.
    pub(super) fn keep_taken(&mut self, round: &Round, taken: usize) -> Result<()> {
        if let Some(anchor) = self.unfed {
            let mut fed = vec![anchor];
            fed.extend(&round.tokens[..taken - 1]);
            let settled = speculate::settle(&self.model, &mut self.state, self.sequence.len() + fed.len());
            self.keep(settled)?;
            self.sequence.push_text(&fed);
            self.in_flight = false;
            self.usage.rounds += 1;
            self.usage.decode_steps += fed.len();
            self.usage.drafted_tokens += round.drafted;
            // The last token is the model's own choice unless the answer ended before it.
            self.usage.accepted_tokens += taken.min(round.tokens.len() - 1);
        }
        self.usage.generated_tokens += taken;
        self.unfed = Some(round.tokens[taken - 1]);
        self.logits.clear();
        Ok(())
    }

    pub(super) async fn assemble(&self, pieces: &[Piece], pictures: &[Picture]) -> Result<Prompt> {
        let mut prompt = Prompt::default();
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
    pub(super) fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        self.broken = matches!(&result, Err(error) if !matches!(error, Error::Prompt(_)));
        // A call that ended with an error is over, whatever it left.
        self.in_flight &= result.is_ok();
        result
    }

    pub(super) fn check_usable(&self) -> Result<()> {
        if self.broken {
            return Err(Error::Usage("this session ended with an error; a new one is needed".into()));
        }
        Ok(())
    }
}
