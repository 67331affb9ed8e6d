//! What a session does besides going forward: back, again, and two ways.

use super::prompt::{Picture, count};
use super::sampler::{Sampler, Sampling};
use super::session::{Clock, Session};
use super::speculate::{self, Speculation};
use super::usage::Usage;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::model::{Engine, Prefill};
use crate::text::prompt::Piece;
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::rc::Rc;

/// What a session has not read yet of a conversation.
#[derive(Debug)]
pub struct Unread {
    rest: Prompt,
    read: usize,
    /// Positions at the conversation's beginning that were there already.
    pub reused: usize,
}

impl Unread {
    /// Positions of the whole conversation.
    pub fn positions(&self) -> usize {
        self.reused + self.rest.len()
    }

    /// Positions that are there, reused ones included.
    pub fn done(&self) -> usize {
        self.reused + self.read
    }
}

/// Rows that surely run through the kernels of a prompt.
const MANY_ROWS: usize = 64;

impl Session {
    /// Goes back to the first `position` tokens of the sequence. What follows them is as if it had never been; a prompt must come next.
    ///
    /// # Errors
    /// [`Error::Usage`] for a position after the end; after any other error the session is over.
    pub async fn rewind(&mut self, position: usize) -> Result<()> {
        self.check_usable()?;
        if position > self.sequence.len() {
            let end = self.sequence.len();
            return Err(Error::Usage(format!("going back to {position}: the sequence has {end} tokens")));
        }
        self.recover().await?;
        self.in_flight = true;
        let rewound = self.model.rewind(&mut self.state, &self.sequence, position).await;
        self.keep(rewound)?;
        self.in_flight = false;
        self.sequence = self.sequence.piece(0..position, self.model.config().dim);
        (self.unfed, self.logits) = (None, Vec::new());
        Ok(())
    }

