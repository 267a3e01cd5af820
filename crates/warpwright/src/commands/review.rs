//! `review`: what a person has to look at before anything is claimed, and what they decide.

use pipeline::acceptance::reviewed;
use serde_json::json;
use store::{Decision, ReviewRow, Store};

use crate::claims::words;
use crate::cli::ReviewArgs;
use crate::outcome::{Outcome, bad_input};
use crate::selector::{self, Selected, What};
use crate::settings::Places;
use crate::{terminal, wiring};

/// Lists what waits, or decides.
pub(crate) async fn perform(places: &Places, args: &ReviewArgs) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let reviews = store.reviews().await?;
    let decision = match (args.accept, args.reject) {
        (true, _) => Decision::Accepted,
        (_, true) => Decision::Rejected,
        (false, false) => return list(&store, reviews, args.selector.as_deref()).await,
    };
    let text = args.selector.as_deref().ok_or_else(|| bad_input("name what is decided about"))?;
    let waiting: Vec<_> = reviews.into_iter().filter(|it| it.decision.is_none()).collect();
    let review = meant(&store, waiting, text).await?;
    let review = match review.as_slice() {
        [only] => only.clone(),
        [] => {
            return Err(bad_input(format!("nothing of `{text}` waits; `review` lists what does")));
        }
        _ => return Err(bad_input(format!("more than one of `{text}` waits: name one by its id"))),
    };
    let note = args.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
    let note = note.ok_or_else(|| bad_input("say why, with --note TEXT: it is stored"))?;
    decide(&wiring::ledger(places).await?, &review, decision, note).await
}

/// The reviews that a selector means: by the id of their acceptance, or by run, task or attempt.
async fn meant(
    store: &Store,
    reviews: Vec<ReviewRow>,
    text: &str,
) -> anyhow::Result<Vec<ReviewRow>> {
    let by_id = |review: &&ReviewRow| review.acceptance_id.as_str().starts_with(text);
    let found: Vec<_> = reviews.iter().filter(by_id).cloned().collect();
    if !found.is_empty() {
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

async fn list(
    store: &Store,
    reviews: Vec<ReviewRow>,
    selector: Option<&str>,
) -> anyhow::Result<Outcome> {
    let reviews = match selector {
        Some(text) => meant(store, reviews, text).await?,
        None => reviews.into_iter().filter(|review| review.decision.is_none()).collect(),
    };
    if reviews.is_empty() {
        terminal::line("nothing waits for a person");
    }
    let mut listed = Vec::new();
    for review in &reviews {
        let (id, task, seq) = (&review.acceptance_id, &review.task_name, review.seq);
        let decided = review.decision.map(|decision| {
            format!(" [{}: {}]", decision.name(), review.note.as_deref().unwrap_or_default())
        });
        let line = format!("{id} {task} #{seq} {}: {}", review.suspicion, review.detail);
        terminal::line(&format!("{line}{}", decided.unwrap_or_default()));
        listed.push(json!({
            "acceptance": id.to_string(), "task": task, "seq": seq,
            "suspicion": review.suspicion, "detail": review.detail,
            "decision": review.decision.map(Decision::name), "note": review.note,
        }));
    }
    Ok(Outcome::done().with("reviews", listed))
}

async fn decide(
    store: &Store,
    review: &ReviewRow,
    decision: Decision,
    note: &str,
) -> anyhow::Result<Outcome> {
    let row = store.acceptance(&review.acceptance_id).await?;
    let claimed = match decision {
        Decision::Accepted => {
            let entries = store.entries(&row.id).await?;
            let claim = reviewed(&row.protocol, &entries, note);
            let slower = || bad_input("there is nothing to claim: it is not faster");
            Some(claim.ok_or_else(slower)?)
        }
        Decision::Rejected => None,
    };
    let made = store.decide_review(&row.id, decision, note, claimed.as_ref()).await?;
    terminal::line(&format!("{} #{}: {}", review.task_name, review.seq, decision.name()));
    let outcome = Outcome::done().with("decision", decision.name());
    let Some(id) = made else { return Ok(outcome) };
    let claim = store.claim(id.as_str()).await?;
    terminal::line(&words::of_row(&claim));
    Ok(outcome.with("claim", words::as_json(&claim)))
}
