//! The cases that run in full: prepared here, run in the candidate's child, compared in another.

use std::sync::Arc;

use pipeline::build::BuildFacts;
use pipeline::check::OutputCheck;
use pipeline::hardware::HardwareSheet;
use pipeline::inputs::{Distribution, Poison};
use pipeline::launch::ResolvedPlan;
use pipeline::report::PartCost;
use pipeline::task::Task;
use pipeline::task::spec::{Case, Compare, extents};
use pipeline::verdict::{Reason, Verdict};
use sandbox::wire::{
    InputTensor, OutputTensor, RunCase, RunEnd, RunReport, RunRequest, Slice, VerifyItem,
    VerifyReport, VerifyRequest,
};
use sandbox::{CancelFlag, ChildKind, Memfd};

use crate::cases::{CaseData, Tensors, is_weight, output_sizes};
use crate::children::{ChildEnd, broken_here};
use crate::evaluate::Evaluation;
use crate::headline::Headline;
use crate::limits::{CANDIDATE_LIMITS, CANDIDATE_TRIES_MAX, VERIFY_LIMITS};
use crate::on_card::CardRun;
use crate::reference::{EMPTY, Whose, image_memfds};
use crate::{Judge, JudgeError};

/// One case under one distribution, ready to run.
pub(crate) struct Trial<'a> {
    pub(crate) case: &'a Case,
    pub(crate) distribution: Distribution,
    plan: ResolvedPlan,
    poison: Poison,
    data: Arc<CaseData>,
    pub(crate) outputs: Tensors,
}

/// What the candidate's child came to.
pub(crate) struct Ran {
    /// The report, or a verdict with whether it would be the same again.
    pub(crate) report: Result<RunReport, (Verdict, bool)>,
    /// The card that it ran on.
    pub(crate) gpu: Option<HardwareSheet>,
    /// What became of the card.
    pub(crate) note: Option<String>,
    /// False when the card failed afterwards: then nothing may be remembered.
    pub(crate) repeatable: bool,
    pub(crate) cost: Vec<PartCost>,
}

/// What the comparing child found: checks and hashes, one for each item.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) checks: Vec<OutputCheck>,
    pub(crate) hashes: Vec<Option<[u64; 2]>>,
}

impl Checks {
    /// Takes off what is about the window; the trials' part stays.
    pub(crate) fn split_off_window(&mut self, trials: &[Trial<'_>], run: &RunReport) -> Self {
        let pairs = trials.iter().zip(&run.runs);
        let completed = pairs.filter(|(_, result)| result.end == RunEnd::Completed);
        let of_trials: usize = completed.map(|(trial, _)| trial.outputs.places.len()).sum();
        let at = of_trials.min(self.checks.len());
        Self {
            checks: self.checks.split_off(at),
            hashes: self.hashes.split_off(at.min(self.hashes.len())),
        }
    }
}

impl Judge {
    pub(crate) fn prepare_trials<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        plans: Vec<(&'a Case, ResolvedPlan)>,
        cancel: &CancelFlag,
    ) -> Result<Vec<Trial<'a>>, JudgeError> {
        let task = evaluation.task;
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let mut trials = Vec::new();
        for (case, plan) in plans {
            let master = evaluation.seed.master(&case.name, evaluation.index);
            for (i, distribution) in
                Distribution::search_pair(&task.spec.family).into_iter().enumerate()
            {
                // The two runs of a case find different garbage in their outputs, and run their
                // warps and blocks in opposite orders.
                let value_seed = evaluation.index.wrapping_mul(2).wrapping_add(1);
                let poison = if i == 0 { Poison::Ones } else { Poison::Values(value_seed) };
                let sizes = output_sizes(&task.spec, &case.dims).map_err(broken)?;
                trials.push(Trial {
                    case,
                    distribution,
                    plan: plan.clone(),
                    poison,
                    data: self.case_data(task, &case.dims, distribution, &master, cancel)?,
                    outputs: Tensors::room("outputs", sizes.into_iter())?,
                });
            }
        }
        Ok(trials)
    }

