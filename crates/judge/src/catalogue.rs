//! The catalogue of cheats and of honest tricks as a regression suite of this judge.
//!
//! Each [`Entry`] is a kernel with a plan that says how it must end: rejected with one of a few
//! codes (`H`, `C`, `X`) or accepted (`F`, `G`, `P`). Entries and the tasks that they attack are
//! files, which come in as maps; nothing here reads a disk. [`Catalogue::from_files`] reads them,
//! [`Catalogue::run`] judges one, [`Entry::fit`] compares. What cannot be written as a kernel is a
//! [`Constructed`] row: a test shows that nobody can do it.

#[cfg(feature = "judge-mutation")]
mod attacks;
mod form;
mod run;

use std::collections::BTreeMap;
use std::fmt;

#[cfg(feature = "judge-mutation")]
pub use attacks::{Attack, AttackEnd};

use pipeline::defence::Defence;
use pipeline::task::spec::Place;
use pipeline::task::{Task, TaskError};
use pipeline::verdict::Reason;
use serde::{Deserialize, Serialize};

/// Every entry, with what it needs.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The ids that must have an entry or a constructed row.
    pub ids: Vec<String>,
    /// By name.
    pub entries: Vec<Entry>,
    pub constructed: Vec<Constructed>,
    tasks: BTreeMap<String, Task>,
}

/// A kernel, and how it must end.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of its files.
    pub name: String,
    /// What it shows: several entries may be variants of one.
    pub id: String,
    pub title: String,
    pub task: String,
    /// Any of these.
    pub expect: Vec<Code>,
    /// The earliest stage that must show it.
    pub stage: Stage,
    /// Where it can be judged.
    pub on: Vec<Place>,
    /// With all of these off it passes; with any one of them on it does not.
    pub cut_set: Vec<Defence>,
    /// The same on a GPU, where another set is needed there: it also runs the headline shape, and
    /// the same call again and again.
    pub cut_set_gpu: Vec<Defence>,
    /// Why no set of switches lets a cheat pass, where that is so.
    pub uncut: Option<String>,
    /// The same kernel without the trick, for `NOGAIN`.
    pub plain: Option<String>,
    /// True when it takes as long as a limit allows.
    pub slow: bool,
    /// How it ends although it should not.
    pub known_gap: Option<KnownGap>,
    /// With the prelude.
    pub source: String,
    /// Without the `[entry]` table.
    pub plan: String,
}

/// How an entry can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Code {
    /// A verdict with this reason.
    Reason(Reason),
    /// Correct.
    Pass,
    /// Correct, and not faster than the same kernel without the trick.
    NoGain,
    /// Suspicious enough for a person to look.
    Audit,
}

/// What the judge does with a candidate, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Plan, compiler, static gate: nothing has run.
    Static,
    Search,
    Promote,
    Accept,
}

/// A gap of the judge that is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct KnownGap {
    pub ends: Code,
    pub why: String,
}

/// An id that no kernel can be written for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constructed {
    pub id: String,
    pub why: String,
    /// File, below the root of the repository, and name of the test that shows it.
    pub test: String,
}

/// How a run of an entry ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: Code,
    /// The stage that said so: for `PASS` the last one that ran.
    pub stage: Stage,
    pub detail: String,
}

/// What the end of an entry says about the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    Expected,
    /// Rejected with another code before the stage that must show it.
    Early,
    /// Correct so far; a stage that this judge does not run yet must show it.
    Waiting,
    /// As its known gap says.
    Gap,
    /// As expected, though a known gap says otherwise.
    Mended,
    Unexpected,
}

/// Why files are not a catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("catalogue file `{0}` is missing")]
    MissingFile(String),
    #[error("catalogue file `{0}` has no partner or no meaning")]
    UnknownFile(String),
    #[error("catalogue file `{file}`: {why}")]
    File { file: String, why: String },
    #[error("victim task `{name}`: {why}")]
    Task { name: String, why: Box<TaskError> },
}

impl Code {
    /// The code in upper case, as in files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reason(reason) => reason.code(),
            Self::Pass => "PASS",
            Self::NoGain => "NOGAIN",
            Self::Audit => "AUDIT",
        }
    }

    /// True for an end that leaves no claim: a judgement against the candidate.
    fn is_rejection(self) -> bool {
        match self {
            Self::Reason(reason) => reason != Reason::Unsupported,
            Self::Audit => true,
            Self::Pass | Self::NoGain => false,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Stage {
    /// Every stage, in its order.
    pub const ALL: [Self; 4] = [Self::Static, Self::Search, Self::Promote, Self::Accept];

    /// The name, as in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Search => "search",
            Self::Promote => "promote",
            Self::Accept => "accept",
        }
    }
}

impl Fit {
    /// True unless the judge does what nobody knows of.
    #[must_use]
    pub fn is_good(self) -> bool {
        match self {
            Self::Expected | Self::Early | Self::Waiting | Self::Gap | Self::Mended => true,
            Self::Unexpected => false,
        }
    }

    /// One word for a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Expected => "as expected",
            Self::Early => "rejected earlier",
            Self::Waiting => "later stages must show it",
            Self::Gap => "known gap",
            Self::Mended => "as expected, a known gap no more",
            Self::Unexpected => "NOT AS EXPECTED",
        }
    }
}

impl Entry {
    /// True for kernels that must be accepted.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        self.expect == [Code::Pass]
    }

    /// The defences of its set on a device; empty where that shows none.
    #[must_use]
    pub fn cut_set(&self, place: Place) -> &[Defence] {
        match place {
            Place::Gpu if !self.cut_set_gpu.is_empty() => &self.cut_set_gpu,
            Place::Sim | Place::Gpu => &self.cut_set,
        }
    }

    /// What an end of this entry says.
    #[must_use]
    pub fn fit(&self, ended: &Ended) -> Fit {
        let in_time = ended.stage <= self.stage || self.is_honest();
        if in_time && self.expect.contains(&ended.code) {
            return if self.known_gap.is_some() { Fit::Mended } else { Fit::Expected };
        }
        let before = ended.stage < self.stage;
        match &self.known_gap {
            Some(gap) if gap.ends == ended.code => Fit::Gap,
            _ if before && ended.code == Code::Pass => Fit::Waiting,
            _ if before && ended.code.is_rejection() && !self.is_honest() => Fit::Early,
            Some(_) | None => Fit::Unexpected,
        }
    }

    /// The expected codes in words.
    #[must_use]
    pub fn expected(&self) -> String {
        self.expect.iter().map(|code| code.name()).collect::<Vec<_>>().join(" or ")
    }
}

#[cfg(test)]
mod tests;
