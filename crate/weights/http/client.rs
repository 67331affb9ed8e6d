//! A request with its tries, whatever sends it.

use std::time::Duration;

use super::answer::{Admitted, Body, Head, Identity, Want};
use super::{Timing, platform};
use crate::error::{Error, HttpFault, Result};

/// A believed answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) body: Vec<u8>,
    pub(super) identity: Identity,
    /// Length of the whole file, where the answer says so.
    pub(super) len: Option<u64>,
}

impl Reply {
    /// Compares a body with what its headers promised. `read` says how reading it ended.
    pub(super) fn new(
        head: &Head,
        admitted: Admitted,
        body: Vec<u8>,
        read: std::result::Result<(), String>,
    ) -> std::result::Result<Reply, HttpFault> {
        let found = body.len() as u64;
        match admitted.body {
            Body::AtMost(most) if found > most => return Err(HttpFault::TooLong { most }),
            Body::Exactly(needed) if found != needed => {
                // A connection that broke says more than the bytes that are missing.
                return Err(read.err().map_or(HttpFault::Length { needed, found }, HttpFault::Network));
            }
            _ => read.map_err(HttpFault::Network)?,
        }
        Ok(Reply { body, identity: Identity::of(head), len: admitted.len })
    }
}

/// Asks until there is an answer or no more sense in asking. `None`: there is no such file (404, 410).
///
/// # Errors
/// [`Error::Http`] with the last fault.
pub(super) async fn ask(client: &platform::Client, timing: &Timing, url: &str, want: &Want) -> Result<Option<Reply>> {
    let mut pause = timing.first_pause;
    let mut tries = 1;
    loop {
        let fault = match client.get(url, want).await {
            Ok(reply) => return Ok(Some(reply)),
            Err(HttpFault::Status(404 | 410)) => return Ok(None),
            Err(fault) => fault,
        };
        if !fault.is_passing() || tries >= timing.tries {
            return Err(Error::Http { url: url.into(), offset: want.offset(), fault });
        }
        platform::pause(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
        tries += 1;
    }
}
