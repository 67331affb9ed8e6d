//! An answer in steps: [`Session::begin`], and then [`Session::write`] until it says why the answer ends. Between two steps the host may do
//! something else, or not come back: what was written so far stays the session's sequence.

use super::answer::{Answer, Finish, Limits, Text};
use super::sampler::Sampler;
use super::score::Score;
use super::session::{Clock, Session};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// An answer that is being written.
#[derive(Debug)]
pub struct Writing {
    sampler: Sampler,
    limits: Limits,
    /// Tokens to name beside each chosen one; `None` if nobody asks how probable tokens were.
    scoring: Option<usize>,
    text: Text,
    ids: Vec<u32>,
    /// Scores that have not been taken, each with the place in the text where its token begins.
    scores: VecDeque<(usize, Score)>,
    finish: Option<Finish>,
}

impl Writing {
    /// The tokens so far: an end of sequence and the tokens of a stop string are among them, but not in the text.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The text that is certain so far.
    pub fn text(&self) -> &str {
        &self.text.all
    }

    /// Why the answer ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// The scores of the tokens whose text has come since the last call. A token that is held back is held back here too; an end of sequence
    /// and the tokens of a stop string have none.
    pub fn take_scores(&mut self) -> Vec<Score> {
        let certain = self.text.all.len();
        let all = self.finish.is_some_and(|finish| finish != Finish::Stop);
        let ready = self.scores.iter().take_while(|(start, _)| all || *start < certain).count();
        self.scores.drain(..ready).map(|(_, score)| score).collect()
    }

    /// The answer as far as it goes; one that has not ended counts as cancelled.
    pub(super) fn into_answer(self) -> Answer {
        Answer { text: self.text.all, ids: self.ids, finish: self.finish.unwrap_or(Finish::Cancelled) }
    }
}

impl Session {
    /// Begins an answer. `scoring` asks for [`Writing::take_scores`], with that many of the most probable tokens for each token.
    ///
    /// # Errors
    /// [`Error::Usage`] for limits that allow nothing, [`Error::Prompt`] if a stop string is empty.
    pub fn begin(&self, sampler: Sampler, limits: Limits, scoring: Option<usize>) -> Result<Writing> {
        self.check_usable()?;
        if limits.max_tokens == 0 {
            return Err(Error::Usage("max tokens: needed at least 1, found 0".into()));
        }
        let text = Text::new(&limits)?;
        let (ids, scores) = Default::default();
        Ok(Writing { sampler, limits, scoring, text, ids, scores, finish: None })
    }

    /// Writes on: one token, or as many as a draft brings. `emit` gets the text of each token when it is certain, which may be none, and once
    /// more what was held back at the end. Returns why the answer ended, if it did; then nothing follows.
    ///
    /// # Errors
    /// [`Error::Prompt`] if no prompt was read or the model has no position left for a first token. After an error of the model the session is over.
    pub async fn write(
        &mut self,
        writing: &mut Writing,
        clock: Clock<'_>,
        emit: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<Finish>> {
        if writing.finish.is_some() {
            return Ok(writing.finish);
        }
        self.check_usable()?;
        if self.logits.is_empty() && self.unfed.is_none() {
            return Err(Error::Prompt("empty: needed a prompt before an answer".into()));
        }
        let finish = if !self.is_full() {
            self.write_round(writing, clock, emit).await?
        } else if writing.ids.is_empty() {
            let limit = self.model.config().max_position_embeddings;
            return Err(Error::Prompt(format!("all {limit} positions of the model are taken: no token can follow")));
        } else {
            Some(Finish::PositionLimit)
        };
        let Some(finish) = finish else { return Ok(None) };
        let from = writing.text.all.len();
        let stopped = writing.text.finish();
        if writing.text.all.len() > from {
            // Nothing follows that a callback could stop.
            let _ = emit(&writing.text.all[from..]);
        }
        writing.finish = Some(if stopped { Finish::Stop } else { finish });
        Ok(writing.finish)
    }

    async fn write_round(
        &mut self,
        writing: &mut Writing,
        clock: Clock<'_>,
        emit: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<Finish>> {
        let begin = clock();
        let most = writing.limits.max_tokens - writing.ids.len();
        let (round, scores) = self.next(&writing.sampler, most, writing.scoring).await?;
        self.usage.decode_seconds += clock() - begin;
        let mut scores = scores.into_iter();
        let (mut finish, mut taken) = (None, 0);
        for &id in &round.tokens {
            taken += 1;
            writing.ids.push(id);
            let (start, score) = (writing.text.len(), scores.next());
            finish = self.take(id, &mut writing.text, emit);
            if let Some(score) = score.filter(|_| finish != Some(Finish::Eos)) {
                writing.scores.push_back((start, score));
            }
            if finish.is_some() {
                break;
            }
        }
        self.keep_taken(&round, taken)?;
        Ok(finish.or_else(|| (writing.ids.len() == writing.limits.max_tokens).then_some(Finish::MaxTokens)))
    }

    /// Passes a chosen token on; returns why the answer ends with it, if it does.
    fn take(&self, id: u32, text: &mut Text, emit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Option<Finish> {
        if id == self.model.config().eos_token_id {
            return Some(Finish::Eos);
        }
        let from = text.all.len();
        let stopped = text.push(&self.tokenizer, id);
        let flow = emit(&text.all[from..]);
        if stopped {
            return Some(Finish::Stop);
        }
        flow.is_break().then_some(Finish::Cancelled)
    }

    /// Whether a chosen token waits, but the model has no position for it.
    fn is_full(&self) -> bool {
        self.unfed.is_some() && self.sequence.len() >= self.model.config().max_position_embeddings
    }
}
