//! An answer: when it ends, and its text as it grows.

use crate::Result;
use crate::text::{Detokeniser, StopStrings, Tokenizer};

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

/// The answer's text as it grows.
#[derive(Debug)]
pub(super) struct Text {
    detokeniser: Detokeniser,
    stops: StopStrings,
    /// What is certain.
    pub(super) all: String,
    /// Bytes of whole characters so far, those that may belong to a stop string included.
    seen: usize,
}

impl Text {
    /// # Errors
    /// [`Error::Prompt`](crate::Error::Prompt) for an empty stop string.
    pub(super) fn new(limits: &Limits) -> Result<Self> {
        Ok(Text {
            detokeniser: Detokeniser::new(),
            stops: StopStrings::new(&limits.stop)?,
            all: String::new(),
            seen: 0,
        })
    }

    /// Where the next token's text begins, or, inside a character, where that character does.
    pub(super) fn len(&self) -> usize {
        self.seen
    }

    /// Adds a token; returns whether a stop string was found.
    pub(super) fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> bool {
        let text = self.detokeniser.push(tokenizer, id);
        self.seen += text.len();
        let (certain, stopped) = self.stops.push(&text);
        self.all += &certain;
        stopped
    }

    /// Adds what was held back; returns whether that completes a stop string.
    pub(super) fn finish(&mut self) -> bool {
        let (certain, stopped) = self.stops.push(&self.detokeniser.finish());
        self.all += &certain;
        self.all += &self.stops.finish();
        stopped
    }
}
