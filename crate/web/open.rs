//! A checkpoint by its address, for whoever makes an engine of it: the lab's desk and the chat.
//!
//! ```text
//! let opened = open::checkpoint(address, memory, &tell).await?;   headers are read, nothing else
//! opened.plan                                                     what it needs; ask before `opened.plan.ask` is fetched
//! opened.checkpoint                                               tensors come as they are asked for
//! ```

use super::{Result, json, problem};
use crate::weights::folder::{Folder, Meter};
use crate::weights::http::Timing;
use crate::weights::opened;
use js_sys::{Function, Object, Reflect};
use wasm_bindgen::prelude::*;

/// Bytes of weights that a tab is trusted with, if nobody says otherwise: phones end tabs that take more.
const MEMORY: u64 = 1 << 30;

/// A checkpoint of which headers are read and nothing else.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Opened(opened::Opened);

#[wasm_bindgen]
impl Opened {
    /// Opens the checkpoint in a folder of a web server, for `memory` bytes of weights (0: the usual). `tell` hears of progress.
    ///
    /// # Errors
    /// An object with `kind`, `reason` and `message`.
    pub async fn open(address: String, memory: f64, tell: Function) -> Result<Opened> {
        console_error_panic_hook::set_once();
        let memory = if memory > 0.0 { memory as u64 } else { MEMORY };
        checkpoint(&address, memory, &tell).await.map(Opened).map_err(problem)
    }

    /// What it needs, as JSON.
    pub fn plan(&self) -> Result<String> {
        json(&self.0.plan)
    }

    /// Counts what comes of it; goes on when the checkpoint itself has been handed over.
    pub fn meter(&self) -> Counter {
        Counter { meter: self.0.meter.clone(), total: self.0.plan.holding.resident, before: read(&self.0.meter) }
    }
}

impl Opened {
    pub(super) fn into_inner(self) -> opened::Opened {
        self.0
    }
}

/// How much of a checkpoint has come.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Counter {
    meter: Meter,
    total: u64,
    before: u64,
}

#[wasm_bindgen]
impl Counter {
    /// Bytes of weights that have come, never more than [`Self::total`].
    pub fn done(&self) -> f64 {
        (read(&self.meter).saturating_sub(self.before)).min(self.total) as f64
    }

    /// Bytes of weights that loading reads.
    pub fn total(&self) -> f64 {
        self.total as f64
    }

    /// Bytes that came from the server so far, headers included.
    pub fn received(&self) -> f64 {
        self.meter.received() as f64
    }

    /// Bytes that came from the store so far.
    pub fn found(&self) -> f64 {
        self.meter.found() as f64
    }
}

fn read(meter: &Meter) -> u64 {
    meter.received() + meter.found()
}

/// Opens the checkpoint at `address`, keeping what is read of it where the browser lets it.
pub(super) async fn checkpoint(address: &str, memory: u64, tell: &Function) -> crate::Result<opened::Opened> {
    progress(tell, "headers", 0.0, 0.0);
    let folder = Folder::http(address, Timing::default())?;
    let opened = opened::Opened::new(&folder, Some(address.into()), memory).await?;
    progress(tell, "headers", 1.0, 1.0);
    Ok(opened)
}

/// Tells the page how far something is.
fn progress(tell: &Function, stage: &str, done: f64, total: f64) {
    let detail = Object::new();
    for (key, value) in [("stage", JsValue::from(stage)), ("done", done.into()), ("total", total.into())] {
        // Setting a property of a new object does not fail.
        let _ = Reflect::set(&detail, &key.into(), &value);
    }
    // A page that cannot be told has gone away.
    let _ = tell.call2(&JsValue::NULL, &"progress".into(), &detail);
}
