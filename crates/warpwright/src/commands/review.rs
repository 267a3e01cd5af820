//! `review`: what a person has to look at before anything is claimed or goes out, and what they
//! decide.

use pipeline::acceptance::reviewed;
use pipeline::scrub::Scrubber;
use serde_json::json;
use store::{ClaimRow, ClaimState, Decision, ReviewRow, Ruling, Store};

use crate::claims::{approval, words};
use crate::cli::{DecideArgs, ReviewArgs, ReviewCommand};
use crate::commands::export;
use crate::limits::{REASON_BYTES_MAX, REVIEWER_BYTES_MAX};
use crate::outcome::{Outcome, bad_input};
use crate::selector::{self, Selected, What};
use crate::settings::Places;
use crate::{environment, privacy, terminal, wiring};

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

/// What a selector means: what is suspect and claims, by the id of either, or by run, task or
/// attempt.
async fn meant(store: &Store, text: &str) -> anyhow::Result<(Vec<ReviewRow>, Vec<ClaimRow>)> {
    let mut reviews = store.reviews().await?;
    let by_id = |review: &ReviewRow| review.acceptance_id.as_str().starts_with(text);
    let claim = store.claim_unless_run(text).await?;
    if claim.is_some() || reviews.iter().any(by_id) {
        reviews.retain(by_id);
        if let Some(run) = store.runs_beginning(text).await?.first() {
            let suspect = reviews.first().map_or("", |review| review.acceptance_id.as_str());
            return Err(bad_input(format!(
                "`{text}` is the start of several ids: acceptance {suspect}, run {run}; give more \
                 of it"
            )));
        }
        return Ok((reviews, claim.into_iter().collect()));
    }
    let Selected { run, what } = selector::resolve(store, Some(text)).await?;
    reviews.retain(|review| {
        review.run_id == run
            && match &what {
                What::Run => true,
                What::Task(task) => review.task_name == task.name,
                What::Attempt(task, seq) => review.task_name == task.name && review.seq == *seq,
            }
    });
    Ok((reviews, export::claims_of(store, text).await?))
}

/// Without a selector what waits, with one everything about it.
async fn list(places: &Places, store: &Store, selector: Option<&str>) -> anyhow::Result<Outcome> {
    let (reviews, claims) = match selector {
        Some(text) => meant(store, text).await?,
        None => waiting(places, store).await?,
    };
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

async fn waiting(
    places: &Places,
    store: &Store,
) -> anyhow::Result<(Vec<ReviewRow>, Vec<ClaimRow>)> {
    let (mut reviews, mut claims) = (store.reviews().await?, store.claims().await?);
    reviews.retain(|review| review.decision.is_none());
    claims.retain(|claim| {
        claim.state != ClaimState::Withdrawn
            && claim.approvals.is_empty()
            && approval::withheld(places, claim).is_some()
    });
    Ok((reviews, claims))
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

/// Decides about the one thing that a selector means and that can be decided so.
async fn decide(
    places: &Places,
    store: &Store,
    args: &DecideArgs,
    decision: Decision,
) -> anyhow::Result<Outcome> {
    let (text, reason) = (args.selector.as_str(), args.reason.trim());
    let reviewer = args.by.as_deref().map_or_else(environment::user_name, |by| by.trim().into());
    let scrubber = privacy::scrubber(places);
    stated(&scrubber, "--reason", reason, REASON_BYTES_MAX)?;
    // Whoever sits here may say their name.
    stated(&Scrubber::default(), "--by", &reviewer, REVIEWER_BYTES_MAX)?;
    let ruling = Ruling { reason, reviewer: &reviewer };
    let (mut suspects, mut claims) = meant(store, text).await?;
    suspects.retain(|review| review.decision.is_none());
    let ended = claims.iter().find_map(|claim| why_ended(claim, decision));
    claims.retain(|claim| why_ended(claim, decision).is_none());
    match (suspects.as_slice(), claims.as_slice()) {
        ([suspect], []) => {
            about_suspect(&wiring::ledger(places).await?, suspect, decision, ruling).await
        }
        ([], [claim]) => about_claim(&wiring::ledger(places).await?, claim, decision, ruling).await,
        ([], []) => {
            let none = || format!("nothing of `{text}` waits; `review list` lists what does");
            Err(bad_input(ended.unwrap_or_else(none)))
        }
        _ => {
            let suspects = suspects.iter().map(|it| format!("{} (suspect)", it.acceptance_id));
            let ids = suspects.chain(claims.iter().map(|it| format!("{} (claim)", it.id)));
            let ids = ids.collect::<Vec<_>>().join(", ");
            Err(bad_input(format!("`{text}` means more than one: name one of {ids}")))
        }
    }
}

/// Goes out with the claim, where nothing may be taken out of it any more.
fn stated(scrubber: &Scrubber, flag: &str, text: &str, bytes_max: usize) -> anyhow::Result<()> {
    if text.is_empty() {
        let say = if flag == "--by" { "who decides" } else { "why" };
        return Err(bad_input(format!("say {say}, with {flag} TEXT: it is stored")));
    }
    if text.len() > bytes_max {
        return Err(bad_input(format!("{flag} has more than {bytes_max} bytes")));
    }
    if text.contains(char::is_control) {
        return Err(bad_input(format!("{flag} is one line, without control characters")));
    }
    match scrubber.find(text) {
        None => Ok(()),
        Some(found) => Err(bad_input(format!(
            "{flag} holds {}, which must not leave this machine, and it goes out with the claim",
            found.what
        ))),
    }
}

/// Why nothing can be decided so about a claim.
fn why_ended(claim: &ClaimRow, decision: Decision) -> Option<String> {
    if claim.state == ClaimState::Withdrawn {
        return Some(format!("claim {} was withdrawn: {}", claim.id, claim.why));
    }
    let last = claim.approvals.last().filter(|last| last.decision == decision)?;
    Some(format!("claim {} is {}", claim.id, approval::in_words(last)))
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
    store: &Store,
    claim: &ClaimRow,
    decision: Decision,
    ruling: Ruling<'_>,
) -> anyhow::Result<Outcome> {
    store.review_claim(&claim.id, decision, ruling).await?;
    let claim = store.claim(claim.id.as_str()).await?;
    terminal::line(&words::of_row(&claim));
    let outcome = Outcome::done().with("decision", decision.name());
    Ok(outcome.with("claim", words::as_json(&claim)))
}
