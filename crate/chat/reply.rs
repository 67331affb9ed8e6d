//! What a conversation answers with: the pieces of OpenAI's chat completions that depend on the model. Whoever talks to a client adds ids and
//! times of his own.

use crate::generate::{self, Score};
use crate::text::Tokenizer;
use serde::Serialize;

/// A logarithm below which it is not written out: JSON has no infinity.
const LEAST: f64 = -9999.0;

/// A request that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Begun {
    /// Positions of the prompt, those of pictures included.
    pub prompt_tokens: usize,
    /// Of these, positions at the beginning that need not be read again.
    pub cached_tokens: usize,
}

/// What one step brought.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Step {
    /// While the prompt is read: positions that are there, and of how many.
    pub reading: Option<(usize, usize)>,
    /// Text that is new; never half a character or a part of a stop string.
    pub text: String,
    /// The tokens that this text begins with or consists of, if the request asks for logarithms of probabilities.
    pub logprobs: Vec<Token>,
    /// The end, once it is there.
    pub done: Option<Done>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Done {
    /// Why.
    pub finish_reason: Finish,
    /// What it took.
    pub usage: Usage,
    /// All tokens that were chosen, an end of sequence and those of a stop string included.
    #[serde(skip)]
    pub ids: Vec<u32>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model had said what it had to say, or a stop string came.
    Stop,
    /// No more tokens were allowed, or there is no position left.
    Length,
}

impl From<generate::Finish> for Finish {
    fn from(finish: generate::Finish) -> Finish {
        match finish {
            generate::Finish::Eos | generate::Finish::Stop | generate::Finish::Cancelled => Finish::Stop,
            generate::Finish::MaxTokens | generate::Finish::PositionLimit => Finish::Length,
        }
    }
}

/// A token and the natural logarithm of its probability, as the model has it at temperature 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Token {
    /// Its text; U+FFFD where it is not a whole character.
    pub token: String,
    /// Logarithm of its probability.
    pub logprob: f64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The most probable tokens in its place; `None` for one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<Vec<Token>>,
}

impl Token {
    pub(super) fn of(score: &Score, tokenizer: &Tokenizer) -> Token {
        let token = |id: u32, logprob: f64| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default().to_vec();
            let token = String::from_utf8_lossy(&bytes).into_owned();
            Token { token, logprob: logprob.max(LEAST), bytes, top_logprobs: None }
        };
        let top = score.top.iter().map(|&(id, logprob)| token(id, logprob)).collect();
        Token { top_logprobs: Some(top), ..token(score.id, score.logprob) }
    }
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usage {
    /// Positions of the prompt, those of pictures included.
    pub prompt_tokens: usize,
    /// Tokens that were chosen, an end of sequence included.
    pub completion_tokens: usize,
    /// Both together.
    pub total_tokens: usize,
    /// About the prompt.
    pub prompt_tokens_details: PromptDetails,
    /// What only this engine says.
    pub flash890: Details,
}

/// More about a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PromptDetails {
    /// Positions at the beginning that were not read again.
    pub cached_tokens: usize,
}

/// Drafts and times of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Details {
    /// Drafted tokens that were verified.
    pub drafted: usize,
    /// Of these, tokens that the model chose too.
    pub accepted: usize,
    /// Calls of the model for written tokens.
    pub rounds: usize,
    /// Seconds for the prompt.
    pub prefill_seconds: f64,
    /// Seconds for the answer.
    pub decode_seconds: f64,
}

impl Usage {
    /// What a session took between two moments, for a prompt and an answer of these lengths.
    pub(super) fn between(
        before: &generate::Usage,
        after: &generate::Usage,
        begun: Begun,
        completion_tokens: usize,
    ) -> Usage {
        Usage {
            prompt_tokens: begun.prompt_tokens,
            completion_tokens,
            total_tokens: begun.prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens: begun.cached_tokens },
            flash890: Details {
                drafted: after.drafted_tokens - before.drafted_tokens,
                accepted: after.accepted_tokens - before.accepted_tokens,
                rounds: after.rounds - before.rounds,
                prefill_seconds: after.prefill_seconds - before.prefill_seconds,
                decode_seconds: after.decode_seconds - before.decode_seconds,
            },
        }
    }
}
