//! Acceptances, claims, looks at a claim again, and what waits for a person.

use pipeline::acceptance::{Claim, Conclusion, Protocol};
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::hardware::HardwareSheet;

use crate::ids::{AcceptanceId, AttemptId, ClaimId, RunId};

named_enum! {
    /// What an acceptance is for.
    Purpose {
        /// To claim something.
        Claim = "claim",
        /// To say how the best of a run stands beside a baseline; nothing is claimed.
        Measurement = "measurement",
        /// To see whether a claim of a bundle can be had here too.
        Reproduction = "reproduction",
        /// To see whether a claim of this ledger still holds.
        Recheck = "recheck",
    }
}

named_enum! {
    /// Where a claim stands.
    ClaimState {
        /// From a full acceptance; provisional.
        Claimed = "claimed",
        /// Had by another process on another day or another card too.
        Confirmed = "confirmed",
        /// Somebody did not get it.
        Withdrawn = "withdrawn",
    }
}

named_enum! {
    /// What a look at a claim again came to.
    CheckOutcome {
        Reproduced = "reproduced",
        NotReproduced = "not_reproduced",
        NotComparable = "not_comparable",
        Holds = "holds",
        Weaker = "weaker",
        Lost = "lost",
    }
}

named_enum! {
    /// What a person decided.
    Decision {
        Accepted = "accepted",
        Rejected = "rejected",
    }
}

/// An acceptance to begin.
#[derive(Clone, Copy, Debug)]
pub struct NewAcceptance<'a> {
    /// The attempt whose candidate is accepted.
    pub attempt: &'a AttemptId,
    pub purpose: Purpose,
    /// The claim of this ledger that is looked at again.
    pub of_claim: Option<&'a ClaimId>,
    pub protocol: &'a Protocol,
    pub eval_key: &'a Digest,
    /// Hashes of what was built for it: normalised PTX, and cubin.
    pub ptx_hash: &'a str,
    pub cubin_hash: &'a str,
    /// 64 hexadecimal digits; kept apart and in no event.
    pub seed: &'a str,
    pub judge_hash: &'a str,
    pub toolchain_id: &'a str,
    pub device: &'a DeviceFacts,
    /// The first card that may be used, where there is one.
    pub card: Option<&'a HardwareSheet>,
    /// The process tree that begins it.
    pub process: &'a str,
}

/// An acceptance as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptanceRow {
    pub id: AcceptanceId,
    pub run_id: RunId,
    pub attempt_id: AttemptId,
    pub purpose: Purpose,
    pub of_claim: Option<ClaimId>,
    pub protocol: Protocol,
    pub eval_key: Digest,
    pub ptx_hash: String,
    pub cubin_hash: String,
    pub judge_hash: String,
    pub toolchain_id: String,
    pub device_model: String,
    pub process: String,
    /// Present once it ended.
    pub conclusion: Option<Conclusion>,
    pub started_us: i64,
    pub ended_us: Option<i64>,
}

/// An acceptance in short: whose it is, what for, and when its steps were stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptanceTimes {
    pub attempt_id: AttemptId,
    pub task_hash: Digest,
    pub purpose: Purpose,
    /// True once it ended.
    pub ended: bool,
    /// Its start, its steps and its end, in microseconds UTC.
    pub times_us: Vec<i64>,
}

/// An acceptance of a kernel in short.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLook {
    pub id: AcceptanceId,
    pub run_id: RunId,
    pub attempt_id: AttemptId,
    /// Number of the attempt in its run.
    pub seq: u32,
    pub purpose: Purpose,
    pub started_us: i64,
    /// Present once it ended.
    pub conclusion: Option<Conclusion>,
}

/// What the end of an acceptance led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Claimed(ClaimId),
    /// A person has to look first.
    Waits,
    Nothing,
}

