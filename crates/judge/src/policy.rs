//! Which defences a judge works with: all of them, outside tests of the judge itself.

use pipeline::defence::{Defence, Defences};
use pipeline::digest::Digest;

#[cfg(all(feature = "judge-mutation", not(debug_assertions)))]
compile_error!("the feature `judge-mutation` is for tests of the judge, never for a release");

/// The defences of one judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgePolicy {
    defences: Defences,
}

impl JudgePolicy {
    /// Every defence.
    #[must_use]
    pub fn all() -> Self {
        Self { defences: Defences::ALL }
    }

    /// All but some: what a test needs to show that each of them works alone.
    #[cfg(feature = "judge-mutation")]
    #[must_use]
    pub fn without(off: &[Defence]) -> Self {
        Self { defences: Defences::without(off) }
    }

    pub(crate) fn has(self, defence: Defence) -> bool {
        self.defences.has(defence)
    }

    /// The identity of a judge with these defences.
    pub(crate) fn hash(self, of_all: Digest) -> Digest {
        if self.defences == Defences::ALL {
            return of_all;
        }
        let set = self.defences.to_string();
        Digest::of_parts("judge-without", &[of_all.as_str().as_bytes(), set.as_bytes()])
    }
}
