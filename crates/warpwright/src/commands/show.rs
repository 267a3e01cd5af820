//! `show`: everything about one attempt, or the attempts of a run.

use pipeline::attempt::Attempt;
use pipeline::feedback::Feedback;
use store::{AttemptRow, Store};

use crate::commands::drive::attempt_line;
use crate::outcome::{Outcome, bad_input};
use crate::selector::{self, Selected};
use crate::settings::Places;
use crate::terminal;

/// Shows what a selector means.
pub(crate) async fn perform(places: &Places, selector: Option<&str>) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    match selector::resolve(&store, selector).await? {
        Selected { run, seq: Some(seq) } => {
            let detail = store.attempt_detail(&run, seq).await.map_err(|error| match error {
                store::StoreError::UnknownAttempt { .. } => {
                    bad_input(format!("run {run} has no attempt {seq}; `show {run}` lists them"))
                }
                other => other.into(),
            })?;
            let task = detail.attempt.task_hash.clone();
            let closed = store.closed_attempts(&run, &task).await?;
            show_attempt(&detail.attempt, closed.iter().find(|attempt| attempt.seq == seq));
        }
        Selected { run, seq: None } => {
            let attempts = store.run_summary(&run).await?.attempts;
            for seq in 1..=attempts {
                let attempt = store.attempt_detail(&run, seq).await?.attempt;
                terminal::line(&terminal::one_line(&attempt_line(&attempt)));
            }
        }
    }
    Ok(Outcome::done())
}

fn show_attempt(attempt: &AttemptRow, closed: Option<&Attempt>) {
    terminal::line(&terminal::plain(&attempt_line(attempt)));
    for message in &attempt.prompt.messages {
        section(&format!("prompt, {}", message.role.name()), &message.content);
    }
    if let Some(reply) = &attempt.reply {
        let drift = if reply.drift { ", recorded for another prompt" } else { "" };
        section(&format!("reply, {}{drift}", reply.model), &reply.text);
    }
    if let Some(build) = &attempt.build {
        section("compiler log", &build.log);
    }
    if let Some(closed) = closed {
        let feedback = Feedback::of(closed);
        let facts: Vec<_> =
            feedback.facts.iter().map(|fact| format!("[{}] {}", fact.id, fact.text)).collect();
        if !facts.is_empty() {
            section("evidence", &facts.join("\n"));
        }
        section("verdict", &feedback.headline);
    }
}

fn section(title: &str, text: &str) {
    terminal::line(&format!("\n──── {title} ────"));
    terminal::line(terminal::plain(text).trim_end());
}
