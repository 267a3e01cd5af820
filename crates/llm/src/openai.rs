//! Asks a model over HTTP, as OpenAI's chat completions and the many servers that resemble them.
//!
//! One submit is one request: nothing here tries again, since each try is a call of its own for
//! whoever books it. A request runs in a task of its own, so a ticket ends with its process.
//! async-openai makes the request and reads the events; below it [`service`] holds the limits and
//! classifies failures, above it [`answer`] puts the chunks together.
//!
//! Start at [`OpenAiModel`].

use std::sync::Arc;
use std::time::Duration;

use async_openai::Client;
use async_openai::error::OpenAIError;
use async_openai::traits::RequestOptionsBuilder;
use futures_util::StreamExt;
use pipeline::limits::capped;
use pipeline::visible::visible;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use self::answer::Answer;
use self::calls::{Calls, Full, Outlook};
use self::endpoint::Endpoint;
use self::failure::Asked;
use self::service::OneRequest;
use self::usage::cost_nusd;
use self::wire::Wire;
use crate::error::{ErrorClass, LlmError};
use crate::limits::{AFTER_FINISH_MS_MAX, ERROR_BYTES_MAX, LONG_POLL_MS, TICKET_BYTES_MAX};
use crate::model::{Llm, ModelInfo, Poll, Reply, Request, Ticket};

mod answer;
mod batch;
mod body;
mod calls;
mod endpoint;
mod failure;
mod lines;
mod service;
mod settings;
mod source;
#[cfg(any(test, feature = "conformance"))]
pub(crate) mod untrusted;
mod usage;
mod wait;
mod wire;

pub use batch::{BatchModel, BatchSettings};
pub use settings::{MaxTokensField, OpenAiSettings, OpenAiSettingsError, Secret};

const PROVIDER: &str = "openai";
const TICKET_PREFIX: &str = "openai:";
const AFTER_FINISH_MAX: Duration = Duration::from_millis(AFTER_FINISH_MS_MAX);
const USER_AGENT: &str = concat!("warpwright/", env!("CARGO_PKG_VERSION"));

/// A model behind an OpenAI-compatible server. Clones share their requests, which end with the
/// last of them.
#[derive(Clone, Debug)]
pub struct OpenAiModel {
    caller: Arc<Caller>,
    calls: Arc<Calls>,
}

/// What makes requests.
#[derive(Debug)]
struct Caller {
    settings: OpenAiSettings,
    endpoint: Arc<Endpoint>,
    http: reqwest::Client,
}

impl OpenAiModel {
    /// A model as it is set. Nothing is asked yet.
    ///
    /// # Errors
    /// The setting that cannot be used, by name.
    pub fn new(settings: OpenAiSettings) -> Result<Self, OpenAiSettingsError> {
        let endpoint = Arc::new(Endpoint::new(&settings)?);
        let http = http_client(&settings, endpoint.is_local())?;
        let caller = Arc::new(Caller { settings, endpoint, http });
        Ok(Self { caller, calls: Arc::default() })
    }

    /// Starts the request; its outcome appears in the outlook.
    fn start(&self, request: &Request) -> (Outlook, tokio::task::AbortHandle) {
        let (sender, outlook) = watch::channel(None);
        let (caller, request) = (self.caller.clone(), request.clone());
        let task = tokio::spawn(async move {
            let outcome = caller.ask(&request).await;
            sender.send_replace(Some(outcome));
        });
        (outlook, task.abort_handle())
    }
}

impl Llm for OpenAiModel {
    /// One HTTP request; none for an id that is under way or answered.
    async fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        let ticket = format!("{TICKET_PREFIX}{}", request.id);
        if ticket.len() > TICKET_BYTES_MAX {
            return Err(LlmError::new(ErrorClass::Refused, "the id of the request is too long"));
        }
        let begun = self.calls.begin(&request.id, || self.start(request));
        begun.map_err(|Full| {
            LlmError::new(ErrorClass::RateLimited, "too many requests of this program are open")
        })?;
        Ok(Ticket::from(ticket))
    }

    async fn poll(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        let id = ticket.as_str().strip_prefix(TICKET_PREFIX);
        let outlook = id.and_then(|id| self.calls.outlook(id));
        let Some(mut outlook) = outlook else {
            let shown = capped(&visible(ticket.as_str()), TICKET_BYTES_MAX);
            return Err(LlmError::new(ErrorClass::UnknownTicket, shown));
        };
        let ended = timeout(Duration::from_millis(LONG_POLL_MS), outlook.wait_for(Option::is_some));
        let outcome = match ended.await {
            Err(_) => return Ok(Poll::Pending { next_poll_ms: 1 }),
            Ok(Ok(outcome)) => outcome.clone(),
            Ok(Err(_)) => None,
        };
        let given_up = || LlmError::new(ErrorClass::Interrupted, "the request was given up");
        outcome.unwrap_or_else(|| Err(given_up())).map(Poll::Done)
    }

    async fn cancel(&self, ticket: &Ticket) -> Result<(), LlmError> {
        if let Some(id) = ticket.as_str().strip_prefix(TICKET_PREFIX) {
            self.calls.cancel(id);
        }
        Ok(())
    }

    fn describe(&self) -> ModelInfo {
        let settings = &self.caller.settings;
        ModelInfo {
            provider: PROVIDER.to_owned(),
            model: settings.model.clone(),
            idempotent: false,
            price: settings.price,
            output_tokens_max: settings.output_tokens_max,
            deadline_ms: Some(settings.deadline_ms),
        }
    }
}

