//! The door to a conversation: requests and steps as JSON. Everything is in [`crate::chat`].

use super::{Desk, Result, json, problem, seconds};
use crate::chat::{Conversation, Request};
use crate::generate::snapshot::Form;
use wasm_bindgen::prelude::*;

/// A conversation on an opened model. Calls are answered one after the other.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Chat(Conversation);

#[wasm_bindgen]
impl Desk {
    /// A conversation on the weights of this lab.
    ///
    /// # Errors
    /// An object with `kind` and `message`, as from every call.
    pub fn chat(&self) -> Result<Chat> {
        let (engine, tokenizer) = self.0.speaker();
        Conversation::new(engine, tokenizer, Box::new(seconds)).map(Chat).map_err(problem)
    }
}

#[wasm_bindgen]
impl Chat {
    /// Compiles what a GPU compiles on first use.
    #[wasm_bindgen(js_name = warmUp)]
    pub async fn warm_up(&mut self) -> Result<()> {
        self.0.warm_up().await.map_err(problem)
    }

    /// Takes a request: [`crate::chat::Begun`]. One that was on its way is over.
    pub async fn begin(&mut self, request: String) -> Result<String> {
        let request = Request::from_json(&request).map_err(problem)?;
        json(&self.0.begin(&request).await.map_err(problem)?)
    }

    /// The next step of the answer: [`crate::chat::Step`].
    pub async fn next(&mut self) -> Result<String> {
        json(&self.0.next().await.map_err(problem)?)
    }

    /// The session as a file.
    pub async fn save(&mut self, compact: bool) -> Result<Vec<u8>> {
        let form = if compact { Form::Compact } else { Form::Full };
        self.0.save(form).await.map_err(problem)
    }

    /// Goes on with the session of a file; returns how many tokens it has.
    pub async fn load(&mut self, file: Vec<u8>) -> Result<usize> {
        self.0.load(&file).await.map_err(problem)
    }

    /// Ends the answer that is on its way.
    pub fn stop(&mut self) {
        self.0.stop();
    }
}
