//! What every provider must do, as an ordinary function that a test of the provider calls.

use pipeline::attempt::Mode;
use pipeline::prompt::{Message, MessageRole, Prompt};
use pipeline::transcript::{Entry, Usage};

use crate::complete;
use crate::error::{ErrorClass, LlmError};
use crate::model::{Llm, Poll, Reply, Request, Ticket};

mod batch_script;
mod http_script;
mod scripted;

pub use batch_script::{Answerer, BatchRules, BatchScript, Begin, Line};
pub use http_script::{Asked, HttpScript, Play};
pub use scripted::{Failure, ScriptedModel, Server};

/// Longest wait of one check, in milliseconds.
const WAIT_MS: u64 = 10_000;
/// The text that [`script`] answers first.
const FIRST_TEXT: &str = "first reply";

/// Reads bytes as if a server had sent them, in two pieces that are cut there: what fuzzers call.
/// Gives the text of the answer, if there is one.
#[must_use]
pub fn read_untrusted(bytes: &[u8], cut: usize) -> String {
    crate::openai::untrusted::read(bytes, cut)
}

/// What a provider can and cannot show of [`script`].
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// It knows which prompt a reply was recorded for, and where its replies end.
    pub recorded: bool,
    /// The class that its way of failing has.
    pub failure: ErrorClass,
}

/// Checks a provider. `start` begins a new process's worth of it over the same [`script`], so that
/// what a restart keeps can be seen.
///
/// # Errors
/// The first thing that is not as promised, in words.
pub async fn check<L: Llm + Sync>(
    start: impl Fn() -> L,
    abilities: Abilities,
) -> Result<(), String> {
    check_description(&start())?;
    check_reply(&start()).await?;
    check_restart(&start).await?;
    check_failure_then_reply(&start(), abilities.failure).await?;
    check_later_try(&start()).await?;
    if abilities.recorded {
        check_drift(&start()).await?;
        check_end(&start()).await?;
    }
    check_strangers(&start()).await
}

/// The entries that a provider under test must answer from: a reply, a failure and then a reply,
/// a reply that was recorded for another prompt, a failure; nothing after them.
#[must_use]
pub fn script() -> Vec<Entry> {
    let hash = request("conformance", 1, 0).prompt.hash().to_string();
    vec![
        entry(1, &hash, FIRST_TEXT, None),
        entry(2, "", "", Some("429 rate limited")),
        entry(2, "", "second reply", None),
        entry(3, "another", "third reply", None),
        entry(5, "", "", Some("503 overloaded")),
    ]
}

fn entry(seq: u32, prompt_hash: &str, reply: &str, error: Option<&str>) -> Entry {
    Entry {
        task: "conformance".to_owned(),
        seq,
        mode: "first".to_owned(),
        prompt_hash: prompt_hash.to_owned(),
        reply: reply.to_owned(),
        finish_reason: "stop".to_owned(),
        usage: Usage::of(10, 20),
        model: "scripted".to_owned(),
        latency_ms: 5,
        error: error.map(str::to_owned),
    }
}

/// A request with a small prompt.
#[must_use]
pub fn request(task: &str, seq: u32, try_index: u32) -> Request {
    let message = |role, content: &str| Message { role, content: content.to_owned() };
    let messages =
        vec![message(MessageRole::System, "be exact"), message(MessageRole::User, "a kernel")];
    Request {
        id: format!("{task}-{seq}-{try_index}"),
        task: task.to_owned(),
        seq,
        try_index,
        prompt: Prompt { mode: Mode::First, messages },
        output_tokens_max: 1_000,
        deadline_ms: None,
        provider: String::new(),
    }
}

/// A reply as [`script`] has them.
#[must_use]
pub fn reply(text: &str) -> Reply {
    Reply {
        text: text.to_owned(),
        finish_reason: "stop".to_owned(),
        usage: Some(Usage::of(10, 20)),
        model: "scripted".to_owned(),
        latency_ms: 5,
        cost_nusd: Some(0),
        drift: false,
        reasoning: String::new(),
        http_log: String::new(),
    }
}

fn check_description(llm: &impl Llm) -> Result<(), String> {
    let info = llm.describe();
    expect("provider and model are named", !info.provider.is_empty() && !info.model.is_empty())?;
    expect("an answer has a cap", info.output_tokens_max > 0)
}

async fn check_reply<L: Llm + Sync>(llm: &L) -> Result<(), String> {
    let found = complete(llm, &request("conformance", 1, 0), WAIT_MS).await;
    let found = found.map_err(|error| format!("the first request failed: {error}"))?;
    expect("the reply has the recorded text", found.text == FIRST_TEXT)?;
    let counted = found.usage.is_some_and(|usage| usage.estimated || usage == Usage::of(10, 20));
    expect("the reply has its usage, counted or marked as estimated", counted)?;
    let costs = found.cost_nusd.is_none_or(|nusd| nusd >= 0);
    expect("the reply costs something or nothing, never less", costs)?;
    expect("a reply to the same prompt has no drift", !found.drift)
}

