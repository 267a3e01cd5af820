//! Turns a prompt into a reply.
//!
//! A provider works by tickets: [`Llm::submit`] hands over a request and returns a ticket that
//! survives a restart, [`Llm::poll`] asks for the reply. [`complete()`] does both for callers that
//! wait. Nothing here knows budgets, retries or the ledger: the caller stores that a call may go
//! out before it submits, and the ticket before it polls.
//!
//! Start at [`Llm`]; [`Model`] is any of the providers: one file each.

mod any;
mod command;
mod complete;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
#[cfg(test)]
mod examples;
pub mod limits;
mod mailbox;
mod model;
mod openai;
mod replay;
mod told;

pub use any::Model;
pub use command::{CommandModel, CommandSettings, PromptForm, ReplyForm};
pub use complete::{complete, submit_within, wait_for};
pub use error::{Charge, ErrorClass, LlmError};
pub use mailbox::{MailboxModel, MailboxSettings};
pub use model::{Llm, ModelInfo, Poll, Price, Reply, Request, Ticket};
pub use openai::{
    BatchModel, BatchSettings, MaxTokensField, OpenAiModel, OpenAiSettings, OpenAiSettingsError,
    Secret,
};
pub use replay::ReplayModel;
