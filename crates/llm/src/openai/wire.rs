//! What was seen of one request on the wire, shared by whoever reads it and whoever reports it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pipeline::limits::capped;
use reqwest::header::HeaderMap;
use serde_json::json;
use tokio::time::Instant;

use crate::error::LlmError;
use crate::limits::NAME_BYTES_MAX;

/// Headers that carry a server's own id of a request.
const REQUEST_ID_HEADERS: [&str; 4] = ["x-request-id", "request-id", "x-generation-id", "cf-ray"];
/// Most headers about limits that are kept.
const LIMIT_HEADERS_MAX: usize = 12;

/// One request.
#[derive(Debug)]
pub(super) struct Wire {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    status: Option<u16>,
    request_id: Option<String>,
    limits: BTreeMap<String, String>,
    headers_ms: Option<u64>,
    first_token_ms: Option<u64>,
    bytes: u64,
    streamed: bool,
    is_done: bool,
    failure: Option<LlmError>,
}

impl Wire {
    pub(super) fn starting_now() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn saw_headers(&self, status: u16, headers: &HeaderMap) {
        let text = |name: &str| {
            let value = headers.get(name)?.to_str().ok()?;
            Some(capped(value, NAME_BYTES_MAX))
        };
        let is_limit = |name: &&str| name.starts_with("x-ratelimit-");
        let limits = headers.keys().map(|name| name.as_str()).filter(is_limit);
        let limits = limits.take(LIMIT_HEADERS_MAX);
        let mut state = self.state();
        state.status = Some(status);
        state.headers_ms = Some(self.elapsed_ms());
        state.request_id = REQUEST_ID_HEADERS.iter().find_map(|name| text(name));
        state.limits = limits.filter_map(|name| Some((name.to_owned(), text(name)?))).collect();
    }

    /// Counts bytes of the body and returns how many there are.
    pub(super) fn saw_bytes(&self, count: usize) -> u64 {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(count as u64);
        state.bytes
    }

    pub(super) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    pub(super) fn saw_stream(&self) {
        self.state().streamed = true;
    }

    /// The first token is there, if it was not before.
    pub(super) fn saw_token(&self) {
        let now = self.elapsed_ms();
        self.state().first_token_ms.get_or_insert(now);
    }

    /// The server has said that nothing follows.
    pub(super) fn saw_end(&self) {
        self.state().is_done = true;
    }

    pub(super) fn is_done(&self) -> bool {
        self.state().is_done
    }

    /// Keeps the first reason why there is no whole answer.
    pub(super) fn fail(&self, error: LlmError) {
        self.state().failure.get_or_insert(error);
    }

    pub(super) fn failure(&self) -> Option<LlmError> {
        self.state().failure.clone()
    }

    /// The record of the request as JSON.
    pub(super) fn log(&self, address: &str, id: &str, provider: &str) -> String {
        let state = self.state();
        json!({
            "method": "POST",
            "url": address,
            "status": state.status,
            "request_id": state.request_id,
            "id": id,
            "provider": provider,
            "limits": state.limits,
            "headers_ms": state.headers_ms,
            "first_token_ms": state.first_token_ms,
            "end_ms": self.elapsed_ms(),
            "bytes": state.bytes,
            "streamed": state.streamed,
        })
        .to_string()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