/// What a provider that is not idempotent forgets, it must call unknown: nothing else tells the
/// caller to book the call as lost.
async fn check_restart<L: Llm + Sync>(start: &impl Fn() -> L) -> Result<(), String> {
    let asked = request("conformance", 1, 0);
    let llm = start();
    let ticket = submit(&llm, &asked).await?;
    let first = wait(&llm, &ticket).await;
    expect("a ticket gives the same reply again", first == wait(&llm, &ticket).await)?;
    let kept = Ticket::from(ticket.as_str().to_owned());
    // What was there before the restart is gone, locks included.
    drop(llm);
    let llm = start();
    let later = wait(&llm, &kept).await;
    if llm.describe().idempotent {
        expect("a ticket gives the same reply after a restart", first == later)?;
        let twice = submit(&llm, &asked).await?;
        expect("the same request has the same reply", wait(&llm, &twice).await == first)?;
    } else {
        let class = later.as_ref().err().map(LlmError::class);
        let known = class.is_none_or(|class| class == ErrorClass::UnknownTicket);
        expect("a ticket gives its reply after a restart or is unknown", known)?;
    }
    // A provider that asks anew for each ticket may have its calls end with its process.
    let ended = first.as_ref().is_err_and(|error| error.class() == ErrorClass::UnknownTicket);
    let recorded = first.is_ok_and(|reply| reply.text == FIRST_TEXT);
    let kept = recorded || (ended && !llm.describe().idempotent);
    expect("a ticket's reply is the recorded one, or unknown and not idempotent", kept)
}

async fn check_failure_then_reply<L: Llm + Sync>(
    llm: &L,
    failure: ErrorClass,
) -> Result<(), String> {
    let failed = complete(llm, &request("conformance", 2, 0), WAIT_MS).await;
    let class = failed.as_ref().err().map(LlmError::class);
    expect("a failure has its class", class == Some(failure))?;
    let found = complete(llm, &request("conformance", 2, 1), WAIT_MS).await;
    expect("the next try is answered", found.is_ok_and(|reply| reply.text == "second reply"))
}

/// A question whose reply was lost on the way is asked again as a later try: it is answered. A
/// failure is no answer, and is not repeated.
async fn check_later_try<L: Llm + Sync>(llm: &L) -> Result<(), String> {
    for (seq, try_index, text) in [(1, 1, FIRST_TEXT), (2, 2, "second reply")] {
        let found = complete(llm, &request("conformance", seq, try_index), WAIT_MS).await;
        expect("a later try has the reply", found.is_ok_and(|reply| reply.text == text))?;
    }
    Ok(())
}

async fn check_drift<L: Llm + Sync>(llm: &L) -> Result<(), String> {
    let found = complete(llm, &request("conformance", 3, 0), WAIT_MS).await;
    expect("a reply recorded for another prompt says so", found.is_ok_and(|reply| reply.drift))
}

async fn check_end<L: Llm + Sync>(llm: &L) -> Result<(), String> {
    for (task, seq, try_index) in [("conformance", 4, 0), ("conformance", 5, 1), ("other", 1, 0)] {
        let found = complete(llm, &request(task, seq, try_index), WAIT_MS).await;
        let class = found.as_ref().err().map(LlmError::class);
        expect("the end of the replies is `exhausted`", class == Some(ErrorClass::Exhausted))?;
        expect("the end is not retried", found.is_err_and(|error| !error.is_retryable()))?;
    }
    Ok(())
}

async fn check_strangers<L: Llm + Sync>(llm: &L) -> Result<(), String> {
    for text in ["", "nonsense", "replay:", "replay:{}", "\u{0}\u{fffd}"] {
        let ticket = Ticket::from(text.to_owned());
        let class = llm.poll(&ticket).await.err().map(|error| error.class());
        expect("a foreign ticket is unknown", class == Some(ErrorClass::UnknownTicket))?;
        expect("cancelling it is no error", llm.cancel(&ticket).await.is_ok())?;
    }
    let ticket = submit(llm, &request("conformance", 1, 0)).await?;
    expect("cancelling a request is no error", llm.cancel(&ticket).await.is_ok())?;
    expect("cancelling it twice is none either", llm.cancel(&ticket).await.is_ok())
}

async fn submit<L: Llm + Sync>(llm: &L, asked: &Request) -> Result<Ticket, String> {
    llm.submit(asked).await.map_err(|error| format!("submitting failed: {error}"))
}

async fn wait<L: Llm + Sync>(llm: &L, ticket: &Ticket) -> Result<Reply, LlmError> {
    let polling = async {
        loop {
            match llm.poll(ticket).await? {
                Poll::Done(reply) => return Ok(reply),
                Poll::Pending { next_poll_ms } => {
                    tokio::time::sleep(std::time::Duration::from_millis(next_poll_ms)).await;
                }
            }
        }
    };
    let limit = std::time::Duration::from_millis(WAIT_MS);
    let over = |_| LlmError::deadline(WAIT_MS);
    tokio::time::timeout(limit, polling).await.map_err(over)?
}

fn expect(what: &str, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
