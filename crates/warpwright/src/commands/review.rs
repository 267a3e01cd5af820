//! `review`: what a person has to look at before anything is claimed or goes out, and what they
//! decide.

use pipeline::acceptance::reviewed;
use serde_json::json;
use store::{ClaimRow, ClaimState, Decision, ReviewRow, Ruling, Store};

use crate::claims::{approval, words};
use crate::cli::{DecideArgs, ReviewArgs, ReviewCommand};
use crate::commands::export;
use crate::outcome::{Outcome, bad_input};
use crate::selector::{self, Selected, What};
use crate::settings::Places;
use crate::{environment, terminal, wiring};

/// Lists what waits, or decides.
pub(crate) async fn perform(places: &Places, args: &ReviewArgs) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    match &args.command {
        None => list(places, &store, None).await,
        Some(ReviewCommand::List { selector }) => list(places, &store, selector.as_deref()).await,
        Some(ReviewCommand::Approve(args)) => {
            decide(places, &store, args, Decision::Accepted).await
        }
        Some(ReviewCommand::Reject(args)) => decide(places, &store, args, Decision::Rejected).await,
    }
}

/// The reviews that a selector means: by the id of their acceptance, or by run, task or attempt.
async fn meant(
    store: &Store,
    reviews: Vec<ReviewRow>,
    text: &str,
) -> anyhow::Result<Vec<ReviewRow>> {
    let by_id = |review: &&ReviewRow| review.acceptance_id.as_str().starts_with(text);
    let found: Vec<_> = reviews.iter().filter(by_id).cloned().collect();
    if !found.is_empty() || store.claim(text).await.is_ok() {
        return Ok(found);
    }
    let Selected { run, what } = selector::resolve(store, Some(text)).await?;
    let fits = |review: &ReviewRow| {
        review.run_id == run
            && match &what {
                What::Run => true,
                What::Task(task) => review.task_name == task.name,
                What::Attempt(task, seq) => review.task_name == task.name && review.seq == *seq,
            }
    };
    Ok(reviews.into_iter().filter(fits).collect())
}

/// Without a selector what waits, with one everything about it.
async fn list(places: &Places, store: &Store, selector: Option<&str>) -> anyhow::Result<Outcome> {
    let (mut reviews, mut claims) = (store.reviews().await?, store.claims().await?);
    match selector {
        Some(text) => {
            reviews = meant(store, reviews, text).await?;
            claims = match store.claim(text).await {
                Ok(claim) => vec![claim],
                Err(_) if reviews.is_empty() => export::claims_of(store, text).await?,
                // The id of an acceptance names no claim.
                Err(_) => export::claims_of(store, text).await.unwrap_or_default(),
            };
        }
        None => {
            reviews.retain(|review| review.decision.is_none());
            let waits = |claim: &ClaimRow| {
                claim.state != ClaimState::Withdrawn
                    && claim.approvals.is_empty()
                    && approval::withheld(places, claim).is_some()
            };
            claims.retain(waits);
        }
    }
    if reviews.is_empty() && claims.is_empty() {
        terminal::line("nothing waits for a person");
    }
    for review in &reviews {
        terminal::line(&in_words(review));
    }
    for claim in &claims {
        terminal::line(&format!("{} {}", claim.id, words::of_row(claim)));
    }
    let reviews: Vec<_> = reviews.iter().map(as_json).collect();
    let claims: Vec<_> = claims.iter().map(words::as_json).collect();
    Ok(Outcome::done().with("reviews", reviews).with("claims", claims))
}

fn in_words(review: &ReviewRow) -> String {
    let (id, task, seq) = (&review.acceptance_id, &review.task_name, review.seq);
    let line = format!("{id} {task} #{seq} {}: {}", review.suspicion, review.detail);
    match review.decision {
        None => line,
        Some(decision) => {
            let by = review.reviewer.as_deref().unwrap_or("somebody");
            let note = review.note.as_deref().unwrap_or_default();
            format!("{line} [{} by {by}: {note}]", decision.name())
        }
    }
}

