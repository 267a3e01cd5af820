//! What goes into the ledger and what comes out, as values.
//!
//! `New…` types go in, `…Row` types come out. Money is nano-dollars (`nusd`), times µs UTC.

use std::collections::BTreeMap;

use pipeline::attempt::State;
use pipeline::build::{BuildFacts, Diagnostic};
use pipeline::confinement::Confinement;
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::hardware::HardwareSheet;
use pipeline::next_step::Ask;
use pipeline::prompt::Prompt;
use pipeline::report::{Report, Stage};
use pipeline::task::Task;
use pipeline::transcript::Usage;
use pipeline::verdict::Verdict;

use crate::ids::{AttemptId, CallId, RunId};

/// An enum that is stored by name.
macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name, as in the ledger.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The value with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}

named_enum! {
    /// What started a run.
    RunKind {
        /// The program asks a model by itself.
        Auto = "auto",
        /// A person submits candidates.
        Manual = "manual",
        /// Tunables are swept without a model.
        Sweep = "sweep",
        /// Recorded replies.
        Replay = "replay",
    }
}

named_enum! {
    /// Where a run stands.
    RunState {
        /// Driven by a process, or left by one that died.
        Running = "running",
        /// The search came to its end.
        Finished = "finished",
        /// A budget, a deadline or a person ended it; it can be resumed.
        Stopped = "stopped",
        /// Our own error ended it; it can be resumed.
        Failed = "failed",
    }
}

named_enum! {
    /// The moments of an attempt at which a hook is called, and a kill may be tried.
    Boundary {
        /// The question is stored with its reservation; also for each further try.
        Asked = "asked",
        /// The call is stored as sent; its submission has not begun.
        Sent = "sent",
        /// The provider took the request; its ticket is not stored yet.
        Submitted = "submitted",
        /// The ticket is stored.
        Ticketed = "ticketed",
        /// The call is booked as failed; no further try is reserved yet.
        Failed = "failed",
        /// The call is booked as lost; no further try is reserved yet.
        Lost = "lost",
        /// The reply is stored.
        Replied = "replied",
        /// The candidate is stored.
        Parsed = "parsed",
        /// The build is stored.
        Built = "built",
        /// The verdict is stored, and a dangerous program is remembered.
        Judged = "judged",
        /// The attempt is over.
        Closed = "closed",
    }
}

impl From<State> for Boundary {
    fn from(state: State) -> Self {
        match state {
            State::Asked => Self::Asked,
            State::Sent => Self::Sent,
            State::Replied => Self::Replied,
            State::Parsed => Self::Parsed,
            State::Built => Self::Built,
            State::Judged => Self::Judged,
            State::Closed => Self::Closed,
        }
    }
}

named_enum! {
    /// Where one call of a model stands.
    CallState {
        /// Its worst case is reserved; nothing was sent.
        Reserved = "reserved",
        /// It may have been sent: stored before it is, so that the reply may exist and cost money.
        Sent = "sent",
        /// Answered and paid.
        Settled = "settled",
        /// The provider refused or broke; nothing is booked.
        Failed = "failed",
        /// It may have been answered, and nobody can tell; booked at its reserved price for ever.
        Lost = "lost",
    }
}

mod claim;

pub use claim::*;

/// A run to begin.
#[derive(Clone, Copy, Debug)]
pub struct NewRun<'a> {
    pub kind: RunKind,
    /// The settings as they were resolved, JSON.
    pub settings_json: &'a str,
    /// Seeds of the run's hidden inputs, JSON; kept apart and in no event.
    pub secret_seeds_json: &'a str,
    pub judge_hash: &'a str,
    pub toolchain_id: &'a str,
    pub prompts_hash: &'a str,
    /// The tasks that it works on, at least one.
    pub tasks: &'a [NewTask<'a>],
    pub device: &'a DeviceFacts,
    /// The cards that judge.
    pub gpus: &'a [HardwareSheet],
}

/// A task with the files that it was read from.
#[derive(Clone, Copy, Debug)]
pub struct NewTask<'a> {
    pub hash: &'a Digest,
    pub name: &'a str,
    /// Path inside the task's folder → bytes.
    pub files: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> NewTask<'a> {
    /// `task`, as it was read from `files`.
    #[must_use]
    pub fn of(task: &'a Task, files: &'a BTreeMap<String, Vec<u8>>) -> Self {
        Self { hash: &task.hash, name: &task.spec.name, files }
    }
}

/// The worst case of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Input and output tokens together.
    pub tokens: u64,
    pub nusd: i64,
}

/// The provider and model that a call goes to.
#[derive(Clone, Copy, Debug)]
pub struct CallTarget<'a> {
    pub provider: &'a str,
    pub model: &'a str,
    /// The price that the reservation was made at, JSON.
    pub price_json: &'a str,
}

/// A reply with its final price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledReply {
    pub text: String,
    /// `None` when the provider did not count: its reservation then stands for it.
    pub usage: Option<Usage>,
    pub finish_reason: String,
    /// The model that answered, as the provider names it.
    pub model: String,
    pub latency_ms: u64,
    /// `None` when the price is unknown.
    pub cost_nusd: Option<i64>,
    /// True when a recorded reply answered another prompt than the one asked.
    pub drift: bool,
    /// What the model said apart from its answer; empty when nothing is known.
    pub reasoning: String,
    /// What happened on the wire, JSON; empty without a wire.
    pub http_log: String,
}

