//! The cases that run in full: prepared here, run in the candidate's child, compared in another.

use std::collections::BTreeSet;
use std::sync::Arc;

use pipeline::build::BuildFacts;
use pipeline::defence::Defence;
use pipeline::hardware::HardwareSheet;
use pipeline::inputs::{Distribution, MasterSeed, Poison};
use pipeline::launch::ResolvedPlan;
use pipeline::report::PartCost;
use pipeline::task::spec::{Case, Input, Output, TaskSpec};
use pipeline::verdict::{Reason, Verdict};
use sandbox::wire::{InputTensor, OutputTensor, RunCase, RunReport, RunRequest, Slice};
use sandbox::{CancelFlag, ChildKind, TimeLimit};

use crate::cases::{CaseData, Tensors, is_weight, output_sizes};
use crate::children::{ChildEnd, broken_here};
use crate::compared::Bulk;
use crate::evaluate::Evaluation;
use crate::headline::Headline;
use crate::limits::{CANDIDATE_LIMITS, CANDIDATE_TRIES_MAX, SLACK_BYTES};
use crate::on_card::{CardRun, busy};
use crate::reference::{EMPTY, Whose, image_memfds};
use crate::{Judge, JudgeError};

/// One run that is wanted.
pub(crate) struct TrialSpec<'a> {
    pub(crate) case: &'a Case,
    pub(crate) plan: ResolvedPlan,
    pub(crate) distribution: Distribution,
    pub(crate) master: MasterSeed,
    /// The values also choose the order of blocks and the place in memory.
    pub(crate) poison: Poison,
    /// Another call on the device of the run before.
    pub(crate) continues: bool,
    /// The index of a run on the same inputs, which must give the same.
    pub(crate) twin_of: Option<usize>,
}

/// One case under one distribution, ready to run.
pub(crate) struct Trial<'a> {
    pub(crate) case: &'a Case,
    pub(crate) distribution: Distribution,
    plan: ResolvedPlan,
    pub(crate) poison: Poison,
    continues: bool,
    pub(crate) twin_of: Option<usize>,
    pub(crate) data: Arc<CaseData>,
    /// What the outputs hold at first instead of poison; only with defences off.
    initial: Option<Tensors>,
    pub(crate) outputs: Tensors,
    /// True for the first of a list.
    pub(crate) is_first: bool,
}

impl<'a> Trial<'a> {
    /// A run on inputs that were made elsewhere.
    pub(crate) fn on(
        case: &'a Case,
        distribution: Distribution,
        plan: ResolvedPlan,
        data: Arc<CaseData>,
        outputs: Tensors,
    ) -> Self {
        Self {
            case,
            distribution,
            plan,
            poison: Poison::Ones,
            continues: false,
            twin_of: None,
            data,
            initial: None,
            outputs,
            is_first: false,
        }
    }

    /// True for a call that other calls came before.
    pub(crate) fn is_later_call(&self) -> bool {
        self.continues
    }
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

impl Judge {
    /// Both distributions of the search stage at each case. The two runs of a case find different
    /// garbage in their outputs, and run their warps and blocks in opposite orders.
    pub(crate) fn search_trials<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        plans: Vec<(&'a Case, ResolvedPlan)>,
    ) -> Vec<TrialSpec<'a>> {
        let mut specs = Vec::new();
        let trusted = |case: &Case| self.is_looked_at(&evaluation.task.spec, case);
        for (case, plan) in plans.into_iter().filter(|(case, _)| trusted(case)) {
            let master = evaluation.seed.master(&case.name, evaluation.index);
            let [first, second] = self.search_pair(evaluation);
            let garbage = Poison::Values(evaluation.index.wrapping_mul(2).wrapping_add(1));
            for (distribution, poison) in [(first, Poison::Ones), (second, garbage)] {
                let (plan, continues, twin_of) = (plan.clone(), false, None);
                let spec =
                    TrialSpec { case, plan, distribution, master, poison, continues, twin_of };
                specs.push(spec);
            }
        }
        specs
    }

    /// True for public cases that a judge with its defences runs: all of those that run here, or
    /// only the largest of them.
    pub(crate) fn is_looked_at(&self, spec: &TaskSpec, case: &Case) -> bool {
        let size = |case: &&Case| pipeline::hidden::tensor_bytes(spec, &case.dims);
        let here = spec.cases.iter().filter(|case| self.runs_here(case));
        let largest = || here.max_by_key(size).is_some_and(|largest| largest.name == case.name);
        self.runs_here(case) && (self.config.policy.has(Defence::F) || largest())
    }

