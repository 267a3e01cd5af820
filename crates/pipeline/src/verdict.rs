//! The closed list of ways an attempt can end.
//!
//! A bad kernel is a value of [`Verdict`]; our own breakage is never one. A new reason is a variant
//! here: the compiler then lists feedback, ledger rows and reports that must know it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the candidate turned out to be, with the reason and one sentence in `detail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub kind: Kind,
    pub reason: Option<Reason>,
    /// One capped sentence with the subject and the numbers; empty for `Correct`.
    pub detail: String,
}

/// The kind of end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    Malformed,
    Rejected,
    BuildFailed,
    BuildTimeout,
    LaunchFailed,
    Faulted,
    Hung,
    Unsimulatable,
    Wrong,
    Unstable,
    Correct,
}

/// The reason code; which kinds a code belongs to is fixed by [`Reason::kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Reason {
    Reply,
    Plan,
    Static,
    Compile,
    Launch,
    Guard,
    Crash,
    Timeout,
    Unsupported,
    Mismatch,
    Poison,
    Input,
    Nonfinite,
    Shape,
    Dist,
    Precision,
    Nondet,
    State,
}

impl Reason {
    /// Every reason, in the order of the kinds.
    pub const ALL: [Self; 18] = [
        Self::Reply,
        Self::Plan,
        Self::Static,
        Self::Compile,
        Self::Launch,
        Self::Guard,
        Self::Crash,
        Self::Timeout,
        Self::Unsupported,
        Self::Mismatch,
        Self::Poison,
        Self::Input,
        Self::Nonfinite,
        Self::Shape,
        Self::Dist,
        Self::Precision,
        Self::Nondet,
        Self::State,
    ];

    /// The code in upper case, as in files and reports.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Reply => "REPLY",
            Self::Plan => "PLAN",
            Self::Static => "STATIC",
            Self::Compile => "COMPILE",
            Self::Launch => "LAUNCH",
            Self::Guard => "GUARD",
            Self::Crash => "CRASH",
            Self::Timeout => "TIMEOUT",
            Self::Unsupported => "UNSUPPORTED",
            Self::Mismatch => "MISMATCH",
            Self::Poison => "POISON",
            Self::Input => "INPUT",
            Self::Nonfinite => "NONFINITE",
            Self::Shape => "SHAPE",
            Self::Dist => "DIST",
            Self::Precision => "PRECISION",
            Self::Nondet => "NONDET",
            Self::State => "STATE",
        }
    }

    /// The reason with this code.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// The kinds that may carry this reason.
    #[must_use]
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Reply | Self::Plan => &[Kind::Malformed],
            Self::Static => &[Kind::Rejected],
            Self::Compile => &[Kind::BuildFailed, Kind::BuildTimeout],
            Self::Launch => &[Kind::LaunchFailed],
            Self::Guard | Self::Crash => &[Kind::Faulted],
            Self::Timeout => &[Kind::Hung],
            Self::Unsupported => &[Kind::Unsimulatable],
            Self::Mismatch | Self::Poison | Self::Input | Self::Nonfinite => &[Kind::Wrong],
            Self::Shape | Self::Dist | Self::Precision => &[Kind::Wrong],
            Self::Nondet | Self::State => &[Kind::Unstable],
        }
    }

    /// True for reasons that a report counts as integrity findings.
    #[must_use]
    pub fn is_integrity(self) -> bool {
        match self {
            Self::Static | Self::Poison | Self::Input | Self::State => true,
            Self::Guard | Self::Precision => true,
            Self::Reply | Self::Plan | Self::Compile | Self::Launch | Self::Crash => false,
            Self::Timeout | Self::Unsupported | Self::Mismatch | Self::Nonfinite => false,
            Self::Shape | Self::Dist | Self::Nondet => false,
        }
    }
}

impl Kind {
    /// Every kind, in the order in which an attempt can meet them.
    pub const ALL: [Self; 11] = [
        Self::Malformed,
        Self::Rejected,
        Self::BuildFailed,
        Self::BuildTimeout,
        Self::LaunchFailed,
        Self::Faulted,
        Self::Hung,
        Self::Unsimulatable,
        Self::Wrong,
        Self::Unstable,
        Self::Correct,
    ];

    /// The name, as in files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "Malformed",
            Self::Rejected => "Rejected",
            Self::BuildFailed => "BuildFailed",
            Self::BuildTimeout => "BuildTimeout",
            Self::LaunchFailed => "LaunchFailed",
            Self::Faulted => "Faulted",
            Self::Hung => "Hung",
            Self::Unsimulatable => "Unsimulatable",
            Self::Wrong => "Wrong",
            Self::Unstable => "Unstable",
            Self::Correct => "Correct",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Verdict {
    /// The candidate passed everything that the stage asked.
    #[must_use]
    pub fn correct() -> Self {
        Self { kind: Kind::Correct, reason: None, detail: String::new() }
    }

    /// A verdict other than `Correct`; the kind follows from the reason (the first it may carry).
    #[must_use]
    pub fn failed(reason: Reason, detail: impl Into<String>) -> Self {
        Self { kind: reason.kinds()[0], reason: Some(reason), detail: detail.into() }
    }

    /// The compiler did not finish within its deadline.
    #[must_use]
    pub fn build_timeout(detail: impl Into<String>) -> Self {
        Self { kind: Kind::BuildTimeout, reason: Some(Reason::Compile), detail: detail.into() }
    }

    /// True for `Correct`.
    #[must_use]
    pub fn is_correct(&self) -> bool {
        self.kind == Kind::Correct
    }

    /// True when the same program must never be run again.
    #[must_use]
    pub fn is_dangerous(&self) -> bool {
        match self.kind {
            Kind::Hung | Kind::Faulted => true,
            Kind::Malformed | Kind::Rejected | Kind::BuildFailed | Kind::BuildTimeout => false,
            Kind::LaunchFailed | Kind::Unsimulatable | Kind::Wrong => false,
            Kind::Unstable | Kind::Correct => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        self.reason.map_or(Ok(()), |reason| write!(f, "/{}", reason.code()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Reason, Verdict};

    #[test]
    fn names_and_codes_round_trip() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.code()));
        }
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
    }

    #[test]
    fn every_kind_but_correct_has_a_reason() {
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Correct) {
            assert!(Reason::ALL.iter().any(|reason| reason.kinds().contains(&kind)), "{kind:?}");
        }
        assert_eq!(Verdict::failed(Reason::Guard, "x").to_string(), "Faulted/GUARD");
        assert_eq!(Verdict::correct().to_string(), "Correct");
    }
}