    /// Reads a whole conversation of which the session may hold the beginning: by ids and pictures, the longest common beginning stays, what
    /// the session has beyond it goes, and only the rest is fed. Returns the length of what was reused.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub async fn resume(
        &mut self,
        pieces: &[Piece],
        pictures: &[Picture],
        how: Prefill,
        clock: Clock<'_>,
    ) -> Result<usize> {
        let mut unread = self.rejoin(pieces, pictures, clock).await?;
        while !self.read_on(&mut unread, how, clock).await? {}
        Ok(unread.reused)
    }

    /// [`Self::resume`] in steps: goes back to what the session has in common with a conversation. [`Self::read_on`] reads the rest.
    ///
    /// # Errors
    /// As [`Self::feed`]; after [`Error::Prompt`] the session is as it was.
    pub async fn rejoin(&mut self, pieces: &[Piece], pictures: &[Picture], clock: Clock<'_>) -> Result<Unread> {
        self.check_usable()?;
        let (positions, _) = count(pieces, pictures)?;
        let limit = self.model.config().max_position_embeddings;
        if positions > limit {
            return Err(Error::Prompt(format!("{positions} positions; the model has {limit}")));
        }
        if positions == 0 {
            return Err(Error::Prompt("empty: at least one token is needed".into()));
        }
        let begin = clock();
        let whole = self.assemble(pieces, pictures).await?;
        let dim = self.model.config().dim;
        // The last token is fed in any case: its logits are the answer's first.
        let reused = common(&self.sequence, &whole, dim).min(whole.len() - 1);
        let rest = whole.piece(reused..whole.len(), dim);
        self.model.check(reused, &rest)?;
        if reused < self.sequence.len() {
            self.rewind(reused).await?;
        }
        self.unfed = None;
        self.usage.prefill_seconds += clock() - begin;
        self.usage.reused_tokens += reused;
        Ok(Unread { rest, read: 0, reused })
    }

    /// [`Self::rejoin`] for who goes on where the session stands: everything is there, nothing is left to read.
    pub fn stay(&mut self) -> Unread {
        let reused = self.sequence.len();
        self.usage.reused_tokens += reused;
        Unread { rest: Prompt::default(), read: 0, reused }
    }

    /// Reads the next chunk of a conversation; returns whether that was the last one. What has been read stays, also if nobody reads on.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub async fn read_on(&mut self, unread: &mut Unread, how: Prefill, clock: Clock<'_>) -> Result<bool> {
        let left = unread.rest.len() - unread.read;
        // A decoder's tail needs the whole prompt.
        let size = if how.tail == DecoderTail::All { how.chunk.max(1).min(left) } else { left };
        if size > 0 {
            let begin = clock();
            let chunk = unread.rest.piece(unread.read..unread.read + size, self.model.config().dim);
            self.read(&chunk, how, &mut |_| ControlFlow::Continue(())).await?;
            unread.read += size;
            self.usage.prefill_seconds += clock() - begin;
            self.usage.prompt_tokens += size;
            self.usage.image_tokens += chunk.types.iter().filter(|kind| kind.is_image()).count();
        }
        Ok(unread.read == unread.rest.len())
    }

    /// A second session that stands where this one stands, and goes its own way from here. Its usage begins at nothing.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] if there is no memory for a second state; [`Error::Usage`] for a session that is over.
    pub async fn fork(&mut self) -> Result<Session> {
        self.check_usable()?;
        self.recover().await?;
        Ok(Session {
            model: self.model.clone(),
            tokenizer: self.tokenizer.clone(),
            state: self.model.fork(&self.state).await?,
            sequence: self.sequence.clone(),
            logits: self.logits.clone(),
            usage: Usage::default(),
            ..*self
        })
    }

    /// Runs a token and a draft through a state of its own, so that what is compiled on first use is compiled before anything is measured.
    /// Without effect on the CPU, which compiles nothing.
    ///
    /// # Errors
    /// As [`Engine::prefill`].
    pub async fn warm_up(&mut self) -> Result<()> {
        let Engine::Gpu(_) = &self.model else { return Ok(()) };
        self.recover().await?;
        let (model, bos) = (&self.model, self.model.config().bos_token_id);
        let (mut state, sampler) = (model.state()?, Sampler::new(Sampling::GREEDY)?);
        model.prefill(&mut state, &Prompt::text(vec![bos]), Prefill::default()).await?;
        // A long prompt has kernels of its own, which decode a weight once for several rows.
        let many = MANY_ROWS.min(model.config().max_position_embeddings);
        model.prefill(&mut model.state()?, &Prompt::text(vec![bos; many]), Prefill::default()).await?;
        for how in [None, self.speculation.map(|_| Speculation { confidence: 0.0 })] {
            let start = state.position();
            let round = speculate::round(model, &mut state, bos, &sampler, how, usize::MAX).await?;
            speculate::settle(model, &mut state, start + round.tokens.len())?;
        }
        Ok(())
    }

    /// Whether a result is the end of a device that can be opened again.
    pub(super) fn is_lost<T>(&self, result: &Result<T>) -> bool {
        matches!((&self.model, result), (Engine::Gpu(model), Err(Error::Gpu(_))) if model.lost().is_some())
    }

    /// Makes the state again if a call was dropped half-way, and the model too if its device was lost: the sequence is fed anew.
    ///
    /// # Errors
    /// As [`GpuModel::reload`](crate::model::gpu::GpuModel::reload) and [`Self::feed`].
    pub(super) async fn recover(&mut self) -> Result<()> {
        if let Engine::Gpu(model) = &self.model
            && model.lost().is_some()
        {
            let reloaded = model.reload().await;
            self.model = Engine::Gpu(Rc::new(self.keep(reloaded)?));
            self.in_flight = true;
        }
        if !self.in_flight {
            return Ok(());
        }
        self.state = self.model.state()?;
        if !self.sequence.is_empty() {
            let output = self.model.prefill(&mut self.state, &self.sequence, Prefill::default()).await;
            let logits = self.keep(output)?.logits;
            if self.unfed.is_none() {
                self.logits = logits;
            }
        }
        self.in_flight = false;
        Ok(())
    }
}

/// Leading positions at which two sequences have the same token, or the same row of a picture.
fn common(a: &Prompt, b: &Prompt, dim: usize) -> usize {
    let (mut rows_a, mut rows_b) = (a.image_rows.chunks_exact(dim), b.image_rows.chunks_exact(dim));
    let mut position = 0;
    for ((id_a, type_a), (id_b, type_b)) in a.ids.iter().zip(&a.types).zip(b.ids.iter().zip(&b.types)) {
        let same = id_a == id_b && type_a == type_b;
        if !same || (*type_a == crate::image::TokenType::Image && rows_a.next() != rows_b.next()) {
            break;
        }
        position += 1;
    }
    position
}
