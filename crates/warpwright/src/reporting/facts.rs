//! Reads everything that a report says, once.

use std::collections::{BTreeSet, HashMap};

use pipeline::acceptance::Conclusion;
use pipeline::attempt::Attempt;
use pipeline::comparison::Comparison;
use pipeline::digest::Digest;
use pipeline::lanes::Span;
use pipeline::report::Score;
use pipeline::standing::{Standing, scoreboard};
use store::{
    ClaimState, KernelClaim, KernelLook, Purpose, ReviewRow, RunId, RunState, RunSummary, Store,
    TaskSummary,
};

use crate::claims::{approval, measured, words};
use crate::reporting::advice::{Acceptance, Best, Elsewhere, Ending, StoredClaim, advice};
use crate::reporting::books::{Books, counted};
use crate::reporting::timeline::timeline;
use crate::reporting::{RunReport, ShownClaim, TaskPart};
use crate::settings::{Places, RunSettings, price};

/// Reads a run.
///
/// # Errors
/// Those of reading, and a run that is not as its log says where a person decides about claims.
pub(crate) async fn read(places: &Places, store: &Store, run: &RunId) -> anyhow::Result<RunReport> {
    approval::hold_to_log(places, store, run).await?;
    let summary = store.run_summary(run).await?;
    let weights = weights(&summary);
    let shares = pipeline::amdahl::shares(&weights);
    let claims = store.claims_of_kernels(run).await?;
    hold_others_to_log(places, store, run, &claims).await?;
    let mut reviews = store.reviews().await?;
    reviews.retain(|review| review.decision.is_none());
    let ends = store.search_ends(run).await?;
    let mut parts = Vec::new();
    for (task, share) in summary.tasks.iter().zip(&shares) {
        let mut of_task = claims.clone();
        of_task.retain(|it| it.claim.task_hash == task.task.hash);
        let found = Found { places, store, summary: &summary, task, reviews: &reviews };
        let mut part = found.part(of_task, *share).await?;
        let mut of_task = ends.iter().filter(|(of, _)| *of == task.task.hash);
        part.search_end = of_task.next_back().map(|(_, end)| *end);
        parts.push(part);
    }
    let standings: Vec<(f64, Standing)> =
        weights.iter().copied().zip(parts.iter().map(|part| part.standing)).collect();
    let chronicle = store.chronicle(run).await?;
    let names: HashMap<&Digest, &str> =
        summary.tasks.iter().map(|it| (&it.task.hash, it.task.name.as_str())).collect();
    let name = |call: &store::BookedCall| names.get(&call.task).unwrap_or(&"?").to_string();
    let attempts = parts.iter().flat_map(|part| &part.attempts);
    let mut books = Books::of(&chronicle.calls, name, attempts);
    for (task, time) in store.card_time_of_tasks(run).await? {
        books.note_card_time(names.get(&task).unwrap_or(&"?"), time.total_us());
    }
    let reports = reports(&parts);
    let report_of = |judged: &store::Judged| {
        reports.get(&(&judged.task, judged.seq)).and_then(|attempt| attempt.report.as_ref())
    };
    let begun = summary.run.started_us;
    let span = Span { from_us: begun, to_us: summary.run.ended_us.unwrap_or(begun) };
    let timeline = timeline(&chronicle, &report_of, span);
    Ok(RunReport {
        board: scoreboard(&standings),
        weighted: weights.windows(2).any(|pair| pair[0] != pair[1]),
        books,
        prices: prices(&summary),
        timeline,
        summary,
        parts,
    })
}

/// Of claims that other runs made, too, what a person decided is what their logs say.
async fn hold_others_to_log(
    places: &Places,
    store: &Store,
    run: &RunId,
    claims: &[KernelClaim],
) -> anyhow::Result<()> {
    let runs: BTreeSet<_> = claims.iter().map(|it| &it.claim.run_id).collect();
    for other in runs.into_iter().filter(|it| *it != run) {
        approval::hold_to_log(places, store, other).await?;
    }
    Ok(())
}

/// What each priced model costs, and what is to be said of an old price.
fn prices(summary: &RunSummary) -> Vec<String> {
    let settings = serde_json::from_str::<RunSettings>(&summary.run.settings_json);
    let models = settings.map(|settings| settings.models).unwrap_or_default();
    let mut lines = price::lines(&models);
    lines.extend(price::warnings(&models, summary.run.started_us));
    lines
}

fn reports(parts: &[TaskPart]) -> HashMap<(&Digest, u32), &Attempt> {
    parts
        .iter()
        .flat_map(|part| {
            let hash = &part.summary.task.hash;
            part.attempts.iter().map(move |attempt| ((hash, attempt.seq), attempt))
        })
        .collect()
}

/// What each operator of the run weighs; all the same where that was not stored.
fn weights(summary: &RunSummary) -> Vec<f64> {
    let settings = serde_json::from_str::<RunSettings>(&summary.run.settings_json).ok();
    let operators = settings.map(|settings| settings.operators).unwrap_or_default();
    let weight = |index: usize| operators.get(index).map_or(1.0, |operator| operator.weight);
    (0..summary.tasks.len()).map(weight).collect()
}

/// A task of a run, to be read.
struct Found<'a> {
    places: &'a Places,
    store: &'a Store,
    summary: &'a RunSummary,
    task: &'a TaskSummary,
    /// Undecided, of any run.
    reviews: &'a [ReviewRow],
}

