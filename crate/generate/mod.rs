//! From a loaded model to text: prompts and pictures in, tokens chosen, text out piece by piece.
//!
//! Reading order: [`sampler`] (logits to a token), [`prompt`] (text and pictures to prompt pieces), [`speculate`] (several tokens at once),
//! [`session`] (reading; `writing.rs` has the loop that answers, `resume.rs` what a session goes back to and copies), [`snapshot`] (a session as
//! a file), [`usage`] (what it took).

mod answer;
pub mod prompt;
mod resume;
pub mod sampler;
mod score;
pub mod session;
pub mod snapshot;
pub mod speculate;
pub mod usage;
mod writing;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Finish, Limits};
pub use prompt::Picture;
pub use resume::Unread;
pub use sampler::{Sampler, Sampling};
pub use score::Score;
pub use session::{Clock, Session};
pub use speculate::Speculation;
pub use usage::Usage;
pub use writing::Writing;
