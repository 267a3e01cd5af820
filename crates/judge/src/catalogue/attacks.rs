//! Cut sets: with all defences of an entry's set off it is judged correct, so it is a real attack;
//! with any single one of them on again it is rejected, so that one works alone. Of an attack on
//! the time, which is right by its outputs, the gain counts where there are times.
//!
//! Only judges for tests can have defences off.

use pipeline::defence::Defence;
use pipeline::task::spec::Place;
use sandbox::CancelFlag;

use super::{Catalogue, Code, Entry, Stage};
use crate::{Judge, JudgeError, RunSeed};

/// An entry under a judge with some defences off, and what must come of it.
#[derive(Clone, Debug)]
pub struct Attack<'a> {
    pub entry: &'a Entry,
    pub off: Vec<Defence>,
    /// True where the attack must succeed.
    pub succeeds: bool,
}

/// How an attack ended.
#[derive(Clone, Debug)]
pub struct AttackEnd {
    pub as_expected: bool,
    /// Code, stage and detail, in words.
    pub said: String,
}

impl Catalogue {
    /// All attacks that a device can show.
    #[must_use]
    pub fn attacks(&self, place: Place) -> Vec<Attack<'_>> {
        let mut attacks = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.on.contains(&place)) {
            let cut_set = entry.cut_set(place);
            if cut_set.is_empty() {
                continue;
            }
            attacks.push(Attack { entry, off: cut_set.to_vec(), succeeds: true });
            for on in cut_set {
                let off = cut_set.iter().copied().filter(|defence| defence != on).collect();
                attacks.push(Attack { entry, off, succeeds: false });
            }
        }
        attacks
    }

    /// Runs an attack under a judge like this one, but for the defences.
    ///
    /// # Errors
    /// Our own breakage, never the kernel.
    pub fn attack(
        &self,
        attack: &Attack<'_>,
        judge: &Judge,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<AttackEnd, JudgeError> {
        let timed = judge.config().gpus.is_some();
        let judge = judge.without(&attack.off);
        // What the static gate lets through must also run.
        let last = attack.entry.stage.max(Stage::Search);
        let ended = self.run_to(attack.entry, last, &judge, seed, cancel)?;
        let succeeded = match ended.code {
            Code::Pass => true,
            Code::NoGain => !timed,
            Code::Audit | Code::Reason(_) => false,
        };
        let said = format!("{} ({}): {}", ended.code, ended.stage.name(), ended.detail);
        Ok(AttackEnd { as_expected: succeeded == attack.succeeds, said })
    }
}

impl Attack<'_> {
    /// Its name: the entry, and the defences that are off.
    #[must_use]
    pub fn name(&self) -> String {
        let off: String = self.off.iter().map(|defence| format!("{defence:?}")).collect();
        format!("{} without {off}", self.entry.name)
    }
}
