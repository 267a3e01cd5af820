//! Any of the providers, chosen once when a run is wired.

use crate::command::CommandModel;
use crate::error::LlmError;
use crate::mailbox::MailboxModel;
use crate::model::{Llm, ModelInfo, Poll, Request, Ticket};
use crate::openai::{BatchModel, OpenAiModel};
use crate::replay::ReplayModel;

/// One of the providers.
#[derive(Clone, Debug)]
pub enum Model {
    /// A recorded transcript.
    Replay(ReplayModel),
    /// A program on this machine.
    Command(CommandModel),
    /// A folder that a person or another program answers in.
    Mailbox(MailboxModel),
    /// A server that speaks OpenAI's chat completions.
    OpenAi(OpenAiModel),
    /// The batches of such a server.
    Batch(BatchModel),
}

impl Llm for Model {
    async fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        match self {
            Self::Replay(model) => model.submit(request).await,
            Self::Command(model) => model.submit(request).await,
            Self::Mailbox(model) => model.submit(request).await,
            Self::OpenAi(model) => model.submit(request).await,
            Self::Batch(model) => model.submit(request).await,
        }
    }

    async fn poll(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        match self {
            Self::Replay(model) => model.poll(ticket).await,
            Self::Command(model) => model.poll(ticket).await,
            Self::Mailbox(model) => model.poll(ticket).await,
            Self::OpenAi(model) => model.poll(ticket).await,
            Self::Batch(model) => model.poll(ticket).await,
        }
    }

    async fn cancel(&self, ticket: &Ticket) -> Result<(), LlmError> {
        match self {
            Self::Replay(model) => model.cancel(ticket).await,
            Self::Command(model) => model.cancel(ticket).await,
            Self::Mailbox(model) => model.cancel(ticket).await,
            Self::OpenAi(model) => model.cancel(ticket).await,
            Self::Batch(model) => model.cancel(ticket).await,
        }
    }

    fn describe(&self) -> ModelInfo {
        match self {
            Self::Replay(model) => model.describe(),
            Self::Command(model) => model.describe(),
            Self::Mailbox(model) => model.describe(),
            Self::OpenAi(model) => model.describe(),
            Self::Batch(model) => model.describe(),
        }
    }

    fn describe_after(&self, provider: &str, failure: Option<&str>) -> ModelInfo {
        match self {
            Self::Batch(model) => model.describe_after(provider, failure),
            Self::Replay(_) | Self::Command(_) | Self::Mailbox(_) | Self::OpenAi(_) => {
                self.describe()
            }
        }
    }
}
