//! The headline on a GPU: a window of timed samples, each on verified outputs.
//!
//! Content 0 is drawn from D1 and timed; content 1 comes from the family's other distribution and
//! is mixed in, so that no call can lean on the one before it. A sample counts when its outputs, or
//! outputs with the same keyed hash, were copied out and passed the comparison.

use std::borrow::Cow;
use std::sync::Arc;

use pipeline::check::OutputCheck;
use pipeline::defence::Defence;
use pipeline::hardware::HardwareSheet;
use pipeline::inputs::{Distribution, Poison};
use pipeline::launch::ResolvedPlan;
use pipeline::memory::Fitted;
use pipeline::report::{CaseReport, CaseStatus, Measured, Score};
use pipeline::task::Task;
use pipeline::task::spec::{Case, Input, Output};
use pipeline::timing::{Window, combined_hash, output_key, summary};
use sandbox::Memfd;
use sandbox::wire::{
    InputTensor, OutputTensor, RunEnd, Slice, SlotContent, VerifyItem, WindowRequest, WindowResult,
    WindowSubject,
};

use super::slots::{CheckedSlot, Ranked, disturbance, remarks, unverified};
use super::{Concluded, careless};
use crate::baseline::timed::Ground;
use crate::cases::{CaseData, Tensors, is_weight};
use crate::compared::{Checks, Compared, Declared, verify_items};
use crate::decide::run_failure;
use crate::evaluate::Evaluation;
use crate::limits::{CONTENTS, SLACK_BYTES};
use crate::reference::EMPTY;
use crate::{JudgeError, JudgePolicy};

/// Each with the distribution that it was drawn from; the first one is timed.
pub(super) type Contents = [(Distribution, Arc<CaseData>); CONTENTS];

/// The headline case, ready to be timed.
pub(crate) struct TimedHeadline<'a> {
    /// Smaller than the task's where memory is short.
    pub(super) case: Cow<'a, Case>,
    pub(super) plan: ResolvedPlan,
    pub(super) contents: Contents,
    /// Room for slots of outputs, one after the other; places are those in the first one.
    pub(super) outputs: Arc<Tensors>,
    pub(super) slots: u32,
    pub(super) slot_bytes: u64,
    pub(super) window: Window,
    pub(super) fitted: Fitted,
    pub(super) harness: Arc<Memfd>,
    pub(super) policy: JudgePolicy,
    /// What outputs hold at first instead of poison; only with defences off.
    pub(super) initial: Option<Tensors>,
}