impl Caller {
    /// Makes one request and waits for its end.
    async fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let deadline_ms = self.settings.deadline_ms.min(request.deadline_ms.unwrap_or(u64::MAX));
        let wire = Arc::new(Wire::starting_now());
        let answered = timeout(Duration::from_millis(deadline_ms), self.answer(request, &wire));
        let answer = answered.await.unwrap_or_else(|_| Err(LlmError::deadline(deadline_ms)));
        answer.map(|answer| self.reply(answer, &wire)).map_err(|error| self.shown(error))
    }

    async fn answer(&self, request: &Request, wire: &Arc<Wire>) -> Result<Answer, LlmError> {
        let why = |error: OpenAIError| wire.failure().unwrap_or_else(|| of_stream(&error));
        let client = Client::build(self.http.clone(), (*self.endpoint).clone());
        let client = client.with_http_service(self.service(wire));
        let chat = client.chat().headers(headers(request));
        let body = body::of(&self.settings, request);
        let mut chunks = chat.create_stream_byot::<_, Value>(&body).await.map_err(why)?;
        let address = self.endpoint.shown();
        let asked = Asked { model: &self.settings.model, address: &address };
        let mut answer = Answer::default();
        loop {
            let finished = answer.finish_reason.is_some();
            let chunk = match finished {
                // Only counts can follow the last token.
                true => timeout(AFTER_FINISH_MAX, chunks.next()).await.unwrap_or(None),
                false => chunks.next().await,
            };
            match chunk {
                Some(Ok(chunk)) => answer.add(&chunk, asked)?,
                Some(Err(error)) if !finished => return Err(why(error)),
                Some(Err(_)) | None => break,
            }
            if answer.has_begun() {
                wire.saw_token();
            }
        }
        answer.finish(wire.is_done(), wire.bytes())
    }

    fn service(&self, wire: &Arc<Wire>) -> OneRequest {
        let settings = &self.settings;
        OneRequest {
            http: self.http.clone(),
            endpoint: self.endpoint.clone(),
            wire: wire.clone(),
            model: settings.model.clone(),
            connect_timeout: Duration::from_millis(settings.connect_timeout_ms),
            first_byte_timeout: Duration::from_millis(settings.first_byte_timeout_ms),
            idle_timeout: Duration::from_millis(settings.idle_timeout_ms),
            whole_bytes_max: None,
        }
    }

    fn reply(&self, answer: Answer, wire: &Wire) -> Reply {
        let log = wire.log(&self.endpoint.shown(), &answer.id, &answer.provider);
        let model = visible(&answer.model);
        Reply {
            text: answer.text,
            finish_reason: visible(&answer.finish_reason.unwrap_or_default()),
            usage: answer.usage,
            model: if model.is_empty() { self.settings.model.clone() } else { model },
            latency_ms: wire.elapsed_ms(),
            cost_nusd: cost_nusd(answer.cost_nusd, self.settings.price, answer.usage),
            drift: false,
            reasoning: answer.reasoning,
            http_log: self.endpoint.redacted(&log),
        }
    }

    /// An error as a person may see it: no key, no control characters, not too long.
    fn shown(&self, error: LlmError) -> LlmError {
        error.map_message(|text| {
            capped(visible(&self.endpoint.redacted(text)).trim(), ERROR_BYTES_MAX)
        })
    }
}

/// The headers of one request. An id that no header can carry is not sent.
fn headers(request: &Request) -> HeaderMap {
    let id = HeaderValue::try_from(request.id.as_str()).ok();
    id.map(|id| (HeaderName::from_static("idempotency-key"), id)).into_iter().collect()
}

/// A failure that async-openai found in the events.
fn of_stream(error: &OpenAIError) -> LlmError {
    let why = match error {
        OpenAIError::JSONDeserialize(_, text) => format!("a chunk is no JSON: {text}"),
        error => error.to_string(),
    };
    LlmError::new(ErrorClass::Malformed, why)
}

/// A client that asks once: no retries, no redirects, and a fresh connection for each request, so
/// that none is lost on one that the server has closed meanwhile.
fn http_client(
    settings: &OpenAiSettings,
    is_local: bool,
) -> Result<reqwest::Client, OpenAiSettingsError> {
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(Duration::from_millis(settings.connect_timeout_ms))
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .pool_max_idle_per_host(0);
    let builder = if is_local { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| OpenAiSettingsError::Client {
        name: settings.name.clone(),
        why: source::in_words(error),
    })
}

#[cfg(test)]
mod tests;
