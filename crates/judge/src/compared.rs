//! Has outputs compared with what is expected, in a child where the candidate never was.

use pipeline::check::OutputCheck;
use pipeline::defence::Defence;
use pipeline::inputs::{Distribution, Poison};
use pipeline::plan::Plan;
use pipeline::plan::form::Algorithm;
use pipeline::task::spec::{Case, Compare, Precision, extents};
use sandbox::wire::{Leniency, RunEnd, RunReport, Spread, VerifyItem, VerifyReport, VerifyRequest};
use sandbox::{CancelFlag, ChildKind, Memfd};

use crate::cases::Tensors;
use crate::children::ChildEnd;
use crate::evaluate::Evaluation;
use crate::headline::Headline;
use crate::limits::VERIFY_LIMITS;
use crate::reference::EMPTY;
use crate::trials::Trial;
use crate::{Judge, JudgeError};

/// What the comparing child found, one of each kind for each item.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) checks: Vec<OutputCheck>,
    pub(crate) hashes: Vec<Option<[u64; 2]>>,
    pub(crate) spreads: Vec<Option<Spread>>,
}

impl Checks {
    /// Adds those of items that follow.
    pub(crate) fn append(&mut self, mut next: Self) {
        self.checks.append(&mut next.checks);
        self.hashes.append(&mut next.hashes);
        self.spreads.append(&mut next.spreads);
    }

    /// Takes the first `count` items off.
    pub(crate) fn take(&mut self, count: usize) -> Self {
        fn first<T>(all: &mut Vec<T>, count: usize) -> Vec<T> {
            all.drain(..count.min(all.len())).collect()
        }
        Self {
            checks: first(&mut self.checks, count),
            hashes: first(&mut self.hashes, count),
            spreads: first(&mut self.spreads, count),
        }
    }

    /// Takes off what is about the window; the trials' part stays.
    pub(crate) fn split_off_window(&mut self, trials: &[Trial<'_>], run: &RunReport) -> Self {
        let pairs = trials.iter().zip(&run.runs);
        let completed = pairs.filter(|(_, result)| result.end == RunEnd::Completed);
        let of_trials: usize = completed.map(|(trial, _)| trial.outputs.places.len()).sum();
        let at = of_trials.min(self.checks.len());
        Self {
            checks: self.checks.split_off(at),
            hashes: self.hashes.split_off(at.min(self.hashes.len())),
            spreads: self.spreads.split_off(at.min(self.spreads.len())),
        }
    }
}

/// The memfds of a request, each once.
#[derive(Default)]
pub(crate) struct Bulk<'a>(pub(crate) Vec<&'a Memfd>);

impl<'a> Bulk<'a> {
    /// The index of a memfd, which is added if it is not there.
    pub(crate) fn index(&mut self, memfd: &'a Memfd) -> u32 {
        let found = self.0.iter().position(|known| std::ptr::eq(*known, memfd));
        found.unwrap_or_else(|| {
            self.0.push(memfd);
            self.0.len() - 1
        }) as u32
    }
}

impl Judge {
    /// Compares the outputs of every completed run and of the window in a child of its own.
    pub(crate) fn verify(
        &self,
        evaluation: &Evaluation<'_>,
        trials: &[Trial<'_>],
        headline: &Headline<'_>,
        run: &RunReport,
        cancel: &CancelFlag,
    ) -> Result<Checks, JudgeError> {
        let mut bulk = Bulk::default();
        let mut items = Vec::new();
        for (trial, result) in trials.iter().zip(&run.runs) {
            if result.end == RunEnd::Completed {
                let mut of_trial = self.trial_items(evaluation, trial, &mut bulk)?;
                let twin = trial.twin_of.filter(|_| self.config.policy.has(Defence::C));
                if let Some(twin) = twin.and_then(|index| trials.get(index)) {
                    let at = bulk.index(&twin.outputs.memfd);
                    for item in &mut of_trial {
                        item.twin = twin.outputs.slice(at, &item.name);
                    }
                }
                items.extend(of_trial);
            }
        }
        let mut of_window = Checks::default();
        if let (Headline::Timed(timed), Some(window)) = (headline, &run.window) {
            let declared = Declared::of(&evaluation.candidate.plan);
            if timed.is_in_tiles() {
                of_window = self.window_in_tiles(evaluation, timed, window, declared, cancel)?;
            } else {
                let first = bulk.0.len() as u32;
                bulk.0.extend(timed.compared_bulk());
                items.extend(timed.verify_items(evaluation, window, first, declared)?);
            }
        }
        if items.is_empty() {
            return Ok(of_window);
        }
        let mut checks = self.verified(items, &bulk.0, cancel)?;
        checks.append(of_window);
        Ok(checks)
    }

    fn trial_items<'a>(
        &self,
        evaluation: &Evaluation<'_>,
        trial: &'a Trial<'_>,
        bulk: &mut Bulk<'a>,
    ) -> Result<Vec<VerifyItem>, JudgeError> {
        // Without its own check, a run is believed to be as right as the first one.
        let unverified = !self.config.policy.has(Defence::C) && !trial.is_first;
        let expected = bulk.index(&trial.data.expected.memfd);
        let compared = Compared {
            case: trial.case,
            distribution: trial.distribution,
            outputs: (&trial.outputs, bulk.index(&trial.outputs.memfd)),
            expected: (&trial.data.expected, expected),
            poison: trial.poison,
            declared: Declared::of(&evaluation.candidate.plan),
        };
        let mut items = verify_items(evaluation, &compared)?;
        for (index, item) in items.iter_mut().enumerate() {
            if !self.config.policy.has(Defence::F) {
                item.leniency = Leniency::Tolerance;
            }
            // A careless harness compares the main output.
            if unverified || index > 0 && item.leniency == Leniency::Tolerance {
                item.leniency = Leniency::Everything;
            }
        }
        Ok(items)
    }