impl TimedHeadline<'_> {
    /// Harness, inputs of each content, outputs, and what those hold at first.
    pub(super) fn bulk(&self) -> Vec<&Memfd> {
        let mut bulk = vec![&*self.harness];
        bulk.extend(self.contents.iter().map(|(_, data)| &data.inputs.memfd));
        bulk.push(&self.outputs.memfd);
        bulk.extend(self.initial.iter().map(|tensors| &tensors.memfd));
        bulk
    }

    pub(crate) fn seal(&self) -> Result<(), JudgeError> {
        Ok(self.outputs.memfd.seal_write()?)
    }

    pub(super) fn request(&self, evaluation: &Evaluation<'_>, first_bulk: u32) -> WindowRequest {
        let spec = &evaluation.task.spec;
        let in_place = &evaluation.candidate.plan.in_place;
        let guarded = self.policy.has(Defence::D);
        let inputs = |(index, (_, data)): (usize, &(Distribution, Arc<CaseData>))| {
            let bulk = first_bulk + 1 + index as u32;
            let tensor = |input: &Input| InputTensor {
                name: input.name.clone(),
                data: data.inputs.slice(bulk, &input.name).unwrap_or(EMPTY),
                writable: in_place.contains(&input.name) || !guarded,
                weight: is_weight(input),
            };
            spec.inputs.iter().map(tensor).collect()
        };
        let of_outputs = first_bulk + 1 + CONTENTS as u32;
        let output = |output: &Output| OutputTensor {
            name: output.name.clone(),
            dtype: output.dtype,
            data: self.outputs.slice(of_outputs, &output.name).unwrap_or(EMPTY),
            initial: self.initial.as_ref().and_then(|it| it.slice(of_outputs + 1, &output.name)),
        };
        WindowRequest {
            subject: WindowSubject::Plan,
            plan: self.plan.clone(),
            has_variables: evaluation.build.facts.as_ref().is_none_or(|it| it.static_bytes > 0),
            contents: self.contents.iter().enumerate().map(inputs).collect(),
            outputs: spec.outputs.iter().map(output).collect(),
            slots: self.slots,
            slot_bytes: self.slot_bytes,
            window: self.window.clone(),
            slack_bytes: if guarded { 0 } else { SLACK_BYTES },
            harness: Slice { bulk: first_bulk, offset: 0, bytes: self.harness.bytes() as u64 },
        }
    }

    /// The same window for who is no plan: see [`crate::baseline`].
    pub(crate) fn ground<'t>(&'t self, task: &'t Task) -> Ground<'t> {
        let [first, second] = &self.contents;
        Ground {
            task,
            case: &self.case,
            contents: [Arc::clone(&first.1), Arc::clone(&second.1)],
            outputs: Arc::clone(&self.outputs),
            slots: self.slots,
            slot_bytes: self.slot_bytes,
            window: self.window.clone(),
            harness: Arc::clone(&self.harness),
        }
    }

    /// What a comparison needs: the outputs, and what is expected of each content.
    pub(crate) fn compared_bulk(&self) -> Vec<&Memfd> {
        let expected = self.contents.iter().map(|(_, data)| &data.expected.memfd);
        [&self.outputs.memfd].into_iter().chain(expected).collect()
    }

    /// An item for each output of each slot, in their order.
    pub(crate) fn verify_items(
        &self,
        evaluation: &Evaluation<'_>,
        window: &WindowResult,
        first_bulk: u32,
        declared: Declared,
    ) -> Result<Vec<VerifyItem>, JudgeError> {
        let mut items = Vec::new();
        for (slot, held) in (0u64..).zip(&window.slots) {
            let content = held.content as usize;
            if content >= CONTENTS {
                let why = format!("it spoke of a content {content}");
                return Err(JudgeError::Child { child: "candidate", why });
            }
            let (distribution, data) = &self.contents[content];
            let compared = Compared {
                case: &self.case,
                distribution: *distribution,
                outputs: (&self.outputs, first_bulk),
                expected: (&data.expected, first_bulk + 1 + content as u32),
                poison: Poison::Ones,
                declared,
            };
            let mut of_slot = verify_items(evaluation, &compared)?;
            for (index, item) in of_slot.iter_mut().enumerate() {
                item.got.offset += slot * self.slot_bytes;
                item.hash_key = Some(output_key(self.window.hash_key, index));
                item.leniency = careless::leniency(self.policy, slot == 0, index);
            }
            items.extend(of_slot);
        }
        Ok(items)
    }

    /// From what a window gave to cases, a score and notes.
    pub(crate) fn conclude(
        &self,
        evaluation: &Evaluation<'_>,
        sheet: Option<&HardwareSheet>,
        window: &WindowResult,
        checks: Checks,
    ) -> Concluded {
        let mut concluded = Concluded::default();
        concluded.notes.extend(self.fitted.describe(&format!("{} timed", self.case.name)));
        let (cases, ranked) = self.judged(evaluation, sheet, window, checks);
        concluded.cases = cases;
        let why = match ranked {
            Ranked::Time(measured) => {
                concluded.notes.extend(remarks(&measured, window));
                concluded.score = Score::Measured(measured);
                return concluded;
            }
            Ranked::TooFast(_, why) | Ranked::Void(why) => why,
        };
        if window.end == RunEnd::Completed {
            concluded.notes.push(format!("the headline shape has no time: {why}"));
        }
        concluded
    }

    /// The cases of a window, one for each content, and what it says of the time.
    pub(crate) fn judged(
        &self,
        evaluation: &Evaluation<'_>,
        sheet: Option<&HardwareSheet>,
        window: &WindowResult,
        checks: Checks,
    ) -> (Vec<CaseReport>, Ranked) {
        if let Some((reason, detail)) = run_failure(window.end.clone()) {
            let why = detail.clone();
            let status = match self.policy.has(Defence::H) {
                true => CaseStatus::Failed { reason, detail },
                false => CaseStatus::Passed,
            };
            return (vec![self.case_report(0, status, Vec::new())], Ranked::Void(why));
        }
        let slots = self.slots_of(evaluation, window, checks);
        let reports = (0..CONTENTS).map(|content| self.content_report(content, &slots)).collect();
        let ranked = match sheet {
            Some(sheet) => self.ranked(evaluation, sheet, window, &slots),
            None => Ranked::Void("nothing is known of the card".to_owned()),
        };
        (reports, ranked)
    }

    /// What each slot holds, with its checks, and whether its hash is the one that was timed.
    pub(crate) fn slots_of(
        &self,
        evaluation: &Evaluation<'_>,
        window: &WindowResult,
        checks: Checks,
    ) -> Vec<CheckedSlot> {
        let outputs = evaluation.task.spec.outputs.len();
        let mut of_outputs = checks.checks.into_iter();
        let mut hashes = checks.hashes.into_iter().flatten();
        let slot = |held: &SlotContent| {
            let found: Vec<_> = hashes.by_ref().take(outputs).collect();
            CheckedSlot {
                held: *held,
                checks: of_outputs.by_ref().take(outputs).collect(),
                is_what_was_timed: combined_hash(&found) == held.hash,
            }
        };
        window.slots.iter().map(slot).collect()
    }

    pub(crate) fn content_report(&self, content: usize, slots: &[CheckedSlot]) -> CaseReport {
        let of_content = || slots.iter().filter(|slot| slot.held.content as usize == content);
        let failed = of_content().find_map(|slot| match slot.status() {
            CaseStatus::Passed => None,
            other => Some((other, slot.checks.clone())),
        });
        match (failed, of_content().next()) {
            (Some((status, checks)), _) => self.case_report(content, status, checks),
            (None, Some(slot)) => {
                self.case_report(content, CaseStatus::Passed, slot.checks.clone())
            }
            (None, None) => self.case_report(content, CaseStatus::NotRun, Vec::new()),
        }
    }

    fn case_report(
        &self,
        content: usize,
        status: CaseStatus,
        checks: Vec<OutputCheck>,
    ) -> CaseReport {
        CaseReport {
            case: self.case.name.clone(),
            dims: self.case.dims.clone(),
            distribution: self.contents[content].0,
            status,
            checks,
            counters: None,
            findings: Vec::new(),
        }
    }

    fn ranked(
        &self,
        evaluation: &Evaluation<'_>,
        sheet: &HardwareSheet,
        window: &WindowResult,
        slots: &[CheckedSlot],
    ) -> Ranked {
        let states = [window.before.as_ref(), window.after.as_ref()];
        let unverified = || unverified(window, slots).filter(|_| self.policy.has(Defence::C));
        if let Some(why) = disturbance(states).or_else(unverified) {
            return Ranked::Void(why);
        }
        let pair_ns = window.event_pair_ns;
        let cold = match summary(&window.cold, self.window.samples_min, pair_ns as u64) {
            Ok(cold) => cold,
            Err(why) => return Ranked::Void(why.to_string()),
        };
        let class = evaluation.candidate.plan.precision;
        let facts = evaluation.build.facts.as_ref();
        let mma_types = facts.map_or(&[][..], |facts| &facts.mma_types);
        let floor = sheet.floor(&evaluation.task.spec, &self.case, class, mma_types);
        let (Some(floor), Some(ceilings)) = (floor, &sheet.ceilings) else {
            return Ranked::Void("the card's ceilings are not known".to_owned());
        };
        let measured = Measured {
            device: sheet.facts.model.clone(),
            uuid: sheet.uuid.clone(),
            cold,
            warm: summary(&window.warm, 1, pair_ns as u64).ok(),
            floor: Some(floor),
            event_pair_ns: pair_ns,
        };
        let shortest = ceilings.believable_ns(&floor, self.output_bytes(), sheet.facts.l2_bytes);
        if cold.median_ns >= shortest || !self.policy.has(Defence::G) {
            return Ranked::Time(measured);
        }
        let ns = cold.median_ns;
        let why =
            format!("{ns:.0} ns are less than the {shortest:.0} ns that the work takes at least");
        Ranked::TooFast(measured, why)
    }

    /// The shape that is timed, and what gave way for it.
    pub(crate) fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// True where expected values are never whole on the host.
    pub(crate) fn is_in_tiles(&self) -> bool {
        self.fitted.is_in_tiles()
    }

    /// The inputs of a content.
    pub(crate) fn inputs(&self, content: usize) -> &Tensors {
        &self.contents[content].1.inputs
    }

    pub(crate) fn outputs(&self) -> &Memfd {
        &self.outputs.memfd
    }

    pub(crate) fn samples_min(&self) -> u32 {
        self.window.samples_min
    }

    fn output_bytes(&self) -> u64 {
        self.outputs.places.values().map(|(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests;
