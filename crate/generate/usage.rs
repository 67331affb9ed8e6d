//! What a session took: tokens and seconds, reading and writing apart.

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
    /// Tokens that ran through the model one by one. The first token of an answer comes from the prompt's own logits, so these are fewer.
    pub decode_steps: usize,
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

    /// Decode steps per second; `None` if nothing was measured.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.decode_steps, self.decode_seconds)
    }
}

fn rate(count: usize, seconds: f64) -> Option<f64> {
    (count > 0 && seconds > 0.0).then(|| count as f64 / seconds)
}