/// Why a call ended without a reply.
#[derive(Clone, Copy, Debug)]
pub struct CallFailure<'a> {
    pub class: &'a str,
    pub message: &'a str,
    /// Tokens and price, where the provider counted although it gave no answer.
    pub paid: Option<(Usage, Option<i64>)>,
}

impl<'a> CallFailure<'a> {
    /// A failure that cost nothing.
    #[must_use]
    pub fn unpaid(class: &'a str, message: &'a str) -> Self {
        Self { class, message, paid: None }
    }
}

/// What a reply held.
#[derive(Clone, Copy, Debug)]
pub struct NewCandidate<'a> {
    pub id: &'a Digest,
    /// Normalised CUDA source.
    pub source: &'a str,
    /// The plan as the reply wrote it.
    pub plan_text: &'a str,
    /// Values of the tunables that are built.
    pub tunables: &'a BTreeMap<String, i64>,
}

/// What the compiler said.
#[derive(Clone, Copy, Debug)]
pub struct NewBuild<'a> {
    pub id: &'a Digest,
    /// `None` when it did not compile.
    pub facts: Option<&'a BuildFacts>,
    pub diagnostics: &'a [Diagnostic],
    pub log: &'a str,
    pub ptx: Option<&'a [u8]>,
    pub cubin: Option<&'a [u8]>,
    /// Why it may not run; `None` when it may.
    pub verdict: Option<&'a Verdict>,
    /// What held the compiler.
    pub held: Option<&'a Confinement>,
}

/// What the judge found.
#[derive(Clone, Copy, Debug)]
pub struct NewJudgement<'a> {
    pub stage: Stage,
    /// `None` when the candidate was turned away before it had an identity to run under.
    pub eval_key: Option<&'a Digest>,
    pub verdict: &'a Verdict,
    pub report: Option<&'a Report>,
    /// True when an earlier evaluation with the same key was used.
    pub from_cache: bool,
    /// The program's key, when it must never run again.
    pub danger: Option<&'a Digest>,
}

/// A run as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    pub id: RunId,
    pub kind: RunKind,
    pub settings_json: String,
    pub judge_hash: String,
    pub toolchain_id: String,
    pub prompts_hash: String,
    /// The tasks that it works on, in their order, at least one.
    pub tasks: Vec<RunTask>,
    pub device_id: String,
    pub state: RunState,
    /// Why it ended.
    pub reason: Option<String>,
    pub started_us: i64,
    pub ended_us: Option<i64>,
}

/// A task of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTask {
    pub hash: Digest,
    pub name: String,
}

impl RunRow {
    /// The task's name, or how many there are.
    #[must_use]
    pub fn tasks_in_words(&self) -> String {
        match self.tasks.as_slice() {
            [only] => only.name.clone(),
            several => format!("{} tasks", several.len()),
        }
    }
}

/// An attempt with everything stored so far.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRow {
    pub id: AttemptId,
    pub run_id: RunId,
    pub task_hash: Digest,
    pub ask: Ask,
    pub state: State,
    pub prompt: Prompt,
    pub prompt_hash: Digest,
    /// The newest call.
    pub call: CallRow,
    pub reply: Option<SettledReply>,
    pub candidate: Option<CandidateRow>,
    pub build: Option<BuildRow>,
    pub judgement: Option<JudgementRow>,
    /// The final verdict; present once the attempt is closed.
    pub verdict: Option<Verdict>,
    pub created_us: i64,
    pub updated_us: i64,
}

/// One call of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    pub id: CallId,
    /// 0-based, per attempt.
    pub try_index: u32,
    pub provider: String,
    pub model: String,
    /// What the provider gave for it, to ask again after a restart. A sent call without one may
    /// or may not have reached the provider.
    pub ticket: Option<String>,
    pub state: CallState,
    pub reservation: Reservation,
    pub usage: Option<Usage>,
    pub cost_nusd: Option<i64>,
    pub drift: bool,
    /// Class and message of what ended a failed or lost call.
    pub error: Option<(String, String)>,
    pub created_us: i64,
    pub updated_us: i64,
}

/// The candidate of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateRow {
    pub id: Digest,
    pub source: String,
    pub plan_text: String,
    pub tunables: BTreeMap<String, i64>,
}

/// The build of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRow {
    pub id: Digest,
    pub facts: Option<BuildFacts>,
    pub diagnostics: Vec<Diagnostic>,
    pub log: String,
    pub ptx: Option<Vec<u8>>,
    pub cubin: Option<Vec<u8>>,
    /// Why it may not run; `None` when it may.
    pub verdict: Option<Verdict>,
    /// What held the compiler; `None` for builds from before this was kept.
    pub held: Option<Confinement>,
}

/// The judge's verdict on an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgementRow {
    pub stage: Stage,
    pub eval_key: Option<Digest>,
    pub verdict: Verdict,
    pub report: Option<Report>,
    pub from_cache: bool,
}

/// Everything about one attempt, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptDetail {
    pub attempt: AttemptRow,
    /// Every call, oldest first.
    pub calls: Vec<CallRow>,
}

/// A program that must never run again.
#[derive(Clone, Debug, PartialEq)]
pub struct DangerRow {
    pub key: Digest,
    /// What it did.
    pub verdict: Verdict,
    pub report: Option<Report>,
    pub first_seen_us: i64,
}
