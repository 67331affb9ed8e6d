//! Requests outside the browser: a blocking client on a thread per request, behind a future, so that the callers are the same as in the
//! browser and whoever polls the future is free meanwhile.

use std::future::poll_fn;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::Timing;
use super::answer::{Body, Head, Want};
use super::client::Reply;
use crate::error::HttpFault;

/// Keeps connections open between requests.
#[derive(Debug, Clone)]
pub(super) struct Client {
    agent: ureq::Agent,
    /// Bytes of bodies so far.
    pub(super) received: Arc<AtomicU64>,
}

impl Client {
    pub(super) fn new(timing: &Timing) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(timing.patience))
            .timeout_recv_response(Some(timing.patience))
            .timeout_per_read(Some(timing.patience))
            .max_idle_connections_per_host(super::IN_FLIGHT)
            .user_agent(concat!("flash890/", env!("CARGO_PKG_VERSION")))
            // Bytes as they are: a part of a compressed file would be of no use.
            .accept_encoding("identity")
            .build();
        Client { agent: config.into(), received: Arc::default() }
    }

    /// One request, one try.
    pub(super) async fn get(&self, url: &str, want: &Want) -> Result<Reply, HttpFault> {
        let (agent, url, want) = (self.agent.clone(), url.to_string(), want.clone());
        let reply = on_thread(move || request(&agent, &url, &want)).await?;
        self.received.fetch_add(reply.body.len() as u64, Relaxed);
        Ok(reply)
    }
}

/// Waits without holding up other requests.
pub(super) async fn pause(time: Duration) {
    let waited = on_thread(move || {
        std::thread::sleep(time);
        Ok(())
    });
    // A pause that cannot be made is no reason to give up.
    let _: Result<(), HttpFault> = waited.await;
}

fn request(agent: &ureq::Agent, url: &str, want: &Want) -> Result<Reply, HttpFault> {
    let mut request = agent.get(url);
    if let Some(range) = want.range_header() {
        request = request.header("Range", range);
    }
    let mut response = request.call().map_err(fault)?;
    let text = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_string());
    let head = Head {
        status: response.status().as_u16(),
        content_type: text("content-type"),
        content_encoding: text("content-encoding"),
        content_range: text("content-range"),
        content_length: text("content-length").and_then(|length| length.parse().ok()),
        etag: text("etag"),
        last_modified: text("last-modified"),
    };
    let admitted = want.admit(&head)?;
    let (Body::Exactly(most) | Body::AtMost(most)) = admitted.body;
    let mut body = Vec::new();
    // One more than allowed, to notice a body that goes on.
    let mut reader = response.body_mut().with_config().limit(u64::MAX).reader().take(most.saturating_add(1));
    let read = reader.read_to_end(&mut body);
    Reply::new(&head, admitted, body, read.map(|_| ()).map_err(|error| error.to_string()))
}

fn fault(error: ureq::Error) -> HttpFault {
    HttpFault::Network(error.to_string())
}

/// What a thread hands to the future that waits for it.
struct Handover<T> {
    result: Option<Result<T, HttpFault>>,
    waker: Option<Waker>,
}

/// Runs blocking work on a thread of its own; the future is ready when it is done. Dropping the future does not end the work.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HttpFault> + Send + 'static,
) -> Result<T, HttpFault> {
    let shared = Arc::new(Mutex::new(Handover { result: None, waker: None }));
    let for_thread = Arc::clone(&shared);
    let run = move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let result = done.unwrap_or_else(|_| Err(HttpFault::Network("the client failed".into())));
        let mut handover = for_thread.lock().unwrap_or_else(PoisonError::into_inner);
        handover.result = Some(result);
        if let Some(waker) = handover.waker.take() {
            waker.wake();
        }
    };
    std::thread::Builder::new()
        .name("http".into())
        .spawn(run)
        .map_err(|error| HttpFault::Network(format!("no thread for a request: {error}")))?;
    poll_fn(move |cx| {
        let mut handover = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match handover.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                handover.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}
