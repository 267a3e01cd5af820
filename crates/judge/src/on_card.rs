//! Runs a child on some card, or on the simulator, and looks after the card.
//!
//! Start at [`Judge::run_on_card`].

use std::time::{Duration, Instant};

use pipeline::hardware::HardwareSheet;
use pipeline::report::PartCost;
use sandbox::wire::{RunEnd, RunReport, RunRequest};
use sandbox::{CancelFlag, ChildKind, ChildLimits, Memfd, TimeLimit};

use crate::children::ChildEnd;
use crate::evaluate::part;
use crate::limits::{BUSY_TRIES_MAX, CARD_TRIES_MAX, CARD_WAIT, LEASE_POLL, SIMULATED_WALL_FACTOR};
use crate::reference::Whose;
use crate::{Judge, JudgeError};

/// A child to be run on some card, or on the simulator.
pub(crate) struct CardRun<'a> {
    pub(crate) kind: ChildKind,
    pub(crate) whose: Whose,
    pub(crate) bulk: &'a [&'a Memfd],
    pub(crate) limits: &'a ChildLimits,
    /// Runs that somebody may kill.
    pub(crate) killed_tries_max: u32,
}

/// What a child on a card came to.
pub(crate) struct RanOnCard {
    pub(crate) end: ChildEnd<RunReport>,
    pub(crate) sheet: Option<HardwareSheet>,
    /// False when the card failed its health probe afterwards and is parked.
    pub(crate) healthy: bool,
    pub(crate) cost: Vec<PartCost>,
}

impl Judge {
    /// Runs a child on some card. A card that fails is parked and replaced; one that works and yet
    /// could not serve is asked again after a while, and so is one whose child was killed.
    pub(crate) fn run_on_card(
        &self,
        run: &CardRun<'_>,
        mut request: RunRequest,
        cancel: &CancelFlag,
    ) -> Result<RanOnCard, JudgeError> {
        let mut tries = 0;
        loop {
            let waited = Instant::now();
            let lease = self.lease(cancel)?;
            let mut cost = vec![part("wait for the GPU", waited)];
            request.device = self.device_choice(lease.as_ref(), run.whose);
            let started = Instant::now();
            let limits = match lease {
                Some(_) => run.limits.clone(),
                None => simulated(run.limits),
            };
            let end = self.call(run.kind, &request, run.bulk, &limits, lease.as_ref(), cancel);
            cost.push(part("process", started));
            let healthy = match &lease {
                Some(lease) if in_trouble(&end) => self.check_health(lease, cancel)?,
                Some(_) | None => true,
            };
            tries += 1;
            match end {
                Ok(ChildEnd::Killed(_)) if tries < run.killed_tries_max => {}
                // On the simulator only processor time counts: others had the processors.
                Ok(ChildEnd::TimedOut(TimeLimit::Wall))
                    if lease.is_none() && tries < BUSY_TRIES_MAX => {}
                Err(JudgeError::NotAvailable(_)) if !healthy => {}
                // Our own kernels do no harm: a card that failed under them has failed.
                Ok(ChildEnd::TimedOut(_) | ChildEnd::Crashed(_) | ChildEnd::Broken(_))
                    if !healthy && run.whose == Whose::Reference => {}
                Err(JudgeError::NotAvailable(_)) if lease.is_some() && tries < CARD_TRIES_MAX => {
                    drop(lease);
                    wait_unless_cancelled(CARD_WAIT * tries * tries, cancel)?;
                }
                end => {
                    let sheet = lease.map(|lease| lease.sheet.clone());
                    return Ok(RanOnCard { end: end?, sheet, healthy, cost });
                }
            }
        }
    }
}

/// Limits on the simulator: its speed is that of the processors it gets, so that the processor time
/// ends it, and the clock only where it gets hardly any.
fn simulated(limits: &ChildLimits) -> ChildLimits {
    let wall = Duration::from_secs(limits.cpu_s).saturating_mul(SIMULATED_WALL_FACTOR);
    ChildLimits { deadline: limits.deadline.max(wall), ..limits.clone() }
}

/// What is said of a child on the simulator that hardly got the processors.
pub(crate) fn busy(limits: &ChildLimits) -> String {
    format!(
        "this machine was busy: in {} s its process did not get {} s of processor time, \
         {BUSY_TRIES_MAX} times in a row",
        simulated(limits).deadline.as_secs(),
        limits.cpu_s
    )
}

/// True for ends after which a card must show that it still works.
pub(crate) fn in_trouble(end: &Result<ChildEnd<RunReport>, JudgeError>) -> bool {
    match end {
        Ok(ChildEnd::Reported(report)) => {
            let runs = report.runs.iter().map(|run| &run.end);
            runs.chain(report.window.iter().map(|window| &window.end)).any(left_in_trouble)
        }
        Ok(ChildEnd::TimedOut(_) | ChildEnd::Crashed(_) | ChildEnd::Broken(_)) => true,
        Ok(ChildEnd::Killed(_)) | Err(JudgeError::NotAvailable(_)) => true,
        Err(_) => false,
    }
}

pub(crate) fn left_in_trouble(end: &RunEnd) -> bool {
    match end {
        RunEnd::OutOfBounds(_) | RunEnd::Hang(_) | RunEnd::Crash(_) => true,
        RunEnd::Completed | RunEnd::Refused(_) => false,
        RunEnd::Unsupported(_) | RunEnd::ReadOnlyWrite(_) => false,
    }
}

/// Waits, in small steps.
pub(crate) fn wait_unless_cancelled(wait: Duration, cancel: &CancelFlag) -> Result<(), JudgeError> {
    let until = Instant::now() + wait;
    while Instant::now() < until {
        if cancel.is_cancelled() {
            return Err(JudgeError::Cancelled);
        }
        std::thread::sleep(LEASE_POLL);
    }
    Ok(())
}