/// A claim as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRow {
    pub id: ClaimId,
    pub acceptance_id: AcceptanceId,
    pub run_id: RunId,
    pub attempt_id: AttemptId,
    pub task_hash: Digest,
    pub task_name: String,
    /// Number of the attempt in its run.
    pub seq: u32,
    pub claim: Claim,
    pub chain_head: Digest,
    pub state: ClaimState,
    /// Why it is in this state; empty for a new one.
    pub why: String,
    pub created_us: i64,
    /// Looks at it again, oldest first.
    pub checks: Vec<CheckRow>,
    /// What people decided about it, oldest first.
    pub approvals: Vec<ApprovalRow>,
}

impl ClaimRow {
    /// True when the last person who decided about it let it pass.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.approvals.last().is_some_and(|it| it.decision == Decision::Accepted)
    }
}

/// A claim of a kernel that a run has, whichever run made it.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelClaim {
    pub claim: ClaimRow,
    /// Numbers of the attempts of the asked run, at the claim's task, that have the kernel.
    pub seqs: Vec<u32>,
}

impl KernelClaim {
    /// True where that attempt of the asked run has the kernel.
    #[must_use]
    pub fn is_of(&self, task: &Digest, seq: u32) -> bool {
        self.claim.task_hash == *task && self.seqs.contains(&seq)
    }
}

/// What a person decided about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRow {
    pub decision: Decision,
    pub reason: String,
    pub reviewer: String,
    pub decided_us: i64,
}

/// Why somebody decides as they do, and who it is.
#[derive(Clone, Copy, Debug)]
pub struct Ruling<'a> {
    pub reason: &'a str,
    pub reviewer: &'a str,
}

/// A look at a claim again, to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewCheck<'a> {
    pub acceptance: &'a AcceptanceId,
    /// The claim, where this ledger has it.
    pub claim: Option<&'a ClaimId>,
    /// Digest of the bundle that brought the claim.
    pub bundle: Option<&'a Digest>,
    pub outcome: CheckOutcome,
    pub detail: &'a str,
    /// The state that the claim is in from now on, if it is another one.
    pub becomes: Option<ClaimState>,
}

/// A look at a claim again, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRow {
    pub acceptance_id: AcceptanceId,
    pub outcome: CheckOutcome,
    pub detail: String,
    pub created_us: i64,
}

/// Something that a person has to look at, or has looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRow {
    pub acceptance_id: AcceptanceId,
    pub run_id: RunId,
    pub task_name: String,
    pub seq: u32,
    pub suspicion: String,
    pub detail: String,
    pub decision: Option<Decision>,
    pub note: Option<String>,
    pub reviewer: Option<String>,
    pub decided_us: Option<i64>,
    pub created_us: i64,
}

/// A baseline on one case of a task, on one model of GPU, under one framework and judge.
#[derive(Clone, Copy, Debug)]
pub struct PilotKey<'a> {
    pub task: &'a Digest,
    pub case: &'a str,
    pub baseline: &'a pipeline::baseline::BaselineId,
    pub device_model: &'a str,
    /// The versions of what computes it; empty for kernels of ours.
    pub framework: &'a str,
    pub judge_hash: &'a str,
}

/// A task under one judge and compiler.
#[derive(Clone, Debug)]
pub struct AdmissionKey<'a> {
    pub task: &'a Digest,
    pub judge_hash: Digest,
    pub toolchain_id: &'a str,
}

/// A baseline at a task's headline, on one model of GPU under one driver, framework, judge and
/// compiler.
#[derive(Clone, Copy, Debug)]
pub struct SurveyKey<'a> {
    pub task: &'a Digest,
    pub baseline: &'a pipeline::baseline::BaselineId,
    pub device_model: &'a str,
    pub driver: &'a str,
    /// The versions of what computes it; empty for kernels of ours.
    pub framework: &'a str,
    pub judge_hash: &'a str,
    pub toolchain_id: &'a str,
}

/// What following a run's chain of events found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Every event follows from the one before; `head` is the hash of the last.
    Intact { events: u64, head: Digest },
    /// The first event that is missing, changed or out of place.
    Broken { seq: u64 },
}

/// The first thing in a ledger that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    pub run: RunId,
    /// Event that it was noticed at; `None` for rows that no event knows.
    pub seq: Option<u64>,
    pub what: String,
}
