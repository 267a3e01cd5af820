//! The promote stage: a candidate that would replace the incumbent meets hidden cases.
//!
//! Twelve trials on freshly drawn shapes and contents, each run twice, a history of calls, the
//! compile once more; on a GPU then the two kernels side by side. What is told of a failure is one
//! word; the full verdict stays in the ledger.

use std::time::{Duration, Instant};

use pipeline::big_shape::Beyond;
use pipeline::defence::Defence;
use pipeline::inputs::{Distribution, MasterSeed};
use pipeline::promotion::{Coarse, Promotion};
use pipeline::report::{CaseReport, Report, Score, Stage};
use pipeline::task::spec::Case;
use pipeline::verdict::{Reason, Verdict};
use sandbox::{CancelFlag, ChildKind};

use crate::big::Big;
use crate::evaluate::Evaluation;
use crate::hidden::Group;
use crate::limits::{
    HIDDEN_BYTES_GPU, HIDDEN_BYTES_SIM, PROMOTE_RELATIONS, PROMOTE_SHAPES, REBUILD_WAIT,
    SIDE_BY_SIDE_TIE,
};
use crate::windows::Beside;
use crate::{Judge, JudgeError, Judgement};

impl Judge {
    /// Runs the promote stage. `evaluation.seed` is a secret of this promote alone. The report says
    /// how it ended; its verdict is never shown to who wrote the kernel.
    ///
    /// # Errors
    /// A broken reference, child or machine; never the candidate.
    pub fn promote(
        &self,
        evaluation: &Evaluation<'_>,
        incumbent: Option<&Evaluation<'_>>,
        cancel: &CancelFlag,
    ) -> Result<Judgement, JudgeError> {
        let started = Instant::now();
        let secret = MasterSeed(evaluation.seed.0).derive("promote");
        let mut found = Found::default();
        self.hidden_trials(evaluation, &secret, &mut found, cancel)?;
        if found.verdict.is_none() {
            // More than 2^31 elements take too long for every promote.
            found.take_big(self.big_case(evaluation, &[Beyond::Bytes], &secret, cancel)?);
        }
        if found.verdict.is_none() && !self.builds_again(evaluation, started, cancel)? {
            let detail = "compiling the same source again gave another program";
            found.verdict = Some(Verdict::failed(Reason::State, detail));
        }
        let promotion = match (&found.verdict, incumbent) {
            (Some(verdict), _) => Promotion::Failed(coarse(verdict)),
            (None, Some(incumbent)) => {
                let (promotion, verdict) = beside(self.time_beside(evaluation, incumbent, cancel)?);
                found.verdict = verdict;
                promotion
            }
            (None, None) => Promotion::Passed { ratio: None },
        };
        let mut report = self.promote_report(evaluation, &mut found);
        let verdict = found.verdict.unwrap_or_else(Verdict::correct);
        (report.promotion, report.ended) = (Some(promotion), Some(verdict.clone()));
        Ok(Judgement { verdict, report, repeatable: found.repeatable })
    }

    fn hidden_trials(
        &self,
        evaluation: &Evaluation<'_>,
        secret: &MasterSeed,
        found: &mut Found,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        let shapes = self.hidden_cases(evaluation, secret, PROMOTE_SHAPES, self.hidden_bytes());
        let mut cases: Vec<Case> = shapes.into_iter().map(|(case, _)| case).collect();
        if cases.len() < pipeline::limits::HIDDEN_SHAPES_MIN {
            let note = "the plan's domain leaves no shapes to draw: fixed-shape";
            found.notes.push(note.to_owned());
        }
        let spec = &evaluation.task.spec;
        let inside =
            |case: &&Case| self.is_looked_at(spec, case) && self.is_inside(evaluation, case);
        cases.extend(spec.cases.iter().filter(inside).cloned());
        let others = self.other_distributions(evaluation);
        for (index, case) in cases.iter().take(PROMOTE_SHAPES).enumerate() {
            let turn = index + usize::from(secret.0[0]);
            let mut chosen = chosen(self.search_pair(evaluation), &others, turn);
            // What is no number is forgiven too easily to be left to turns.
            if index % 2 == 0 && others.contains(&Distribution::D9) {
                chosen.push(Distribution::D9);
                chosen.dedup();
            }
            if !self.hidden_case(evaluation, case, &chosen, secret, found, cancel)? {
                return Ok(());
            }
        }
        for length in self.doubted_lengths(evaluation)? {
            let secret = secret.derive(&format!("length {length}"));
            if !found.take(self.length_group(evaluation, length, &secret, cancel)?) {
                return Ok(());
            }
        }
        let related = self.related_calls(evaluation, &cases, PROMOTE_RELATIONS, secret, cancel)?;
        if !found.take(related) {
            return Ok(());
        }
        match self.smallest(evaluation, &cases) {
            Some(case) => self.history(evaluation, case, secret, found, cancel),
            None => {
                found.verdict = Some(nothing_inside());
                Ok(())
            }
        }
    }

