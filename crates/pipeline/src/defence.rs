//! The eight structural defences of the judge, by letter, and sets of them.
//!
//! A judge works with all of them. Switching some off exists only so that a test can show that each
//! one alone stops what it is there to stop.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One defence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Defence {
    /// Outputs, workspaces and shared memory hold other garbage before every run.
    A,
    /// Content and addresses change from call to call, weights included.
    B,
    /// Every output is verified, in another process.
    C,
    /// Expected values are never in the candidate's process; buffers have unmapped neighbours.
    D,
    /// Only what the compiled module may contain is run.
    E,
    /// An fp64 reference, a bound for each element, distributions and shapes that were not shown.
    F,
    /// Times between events, behind a gate, with a cold cache, against a physical floor.
    G,
    /// Processes that can be killed; an end that is no pass is a failure; one build for all runs.
    H,
}

impl Defence {
    /// Every defence in order.
    pub const ALL: [Self; 8] =
        [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F, Self::G, Self::H];

    /// The defence with this letter.
    #[must_use]
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|defence| format!("{defence:?}") == letter)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of defences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Defences(u8);

impl Defences {
    /// All of them: the only set that judges.
    pub const ALL: Self = Self(u8::MAX);

    /// All but some.
    #[must_use]
    pub fn without(off: &[Defence]) -> Self {
        Self(off.iter().fold(u8::MAX, |set, defence| set & !defence.bit()))
    }

    /// True when a defence is on.
    #[must_use]
    pub fn has(self, defence: Defence) -> bool {
        self.0 & defence.bit() != 0
    }
}

impl fmt::Display for Defences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = Defence::ALL.into_iter().filter(|defence| self.has(*defence));
        on.into_iter().try_for_each(|defence| write!(f, "{defence:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Defence, Defences};

    #[test]
    fn sets_hold_what_was_not_switched_off() {
        let set = Defences::without(&[Defence::B, Defence::H]);
        assert_eq!(set.to_string(), "ACDEFG");
        assert_eq!(Defences::ALL.to_string(), "ABCDEFGH");
        assert_eq!(Defences::without(&[]), Defences::ALL);
        assert!(!set.has(Defence::B) && set.has(Defence::A));
        let found = Defence::ALL.map(|defence| Defence::from_letter(&format!("{defence:?}")));
        assert_eq!(found, Defence::ALL.map(Some));
        assert_eq!(Defence::from_letter("I"), None);
    }
}
