//! One HTTP request below async-openai: sends it once, holds its time limits, and hands every
//! answer on as regular events. What is no answer never reaches async-openai, whose types know
//! only OpenAI's own errors: its reason is kept in [`Wire`].

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use futures_util::{StreamExt, stream};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Body, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use super::endpoint::Endpoint;
use super::failure::{self, Asked};
use super::lines::{Lines, is_events, pieces};
use super::settings::shown_url;
use super::source::{Source, in_words, ms};
use super::wait::wanted_wait_ms;
use super::wire::Wire;
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{BODY_BYTES_MAX, ERROR_BODY_BYTES_MAX, ERROR_BODY_WAIT_MS};

/// Sends one request.
#[derive(Clone, Debug)]
pub(super) struct OneRequest {
    pub(super) http: reqwest::Client,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) wire: Arc<Wire>,
    /// Name of the model at the server.
    pub(super) model: String,
    pub(super) connect_timeout: Duration,
    pub(super) first_byte_timeout: Duration,
    pub(super) idle_timeout: Duration,
    /// Where the answer is no chat's: its longest body, which is handed on as it is.
    pub(super) whole_bytes_max: Option<usize>,
}

impl Service<HttpRequestFactory> for OneRequest {
    type Response = Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let sent = this.send(factory).await;
            sent.map_err(|error| {
                this.wire.fail(error);
                OpenAIError::InvalidArgument("the wire knows why".to_owned())
            })
        })
    }
}

impl OneRequest {
    async fn send(&self, factory: HttpRequestFactory) -> Result<Response, LlmError> {
        let unbuilt = |error: OpenAIError| LlmError::new(ErrorClass::Refused, error.to_string());
        let request = factory.build().await.map_err(unbuilt)?;
        let end = Instant::now() + self.connect_timeout + self.first_byte_timeout;
        let sent = timeout_at(end, self.http.execute(request)).await;
        let response = sent.map_err(|_| self.silent())?.map_err(|error| self.unsent(error))?;
        let status = response.status();
        let headers = response.headers().clone();
        self.wire.saw_headers(status.as_u16(), &headers);
        let source = Source::new(response, self.wire.clone(), end, self.idle_timeout);
        if status.is_success() {
            return match self.whole_bytes_max {
                Some(bytes_max) => as_it_is(source, bytes_max).await,
                None => self.answer(source, &headers).await,
            };
        }
        Err(self.refusal(status.as_u16(), source, &headers).await)
    }