    /// One shape; false when the candidate failed there.
    fn hidden_case(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        distributions: &[Distribution],
        secret: &MasterSeed,
        found: &mut Found,
        cancel: &CancelFlag,
    ) -> Result<bool, JudgeError> {
        let facts = self.facts_of(evaluation)?;
        let plan = match self.plan_at(evaluation, facts, case) {
            Ok(plan) => plan,
            Err(verdict) => {
                found.verdict = Some(verdict);
                return Ok(false);
            }
        };
        let runs = self.case_runs(case, &plan, distributions, secret);
        Ok(found.take(self.run_group(evaluation, runs, cancel)?))
    }

    fn history(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        secret: &MasterSeed,
        found: &mut Found,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        match self.plan_at(evaluation, self.facts_of(evaluation)?, case) {
            Ok(plan) => {
                let runs = self.history_runs(case, &plan, secret);
                let mut group = self.run_group(evaluation, runs, cancel)?;
                group.verdict = as_state(&group);
                found.take(group);
            }
            Err(verdict) => found.verdict = Some(verdict),
        }
        Ok(())
    }

    /// The case with the fewest bytes: a history needs calls, not size.
    fn smallest<'c>(&self, evaluation: &Evaluation<'_>, cases: &'c [Case]) -> Option<&'c Case> {
        let spec = &evaluation.task.spec;
        cases.iter().min_by_key(|case| pipeline::hidden::tensor_bytes(spec, &case.dims))
    }

    /// True when the source compiles to the same program again, at least two seconds after it was
    /// first compiled: what depends on the time of day does not.
    pub(crate) fn builds_again(
        &self,
        evaluation: &Evaluation<'_>,
        started: Instant,
        cancel: &CancelFlag,
    ) -> Result<bool, JudgeError> {
        if !self.config.policy.has(Defence::H) {
            return Ok(true);
        }
        let wait = REBUILD_WAIT.saturating_sub(started.elapsed());
        if wait > Duration::ZERO {
            crate::on_card::wait_unless_cancelled(wait, cancel)?;
        }
        let candidate = evaluation.candidate;
        let names = candidate.plan.kernel_names();
        let again = self.compile(&candidate.source, evaluation.tunables, &names, cancel)?;
        let hash = |facts: &pipeline::build::BuildFacts| facts.ptx_hash.clone();
        let first = evaluation.build.facts.as_ref().map(hash);
        Ok(first.is_some() && again.facts.as_ref().map(hash) == first)
    }

    /// What the tensors of a hidden case may take here, in bytes.
    pub(crate) fn hidden_bytes(&self) -> u64 {
        match self.config.gpus {
            Some(_) => HIDDEN_BYTES_GPU,
            None => HIDDEN_BYTES_SIM,
        }
    }

    fn promote_report(&self, evaluation: &Evaluation<'_>, found: &mut Found) -> Report {
        let entries = evaluation.build.facts.as_ref().map(|facts| facts.entries.clone());
        Report {
            stage: Stage::Promote,
            device: self.config.device.model.clone(),
            kernels: entries.unwrap_or_default(),
            cases: std::mem::take(&mut found.cases),
            score: Score::None,
            notes: std::mem::take(&mut found.notes),
            gpu: None,
            promotion: None,
            ended: None,
            confinement: self.confinement_of(ChildKind::Candidate),
            held: self.held_in_judging(),
        }
    }
}

/// What hidden trials found so far.
struct Found {
    /// The first failure.
    verdict: Option<Verdict>,
    cases: Vec<CaseReport>,
    notes: Vec<String>,
    repeatable: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self { verdict: None, cases: Vec::new(), notes: Vec::new(), repeatable: true }
    }
}