    /// The two distributions of the search stage.
    pub(crate) fn search_pair(&self, evaluation: &Evaluation<'_>) -> [Distribution; 2] {
        if !self.config.policy.has(Defence::F) {
            return [Distribution::Uniform; 2];
        }
        Distribution::search_pair(&evaluation.task.spec.family)
    }

    /// Draws inputs and computes what is expected.
    pub(crate) fn prepare_trials<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        specs: Vec<TrialSpec<'a>>,
        cancel: &CancelFlag,
    ) -> Result<Vec<Trial<'a>>, JudgeError> {
        let task = evaluation.task;
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let mut contents = BTreeSet::new();
        let runs = specs.iter().map(|spec| {
            let content = (&spec.case.dims, spec.distribution, spec.master.digest());
            (spec.case, contents.insert(content))
        });
        self.check_room(task, runs, cancel)?;
        let contents = specs.iter().map(|spec| (spec.case, spec.distribution, &spec.master));
        self.make_cases(task, contents, cancel)?;
        let mut trials: Vec<Trial<'a>> = Vec::new();
        for spec in specs {
            let TrialSpec { case, plan, distribution, poison, continues, twin_of, .. } = spec;
            let sizes = output_sizes(&task.spec, &case.dims).map_err(broken)?;
            let data = self.case_data(task, &case.dims, distribution, &spec.master, cancel)?;
            let before = trials.last().filter(|_| continues).map(|trial| &trial.data);
            // Without new contents, every call finds those of the first one.
            let data = match before {
                Some(before) if !self.config.policy.has(Defence::B) => Arc::clone(before),
                Some(_) | None => data,
            };
            let initial = match continues {
                true => None,
                false => self.initial_outputs(evaluation, case, &data, &spec.master, cancel)?,
            };
            let outputs = Tensors::room("outputs", sizes.into_iter())?;
            let is_first = trials.is_empty();
            trials.push(Trial {
                case,
                distribution,
                plan,
                poison,
                continues,
                twin_of,
                data,
                initial,
                outputs,
                is_first,
            });
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
        let mut bulk = Bulk(image.iter().collect());
        let request = self.run_request(evaluation, facts, trials, headline, &mut bulk);
        let Bulk(mut bulk) = bulk;
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
            report: report_or_verdict(ran.end, self.config.gpus.is_none()),
            gpu: ran.sheet,
            note: (!ran.healthy).then(|| note.to_owned()),
            repeatable: ran.healthy,
            cost: ran.cost,
        })
    }

    pub(crate) fn run_request<'a>(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        trials: &'a [Trial<'_>],
        headline: &Headline<'_>,
        bulk: &mut Bulk<'a>,
    ) -> RunRequest {
        let build = evaluation.build;
        let runs = trials.iter().map(|trial| self.run_case(evaluation, trial, bulk)).collect();
        RunRequest {
            device: self.device_choice(None, Whose::Candidate),
            ptx: Slice { bulk: 0, offset: 0, bytes: build.ptx.len() as u64 },
            cubin: Slice { bulk: 1, offset: 0, bytes: build.cubin.len() as u64 },
            lowered_names: facts.lowered_names.clone(),
            entries: facts.entries.clone(),
            runs,
            sample: headline.sample(),
            window: headline.window_request(evaluation, bulk.0.len() as u32),
            tiles: None,
            detailed: false,
        }
    }

    fn run_case<'a>(
        &self,
        evaluation: &Evaluation<'_>,
        trial: &'a Trial<'_>,
        bulk: &mut Bulk<'a>,
    ) -> RunCase {
        let policy = self.config.policy;
        let guarded = policy.has(Defence::D);
        let in_place = &evaluation.candidate.plan.in_place;
        let inputs_at = bulk.index(&trial.data.inputs.memfd);
        let input = |input: &Input| InputTensor {
            name: input.name.clone(),
            data: trial.data.inputs.slice(inputs_at, &input.name).unwrap_or(EMPTY),
            writable: in_place.contains(&input.name) || !guarded,
            weight: is_weight(input),
        };
        let outputs_at = bulk.index(&trial.outputs.memfd);
        let initial = trial.initial.as_ref().map(|tensors| (tensors, bulk.index(&tensors.memfd)));
        let output = |output: &Output| OutputTensor {
            name: output.name.clone(),
            dtype: output.dtype,
            data: trial.outputs.slice(outputs_at, &output.name).unwrap_or(EMPTY),
            initial: initial.and_then(|(tensors, at)| tensors.slice(at, &output.name)),
        };
        let spec = &evaluation.task.spec;
        RunCase {
            plan: trial.plan.clone(),
            inputs: spec.inputs.iter().map(input).collect(),
            outputs: spec.outputs.iter().map(output).collect(),
            poison: if policy.has(Defence::A) { trial.poison } else { Poison::Zeros },
            reversed: trial.poison != Poison::Ones,
            continues: trial.continues,
            refills: policy.has(Defence::A),
            slack_bytes: if guarded { 0 } else { SLACK_BYTES },
        }
    }

    /// What outputs hold before the first call when nothing overwrites them: where expected values
    /// are within reach too, those of the call before; else zeros.
    pub(crate) fn initial_outputs(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        data: &Arc<CaseData>,
        master: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Option<Tensors>, JudgeError> {
        let policy = self.config.policy;
        if policy.has(Defence::A) {
            return Ok(None);
        }
        let task = evaluation.task;
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let sizes = output_sizes(&task.spec, &case.dims).map_err(broken)?;
        let mut tensors = Tensors::room("initial", sizes.into_iter())?;
        if !policy.has(Defence::D) {
            let before = match policy.has(Defence::B) {
                true => {
                    let master = master.derive("the call before");
                    self.case_data(task, &case.dims, Distribution::D1, &master, cancel)?
                }
                false => Arc::clone(data),
            };
            for output in &task.spec.outputs {
                let (offset, _) = tensors.places[&output.name];
                let values = narrowed(output, &before.expected)?;
                tensors.memfd.fill(offset as usize, &values)?;
            }
        }
        tensors.memfd.seal_write()?;
        Ok(Some(tensors))
    }
}

