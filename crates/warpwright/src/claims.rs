//! From a kernel to a claim, and back: what `accept`, `reproduce` and `recheck` share.
//!
//! [`subject`] is what is measured, [`measure`] who measures, [`carry`] the loop between them and
//! the ledger, [`approval`] whether a claim may go out, [`words`] how it is printed, [`measured`]
//! the shorter look at the best of a run. [`accepting`] takes one kernel through the protocol,
//! [`closing`] those of a run while it goes on, on cards that [`lanes`] hands out. Start at
//! [`take`].

pub(crate) mod accepting;
pub(crate) mod approval;
mod card_pace;
pub(crate) mod carry;
pub(crate) mod closing;
mod lanes;
pub(crate) mod measure;
pub(crate) mod measured;
pub(crate) mod subject;
pub(crate) mod words;

#[cfg(test)]
mod tests;

use judge::{CancelFlag, Judge, JudgeError, judge_hash};
use pipeline::acceptance::{Entry, Protocol, Step};
use pipeline::baseline::BaselineId;
use pipeline::comparison::Confidence;
use store::{AcceptanceRow, AttemptId, ClaimId, NewAcceptance, Purpose, Store};

use crate::claims::carry::{Carried, Pace};
use crate::claims::measure::Measure;
use crate::claims::subject::Subject;
use crate::{gpus, terminal, wiring};

/// Why nothing can be claimed without a GPU.
pub(crate) const NEEDS_GPU: &str = "a claim needs a GPU; the simulator gives no times";

/// How much is measured, and how surely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    pub(crate) rounds_max: u32,
    pub(crate) confidence: Confidence,
}

/// What an acceptance is for.
#[derive(Clone, Copy)]
pub(crate) struct Aim<'a> {
    pub(crate) attempt: &'a AttemptId,
    pub(crate) purpose: Purpose,
    pub(crate) of_claim: Option<&'a ClaimId>,
    /// What the task's admission leaves open; only a claim says it.
    pub(crate) weaknesses: &'a [String],
    /// What the claim was against that is reproduced.
    pub(crate) against: Option<&'a BaselineId>,
    /// What each line about it begins with; empty where it is the only one.
    pub(crate) named: &'a str,
}

/// The judge on one of this machine's cards, so that a round's windows have the same one; `None`
/// where there are none.
pub(crate) fn gpu_judge(places: &crate::settings::Places) -> anyhow::Result<Option<Judge>> {
    let Some(sheets) = gpus::chosen(places, &places.device)? else { return Ok(None) };
    let toolchain = wiring::toolchain(places)?;
    let sheets = gpus::measured(places, &toolchain, sheets)?;
    let one = judge::free_card(&gpus::config(sheets))?.clone();
    Ok(Some(gpus::judge_of(&toolchain, vec![one])?))
}

/// Begins an acceptance of a subject, or goes on with one that was interrupted, to its end.
///
/// The caller holds the program's lock ([`Store::lock_program`]) since before it looked for what is
/// known of the program; for a measurement, the lock of its run.
pub(crate) async fn take(
    store: &Store,
    judge: &Judge,
    subject: &Subject,
    aim: Aim<'_>,
    effort: Effort,
    pace: &Pace,
) -> anyhow::Result<(AcceptanceRow, Carried)> {
    let cancel = pace.cancel_flag();
    let begun = interrupted(store, judge, subject, aim).await?;
    let seed = match &begun {
        Some(row) => wiring::parse_seed(&store.acceptance_seed(&row.id).await?)?,
        None => wiring::fresh_seed()?,
    };
    let weaknesses = aim.weaknesses;
    let measure = Measure { judge, subject, seed: &seed, effort, weaknesses };
    let row = match begun {
        Some(row) => row,
        None => {
            let whole = tokio::task::block_in_place(|| measure.protocol(&cancel))?;
            let whole = Protocol { claimed_against: aim.against.cloned(), ..whole };
            let protocol = match aim.purpose {
                Purpose::Measurement => whole.shortened(),
                Purpose::Claim | Purpose::Reproduction | Purpose::Recheck => whole,
            };
            begin(store, judge, subject, aim, &protocol, &wiring::seed_text(&seed)).await?
        }
    };
    let perform = |protocol: &Protocol, entries: &[Entry], step: &Step| {
        measure.step(protocol, entries, step, &cancel)
    };
    let say = |line: &str| match aim.purpose {
        Purpose::Measurement => {}
        Purpose::Claim | Purpose::Reproduction | Purpose::Recheck => {
            terminal::line(&terminal::one_line(&format!("{}{line}", aim.named)));
        }
    };
    let carried = carry::carry(store, &row, &subject.task.hash, &perform, pace, &say).await?;
    Ok((store.acceptance(&row.id).await?, carried))
}

/// An acceptance of the same program for the same aim that has not ended.
async fn interrupted(
    store: &Store,
    judge: &Judge,
    subject: &Subject,
    aim: Aim<'_>,
) -> anyhow::Result<Option<AcceptanceRow>> {
    let rows = store.acceptances_of_key(&subject.eval_key).await?;
    Ok(rows.into_iter().find(|row| goes_on(row, aim, &judge.config().toolchain_id)))
}

/// Whether an acceptance of the same program is the one to go on with, whichever attempt had it: a
/// second one would be a second try. Only a measurement belongs to its attempt.
fn goes_on(row: &AcceptanceRow, aim: Aim<'_>, toolchain_id: &str) -> bool {
    let attempt = match aim.purpose {
        Purpose::Measurement => row.attempt_id == *aim.attempt,
        Purpose::Claim | Purpose::Reproduction | Purpose::Recheck => true,
    };
    let aimed = row.purpose == aim.purpose && row.of_claim.as_ref() == aim.of_claim;
    row.conclusion.is_none() && row.toolchain_id == toolchain_id && aimed && attempt
}

async fn begin(
    store: &Store,
    judge: &Judge,
    subject: &Subject,
    aim: Aim<'_>,
    protocol: &Protocol,
    seed: &str,
) -> anyhow::Result<AcceptanceRow> {
    let config = judge.config();
    let facts = subject.build.facts.as_ref();
    let id = store
        .start_acceptance(&NewAcceptance {
            attempt: aim.attempt,
            purpose: aim.purpose,
            of_claim: aim.of_claim,
            protocol,
            eval_key: &subject.eval_key,
            ptx_hash: subject.ptx_hash(),
            cubin_hash: facts.map_or("", |facts| &facts.cubin_hash),
            seed,
            judge_hash: judge_hash().as_str(),
            toolchain_id: &config.toolchain_id,
            device: &config.device,
            card: config.gpus.as_ref().and_then(|gpus| gpus.sheets.first()),
            process: &process(store),
        })
        .await?;
    Ok(store.acceptance(&id).await?)
}

/// This process tree: its number and when it asked.
fn process(store: &Store) -> String {
    format!("{}@{}", std::process::id(), store.now_us())
}

/// Runs the judge's work off the event loop's way.
pub(crate) fn blocking<T>(
    work: impl FnOnce(&CancelFlag) -> Result<T, JudgeError>,
) -> Result<T, JudgeError> {
    let cancel = CancelFlag::new();
    tokio::task::block_in_place(|| work(&cancel))
}
