//! Submit and poll in one, for a caller that waits.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::error::LlmError;
use crate::limits::{CANCEL_MS_MAX, POLL_WAIT_MS_MAX};
use crate::model::{Llm, Poll, Reply, Request, Ticket};

/// Submits `request` and waits for its reply, at most `deadline_ms`; then gives it up.
///
/// # Errors
/// Those of the provider; `Deadline` with the whole limit when the time is over.
pub async fn complete<L: Llm + Sync>(
    llm: &L,
    request: &Request,
    deadline_ms: u64,
) -> Result<Reply, LlmError> {
    let limit = Limit::starting_now(deadline_ms);
    let ticket = limit.submit(llm, request).await?;
    limit.reply(llm, &ticket).await
}

/// Hands `request` over, in at most `deadline_ms`.
///
/// # Errors
/// Those of the provider; `Deadline` when the time is over: it may have arrived all the same.
pub async fn submit_within<L: Llm + Sync>(
    llm: &L,
    request: &Request,
    deadline_ms: u64,
) -> Result<Ticket, LlmError> {
    Limit::starting_now(deadline_ms).submit(llm, request).await
}

/// Waits for the reply to a submitted request, at most `deadline_ms`, then gives it up; for ever
/// without a deadline.
///
/// # Errors
/// Those of the provider; `Deadline` when the time is over.
pub async fn wait_for<L: Llm + Sync>(
    llm: &L,
    ticket: &Ticket,
    deadline_ms: Option<u64>,
) -> Result<Reply, LlmError> {
    match deadline_ms {
        Some(deadline_ms) => Limit::starting_now(deadline_ms).reply(llm, ticket).await,
        None => wait(llm, ticket).await,
    }
}

/// A caller's limit: one end for every part of the wait, and the whole of it in the error.
struct Limit {
    end: Instant,
    limit_ms: u64,
}

impl Limit {
    fn starting_now(limit_ms: u64) -> Self {
        Self { end: Instant::now() + Duration::from_millis(limit_ms), limit_ms }
    }

    fn over(&self) -> LlmError {
        LlmError::deadline(self.limit_ms)
    }

    async fn submit<L: Llm + Sync>(&self, llm: &L, request: &Request) -> Result<Ticket, LlmError> {
        timeout_at(self.end, llm.submit(request)).await.map_err(|_| self.over())?
    }

    async fn reply<L: Llm + Sync>(&self, llm: &L, ticket: &Ticket) -> Result<Reply, LlmError> {
        if let Ok(reply) = timeout_at(self.end, wait(llm, ticket)).await {
            return reply;
        }
        // Giving up is a courtesy: whatever comes of it, the call's end is unknown.
        let _ = timeout(Duration::from_millis(CANCEL_MS_MAX), llm.cancel(ticket)).await;
        Err(self.over())
    }
}

async fn wait<L: Llm + Sync>(llm: &L, ticket: &Ticket) -> Result<Reply, LlmError> {
    loop {
        match llm.poll(ticket).await? {
            Poll::Done(reply) => return Ok(reply),
            Poll::Pending { next_poll_ms } => {
                sleep(Duration::from_millis(next_poll_ms.clamp(1, POLL_WAIT_MS_MAX))).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::complete;
    use crate::conformance::{reply, request};
    use crate::{ErrorClass, Llm, LlmError, ModelInfo, Poll, Price, Request, Ticket};

    /// Answers the poll after `pending` others.
    struct Slow {
        pending: u32,
        polls: AtomicU32,
        cancels: AtomicU32,
    }

    impl Llm for Slow {
        fn submit(
            &self,
            request: &Request,
        ) -> impl Future<Output = Result<Ticket, LlmError>> + Send {
            ready(Ok(Ticket::from(request.id.clone())))
        }

        fn poll(&self, _: &Ticket) -> impl Future<Output = Result<Poll, LlmError>> + Send {
            let polls = self.polls.fetch_add(1, Ordering::Relaxed);
            let pending = Poll::Pending { next_poll_ms: 1 };
            ready(Ok(if polls < self.pending { pending } else { Poll::Done(reply("late")) }))
        }

        fn cancel(&self, _: &Ticket) -> impl Future<Output = Result<(), LlmError>> + Send {
            self.cancels.fetch_add(1, Ordering::Relaxed);
            ready(Err(LlmError::new(ErrorClass::Unavailable, "cancelling failed")))
        }

        fn describe(&self) -> ModelInfo {
            let (provider, model) = ("slow".to_owned(), "slow".to_owned());
            ModelInfo {
                provider,
                model,
                idempotent: true,
                price: Price::Free,
                output_tokens_max: 1_000,
                deadline_ms: None,
            }
        }
    }

    /// A failed cancel must not hide that the call may have cost something.
    #[tokio::test]
    async fn waits_until_done_and_gives_up_at_the_deadline() {
        for (pending, deadline_ms, done) in [(0, 1_000, true), (3, 5_000, true), (9_999, 30, false)]
        {
            let slow = Slow { pending, polls: AtomicU32::new(0), cancels: AtomicU32::new(0) };
            let found = complete(&slow, &request("t", 1, 0), deadline_ms).await;
            let wanted =
                if done { Ok(reply("late")) } else { Err(LlmError::deadline(deadline_ms)) };
            assert_eq!(found, wanted);
            assert_eq!(slow.cancels.load(Ordering::Relaxed), u32::from(!done));
        }
    }
}
