//! What a person has to look at before anything is claimed.

use serde::{Deserialize, Serialize};

use super::{Against, Check, Entry, Found, Subject, Timed, WindowRecord};
use crate::comparison::Suspicion;
use crate::limits::AUDITED_RATIO_MIN;

/// A suspicion, with what raised it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raised {
    pub suspicion: Suspicion,
    pub by: RaisedBy,
    pub detail: String,
}

/// What raised a suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaisedBy {
    Check(Check),
    /// The candidate's times in the rounds.
    Times,
    /// A speed-up so large that it wants a sanitizer, and none looked.
    Unwatched,
}

impl Raised {
    /// True where a person who let `other` pass let this pass too.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.suspicion, self.by) == (other.suspicion, other.by)
    }
}

/// Everything that is suspicious, once each, impossible times first.
pub(super) fn suspicions(entries: &[Entry], fastest: &Against) -> Vec<Raised> {
    let mut all: Vec<Raised> = Vec::new();
    let unlike = |all: &[Raised], new: &Raised| !all.iter().any(|it| it.is_like(new));
    for raised in entries.iter().filter_map(raised_by) {
        if unlike(&all, &raised) {
            all.push(raised);
        }
    }
    let ratio = fastest.interval.ratio();
    if ratio > AUDITED_RATIO_MIN && !sanitized(entries) {
        let detail = format!("{ratio:.1} times faster, and no sanitizer looked at it");
        all.push(Raised { suspicion: Suspicion::Audit, by: RaisedBy::Unwatched, detail });
    }
    all.sort_by_key(|raised| raised.suspicion == Suspicion::Audit);
    all
}

fn raised_by(entry: &Entry) -> Option<Raised> {
    match entry {
        Entry::Checked { check, found: Found::Audits { detail } } => Some(Raised {
            suspicion: Suspicion::Audit,
            by: RaisedBy::Check(*check),
            detail: format!("{check:?}: {detail}"),
        }),
        Entry::Window(WindowRecord {
            subject: Subject::Candidate,
            timed: Timed::Measured { suspicion: Some((suspicion, detail)), .. },
            ..
        }) => {
            let (suspicion, detail) = (*suspicion, detail.clone());
            Some(Raised { suspicion, by: RaisedBy::Times, detail })
        }
        Entry::Checked { .. } | Entry::Window(_) => None,
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Pilot(_) => None,
    }
}

/// True when a tool that watches every access found nothing.
fn sanitized(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| match entry {
        Entry::Checked { check: Check::Memcheck | Check::Simulator, found: Found::Clean } => true,
        Entry::Checked { .. } | Entry::Rebuilt { .. } | Entry::Trials(_) => false,
        Entry::Pilot(_) | Entry::Window(_) => false,
    })
}

/// All of them in one line, with what helps.
pub(super) fn in_words(raised: &[Raised]) -> String {
    let mut parts: Vec<&str> = raised.iter().map(|it| it.detail.as_str()).collect();
    for kind in [Suspicion::Physics, Suspicion::Audit] {
        if raised.iter().any(|it| it.suspicion == kind) {
            parts.push(match kind {
                Suspicion::Physics => "check the task's bytes and flops with task check --roofline",
                Suspicion::Audit => "read the kernel; review has it until then",
            });
        }
    }
    parts.join("; ")
}
