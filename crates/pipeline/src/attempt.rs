//! One trip along the pipeline, as the search policy sees it.
//!
//! The ledger holds more (money, messages, hashes); this is what decides the next question.

use serde::{Deserialize, Serialize};

use crate::build::Diagnostic;
use crate::promotion::Promotion;
use crate::report::{Report, Score};
use crate::verdict::Verdict;

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The first kernel of a task.
    First,
    /// Make the parent correct.
    Repair,
    /// Make the parent faster.
    Optimise,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::First, Self::Repair, Self::Optimise];

    /// The name, as in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Repair => "repair",
            Self::Optimise => "optimise",
        }
    }

    /// The mode with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// The boundaries at which an attempt is durable. A kill between two of them repeats only the
/// work of the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The question is fixed and its worst case reserved.
    Asked,
    /// The question left this program.
    Sent,
    /// The reply is stored and its cost settled.
    Replied,
    /// The reply holds a candidate.
    Parsed,
    /// The candidate compiled and may be run.
    Built,
    /// The judge reached a verdict.
    Judged,
    /// The attempt is over.
    Closed,
}

impl State {
    /// Every state, in order.
    pub const ALL: [Self; 7] = [
        Self::Asked,
        Self::Sent,
        Self::Replied,
        Self::Parsed,
        Self::Built,
        Self::Judged,
        Self::Closed,
    ];

    /// The name, as in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Sent => "sent",
            Self::Replied => "replied",
            Self::Parsed => "parsed",
            Self::Built => "built",
            Self::Judged => "judged",
            Self::Closed => "closed",
        }
    }

    /// The state with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A closed attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// 1-based, per task of a run.
    pub seq: u32,
    pub mode: Mode,
    /// Seq of the attempt that this one started from.
    pub parent: Option<u32>,
    pub verdict: Verdict,
    /// The candidate's texts; `None` when the reply held none.
    pub code: Option<Code>,
    /// The reply, for malformed ones; capped where shown.
    pub reply: String,
    pub diagnostics: Vec<Diagnostic>,
    /// What the public cases showed.
    pub report: Option<Report>,
    /// What the hidden ones did, where it came that far.
    pub promotion: Option<Promotion>,
}

/// A candidate's texts as they were stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    pub source: String,
    pub plan: String,
}

impl Attempt {
    /// The score; `Score::None` without a correct evaluation.
    #[must_use]
    pub fn score(&self) -> &Score {
        match &self.report {
            Some(report) if self.verdict.is_correct() => &report.score,
            Some(_) | None => &Score::None,
        }
    }

    /// What the search policy and the digest of a prompt need of an attempt, which is short however
    /// long its reply and its report are: a night holds many thousands.
    #[must_use]
    pub fn outline(self) -> Self {
        let score = self.score().clone();
        let report = (score != Score::None).then(|| Report::of_score(score));
        let detail = self.verdict.detail.lines().next().unwrap_or_default().to_owned();
        Self {
            verdict: Verdict { detail, ..self.verdict },
            code: None,
            reply: String::new(),
            diagnostics: Vec::new(),
            report,
            ..self
        }
    }
}

/// The best correct attempt: the first of those that no other improves on. One that was not faster
/// beside the incumbent is none of them.
#[must_use]
pub fn best(attempts: &[Attempt]) -> Option<&Attempt> {
    let not_faster = |attempt: &Attempt| {
        matches!(attempt.promotion, Some(Promotion::NotFaster { .. } | Promotion::Failed(_)))
    };
    let correct =
        attempts.iter().filter(|attempt| attempt.verdict.is_correct() && !not_faster(attempt));
    correct.reduce(|best, next| if next.score().improves_on(best.score()) { next } else { best })
}