    pub(crate) fn verified(
        &self,
        items: Vec<VerifyItem>,
        bulk: &[&Memfd],
        cancel: &CancelFlag,
    ) -> Result<Checks, JudgeError> {
        let (child, count) = ("verify", items.len());
        let request = VerifyRequest { items };
        match self.call(ChildKind::Verify, &request, bulk, &VERIFY_LIMITS, None, cancel)? {
            ChildEnd::Reported(VerifyReport { checks, hashes, spreads })
                if [checks.len(), hashes.len(), spreads.len()] == [count; 3] =>
            {
                Ok(Checks { checks, hashes, spreads })
            }
            ChildEnd::Reported(_) => {
                Err(JudgeError::Child { child, why: "it left out checks".to_owned() })
            }
            ChildEnd::TimedOut(_) => Err(JudgeError::Child { child, why: "timed out".to_owned() }),
            ChildEnd::Crashed(why) | ChildEnd::Killed(why) | ChildEnd::Broken(why) => {
                Err(JudgeError::Child { child, why })
            }
        }
    }
}

/// Outputs to compare with what is expected at a case; tensors with the index of their memfd.
pub(crate) struct Compared<'a> {
    pub(crate) case: &'a Case,
    pub(crate) distribution: Distribution,
    pub(crate) outputs: (&'a Tensors, u32),
    pub(crate) expected: (&'a Tensors, u32),
    pub(crate) poison: Poison,
    pub(crate) declared: Declared,
}

/// What is declared of a kernel's errors: whose limits hold.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    pub(crate) class: Precision,
    pub(crate) algorithm: Algorithm,
}

impl Declared {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { class: plan.precision, algorithm: plan.algorithm }
    }

    /// Of a kernel that computes what the operator says, one term after the other.
    pub(crate) fn direct(class: Precision) -> Self {
        Self { class, algorithm: Algorithm::Direct }
    }
}

pub(crate) fn verify_items(
    evaluation: &Evaluation<'_>,
    compared: &Compared<'_>,
) -> Result<Vec<VerifyItem>, JudgeError> {
    let spec = &evaluation.task.spec;
    let Declared { class, algorithm } = compared.declared;
    let broken = |error: pipeline::task::spec::SpecError| JudgeError::Reference {
        task: spec.name.clone(),
        why: error.to_string(),
    };
    let expected = |name: String| compared.expected.0.slice(compared.expected.1, &name);
    let item = |output: &pipeline::task::spec::Output| {
        let bound = expected(format!("{}_bound", output.name));
        let (outputs, bulk) = compared.outputs;
        Ok(VerifyItem {
            name: output.name.clone(),
            dtype: output.dtype,
            compare: output.compare,
            extents: extents(&output.shape, &compared.case.dims).map_err(broken)?,
            got: outputs.slice(bulk, &output.name).unwrap_or(EMPTY),
            reference: expected(format!("{}_ref", output.name)).unwrap_or(EMPTY),
            bound: bound.filter(|_| output.compare == Compare::Bound),
            accumulation_unit: spec.accumulation_unit(class),
            shared_bound: algorithm.shared_bound(),
            norm_limit: algorithm.norm_limit(spec.norm_limit(class)),
            norm_gate: compared.distribution.norm_gate(),
            flush_denormals: spec.flush_denormals,
            poison: compared.poison,
            leniency: Leniency::None,
            hash_key: None,
            twin: None,
        })
    };
    spec.outputs.iter().map(item).collect()
}
