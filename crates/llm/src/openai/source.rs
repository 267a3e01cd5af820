//! The body of a response with its limits: the first byte, silence, life without content, size.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use super::wire::Wire;
use crate::error::{ErrorClass, LlmError};
use crate::limits::{IDLE_WITHOUT_CONTENT_MAX, STREAM_BYTES_MAX};

/// A body that is read piece by piece.
#[derive(Debug)]
pub(super) struct Source {
    response: Response,
    wire: Arc<Wire>,
    /// When the first byte must be there; `None` once it is.
    first_end: Option<Instant>,
    idle_timeout: Duration,
    content_at: Instant,
}

impl Source {
    pub(super) fn new(
        response: Response,
        wire: Arc<Wire>,
        first_end: Instant,
        idle_timeout: Duration,
    ) -> Self {
        let content_at = Instant::now();
        Self { response, wire, first_end: Some(first_end), idle_timeout, content_at }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// `Interrupted` for silence and for a body that breaks off, `Malformed` for one without end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, LlmError> {
        let idle_end = Instant::now() + self.idle_timeout;
        let content_end = self.content_at + self.idle_timeout * IDLE_WITHOUT_CONTENT_MAX;
        let end = self.first_end.unwrap_or_else(|| idle_end.min(content_end));
        let piece = timeout_at(end, self.response.chunk()).await.map_err(|_| self.silent())?;
        let Some(piece) = piece.map_err(|error| self.broken(error))? else { return Ok(None) };
        if self.first_end.take().is_some() {
            self.content_at = Instant::now();
        }
        if self.wire.saw_bytes(piece.len()) > STREAM_BYTES_MAX {
            let why = format!("the answer has more than {STREAM_BYTES_MAX} bytes");
            return Err(LlmError::new(ErrorClass::Malformed, why));
        }
        Ok(Some(piece.to_vec()))
    }

    /// Everything after `body`, which it ends up with.
    ///
    /// # Errors
    /// Those of [`Source::next`]; `Malformed` for more than `bytes_max` bytes.
    pub(super) async fn rest(
        &mut self,
        mut body: Vec<u8>,
        bytes_max: usize,
    ) -> Result<Vec<u8>, LlmError> {
        while let Some(piece) = self.next().await? {
            if !piece.trim_ascii().is_empty() {
                self.saw_content();
            }
            body.extend(piece);
            if body.len() > bytes_max {
                let why = format!("the answer has more than {bytes_max} bytes");
                return Err(LlmError::new(ErrorClass::Malformed, why));
            }
        }
        Ok(body)
    }

    /// What comes of at most `bytes_max` bytes before the end or a failure.
    pub(super) async fn start(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < bytes_max
            && let Ok(Some(piece)) = self.next().await
        {
            body.extend(piece);
        }
        body.truncate(bytes_max);
        body
    }

    pub(super) fn saw_content(&mut self) {
        self.content_at = Instant::now();
    }

    pub(super) fn saw_end(&self) {
        self.wire.saw_end();
    }

    pub(super) fn fail(&self, error: LlmError) {
        self.wire.fail(error);
    }

    fn silent(&self) -> LlmError {
        let idle_ms = ms(self.idle_timeout);
        let why = match self.first_end {
            Some(_) => "the answer's headers came, and nothing after them".to_owned(),
            None => format!("{idle_ms} ms of silence after {} bytes", self.wire.bytes()),
        };
        LlmError::new(ErrorClass::Interrupted, why)
    }

    fn broken(&self, error: reqwest::Error) -> LlmError {
        let bytes = self.wire.bytes();
        let why = format!("the connection broke after {bytes} bytes: {}", in_words(error));
        LlmError::new(ErrorClass::Interrupted, why)
    }
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// An error with its causes, without the address, which may hold a key.
pub(super) fn in_words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    words.dedup();
    words.join(": ")
}
