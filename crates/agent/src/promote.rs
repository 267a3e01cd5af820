//! Between judged and closed: a candidate that would replace the incumbent meets hidden cases.
//!
//! What they showed is stored in full; the attempt ends with no more of it than one word.

use std::sync::Arc;

use judge::{Job, JobStage, Judgement, RunSeed};
use llm::Llm;
use pipeline::inputs::MasterSeed;
use pipeline::promotion::{Coarse, Promotion, told};
use pipeline::report::{Report, Score, Stage};
use pipeline::verdict::{Kind, Reason, Verdict};
use store::{AttemptRow, JudgementRow, NewJudgement};

use crate::advance::incomplete;
use crate::engine::{Engine, Promotes};
use crate::error::AgentError;

impl<L: Llm + Sync> Engine<L> {
    /// Promotes a judged attempt if it would replace the incumbent, then closes it.
    pub(crate) async fn promote_and_close(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
        let searched =
            attempt.judgement.as_ref().ok_or_else(|| incomplete(attempt, "judgement"))?;
        let known = self.store.promotion(&attempt.id).await?;
        let verdict = match known {
            Some(promoted) => promoted.verdict,
            None if searched.verdict.is_correct() => {
                self.promoted_verdict(attempt, searched).await?
            }
            None => searched.verdict.clone(),
        };
        Ok(self.store.close_attempt(&attempt.id, &verdict).await?)
    }

    async fn promoted_verdict(
        &self,
        attempt: &AttemptRow,
        searched: &JudgementRow,
    ) -> Result<Verdict, AgentError> {
        let beside = match self.promotes {
            Promotes::Replacing => self.incumbent_beside(attempt, searched).await?,
            Promotes::Each => Some(None),
            Promotes::Nobody => None,
        };
        let Some(incumbent) = beside else { return Ok(searched.verdict.clone()) };
        if let Some(report) = self.promoted_before(searched).await? {
            return self.store_promotion(attempt, searched, &report, true).await;
        }
        let promoted = self.promote(attempt, incumbent).await?;
        self.store_promotion(attempt, searched, &promoted.report, false).await
    }

    /// The incumbent's number, if any, where the attempt would replace it; otherwise `None`.
    async fn incumbent_beside(
        &self,
        attempt: &AttemptRow,
        searched: &JudgementRow,
    ) -> Result<Option<Option<u32>>, AgentError> {
        let incumbent = self.store.best_outline(&attempt.run_id, &attempt.task_hash).await?;
        let score = searched.report.as_ref().map_or(&Score::None, |report| &report.score);
        let replaces =
            incumbent.as_ref().is_none_or(|incumbent| score.improves_on(incumbent.score()));
        Ok(replaces.then(|| incumbent.map(|incumbent| incumbent.seq)))
    }

    /// The report of an earlier promote of an equal program.
    async fn promoted_before(&self, searched: &JudgementRow) -> Result<Option<Report>, AgentError> {
        let Some(key) = &searched.eval_key else { return Ok(None) };
        let toolchain_id = &self.judge.config().toolchain_id;
        let found = self.store.promotion_of_eval_key(key, toolchain_id).await?;
        Ok(found.map(|(_, report)| report).filter(|report| self.is_enough(report)))
    }

    async fn promote(
        &self,
        attempt: &AttemptRow,
        incumbent: Option<u32>,
    ) -> Result<Judgement, AgentError> {
        let secret = MasterSeed(self.seed.0).derive(&format!("promote/{}", attempt.id));
        let mut job = self.job(attempt, RunSeed(secret.0))?;
        let incumbent = match incumbent {
            Some(seq) => {
                let (run, task) = (&attempt.run_id, &attempt.task_hash);
                let row = self.store.attempt_detail(run, task, seq).await?.attempt;
                Some(Box::new(self.job(&row, RunSeed(secret.0))?))
            }
            None => None,
        };
        job.stage = JobStage::Promote { incumbent };
        self.judgement_of(attempt, job).await
    }

    /// Everything that judging an attempt needs, with a seed of its own.
    fn job(&self, attempt: &AttemptRow, seed: RunSeed) -> Result<Job, AgentError> {
        let (row, candidate) = self.candidate_of(attempt)?;
        let built = attempt.build.as_ref().ok_or_else(|| incomplete(attempt, "build"))?;
        let key = attempt.judgement.as_ref().and_then(|judgement| judgement.eval_key.clone());
        let operator = self.operator(attempt)?;
        Ok(Job {
            id: attempt.id.to_string(),
            stage: JobStage::Search,
            eval_key: key.unwrap_or_else(|| built.id.clone()),
            task: Arc::clone(&operator.task),
            task_files: Arc::clone(&operator.files),
            candidate,
            tunables: row.tunables.clone(),
            build: crate::advance::restored(built)
                .ok_or_else(|| incomplete(attempt, "PTX or cubin"))?,
            seed,
            index: 0,
        })
    }

    async fn store_promotion(
        &self,
        attempt: &AttemptRow,
        searched: &JudgementRow,
        report: &Report,
        from_cache: bool,
    ) -> Result<Verdict, AgentError> {
        let verdict = verdict_of(report);
        let new = NewJudgement {
            stage: Stage::Promote,
            // What failed for a reason of the machine's is tried again.
            eval_key: searched.eval_key.as_ref(),
            verdict: &verdict,
            report: Some(report),
            from_cache,
            danger: None,
        };
        self.store.record_promotion(&attempt.id, &new).await?;
        Ok(verdict)
    }
}

/// As much of the verdict as the attempt ends with.
fn verdict_of(report: &Report) -> Verdict {
    match (&report.ended, report.promotion) {
        // No failure of the candidate's; why tells of the hidden case.
        (Some(verdict), _) if verdict.kind == Kind::Unsimulatable => {
            Verdict::failed(Reason::Unsupported, "this machine could not try the hidden cases")
        }
        (_, Some(Promotion::Failed(coarse))) => told(coarse),
        (Some(verdict), Some(Promotion::Passed { .. } | Promotion::NotFaster { .. }) | None) => {
            verdict.reason.map_or_else(Verdict::correct, |reason| told(Coarse::of(reason)))
        }
        (None, Some(Promotion::Passed { .. } | Promotion::NotFaster { .. }) | None) => {
            Verdict::correct()
        }
    }
}
