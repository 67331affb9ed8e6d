//! Messages to token ids: the released prompt form for chat and thinking mode (section 12.3).
//!
//! ```text
//! BOS
//!   [thinking mode]         <｜System｜> Reasoning Effort: N (...)\n\n
//!   system, first message   [<｜System｜> unless already there] content
//!   system, later           <｜System｜> content
//!   user                    <｜User｜> parts, joined by a blank line; so are the messages of consecutive user turns
//!   assistant               <｜Assistant｜> </think> content EOS
//!   assistant, after the last question, thinking mode
//!                           <｜Assistant｜> <think> reasoning </think> content EOS
//! <｜Assistant｜> <think> in thinking mode, </think> in chat mode
//! ```
//!
//! Control tokens and pictures are placed by id. What a message says is ordinary text throughout: a control token's
//! spelling in it stays the characters it is made of. DeepSeek's own encoder decides the same (crate
//! `deepseek-recipe-encoding` 0.2, against which the tests compare), with one exception that is kept here: the
//! [grounding marks](GROUNDING) an assistant wrote are tokens again when they come back as history.
//!
//! Tools are not rendered yet.

mod build;

use super::Tokenizer;
use crate::{Error, Result};
use build::Prompt;

/// Spellings of the tokens with which the model marks places in a picture. Only assistant turns may hold them.
pub const GROUNDING: [&str; 8] = [
    "<｜ref｜>",
    "<｜/ref｜>",
    "<｜box｜>",
    "<｜/box｜>",
    "<｜point｜>",
    "<｜/point｜>",
    "<｜polygon｜>",
    "<｜/polygon｜>",
];

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order. The parts are joined by a blank line.
    pub parts: Vec<Part>,
    /// What an assistant thought before it answered. Only the reasoning of turns after the last question is rendered,
    /// and only in thinking mode; of other roles it is ignored.
    pub reasoning: Option<String>,
}

impl Message {
    /// A message of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Message { role, parts: vec![Part::Text(text.into())], reasoning: None }
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The person who asks.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Ordinary text.
    Text(String),
    /// A picture, as its index in the caller's list. Only in user messages.
    Image(usize),
}

/// Whether the model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Answer at once.
    Chat,
    /// Think first.
    Thinking {
        /// How thoroughly, 1 to 100. Engines disagree on what names such as "high" mean; a number is not open to that
        /// (pitfall P-18).
        effort: u8,
    },
}

impl Mode {
    /// The vendor's default effort.
    pub const DEFAULT_EFFORT: u8 = 75;
}

impl Default for Mode {
    /// Thinking at the vendor's default effort.
    fn default() -> Self {
        Mode::Thinking { effort: Mode::DEFAULT_EFFORT }
    }
}

/// Ids of the control tokens (section 0.4), found by their spelling. Small checkpoints lack some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialIds {
    /// `<｜begin▁of▁sentence｜>` (0)
    pub bos: Option<u32>,
    /// `<｜end▁of▁sentence｜>` (1), also the stop token
    pub eos: Option<u32>,
    /// `<｜System｜>` (128,799)
    pub system: Option<u32>,
    /// `<｜User｜>` (128,803)
    pub user: Option<u32>,
    /// `<｜Assistant｜>` (128,804)
    pub assistant: Option<u32>,
    /// `<think>` (128,821)
    pub think: Option<u32>,
    /// `</think>` (128,822)
    pub end_think: Option<u32>,
    /// `<｜deepseek_image｜>` (129,264)
    pub image: Option<u32>,
}

impl SpecialIds {
    /// Looks the control tokens up.
    pub fn find(tokenizer: &Tokenizer) -> Self {
        SpecialIds {
            bos: tokenizer.id_of("<｜begin▁of▁sentence｜>"),
            eos: tokenizer.id_of("<｜end▁of▁sentence｜>"),
            system: tokenizer.id_of("<｜System｜>"),
            user: tokenizer.id_of("<｜User｜>"),
            assistant: tokenizer.id_of("<｜Assistant｜>"),
            think: tokenizer.id_of("<think>"),
            end_think: tokenizer.id_of("</think>"),
            image: tokenizer.id_of("<｜deepseek_image｜>"),
        }
    }
}

/// A stretch of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text and control tokens.
    Ids(Vec<u32>),
    /// The place of a picture, as its index in the caller's list. It takes as many positions as the picture has image
    /// tokens (section 1.4).
    Image(usize),
}

/// Renders a conversation and the head of the assistant's next turn. Two [`Piece::Ids`] never stand side by side.
///
/// The head is written before every assistant turn, as DeepSeek's encoder does, also where no question precedes it. An
/// assistant turn after the last question keeps its reasoning in thinking mode (rule 3); DeepSeek's encoder keeps none
/// at all without tools. The two differ only in conversations that end with the assistant.
///
/// Checkpoints whose vocabulary has neither `<think>` nor `</think>` cannot think; there, chat mode leaves the mark
/// after `<｜Assistant｜>` out, so that a tiny test model can be talked to.
///
/// # Errors
///
/// [`Error::Prompt`] if there is no message, the effort is not 1 to 100, a picture stands in a system or assistant
/// message, or the vocabulary lacks a control token that this conversation needs.
pub fn render(messages: &[Message], mode: Mode, special: &SpecialIds, tokenizer: &Tokenizer) -> Result<Vec<Piece>> {
    if messages.is_empty() {
        return Err(Error::Prompt("needed at least one message, found none".into()));
    }
    let mut prompt = Prompt::new(tokenizer, special);
    prompt.control(special.bos, "<｜begin▁of▁sentence｜>")?;
    if let Mode::Thinking { effort } = mode {
        prompt.effort(effort)?;
    }
    // Reasoning before the last question has served its purpose and is dropped (rule 4).
    let asks = |(at, message): (usize, &Message)| match message.role {
        Role::User => true,
        Role::System => at > 0,
        Role::Assistant => false,
    };
    let last_question = (0..messages.len()).rev().find(|&at| asks((at, &messages[at])));
    for (at, message) in messages.iter().enumerate() {
        let previous = at.checked_sub(1).map(|before| messages[before].role);
        match message.role {
            Role::System => prompt.system(message, at == 0, mode)?,
            Role::User => prompt.user(message, previous)?,
            Role::Assistant => {
                let thinks = mode != Mode::Chat && last_question.is_none_or(|question| at > question);
                prompt.assistant(message, thinks)?;
            }
        }
    }
    prompt.assistant_head(mode != Mode::Chat)?;
    Ok(prompt.finish())
}

/// One sequence of ids: each picture becomes `image_id` as many times as it has tokens.
///
/// # Errors
///
/// [`Error::Prompt`] if a piece names a picture that `image_tokens` has no count for.
pub fn flatten(pieces: &[Piece], image_id: u32, image_tokens: &[usize]) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Ids(text) => ids.extend_from_slice(text),
            Piece::Image(picture) => match image_tokens.get(*picture) {
                Some(&count) => ids.extend(std::iter::repeat_n(image_id, count)),
                None => {
                    let count = image_tokens.len();
                    return Err(Error::Prompt(format!("picture {picture}: needed a place in the list of {count}")));
                }
            },
        }
    }
    Ok(ids)
}
