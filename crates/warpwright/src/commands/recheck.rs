//! `recheck`: claims of this ledger again, against today's driver, toolchain and baselines.

use judge::Judge;
use pipeline::reproduction::{Recheck, rechecked};
use store::{CheckOutcome, ClaimRow, ClaimState, NewCheck, Purpose, Store};

use crate::claims::carry::{Carried, Pace};
use crate::claims::subject::Subject;
use crate::claims::{self, Aim, words};
use crate::cli::RecheckArgs;
use crate::commands::{accept, export};
use crate::outcome::{BadInput, Exit, Outcome, bad_input};
use crate::settings::Places;
use crate::{terminal, wiring};

/// Looks again at the claims that are meant.
pub(crate) async fn perform(places: &Places, args: &RecheckArgs) -> anyhow::Result<Outcome> {
    let claims = chosen(&Store::open_read_only(&places.ledger).await?, args).await?;
    if claims.is_empty() {
        terminal::line("no claim stands, so there is nothing to look at again");
        return Ok(Outcome::done().with("rechecked", Vec::<serde_json::Value>::new()));
    }
    let Some(judge) = claims::gpu_judge(places)? else { return Err(accept::needs_gpu(places)) };
    let store = wiring::ledger(places).await?;
    let pace = accept::pace(args.effort.deadline);
    let mut outcome = Outcome::done();
    let mut records = Vec::new();
    for claim in &claims {
        let (row, carried) = match again(&store, &judge, claim, args, &pace).await? {
            Looked::Found(found) => {
                let (kind, detail) = in_words(&found);
                records.push(serde_json::json!({
                    "claim": claim.id.to_string(), "outcome": kind.name(), "detail": detail,
                }));
                outcome = weigh(outcome, kind, &detail);
                continue;
            }
            Looked::Stopped(row, carried) => (row, carried),
        };
        outcome = stopped(outcome, accept::told(&store, &row, &carried).await?);
        break;
    }
    store.close().await;
    Ok(outcome.with("rechecked", records))
}

/// The claims that stand: all, maybe none, or those of a selector.
async fn chosen(store: &Store, args: &RecheckArgs) -> anyhow::Result<Vec<ClaimRow>> {
    let mut claims = match &args.selector {
        Some(text) => match store.claim_unless_run(text).await? {
            Some(claim) => vec![claim],
            None => export::claims_of(store, text).await?,
        },
        None => store.claims().await?,
    };
    claims.retain(|claim| claim.state != ClaimState::Withdrawn);
    match &args.selector {
        Some(text) if claims.is_empty() => {
            Err(bad_input(format!("there is no claim of `{text}` that stands; `accept` makes one")))
        }
        Some(_) | None => Ok(claims),
    }
}

enum Looked {
    Found(Recheck),
    Stopped(Box<store::AcceptanceRow>, Carried),
}

async fn again(
    store: &Store,
    judge: &Judge,
    claim: &ClaimRow,
    args: &RecheckArgs,
    pace: &Pace,
) -> anyhow::Result<Looked> {
    terminal::line(&words::of_row(claim));
    let first = store.acceptance(&claim.acceptance_id).await?;
    let here = &judge.config().device.model;
    if first.device_model != *here {
        let why = format!("it was measured on {}, and this machine has {here}", first.device_model);
        terminal::line(&format!("NOT COMPARABLE: {why}"));
        return Ok(Looked::Found(Recheck::NotComparable(why)));
    }
    let attempt = store.attempt(&claim.attempt_id).await?;
    let subject = match Subject::of_attempt(store, judge, &attempt).await {
        Ok(subject) => subject,
        Err(error) => return Ok(Looked::Found(told(unbuilt(error)?))),
    };
    let aim = Aim {
        attempt: &attempt.id,
        purpose: Purpose::Recheck,
        of_claim: Some(&claim.id),
        weaknesses: &[],
        against: None,
        named: "",
    };
    let effort = args.effort.effort();
    let _lock = store.lock_program(&subject.eval_key, aim.purpose)?;
    let (row, carried) = claims::take(store, judge, &subject, aim, effort, pace).await?;
    let Carried::Ended(conclusion, _) = &carried else {
        return Ok(Looked::Stopped(Box::new(row), carried));
    };
    let found = rechecked(&claim.claim, conclusion);
    let (outcome, detail) = in_words(&found);
    let new = NewCheck {
        acceptance: &row.id,
        claim: Some(&claim.id),
        bundle: None,
        outcome,
        detail: &detail,
        becomes: None,
    };
    store.record_check(&new).await?;
    Ok(Looked::Found(told(found)))
}

