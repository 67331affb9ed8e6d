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
use crate::weights::store::{self, Listener, Notice, Store};
use js_sys::{Function, Object, Reflect};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use wasm_bindgen::prelude::*;

/// Weights that are fetched in one piece: a model that comes along with a page. What is larger is judged by its headers first and read by ranges.
const WHOLE: u64 = 12_000_000;
/// Bytes of weights that a tab is trusted with, if nobody says otherwise: phones end tabs that take more.
const MEMORY: u64 = 1 << 30;

/// A checkpoint of which headers are read and nothing else.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Opened(opened::Opened);

#[wasm_bindgen]
impl Opened {
    /// Opens the checkpoint in a folder of a web server, for `memory` bytes of weights (0: the usual), and keeps what is read of it where
    /// the browser has a place for it, unless `keep` is false. `tell` hears of progress, and why something is not kept.
    ///
    /// # Errors
    /// An object with `kind`, `reason` and `message`.
    pub async fn open(address: String, memory: f64, tell: Function, keep: Option<bool>) -> Result<Opened> {
        console_error_panic_hook::set_once();
        let memory = if memory > 0.0 { memory as u64 } else { MEMORY };
        let opened = match keep {
            Some(false) => checkpoint_in(&address, memory, None, &tell).await,
            _ => checkpoint(&address, memory, &tell).await,
        };
        opened.map(Opened).map_err(problem)
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

/// Bytes that the browser keeps of checkpoints.
#[wasm_bindgen(js_name = storedBytes)]
pub async fn stored_bytes() -> f64 {
    store::stored().await as f64
}

/// Removes what the browser keeps of checkpoints; returns the bytes that are left, which another tab has open.
#[wasm_bindgen(js_name = clearStore)]
pub async fn clear_store() -> f64 {
    store::clear().await as f64
}

/// Opens the checkpoint at `address` for `memory` bytes of weights. What is read of it is kept where the browser lets it.
pub(super) async fn checkpoint(address: &str, memory: u64, tell: &Function) -> crate::Result<opened::Opened> {
    checkpoint_in(address, memory, store(tell).await, tell).await
}

/// The browser's store; what it does not keep is announced to the page.
async fn store(tell: &Function) -> Option<Arc<Store>> {
    Store::open(u64::MAX, listener(tell.clone())).await
}

async fn checkpoint_in(
    address: &str,
    memory: u64,
    store: Option<Arc<Store>>,
    tell: &Function,
) -> crate::Result<opened::Opened> {
    tell_page(tell, "progress", &[("stage", "headers".into()), ("done", 0.into()), ("total", 0.into())]);
    let folder = match store {
        Some(store) => Folder::http_stored(address, Timing::default(), store).await?,
        None => Folder::http(address, Timing::default())?,
    };
    let (meter, total) = (folder.meter(), Cell::new(0));
    let said = Cell::new(u64::MAX);
    // Whenever something has come, the page hears how much.
    let watch = || {
        let done = read(&meter).min(total.get());
        if total.get() > 0 && said.replace(done) != done {
            let values =
                [("stage", "bytes".into()), ("done", (done as f64).into()), ("total", (total.get() as f64).into())];
            tell_page(tell, "progress", &values);
        }
    };
    let sized = |bytes| total.set(bytes);
    let mut gather = pin!(folder.whole_if_small(WHOLE.min(memory), &sized));
    let folder = poll_fn(|context| {
        watch();
        gather.as_mut().poll(context)
    });
    let folder = folder.await?;
    opened::Opened::new(&folder, Some(address.into()), memory).await
}

thread_local! {
    /// The page. Its function belongs to this thread; a listener should not have to.
    static PAGE: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Tells the page why something is not kept, once for every reason.
fn listener(tell: Function) -> Listener {
    PAGE.set(Some(tell));
    let said = Mutex::new(HashSet::new());
    Box::new(move |notice| {
        if !said.lock().unwrap_or_else(PoisonError::into_inner).insert(std::mem::discriminant(notice)) {
            return;
        }
        let (what, message) = match notice {
            Notice::Full { needed, available } => ("full", format!("{needed} bytes needed, {available} available")),
            Notice::InUse { folder } => ("in-use", folder.clone()),
            Notice::Broken { problem } => ("broken", problem.clone()),
        };
        if let Some(tell) = PAGE.with_borrow(Clone::clone) {
            tell_page(&tell, "notice", &[("what", what.into()), ("message", message.into())]);
        }
    })
}

fn tell_page(tell: &Function, event: &str, values: &[(&str, JsValue)]) {
    let detail = Object::new();
    for (key, value) in values {
        // Setting a property of a new object does not fail.
        let _ = Reflect::set(&detail, &(*key).into(), value);
    }
    // A page that cannot be told has gone away.
    let _ = tell.call2(&JsValue::NULL, &event.into(), &detail);
}
