//! Requests inside the browser, by `fetch`, on a page or in a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use js_sys::{Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Request, RequestCache, RequestInit, Response};

use super::Timing;
use super::answer::{Body, Head, Want};
use super::client::Reply;
use crate::error::HttpFault;

/// The browser keeps the connections.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// Bytes of bodies so far, counted as they arrive.
    pub(super) received: Arc<AtomicU64>,
}

impl Client {
    pub(super) fn new(_: &Timing) -> Client {
        Client { received: Arc::default() }
    }

    /// One request, one try.
    pub(super) async fn get(&self, url: &str, want: &Want) -> Result<Reply, HttpFault> {
        let response: Response = send(url, want).await.map_err(fault)?;
        let headers = response.headers();
        let text = |name: &str| headers.get(name).ok().flatten();
        // The browser undoes the encoding of whole files; then neither header describes the bytes that arrive.
        let as_sent = !matches!(want, Want::Whole { .. }) || text("content-encoding").is_none();
        let head = Head {
            status: response.status(),
            content_type: text("content-type"),
            content_encoding: text("content-encoding").filter(|_| as_sent),
            content_range: text("content-range"),
            content_length: text("content-length").filter(|_| as_sent).and_then(|length| length.parse().ok()),
            etag: text("etag"),
            last_modified: text("last-modified"),
        };
        let admitted = want.admit(&head)?;
        let (Body::Exactly(most) | Body::AtMost(most)) = admitted.body;
        let (body, read) = self.read(&response, most).await;
        let arrived = body.len() as u64;
        // What is thrown away and asked for again does not count.
        Reply::new(&head, admitted, body, read).inspect_err(|_| {
            self.received.fetch_sub(arrived, Relaxed);
        })
    }

    /// Reads a body piece by piece, at most one piece beyond `most` bytes: a server that sends more does not fill the memory.
    async fn read(&self, response: &Response, most: u64) -> (Vec<u8>, Result<(), String>) {
        let mut bytes = Vec::new();
        let ended = self.read_into(response, most, &mut bytes).await;
        (bytes, ended.map_err(|error| format!("{error:?}")))
    }

    async fn read_into(&self, response: &Response, most: u64, bytes: &mut Vec<u8>) -> Result<(), JsValue> {
        let stream = Reflect::get(response, &"body".into())?;
        if stream.is_null() {
            return Ok(());
        }
        let method = |of: &JsValue, name: &str| Reflect::get(of, &name.into())?.dyn_into::<Function>();
        let reader = method(&stream, "getReader")?.call0(&stream)?;
        let next = method(&reader, "read")?;
        loop {
            let promise: Promise = next.call0(&reader)?.dyn_into()?;
            let step = JsFuture::from(promise).await?;
            if Reflect::get(&step, &"done".into())?.is_truthy() {
                return Ok(());
            }
            let piece = Uint8Array::new(&Reflect::get(&step, &"value".into())?);
            let begin = bytes.len();
            bytes.resize(begin + piece.length() as usize, 0);
            piece.copy_to(&mut bytes[begin..]);
            self.received.fetch_add(u64::from(piece.length()), Relaxed);
            if bytes.len() as u64 > most {
                // What is left is not wanted; whether cancelling succeeds does not matter.
                let _ = method(&reader, "cancel")?.call0(&reader);
                return Ok(());
            }
        }
    }
}

async fn send(url: &str, want: &Want) -> Result<Response, JsValue> {
    let init = RequestInit::new();
    if want.range_header().is_some() {
        // The browser's own cache answers with the tag of an old revision where a server does not know If-Range; and a second copy is none too few.
        init.set_cache(RequestCache::NoStore);
    }
    let request = Request::new_with_str_and_init(url, &init)?;
    if let Some(range) = want.range_header() {
        request.headers().set("Range", &range)?;
    }
    call_global("fetch", &request).await?.dyn_into()
}

/// Calls a function that pages and workers both have, and waits for its promise.
async fn call_global(name: &str, argument: &JsValue) -> Result<JsValue, JsValue> {
    let global = js_sys::global();
    let function: Function = Reflect::get(&global, &name.into())?.dyn_into()?;
    let promise: Promise = function.call1(&global, argument)?.dyn_into()?;
    JsFuture::from(promise).await
}

/// Waits without holding up other requests.
pub(crate) async fn pause(time: Duration) {
    let mut set_timeout = |resolve: Function, _: Function| {
        let global = js_sys::global();
        let timeout = Reflect::get(&global, &"setTimeout".into()).and_then(|found| found.dyn_into::<Function>());
        // Without a clock there is no waiting.
        let set = timeout.and_then(|timeout| timeout.call2(&global, &resolve, &(time.as_millis() as f64).into()));
        if set.is_err() {
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
    };
    let _ = JsFuture::from(Promise::new(&mut set_timeout)).await;
}

/// A failed fetch says little by design: the browser hides the cause from scripts.
fn fault(error: JsValue) -> HttpFault {
    let message = Reflect::get(&error, &"message".into()).ok().and_then(|message| message.as_string());
    HttpFault::Network(message.unwrap_or_else(|| "fetch failed".into()))
}
