//! From a request to text. The model's state stays from request to request: what a conversation has in common with the one before is not read
//! again.

use super::reply::{Begun, Done, Step, Token, Usage};
use super::request::{Part, Request};
use crate::generate::snapshot::Form;
use crate::generate::{self, Limits, Picture, Sampler, Session, Speculation, Unread, Writing};
use crate::image;
use crate::model::{Engine, Prefill};
use crate::text::Tokenizer;
use crate::text::prompt::{self, Message, Mode, Piece, SpecialIds, render};
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Positions that one step reads. Short enough that a host that waits for a step is not deaf for long.
const CHUNK: usize = 128;

/// A model that is talked to: [`Conversation::begin`] with a request, [`Conversation::next`] until the answer is done. Whoever does not ask for
/// the next step has stopped the answer; the next request finds what was read and written so far.
pub struct Conversation {
    session: Session,
    tokenizer: Arc<Tokenizer>,
    special: SpecialIds,
    clock: Box<dyn Fn() -> f64>,
    speculation: Option<Speculation>,
    running: Option<Running>,
}

/// A request on its way.
#[derive(Debug)]
struct Running {
    begun: Begun,
    unread: Unread,
    writing: Writing,
    /// What the session had taken before this request.
    before: generate::Usage,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("session", &self.session).field("running", &self.running).finish()
    }
}

impl Conversation {
    /// An empty conversation. It drafts if the model can; `clock` gives seconds from any fixed moment on.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn new(model: impl Into<Engine>, tokenizer: Arc<Tokenizer>, clock: Box<dyn Fn() -> f64>) -> Result<Self> {
        let session = Session::new(model, tokenizer.clone())?;
        let special = SpecialIds::find(&tokenizer);
        let speculation = Some(Speculation::default());
        Ok(Conversation { session, tokenizer, special, clock, speculation, running: None })
    }

    /// How to draft, or not at all; the tokens are the same.
    pub fn speculate(&mut self, how: Option<Speculation>) {
        self.speculation = how;
        self.session.speculate(how);
    }

    /// The session below.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session as a file: [`Session::save`]. An answer that is on its way stays on its way.
    ///
    /// # Errors
    /// As [`Session::save`].
    pub async fn save(&mut self, form: Form) -> Result<Vec<u8>> {
        self.session.save(form).await
    }

    /// Goes on with the session of a file: [`Session::load`]. An answer that was on its way is over. Returns the tokens that have run through the
    /// model.
    ///
    /// # Errors
    /// As [`Session::load`]; the conversation stays as it was.
    pub async fn load(&mut self, file: &[u8]) -> Result<usize> {
        self.session = Session::load(self.session.engine().clone(), self.tokenizer.clone(), file).await?;
        self.running = None;
        Ok(self.session.ids().len())
    }

    /// Compiles what a GPU compiles on first use; see [`Session::warm_up`].
    ///
    /// # Errors
    /// As [`Session::warm_up`].
    pub async fn warm_up(&mut self) -> Result<()> {
        self.session.warm_up().await
    }

    /// Takes a request. One that was on its way is over.
    ///
    /// # Errors
    /// [`Error::Usage`] and [`Error::Prompt`] for what the request asks for, [`Error::Picture`] for a picture that is none; what the engine says.
    pub async fn begin(&mut self, request: &Request) -> Result<Begun> {
        self.running = None;
        if self.session.is_over() {
            self.session = Session::new(self.session.engine().clone(), self.tokenizer.clone())?;
        }
        self.session.speculate(self.speculation.filter(|_| request.dspark));
        let most = self.session.engine().config().max_position_embeddings;
        let limits = Limits { max_tokens: request.max_tokens.unwrap_or(most), stop: request.stop.clone() };
        let writing = self.session.begin(Sampler::new(request.sampling)?, limits, request.logprobs)?;
        let before = self.session.usage();
        let unread = if request.turns.is_empty() {
            self.session.stay()
        } else {
            let (pieces, pictures) = self.prompt(request)?;
            self.session.rejoin(&pieces, &pictures, &*self.clock).await?
        };
        let begun = Begun { prompt_tokens: unread.positions(), cached_tokens: unread.reused };
        self.running = Some(Running { begun, unread, writing, before });
        Ok(begun)
    }

    /// The next step: a piece of the prompt is read, or a token is written, or as many as a draft brings.
    ///
    /// # Errors
    /// [`Error::Usage`] if nothing is on its way; what the engine says.
    pub async fn next(&mut self) -> Result<Step> {
        let nothing = || Error::Usage("no answer is on its way".into());
        let mut running = self.running.take().ok_or_else(nothing)?;
        let step = self.advance(&mut running).await?;
        if step.done.is_none() {
            self.running = Some(running);
        }
        Ok(step)
    }

    /// Ends the answer that is on its way, if there is one. What was written stays as the beginning of what may follow.
    pub fn stop(&mut self) {
        self.running = None;
    }

    async fn advance(&mut self, running: &mut Running) -> Result<Step> {
        let Running { unread, writing, .. } = running;
        if unread.done() < unread.positions() {
            let how = Prefill { chunk: CHUNK, ..Prefill::default() };
            self.session.read_on(unread, how, &*self.clock).await?;
            return Ok(Step { reading: Some((unread.done(), unread.positions())), ..Step::default() });
        }
        let mut text = String::new();
        let mut emit = |new: &str| {
            text += new;
            ControlFlow::Continue(())
        };
        let finish = self.session.write(writing, &*self.clock, &mut emit).await?;
        let logprobs = writing.take_scores().iter().map(|score| Token::of(score, &self.tokenizer)).collect();
        let done = finish.map(|finish| Done {
            finish_reason: finish.into(),
            usage: Usage::between(&running.before, &self.session.usage(), running.begun, writing.ids().len()),
            ids: writing.ids().to_vec(),
        });
        Ok(Step { reading: None, text, logprobs, done })
    }

    /// The prompt's pieces, and the pictures that stand between them.
    fn prompt(&self, request: &Request) -> Result<(Vec<Piece>, Vec<Picture>)> {
        let mut pictures = Vec::new();
        let mut messages = Vec::with_capacity(request.turns.len());
        for (at, turn) in request.turns.iter().enumerate() {
            let mut parts = Vec::with_capacity(turn.parts.len());
            for part in &turn.parts {
                parts.push(match part {
                    Part::Text(text) => prompt::Part::Text(text.clone()),
                    Part::Picture(file) => {
                        pictures.push(self.picture(file, at)?);
                        prompt::Part::Image(pictures.len() - 1)
                    }
                });
            }
            messages.push(Message { role: turn.role, parts, reasoning: None });
        }
        Ok((render(&messages, Mode::Chat, &self.special, &self.tokenizer)?, pictures))
    }

    fn picture(&self, file: &[u8], turn: usize) -> Result<Picture> {
        let Some(vision) = &self.session.engine().config().vision else {
            return Err(Error::Prompt(format!(
                "messages[{turn}]: there is a picture, but this model has no vision tower"
            )));
        };
        image::decode(file).and_then(|rgb| Picture::new(&rgb, vision)).map_err(|error| match error {
            Error::Picture(problem) => Error::Picture(format!("messages[{turn}]: {problem}")),
            other => other,
        })
    }
}