impl Found {
    /// Adds a group; true when the candidate passed it.
    fn take(&mut self, group: Group) -> bool {
        self.cases.extend(group.cases);
        self.repeatable &= group.repeatable;
        self.notes.extend(group.unprobed.iter().map(|what| format!("not probed: {what}")));
        let note = "outputs differ from run to run, within the gates";
        if !group.deterministic && self.notes.iter().all(|known| known != note) {
            self.notes.push(note.to_owned());
        }
        if !group.verdict.is_correct() {
            self.verdict = Some(group.verdict);
            return false;
        }
        true
    }

    fn take_big(&mut self, big: Big) {
        match big {
            Big::Passed(case, _) => self.cases.push(*case),
            Big::Failed(cases, verdict) => {
                self.cases.extend(cases);
                self.verdict = Some(verdict);
            }
            Big::Hung(why) | Big::Left(why) => self.notes.push(format!("no big case: {why}")),
        }
    }
}

/// Nothing was run, so nothing was shown.
pub(crate) fn nothing_inside() -> Verdict {
    let detail = "no case that runs here lies inside the plan's domain, so nothing was shown";
    Verdict::failed(Reason::Shape, detail)
}

/// A later call that is wrong where the first was right leans on what the first one left.
pub(crate) fn as_state(group: &Group) -> Verdict {
    let first_passed =
        group.cases.first().is_some_and(|case| case.status == pipeline::report::CaseStatus::Passed);
    let verdict = &group.verdict;
    match verdict.reason {
        Some(Reason::Shape | Reason::Mismatch | Reason::Nonfinite | Reason::Nondet)
            if first_passed =>
        {
            Verdict::failed(Reason::State, format!("a later call: {}", verdict.detail))
        }
        _ => verdict.clone(),
    }
}

/// What the two kernels side by side on the headline shape say, with the verdict of a failure.
fn beside(found: Beside) -> (Promotion, Option<Verdict>) {
    match found {
        Beside::Ratio(ratio) if ratio > 1.0 + SIDE_BY_SIDE_TIE => {
            (Promotion::Passed { ratio: Some(ratio) }, None)
        }
        Beside::Ratio(ratio) => (Promotion::NotFaster { ratio }, None),
        Beside::Unknown => (Promotion::Passed { ratio: None }, None),
        Beside::Failed(verdict) => (Promotion::Failed(coarse(&verdict)), Some(verdict)),
        Beside::TooFast(why) => {
            let verdict = Verdict::failed(Reason::Mismatch, format!("at the headline: {why}"));
            (Promotion::Failed(Coarse::Physics), Some(verdict))
        }
    }
}

fn coarse(verdict: &Verdict) -> Coarse {
    verdict.reason.map_or(Coarse::HiddenShape, Coarse::of)
}

/// D2 or D4 at every shape, and one of the rest in turn.
fn chosen(pair: [Distribution; 2], others: &[Distribution], turn: usize) -> Vec<Distribution> {
    let rest: Vec<_> = others.iter().filter(|it| !pair.contains(it)).collect();
    let third = rest.get(turn % rest.len().max(1)).map(|it| **it);
    pair.into_iter().chain(third).collect()
}

#[cfg(test)]
mod tests {
    use pipeline::promotion::{Coarse, Promotion};
    use pipeline::verdict::{Reason, Verdict};

    use super::beside;
    use crate::windows::Beside;

    #[test]
    fn wrong_outputs_and_impossible_times_beside_the_incumbent_fail() {
        let wrong = || Verdict::failed(Reason::Mismatch, "off");
        for (found, promotion, reason) in [
            (Beside::Ratio(1.5), Promotion::Passed { ratio: Some(1.5) }, None),
            (Beside::Ratio(1.005), Promotion::NotFaster { ratio: 1.005 }, None),
            (Beside::Unknown, Promotion::Passed { ratio: None }, None),
            (
                Beside::Failed(wrong()),
                Promotion::Failed(Coarse::HiddenShape),
                Some(Reason::Mismatch),
            ),
            (
                Beside::TooFast("1 ns".to_owned()),
                Promotion::Failed(Coarse::Physics),
                Some(Reason::Mismatch),
            ),
        ] {
            let (ended, verdict) = beside(found);
            assert_eq!((ended, verdict.and_then(|it| it.reason)), (promotion, reason));
        }
    }
}
