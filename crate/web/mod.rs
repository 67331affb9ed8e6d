//! The door between the page's worker and the core: JSON in, JSON out. No logic here; everything is in [`crate::lab::desk`] and [`crate::chat`].

mod chat;
mod open;

pub use chat::Chat;
pub use open::{Counter, Opened, clear_store, stored_bytes};

use crate::error::Error;
use crate::lab::desk::{self, Event, Host, How, RunRequest, SlotCount, Where, Wish};
use crate::weights::tiny;
use js_sys::{Float32Array, Function, Int32Array, Object, Reflect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::*;

type Result<T> = std::result::Result<T, JsValue>;

/// The lab of one worker. Calls take and give JSON as the table in `web/engine.js` says.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Desk(desk::Desk);

#[derive(Debug, Default, serde::Deserialize)]
struct Opening {
    #[serde(default)]
    backend: Wish,
    /// Name of the adapter, as the browser gives it.
    #[serde(default)]
    adapter: Option<String>,
}

#[wasm_bindgen]
impl Desk {
    /// Makes a lab of an opened checkpoint, or of the built-in model. `tell(event, detail)` hears of progress and of a lost device.
    ///
    /// # Errors
    /// An object with `kind` and `message`, as from every call.
    pub async fn open(options: String, tell: Function, opened: Option<Opened>) -> Result<Desk> {
        console_error_panic_hook::set_once();
        let Opening { backend, adapter } = parse(&options)?;
        let host = Host { clock: Box::new(seconds), tell: Box::new(move |event| pass_on(&tell, event)) };
        let desk = match opened.map(Opened::into_inner) {
            None => desk::Desk::open(tiny::lab().await.map_err(problem)?, backend, adapter, host).await,
            Some(opened) => {
                let slots = opened.plan.holding.slots.map(|count| SlotCount { count, clock: seconds });
                desk::Desk::open_slotted(opened.checkpoint, slots, backend, adapter, host).await
            }
        };
        desk.map(Desk).map_err(problem)
    }

    /// What the page talks to.
    pub fn info(&self) -> Result<String> {
        json(self.0.info())
    }

    /// Runs a prompt; `own` is the file of the reader's picture.
    pub async fn run(&mut self, request: String, own: Option<Vec<u8>>) -> Result<String> {
        let request: RunRequest = parse(&request)?;
        json(&self.0.run(request, own.as_deref()).await.map_err(problem)?)
    }

    /// The same prompt, seen from elsewhere.
    pub async fn report(&mut self, place: String) -> Result<String> {
        let place: Where = parse(&place)?;
        json(&self.0.report(place).await.map_err(problem)?)
    }

    /// The recorded tensors.
    pub fn taps(&self) -> Result<String> {
        json(&self.0.taps().map_err(problem)?)
    }

    /// One recorded tensor: what [`Desk::taps`] says of it, with its numbers in `data`.
    pub fn tensor(&self, tap: &str, layer: usize) -> Result<JsValue> {
        let (info, real, indices) = self.0.tensor(tap, layer).map_err(problem)?;
        let object = js_sys::JSON::parse(&json(&info)?)?;
        let data: JsValue = if info.kind == "f32" {
            Float32Array::from(real).into()
        } else {
            Int32Array::from(indices.iter().map(|&index| index as i32).collect::<Vec<_>>().as_slice()).into()
        };
        Reflect::set(&object, &"data".into(), &data)?;
        Ok(object)
    }

    /// Writes one token behind the prompt.
    pub async fn step(&mut self, how: String) -> Result<String> {
        let how: How = parse(&how)?;
        json(&self.0.step(how).await.map_err(problem)?)
    }

    /// FP4 caches against f32 caches.
    #[wasm_bindgen(js_name = compareKv)]
    pub async fn compare_kv(&self) -> Result<String> {
        json(&self.0.compare_kv().await.map_err(problem)?)
    }

    /// GPU against CPU reference.
    pub async fn parity(&mut self) -> Result<String> {
        json(&self.0.parity().await.map_err(problem)?)
    }

    /// Times of both phases.
    pub async fn timings(&mut self) -> Result<String> {
        json(&self.0.timings().await.map_err(problem)?)
    }

    /// Empties what the browser keeps of the checkpoint; returns the bytes that it was.
    #[wasm_bindgen(js_name = discardKept)]
    pub fn discard_kept(&self) -> f64 {
        self.0.checkpoint().discard_kept() as f64
    }

    /// Experts in slots: how often one was there, and how quickly the others were read. `null` if all are in memory.
    pub fn slots(&self) -> Result<String> {
        json(&self.0.slots())
    }

    /// Destroys the GPU's device.
    #[wasm_bindgen(js_name = loseDevice)]
    pub fn lose_device(&self) {
        self.0.lose_device();
    }
}

/// Seconds of the worker's own clock.
fn seconds() -> f64 {
    let now = || -> Result<f64> {
        let performance = Reflect::get(&js_sys::global(), &"performance".into())?;
        let now: Function = Reflect::get(&performance, &"now".into())?.unchecked_into();
        Ok(now.call0(&performance)?.as_f64().unwrap_or(f64::NAN) / 1e3)
    };
    now().unwrap_or_else(|_| js_sys::Date::now() / 1e3)
}

fn pass_on(tell: &Function, event: Event<'_>) {
    let detail = Object::new();
    let set = |key: &str, value: JsValue| Reflect::set(&detail, &key.into(), &value).is_ok();
    let (name, _) = match event {
        Event::Reading(part) => ("reading", set("part", part.into())),
        Event::Progress(stage, done, total) => {
            ("progress", set("stage", stage.into()) && set("done", done.into()) && set("total", total.into()))
        }
        Event::Lost(message) => ("lost", set("message", message.into())),
        Event::Recovered => ("recovered", true),
    };
    // A page that cannot be told has gone away.
    let _ = tell.call2(&JsValue::NULL, &name.into(), &detail);
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| problem(Error::Usage(format!("a request of the page: {error}"))))
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| problem(Error::Integrity(format!("an answer as JSON: {error}"))))
}

/// An `Error` of JavaScript with kind and reason beside the message.
fn problem(error: Error) -> JsValue {
    let object = js_sys::Error::new(&error.to_string());
    // Setting a property of a new object does not fail.
    let _ = Reflect::set(&object, &"kind".into(), &error.kind().into());
    if let Some(reason) = error.reason() {
        let _ = Reflect::set(&object, &"reason".into(), &reason.into());
    }
    object.into()
}