/// Prints what a claim came to.
fn told(found: Recheck) -> Recheck {
    let (outcome, detail) = in_words(&found);
    terminal::line(&format!("{}: {detail}", words::outcome_in_words(outcome)));
    found
}

/// A claim whose kernel is none any more, under today's compiler; other trouble is the machine's,
/// and says nothing about a claim.
fn unbuilt(error: anyhow::Error) -> anyhow::Result<Recheck> {
    Ok(Recheck::Lost(error.downcast::<BadInput>()?.to_string()))
}

/// The end of all when one claim was stopped at: a claim that is lost already stays so.
fn stopped(before: Outcome, stop: Outcome) -> Outcome {
    if before.exit == Exit::DidNotPass { before } else { stop }
}

/// An outcome with its reason or its numbers.
fn in_words(found: &Recheck) -> (CheckOutcome, String) {
    match found {
        Recheck::Holds { found } => (CheckOutcome::Holds, format!("{found:.3}x today")),
        Recheck::Weaker { claimed, found } => {
            let share = 100.0 * (1.0 - found / claimed);
            let detail = format!("{found:.3}x today, {share:.1} % less than {claimed:.3}x");
            (CheckOutcome::Weaker, detail)
        }
        Recheck::Lost(why) => (CheckOutcome::Lost, why.clone()),
        Recheck::NotComparable(why) => (CheckOutcome::NotComparable, why.clone()),
    }
}

/// A lost claim weighs more than one of which nothing can be said.
fn weigh(outcome: Outcome, kind: CheckOutcome, detail: &str) -> Outcome {
    match kind {
        CheckOutcome::Lost => Outcome::ended(Exit::DidNotPass, detail),
        CheckOutcome::NotComparable if outcome.exit == Exit::Done => {
            Outcome::ended(Exit::NotAvailable, detail)
        }
        CheckOutcome::NotComparable
        | CheckOutcome::Holds
        | CheckOutcome::Weaker
        | CheckOutcome::Reproduced
        | CheckOutcome::NotReproduced => outcome,
    }
}

#[cfg(test)]
mod tests {
    use judge::JudgeError;
    use pipeline::reproduction::Recheck;
    use store::CheckOutcome;

    use super::{in_words, stopped, unbuilt, weigh};
    use crate::outcome::{Exit, Outcome, bad_input, exit_of};

    #[test]
    fn a_claim_that_no_longer_builds_is_lost_and_a_broken_machine_says_nothing() {
        let why = "it does not build here: Malformed/COMPILE".to_owned();
        assert_eq!(unbuilt(bad_input(&why)).unwrap(), Recheck::Lost(why));
        for (error, exit) in [
            (JudgeError::NotAvailable("no compiler".to_owned()), Exit::NotAvailable),
            (JudgeError::Cancelled, Exit::Interrupted),
        ] {
            assert_eq!(exit_of(&unbuilt(error.into()).unwrap_err()), exit);
        }
    }

    #[test]
    fn a_lost_claim_outweighs_whatever_comes_after_it() {
        use CheckOutcome::{Holds, Lost, NotComparable, Weaker};
        for (kinds, stop, expected) in [
            (&[Holds, Weaker][..], None, Exit::Done),
            (&[NotComparable, Holds], None, Exit::NotAvailable),
            (&[NotComparable, Lost, NotComparable, Holds], None, Exit::DidNotPass),
            (&[Holds], Some(Exit::BudgetEnded), Exit::BudgetEnded),
            (&[NotComparable], Some(Exit::Interrupted), Exit::Interrupted),
            (&[Lost, Holds], Some(Exit::BudgetEnded), Exit::DidNotPass),
            (&[Lost], Some(Exit::Interrupted), Exit::DidNotPass),
        ] {
            let start = Outcome::done();
            let ended = kinds.iter().fold(start, |outcome, kind| weigh(outcome, *kind, "why"));
            let ended = match stop {
                Some(exit) => stopped(ended, Outcome::ended(exit, "stopped")),
                None => ended,
            };
            assert_eq!(ended.exit, expected, "{kinds:?} {stop:?}");
        }
    }

    #[test]
    fn a_recheck_says_by_how_much() {
        for (found, word) in [
            (Recheck::Holds { found: 1.5 }, "1.500x today"),
            (Recheck::Weaker { claimed: 1.5, found: 1.2 }, "1.200x today, 20.0 % less than 1.500x"),
            (Recheck::Lost("slower".to_owned()), "slower"),
            (Recheck::NotComparable("noisy".to_owned()), "noisy"),
        ] {
            assert_eq!(in_words(&found).1, word);
        }
    }
}
