//! A prompt under construction: control tokens, texts and pictures, one after the other.

use super::{GROUNDING, Message, Mode, Part, Piece, Role, SpecialIds};
use crate::text::Tokenizer;
use crate::text::added::{self, Spellings};
use crate::{Error, Result};

/// A prompt under construction. Neighbouring texts are encoded together: a word may cross the border between them.
pub(super) struct Prompt<'t> {
    tokenizer: &'t Tokenizer,
    special: &'t SpecialIds,
    grounding: Spellings,
    pieces: Vec<Piece>,
    ids: Vec<u32>,
    text: String,
}

impl<'t> Prompt<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, special: &'t SpecialIds) -> Self {
        let mut grounding = Spellings::default();
        for mark in GROUNDING {
            if let Some(id) = tokenizer.id_of(mark) {
                grounding.add(mark, id);
            }
        }
        Prompt { tokenizer, special, grounding, pieces: Vec::new(), ids: Vec::new(), text: String::new() }
    }

    /// The line that tells the model how thoroughly to think, in front of the first system message if there is one.
    pub(super) fn effort(&mut self, effort: u8) -> Result<()> {
        if !(1..=100).contains(&effort) {
            return Err(Error::Prompt(format!("reasoning effort: needed 1 to 100, found {effort}")));
        }
        self.control(self.special.system, "<｜System｜>")?;
        self.text(&format!(
            "Reasoning Effort: {effort} (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
        ));
        Ok(())
    }

    pub(super) fn system(&mut self, message: &Message, first: bool, mode: Mode) -> Result<()> {
        if !first || mode == Mode::Chat {
            self.control(self.special.system, "<｜System｜>")?;
        }
        self.text(&join_texts(message, "a system message")?);
        Ok(())
    }

    pub(super) fn user(&mut self, message: &Message, previous: Option<Role>) -> Result<()> {
        if previous == Some(Role::User) {
            self.text("\n\n");
        } else {
            self.control(self.special.user, "<｜User｜>")?;
        }
        for (nth, part) in message.parts.iter().enumerate() {
            if nth > 0 {
                self.text("\n\n");
            }
            match part {
                Part::Text(text) => self.text(text),
                Part::Image(picture) => self.image(*picture)?,
            }
        }
        Ok(())
    }

    /// A finished turn. `thinks` writes the reasoning, empty if there was none.
    pub(super) fn assistant(&mut self, message: &Message, thinks: bool) -> Result<()> {
        self.assistant_head(thinks)?;
        if thinks {
            self.assistant_text(message.reasoning.as_deref().unwrap_or_default());
            self.control(self.special.end_think, "</think>")?;
        }
        self.assistant_text(&join_texts(message, "an assistant message")?);
        self.control(self.special.eos, "<｜end▁of▁sentence｜>")
    }

    /// Rule 2: `<｜Assistant｜>` and whether thinking begins or is already over.
    pub(super) fn assistant_head(&mut self, thinks: bool) -> Result<()> {
        self.control(self.special.assistant, "<｜Assistant｜>")?;
        if thinks {
            self.control(self.special.think, "<think>")
        } else if self.special.think.is_none() && self.special.end_think.is_none() {
            Ok(())
        } else {
            self.control(self.special.end_think, "</think>")
        }
    }

    pub(super) fn control(&mut self, id: Option<u32>, spelling: &str) -> Result<()> {
        let lacks = || Error::Prompt(format!("this conversation needs {spelling}, which the vocabulary does not have"));
        self.id(id.ok_or_else(lacks)?);
        Ok(())
    }

    fn id(&mut self, id: u32) {
        self.encode_text();
        self.ids.push(id);
    }

    fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Text in which grounding marks are tokens.
    fn assistant_text(&mut self, text: &str) {
        let mut pieces = Vec::new();
        self.grounding.split(text, |piece| pieces.push(piece));
        for piece in pieces {
            match piece {
                added::Piece::Text(text) => self.text(text),
                added::Piece::Added(id) => self.id(id),
            }
        }
    }

    fn image(&mut self, picture: usize) -> Result<()> {
        if self.special.image.is_none() {
            return Err(Error::Prompt(format!(
                "picture {picture}: this conversation needs <｜deepseek_image｜>, which the vocabulary does not have"
            )));
        }
        self.end_ids();
        self.pieces.push(Piece::Image(picture));
        Ok(())
    }

    fn encode_text(&mut self) {
        self.ids.extend(self.tokenizer.encode_plain(&std::mem::take(&mut self.text)));
    }

    fn end_ids(&mut self) {
        self.encode_text();
        if !self.ids.is_empty() {
            self.pieces.push(Piece::Ids(std::mem::take(&mut self.ids)));
        }
    }

    pub(super) fn finish(mut self) -> Vec<Piece> {
        self.end_ids();
        self.pieces
    }
}

/// The parts of a message that must be text alone, joined by a blank line.
fn join_texts(message: &Message, place: &str) -> Result<String> {
    let texts: Result<Vec<&str>> = message
        .parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => Ok(text.as_str()),
            Part::Image(picture) => {
                Err(Error::Prompt(format!("picture {picture}: needed in a user message, found in {place}")))
            }
        })
        .collect();
    Ok(texts?.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::RELEASED;

    /// The worked picture of section 12.4 stands inside a sentence. Messages hold pictures as parts of their own, so
    /// this tests the parts below.
    #[test]
    fn a_picture_in_a_sentence() {
        let special = SpecialIds::find(&RELEASED);
        let mut prompt = Prompt::new(&RELEASED, &special);
        prompt.control(special.bos, "BOS").unwrap();
        prompt.control(special.user, "User").unwrap();
        prompt.text("Before ");
        prompt.image(0).unwrap();
        prompt.text(" after");
        prompt.assistant_head(false).unwrap();
        let expected =
            [Piece::Ids(vec![0, 128803, 17005, 223]), Piece::Image(0), Piece::Ids(vec![1561, 128804, 128822])];
        assert_eq!(prompt.finish(), expected);
    }
}
