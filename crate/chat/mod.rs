//! A conversation in the shape of OpenAI's chat completions, on any host: the command line and the page say the same things here and hear the
//! same tokens.
//!
//! Reading order: [`request`] (what is asked, field by field), `data_url` (pictures inside of it), [`conversation`] (from a request to text, in
//! steps between which a host may do something else), [`reply`] (what a step gives, as JSON).

pub mod conversation;
mod data_url;
pub mod reply;
pub mod request;

#[cfg(test)]
mod tests;

pub use conversation::Conversation;
pub use reply::{Begun, Finish, Step, Token, Usage};
pub use request::{Part, Request, Turn};