fn as_json(review: &ReviewRow) -> serde_json::Value {
    json!({
        "acceptance": review.acceptance_id.to_string(), "task": review.task_name,
        "seq": review.seq, "suspicion": review.suspicion, "detail": review.detail,
        "decision": review.decision.map(Decision::name), "note": review.note,
        "by": review.reviewer, "at_us": review.decided_us,
    })
}

/// Decides about what is suspect and waits, else about a claim.
async fn decide(
    places: &Places,
    store: &Store,
    args: &DecideArgs,
    decision: Decision,
) -> anyhow::Result<Outcome> {
    let text = args.selector.as_str();
    let stated = |text: &str| text.trim().to_owned();
    let reason = stated(&args.reason);
    let reviewer = args.by.as_deref().map_or_else(environment::user_name, stated);
    if reason.is_empty() || reviewer.is_empty() {
        return Err(bad_input("say why, with --reason TEXT: it is stored, with your name"));
    }
    let ruling = Ruling { reason: &reason, reviewer: &reviewer };
    let mut waiting = meant(store, store.reviews().await?, text).await?;
    waiting.retain(|review| review.decision.is_none());
    match waiting.as_slice() {
        [] => about_claim(places, store, text, decision, ruling).await,
        [only] => about_suspect(&wiring::ledger(places).await?, only, decision, ruling).await,
        _ => Err(bad_input(format!("more than one of `{text}` waits: name one by its id"))),
    }
}

async fn about_suspect(
    store: &Store,
    review: &ReviewRow,
    decision: Decision,
    ruling: Ruling<'_>,
) -> anyhow::Result<Outcome> {
    let row = store.acceptance(&review.acceptance_id).await?;
    let claimed = match decision {
        Decision::Accepted => {
            let entries = store.entries(&row.id).await?;
            let claim = reviewed(&row.protocol, &entries, ruling.reason);
            let slower = || bad_input("there is nothing to claim: it is not faster");
            Some(claim.ok_or_else(slower)?)
        }
        Decision::Rejected => None,
    };
    let made = store.decide_review(&row.id, decision, ruling, claimed.as_ref()).await?;
    terminal::line(&format!("{} #{}: {}", review.task_name, review.seq, decision.name()));
    let outcome = Outcome::done().with("decision", decision.name());
    let Some(id) = made else { return Ok(outcome) };
    let claim = store.claim(id.as_str()).await?;
    terminal::line(&words::of_row(&claim));
    Ok(outcome.with("claim", words::as_json(&claim)))
}

async fn about_claim(
    places: &Places,
    store: &Store,
    text: &str,
    decision: Decision,
    ruling: Ruling<'_>,
) -> anyhow::Result<Outcome> {
    let none = || bad_input(format!("nothing of `{text}` waits; `review list` lists what does"));
    let claim = match store.claim(text).await {
        Ok(claim) => claim,
        Err(_) => {
            let mut claims = export::claims_of(store, text).await?;
            claims.retain(|claim| claim.state != ClaimState::Withdrawn);
            match claims.len() {
                0 => return Err(none()),
                1 => claims.remove(0),
                _ => return Err(bad_input(format!("`{text}` has several claims: name one"))),
            }
        }
    };
    if let Some(last) = claim.approvals.last().filter(|last| last.decision == decision) {
        return Err(bad_input(format!("claim {} is {}", claim.id, approval::in_words(last))));
    }
    wiring::ledger(places).await?.review_claim(&claim.id, decision, ruling).await?;
    let claim = store.claim(claim.id.as_str()).await?;
    terminal::line(&words::of_row(&claim));
    let outcome = Outcome::done().with("decision", decision.name());
    Ok(outcome.with("claim", words::as_json(&claim)))
}