impl Found<'_> {
    async fn part(&self, claims: Vec<KernelClaim>, share: f64) -> anyhow::Result<TaskPart> {
        let run = &self.summary.run.id;
        let attempts = self.store.closed_attempts(run, &self.task.task.hash).await?;
        let best = attempts.iter().find(|attempt| Some(attempt.seq) == self.task.best_seq);
        let (mut looks, mut measured_words) = (Vec::new(), None);
        if let Some(best) = best {
            let id = self.store.attempt_id(run, &self.task.task.hash, best.seq).await?;
            measured_words = measured::in_words(self.store, &id).await?;
            looks = self.store.looks_at(&id).await?;
            // A measurement belongs to its attempt.
            looks.retain(|it| it.purpose != Purpose::Measurement || it.attempt_id == id);
        }
        let mut shown = Vec::new();
        for claim in &claims {
            shown.push(self.shown(claim).await?);
        }
        let standing = self.standing(&claims, best, &looks);
        let advice = advice(&self.ending(&claims, &attempts, best, &looks));
        Ok(TaskPart {
            summary: self.task.clone(),
            claims: shown,
            measured: measured_words,
            share,
            standing,
            advice,
            attempts,
            search_end: None,
        })
    }

    /// One that waits for a person shows no number.
    async fn shown(&self, it: &KernelClaim) -> anyhow::Result<ShownClaim> {
        let (run, claim) = (&self.summary.run.id, &it.claim);
        if let Some(why) = approval::withheld(self.places, claim) {
            let json = serde_json::json!({
                "claim": claim.id.to_string(), "task": claim.task_name,
                "run": claim.run_id.to_string(), "seq": claim.seq, "here": it.seqs,
                "withheld": why,
            });
            return Ok(ShownClaim { json, words: why, baseline: None });
        }
        let entries = self.store.entries(&claim.acceptance_id).await?;
        Ok(ShownClaim {
            words: words::of_kernel(run, it),
            baseline: Some(words::against_line(&claim.claim.against, &entries)),
            json: words::kernel_as_json(it),
        })
    }

    fn standing(
        &self,
        claims: &[KernelClaim],
        best: Option<&Attempt>,
        looks: &[KernelLook],
    ) -> Standing {
        let out = claims.iter().map(|it| &it.claim).filter(|claim| {
            claim.state != ClaimState::Withdrawn && approval::withheld(self.places, claim).is_none()
        });
        let intervals = out.map(|claim| claim.claim.against.interval);
        if let Some(it) = intervals.max_by(|a, b| a.low().total_cmp(&b.low())) {
            return Standing::Claimed { low: it.low(), ratio: it.ratio() };
        }
        if best.is_none() {
            return Standing::Nothing;
        }
        let measured = looks.iter().rev().filter(|row| row.purpose == Purpose::Measurement);
        let mut ratios =
            measured.filter_map(|row| Some(row.conclusion.as_ref()?.measurement()?.ratio));
        ratios.next().map_or(Standing::Correct, Standing::Measured)
    }

    fn ending<'a>(
        &'a self,
        claims: &'a [KernelClaim],
        attempts: &'a [Attempt],
        best: Option<&Attempt>,
        looks: &'a [KernelLook],
    ) -> Ending<'a> {
        let stands = |it: &&KernelClaim| it.claim.state != ClaimState::Withdrawn;
        // Newest first.
        let claim = claims.iter().find(stands).or(claims.first()).map(|it| &it.claim);
        let failed = attempts.iter().filter(|attempt| !attempt.verdict.is_correct());
        let failed = counted(failed.map(|attempt| attempt.verdict.to_string()));
        let run = &self.summary.run;
        Ending {
            run: run.id.as_str(),
            task: &self.task.task.name,
            withheld: claim.is_some_and(|claim| approval::withheld(self.places, claim).is_some()),
            claim: claim.map(|claim| StoredClaim {
                id: claim.id.as_str(),
                run: claim.run_id.as_str(),
                seq: claim.seq,
                state: claim.state,
                why: &claim.why,
            }),
            best: best.map(|best| Best {
                seq: best.seq,
                on_gpu: matches!(best.score(), Score::Measured(_)),
                elsewhere: accepted(looks).filter(|it| it.run_id != run.id).map(|it| Elsewhere {
                    run: it.run_id.as_str(),
                    seq: it.seq,
                    says: words::elsewhere(&it.run_id, it.seq, it.started_us),
                }),
                acceptance: self.acceptance(looks),
            }),
            attempts: attempts.len(),
            most: failed.into_iter().next(),
            last_seq: attempts.last().map(|attempt| attempt.seq),
            goes_on: run.state != RunState::Finished,
        }
    }

    /// How far the newest acceptance for a claim came.
    fn acceptance<'a>(&'a self, looks: &'a [KernelLook]) -> Acceptance<'a> {
        let Some(row) = accepted(looks) else { return Acceptance::None };
        match &row.conclusion {
            None => Acceptance::Begun,
            Some(Conclusion { comparison: Some(Comparison::Suspect(_)), cause, .. })
                if self.reviews.iter().any(|review| review.acceptance_id == row.id) =>
            {
                Acceptance::Waits(cause)
            }
            Some(conclusion) if conclusion.cause.is_empty() => {
                Acceptance::Unclaimed(&conclusion.verdict.detail)
            }
            Some(conclusion) => Acceptance::Unclaimed(&conclusion.cause),
        }
    }
}

/// The newest acceptance for a claim.
fn accepted(looks: &[KernelLook]) -> Option<&KernelLook> {
    looks.iter().rev().find(|row| row.purpose == Purpose::Claim)
}