    /// Runs all trials, and what the headline asks for, in one child; an end without a report is a
    /// verdict. A card that fails afterwards is parked, and one that failed before is replaced.
    pub(crate) fn run_candidate(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        trials: &[Trial<'_>],
        headline: &Headline<'_>,
        cancel: &CancelFlag,
    ) -> Result<Ran, JudgeError> {
        let image = image_memfds(evaluation.build)?;
        let mut bulk: Vec<&Memfd> = image.iter().collect();
        for trial in trials {
            bulk.extend([&trial.data.inputs.memfd, &trial.outputs.memfd]);
        }
        let request = self.run_request(evaluation, facts, trials, headline, bulk.len() as u32);
        bulk.extend(headline.bulk());
        let run = CardRun {
            kind: ChildKind::Candidate,
            whose: Whose::Candidate,
            bulk: &bulk,
            limits: &CANDIDATE_LIMITS,
            killed_tries_max: CANDIDATE_TRIES_MAX,
        };
        let ran = self.run_on_card(&run, request, cancel)?;
        for trial in trials {
            trial.outputs.memfd.seal_write()?;
        }
        headline.seal()?;
        let note = "the GPU failed its health probe afterwards and is out of service";
        Ok(Ran {
            report: report_or_verdict(ran.end),
            gpu: ran.sheet,
            note: (!ran.healthy).then(|| note.to_owned()),
            repeatable: ran.healthy,
            cost: ran.cost,
        })
    }

    fn run_request(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        trials: &[Trial<'_>],
        headline: &Headline<'_>,
        headline_bulk: u32,
    ) -> RunRequest {
        let build = evaluation.build;
        let in_place = &evaluation.candidate.plan.in_place;
        let numbered = trials.iter().enumerate();
        RunRequest {
            device: self.device_choice(None, Whose::Candidate),
            ptx: Slice { bulk: 0, offset: 0, bytes: build.ptx.len() as u64 },
            cubin: Slice { bulk: 1, offset: 0, bytes: build.cubin.len() as u64 },
            lowered_names: facts.lowered_names.clone(),
            entries: facts.entries.clone(),
            runs: numbered
                .map(|(i, trial)| run_case(evaluation.task, in_place, trial, 2 + 2 * i as u32))
                .collect(),
            sample: headline.sample(),
            window: headline.window_request(evaluation, headline_bulk),
            detailed: false,
        }
    }

    /// Compares the outputs of every completed run and of the window in a child of its own.
    pub(crate) fn verify(
        &self,
        evaluation: &Evaluation<'_>,
        trials: &[Trial<'_>],
        headline: &Headline<'_>,
        run: &RunReport,
        cancel: &CancelFlag,
    ) -> Result<Checks, JudgeError> {
        let mut bulk: Vec<&Memfd> = Vec::new();
        let mut items = Vec::new();
        for (trial, result) in trials.iter().zip(&run.runs) {
            if result.end == RunEnd::Completed {
                let first = bulk.len() as u32;
                bulk.extend([&trial.outputs.memfd, &trial.data.expected.memfd]);
                let compared = Compared {
                    case: trial.case,
                    outputs: &trial.outputs,
                    expected: &trial.data.expected,
                    poison: trial.poison,
                };
                items.extend(verify_items(evaluation, &compared, first)?);
            }
        }
        if let (Headline::Timed(timed), Some(window)) = (headline, &run.window) {
            let first = bulk.len() as u32;
            bulk.extend(timed.compared_bulk());
            items.extend(timed.verify_items(evaluation, window, first)?);
        }
        if items.is_empty() {
            return Ok(Checks::default());
        }
        let (child, count) = ("verify", items.len());
        let request = VerifyRequest { items };
        match self.call(ChildKind::Verify, &request, &bulk, &VERIFY_LIMITS, None, cancel)? {
            ChildEnd::Reported(VerifyReport { checks, hashes })
                if checks.len() == count && hashes.len() == count =>
            {
                Ok(Checks { checks, hashes })
            }
            ChildEnd::Reported(_) => {
                Err(JudgeError::Child { child, why: "it left out checks".to_owned() })
            }
            ChildEnd::TimedOut => Err(JudgeError::Child { child, why: "timed out".to_owned() }),
            ChildEnd::Crashed(why) | ChildEnd::Killed(why) | ChildEnd::Broken(why) => {
                Err(JudgeError::Child { child, why })
            }
        }
    }
}

fn report_or_verdict(end: ChildEnd<RunReport>) -> Result<RunReport, (Verdict, bool)> {
    match end {
        ChildEnd::Reported(report) => Ok(report),
        ChildEnd::TimedOut => {
            let seconds = CANDIDATE_LIMITS.deadline.as_secs();
            let detail = format!("its cases and the timing did not end within {seconds} s");
            Err((Verdict::failed(Reason::Timeout, detail), false))
        }
        ChildEnd::Broken(why) => Err((broken_here(&why), false)),
        ChildEnd::Killed(why) => {
            let often = format!("{why}, {CANDIDATE_TRIES_MAX} times in a row; is memory short?");
            Err((broken_here(&often), false))
        }
        ChildEnd::Crashed(why) => {
            let detail = format!("its process died: {why}");
            Err((Verdict::failed(Reason::Crash, detail), false))
        }
    }
}

fn run_case(task: &Task, in_place: &[String], trial: &Trial<'_>, first_bulk: u32) -> RunCase {
    let input = |input: &pipeline::task::spec::Input| InputTensor {
        name: input.name.clone(),
        data: trial.data.inputs.slice(first_bulk, &input.name).unwrap_or(EMPTY),
        writable: in_place.contains(&input.name),
        weight: is_weight(input),
    };
    let output = |output: &pipeline::task::spec::Output| OutputTensor {
        name: output.name.clone(),
        dtype: output.dtype,
        data: trial.outputs.slice(first_bulk + 1, &output.name).unwrap_or(EMPTY),
        initial: None,
    };
    RunCase {
        plan: trial.plan.clone(),
        inputs: task.spec.inputs.iter().map(input).collect(),
        outputs: task.spec.outputs.iter().map(output).collect(),
        poison: trial.poison,
        reversed: trial.poison != Poison::Ones,
    }
}

/// Outputs to compare with what is expected at a case.
pub(crate) struct Compared<'a> {
    pub(crate) case: &'a Case,
    /// Its memfd has the given index in the request, that of `expected` the next one.
    pub(crate) outputs: &'a Tensors,
    pub(crate) expected: &'a Tensors,
    pub(crate) poison: Poison,
}

pub(crate) fn verify_items(
    evaluation: &Evaluation<'_>,
    compared: &Compared<'_>,
    first_bulk: u32,
) -> Result<Vec<VerifyItem>, JudgeError> {
    let spec = &evaluation.task.spec;
    let precision = evaluation.candidate.plan.precision;
    let broken = |error: pipeline::task::spec::SpecError| JudgeError::Reference {
        task: spec.name.clone(),
        why: error.to_string(),
    };
    let item = |output: &pipeline::task::spec::Output| {
        let expected = compared.expected;
        let bound = expected.slice(first_bulk + 1, &format!("{}_bound", output.name));
        Ok(VerifyItem {
            name: output.name.clone(),
            dtype: output.dtype,
            compare: output.compare,
            extents: extents(&output.shape, &compared.case.dims).map_err(broken)?,
            got: compared.outputs.slice(first_bulk, &output.name).unwrap_or(EMPTY),
            reference: expected
                .slice(first_bulk + 1, &format!("{}_ref", output.name))
                .unwrap_or(EMPTY),
            bound: bound.filter(|_| output.compare == Compare::Bound),
            accumulation_unit: spec.accumulation_unit(precision),
            norm_limit: spec.norm_limit(precision),
            flush_denormals: spec.flush_denormals,
            poison: compared.poison,
            hash_key: None,
        })
    };
    spec.outputs.iter().map(item).collect()
}
