//! Which defences a judge works with: all of them, outside tests of the judge itself.

#[cfg(feature = "judge-mutation")]
use std::sync::{Arc, Mutex};

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

    /// True for a defence that is on.
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

#[cfg(feature = "judge-mutation")]
impl crate::Judge {
    /// This judge with all defences but some; the two share cards and whatever was made so far.
    #[must_use]
    pub fn without(&self, off: &[Defence]) -> Self {
        let config =
            crate::JudgeConfig { policy: JudgePolicy::without(off), ..self.config.clone() };
        Self {
            config,
            cases: Arc::clone(&self.cases),
            references: Arc::clone(&self.references),
            jobs: Mutex::default(),
            pool: Arc::clone(&self.pool),
            memory: Arc::clone(&self.memory),
            harness: Arc::clone(&self.harness),
            baselines: Arc::clone(&self.baselines),
            held: Arc::clone(&self.held),
        }
    }
}
