//! Outputs of a window that were copied out and compared, which samples they vouch for, and what
//! the window says then.

use pipeline::check::OutputCheck;
use pipeline::report::{CaseStatus, GpuState, Measured};
use pipeline::timing::Sample;
use pipeline::verdict::Reason;
use sandbox::wire::{SlotContent, WindowResult};

use crate::decide::check_status;
use crate::gpu::interference;
use crate::limits::THROTTLE_EVENTS;

/// What a verified window says of the time.
pub(crate) enum Ranked {
    Time(Measured),
    /// Less than the work takes at least.
    TooFast(Measured, String),
    Void(String),
}

/// Outputs that were copied out and compared.
pub(crate) struct CheckedSlot {
    pub(super) held: SlotContent,
    pub(super) checks: Vec<OutputCheck>,
    pub(super) is_what_was_timed: bool,
}

impl CheckedSlot {
    pub(super) fn status(&self) -> CaseStatus {
        match check_status(&self.checks) {
            CaseStatus::Passed if !self.is_what_was_timed => CaseStatus::Failed {
                reason: Reason::Mismatch,
                detail: "what was copied out is not what was hashed after timing".to_owned(),
            },
            other => other,
        }
    }

    pub(super) fn vouches_for(&self, sample: &Sample) -> bool {
        let same = self.held.content == sample.content && self.held.hash == sample.hash;
        same && matches!(self.status(), CaseStatus::Passed)
    }
}

/// Why a window means nothing: others used the card, or it protected itself.
pub(crate) fn disturbance(states: [Option<&GpuState>; 2]) -> Option<String> {
    if let Some(why) = interference(states[0], states[1]) {
        return Some(why);
    }
    let reasons = states.into_iter().flatten().flat_map(|state| &state.throttle);
    let event = reasons.into_iter().find(|reason| {
        let reason = reason.to_lowercase();
        THROTTLE_EVENTS.iter().any(|event| reason.contains(event))
    });
    event.map(|reason| format!("the card slowed itself down ({reason})"))
}

/// Samples whose outputs nobody compared, because they differ from call to call.
pub(super) fn unverified(window: &WindowResult, slots: &[CheckedSlot]) -> Option<String> {
    let all = || window.cold.iter().chain(&window.warm);
    let count = all().filter(|sample| !slots.iter().any(|slot| slot.vouches_for(sample))).count();
    (count > 0).then(|| {
        let total = all().count();
        format!("outputs differ from call to call, and {count} of {total} were not compared")
    })
}

/// What is worth saying of a window that has a time.
pub(super) fn remarks(measured: &Measured, window: &WindowResult) -> Vec<String> {
    let mut remarks = Vec::new();
    let (dropped, all) = (measured.cold.dropped, measured.cold.dropped + measured.cold.samples);
    if dropped > 0 {
        remarks.push(format!("{dropped} of {all} timed samples were dropped"));
    }
    if window.cold.iter().all(|sample| sample.sm_clock_hz == 0.0) {
        remarks.push("this card's timer is too coarse to read its clock by".to_owned());
    }
    remarks
}