    async fn answer(&self, mut source: Source, headers: &HeaderMap) -> Result<Response, LlmError> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream")) {
            let first = source.next().await?.unwrap_or_default();
            // Some servers name the type that was asked for and send something else.
            if !first.trim_ascii_start().starts_with(b"{") {
                self.wire.saw_stream();
                return Ok(response(live(source, first)));
            }
            return self.whole(source, first).await;
        }
        self.whole(source, Vec::new()).await
    }

    /// Reads an answer to its end and hands it on as one event.
    async fn whole(&self, mut source: Source, start: Vec<u8>) -> Result<Response, LlmError> {
        let body = source.rest(start, BODY_BYTES_MAX).await?;
        let json = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&body);
        if is_events(json) {
            self.wire.saw_stream();
            return self.events(json);
        }
        if json.trim_ascii().is_empty() {
            return Err(LlmError::new(ErrorClass::Malformed, "an empty answer"));
        }
        let Ok(value) = serde_json::from_slice::<Value>(json) else {
            return Err(no_json(&String::from_utf8_lossy(json)));
        };
        let value = match value {
            Value::Array(items) => items.into_iter().next().unwrap_or_default(),
            value => value,
        };
        self.wire.saw_end();
        Ok(response(Body::from(format!("data: {value}\n\ndata: [DONE]\n\n"))))
    }

    /// Events that came without their type.
    fn events(&self, body: &[u8]) -> Result<Response, LlmError> {
        let mut lines = Lines::default();
        let mut regular = lines.feed(body).map_err(|_| too_long())?.bytes;
        regular.extend(lines.end().bytes);
        if lines.is_done {
            self.wire.saw_end();
        }
        let pieces = pieces(&regular).into_iter().map(Ok::<_, Infallible>);
        Ok(response(Body::wrap_stream(stream::iter(pieces))))
    }

    /// The error of a status that is none of success, with as much of its body as there is.
    async fn refusal(&self, status: u16, mut source: Source, headers: &HeaderMap) -> LlmError {
        // The status says what happened; a body that does not come must not hide it.
        let limit = Duration::from_millis(ERROR_BODY_WAIT_MS);
        let body = timeout(limit, source.start(ERROR_BODY_BYTES_MAX)).await.unwrap_or_default();
        let body = self.endpoint.redacted(&String::from_utf8_lossy(&body));
        let location = headers.get(LOCATION).and_then(|to| to.to_str().ok()).map(shown_url);
        let address = self.endpoint.shown();
        let asked = Asked { model: &self.model, address: &address };
        let error = failure::of_response(status, &body, location.as_deref(), asked);
        let limited = error.class() == ErrorClass::RateLimited;
        let in_body = error.wanted_wait_ms();
        error.retry_after_ms(wanted_wait_ms(headers, limited).or(in_body))
    }

    fn silent(&self) -> LlmError {
        let why = format!("no answer began within {} ms", ms(self.first_byte_timeout));
        LlmError::new(ErrorClass::Interrupted, why)
    }

    /// A request that got no answer at all: where there was no connection, nobody saw it.
    fn unsent(&self, error: reqwest::Error) -> LlmError {
        let place = self.endpoint.shown();
        if error.is_connect() {
            let limit = if error.is_timeout() {
                format!(" within {} ms", ms(self.connect_timeout))
            } else {
                String::new()
            };
            let why = format!("no connection to {place}{limit}: {}", in_words(error));
            return LlmError::new(ErrorClass::Unavailable, why).charged(Charge::Nothing);
        }
        let why = format!("the connection to {place} broke: {}", in_words(error));
        LlmError::new(ErrorClass::Interrupted, why)
    }
}

async fn as_it_is(mut source: Source, bytes_max: usize) -> Result<Response, LlmError> {
    Ok(response(Body::from(source.rest(Vec::new(), bytes_max).await?)))
}

fn response(body: Body) -> Response {
    Response::from(http::Response::new(body))
}

fn no_json(text: &str) -> LlmError {
    let text = if failure::is_page(text) { failure::page_text(text) } else { text.to_owned() };
    LlmError::new(ErrorClass::Malformed, format!("the answer is no JSON: {text}"))
}

fn too_long() -> LlmError {
    let why = format!("a line of the stream is longer than {BODY_BYTES_MAX} bytes");
    LlmError::new(ErrorClass::Malformed, why)
}

/// Where a stream is.
struct Live {
    source: Source,
    lines: Lines,
    /// A piece that was read and not looked at.
    unseen: Option<Vec<u8>>,
    is_over: bool,
}

/// A stream's regular lines, as they come.
fn live(source: Source, first: Vec<u8>) -> Body {
    let start = Live { source, lines: Lines::default(), unseen: Some(first), is_over: false };
    let regular = stream::unfold(start, |mut live| async move {
        if live.is_over {
            return None;
        }
        let found = match live.next().await {
            Ok(regular) => pieces(&regular).into_iter().map(Ok).collect(),
            Err(error) => {
                live.is_over = true;
                let why = std::io::Error::other(error.to_string());
                live.source.fail(error);
                vec![Err(why)]
            }
        };
        Some((stream::iter(found), live))
    });
    Body::wrap_stream(regular.flatten())
}

impl Live {
    async fn next(&mut self) -> Result<Vec<u8>, LlmError> {
        let piece = match self.unseen.take() {
            Some(piece) => Some(piece),
            None => self.source.next().await?,
        };
        let Some(piece) = piece else {
            self.is_over = true;
            let last = self.lines.end();
            self.notice_end();
            return Ok(last.bytes);
        };
        let regular = self.lines.feed(&piece).map_err(|_| too_long())?;
        if regular.has_data {
            self.source.saw_content();
        }
        self.notice_end();
        Ok(regular.bytes)
    }

    fn notice_end(&self) {
        if self.lines.is_done {
            self.source.saw_end();
        }
    }
}
