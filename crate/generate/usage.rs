//! What a session took: tokens and seconds, reading and writing apart. What a GPU compiles on first use counts where it happens, unless
//! [`Session::warm_up`](super::Session::warm_up) came first.

use serde::Serialize;

/// Counts since the session began.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Usage {
    /// Positions fed as prompts, those of pictures included.
    pub prompt_tokens: usize,
    /// Of these, positions of pictures.
    pub image_tokens: usize,
    /// Tokens chosen, an end of sequence included.
    pub generated_tokens: usize,
    /// Written tokens that ran through the model, those of accepted drafts included. The first token of an answer comes from the prompt's own
    /// logits, so these are fewer.
    pub decode_steps: usize,
    /// Calls of the model in which they did; without drafts one for each.
    pub rounds: usize,
    /// Drafted tokens that were verified.
    pub drafted_tokens: usize,
    /// Of these, tokens that the model chose too, and that the answer took.
    pub accepted_tokens: usize,
    /// Positions of prompts that were there already, and were not fed again.
    pub reused_tokens: usize,
    /// Seconds for prompts, the vision tower included.
    pub prefill_seconds: f64,
    /// Seconds for decode steps and for choosing tokens.
    pub decode_seconds: f64,
}

impl Usage {
    /// Prompt tokens per second; `None` if nothing was measured.
    pub fn prefill_rate(&self) -> Option<f64> {
        rate(self.prompt_tokens, self.prefill_seconds)
    }

    /// Share of verified drafts that were accepted; `None` if nothing was drafted.
    pub fn acceptance(&self) -> Option<f64> {
        (self.drafted_tokens > 0).then(|| self.accepted_tokens as f64 / self.drafted_tokens as f64)
    }

    /// Decode steps per second; `None` if nothing was measured.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.decode_steps, self.decode_seconds)
    }
}

fn rate(count: usize, seconds: f64) -> Option<f64> {
    (count > 0 && seconds > 0.0).then(|| count as f64 / seconds)
}
