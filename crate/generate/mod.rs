//! From a loaded model to text: prompts and pictures in, tokens chosen, text out piece by piece.
//!
//! Reading order: [`sampler`] (logits to a token), [`prompt`] (text and pictures to prompt pieces), [`session`] (the loop), [`usage`] (what it took).

pub mod prompt;
pub mod sampler;
pub mod session;
pub mod usage;

#[cfg(test)]
mod tests;

pub use prompt::Picture;
pub use sampler::{Sampler, Sampling};
pub use session::{Answer, Clock, Finish, Limits, Session};
pub use usage::Usage;
