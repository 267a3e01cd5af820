//! What was reserved for a call against what it came to.

use llm::Reply;
use pipeline::transcript::Usage;
use store::{AttemptRow, Reservation, SettledReply};

/// How a call cost more than could be reserved for it, in words.
pub(crate) fn broken_bound(
    attempt: &AttemptRow,
    usage: Option<Usage>,
    cost_nusd: Option<i64>,
) -> Option<String> {
    let (allowed, reserved) = (output_tokens_max(attempt), attempt.call.reservation);
    if let Some(usage) = usage.filter(|usage| !usage.estimated) {
        let answered = usage.output_tokens;
        if answered > allowed {
            return Some(format!("it answered {answered} tokens where {allowed} were allowed"));
        }
        let counted = usage.input_tokens.saturating_add(answered);
        if counted > reserved.tokens {
            let bound = reserved.tokens;
            return Some(format!("it counted {counted} tokens where {bound} are the most"));
        }
    }
    let (cost_nusd, reserved_nusd) = (cost_nusd?, reserved.nusd);
    (cost_nusd > reserved_nusd).then(|| {
        format!("it charged {cost_nusd} nano-dollars where its price allows {reserved_nusd}")
    })
}

/// The output limit that was reserved: what is left of the reservation beside the prompt.
pub(crate) fn output_tokens_max(attempt: &AttemptRow) -> u64 {
    attempt.call.reservation.tokens.saturating_sub(attempt.prompt.input_tokens_bound())
}

/// A reply as it is booked: one that nobody counted costs what was reserved for it.
pub(crate) fn settled(reply: Reply, reserved: Reservation) -> SettledReply {
    let uncounted = reply.usage.is_none().then_some(reserved.nusd);
    SettledReply {
        text: reply.text,
        usage: reply.usage,
        finish_reason: reply.finish_reason,
        model: reply.model,
        latency_ms: reply.latency_ms,
        cost_nusd: reply.cost_nusd.or(uncounted),
        drift: reply.drift,
        reasoning: reply.reasoning,
        http_log: reply.http_log,
    }
}