/// Expected values of an output in its own type.
fn narrowed(output: &Output, expected: &Tensors) -> Result<Vec<u8>, JudgeError> {
    let map = expected.memfd.map()?;
    let place = expected.places.get(&format!("{}_ref", output.name));
    let (offset, bytes) = place.copied().unwrap_or((0, 0));
    Ok(crate::admission::narrowed(output.dtype, &map[offset as usize..(offset + bytes) as usize]))
}

/// On the simulator no clock says that a kernel hangs: that is shown by what it executes, in
/// [`RunEnd::Hang`](sandbox::wire::RunEnd).
fn report_or_verdict(
    end: ChildEnd<RunReport>,
    simulated: bool,
) -> Result<RunReport, (Verdict, bool)> {
    match end {
        ChildEnd::Reported(report) => Ok(report),
        ChildEnd::TimedOut(TimeLimit::Processor) if simulated => {
            let detail = format!(
                "too slow for the simulator: its cases took more than {} s of processor time",
                CANDIDATE_LIMITS.cpu_s
            );
            Err((Verdict::failed(Reason::Unsupported, detail), false))
        }
        ChildEnd::TimedOut(TimeLimit::Wall) if simulated => {
            Err((broken_here(&busy(&CANDIDATE_LIMITS)), false))
        }
        ChildEnd::TimedOut(_) => {
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

#[cfg(test)]
mod tests {
    use pipeline::verdict::Kind;

    use super::*;

    #[test]
    fn only_on_a_card_does_the_clock_say_that_a_kernel_hangs() {
        for (limit, simulated, kind, words) in [
            (TimeLimit::Wall, false, Kind::Hung, "did not end within 60 s"),
            (TimeLimit::Processor, false, Kind::Hung, "did not end within 60 s"),
            (TimeLimit::Wall, true, Kind::Unsimulatable, "this machine was busy: in 240 s"),
            (TimeLimit::Processor, true, Kind::Unsimulatable, "too slow for the simulator"),
        ] {
            let ended = report_or_verdict(ChildEnd::TimedOut(limit), simulated);
            let (verdict, repeatable) = ended.unwrap_err();
            assert_eq!(verdict.kind, kind, "{limit:?} {simulated}: {verdict}");
            assert!(verdict.detail.contains(words), "{}", verdict.detail);
            // What depends on the clock is remembered of nobody.
            assert!(!repeatable, "{limit:?} {simulated}");
        }
    }
}
