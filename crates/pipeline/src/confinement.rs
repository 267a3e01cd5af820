//! What held a child: which layers of confinement were enforced, and the level that they make.
//!
//! Only the words of a record are here; the crate `sandbox` enforces the layers and says what came
//! of it. Start at [`Confinement`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that holds a process, in the order of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// A session of its own, given descriptors and environment, no new privileges, an end with its
    /// parent.
    Process,
    /// No capabilities, and a user of its own where root started it.
    Identity,
    /// Limits of time, memory, files and processes.
    Rlimits,
    /// A filter of system calls.
    Seccomp,
    /// Rules for files, TCP, signals and abstract sockets.
    Landlock,
    /// A world of its own of processes, mounts, network, names and shared memory.
    Namespaces,
    /// A group with a limit of memory and processes for all of them together.
    Cgroup,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Self; 7] = [
        Self::Process,
        Self::Identity,
        Self::Rlimits,
        Self::Seccomp,
        Self::Landlock,
        Self::Namespaces,
        Self::Cgroup,
    ];

    /// The name, as in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Identity => "identity",
            Self::Rlimits => "rlimits",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
            Self::Cgroup => "cgroup",
        }
    }

    /// The level that needs it.
    #[must_use]
    pub fn level(self) -> u8 {
        match self {
            Self::Process | Self::Identity => 0,
            Self::Rlimits | Self::Seccomp => 1,
            Self::Landlock => 2,
            Self::Namespaces => 3,
            Self::Cgroup => 4,
        }
    }
}

/// The highest level.
pub const LEVEL_MAX: u8 = 4;

/// Sets of the children by which a kernel is judged. Those of tools and frameworks reach less.
pub const SETS_OF_JUDGING: [&str; 4] = ["build", "reference", "candidate", "verify"];

/// The level of the child that was held by the least among those by which a kernel was judged;
/// `None` where none is on record.
#[must_use]
pub fn level_of_judging<'a>(records: impl IntoIterator<Item = &'a Confinement>) -> Option<u8> {
    let judging = records.into_iter().filter(|it| SETS_OF_JUDGING.contains(&it.set.as_str()));
    judging.map(|it| it.level).min()
}

/// What came of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// It holds; how, in words.
    Enforced(String),
    /// It was wanted and does not hold, at least not all of it; why.
    NotAvailable(String),
    /// Nobody wanted it here.
    LeftOut,
}

/// What held one child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// Name of the set of layers that was wanted.
    pub set: String,
    /// The highest level whose layers, and those of the levels below it, were all enforced.
    pub level: u8,
    /// One entry for each layer.
    pub layers: Vec<(Layer, LayerState)>,
}

impl Confinement {
    /// The record of these layers; what is not named was left out.
    #[must_use]
    pub fn new(set: &str, states: Vec<(Layer, LayerState)>) -> Self {
        let state = |layer: Layer| {
            let found = states.iter().find(|(it, _)| *it == layer);
            (layer, found.map_or(LayerState::LeftOut, |(_, state)| state.clone()))
        };
        let layers: Vec<_> = Layer::ALL.map(state).to_vec();
        Self { set: set.to_owned(), level: level_of(&layers), layers }
    }

    /// Whether a layer was enforced.
    #[must_use]
    pub fn has(&self, layer: Layer) -> bool {
        self.layers.iter().any(|(it, state)| *it == layer && is_enforced(state))
    }

    /// How a layer was enforced, or why it was not.
    #[must_use]
    pub fn words(&self, layer: Layer) -> &str {
        let state = self.layers.iter().find(|(it, _)| *it == layer).map(|(_, state)| state);
        match state {
            Some(LayerState::Enforced(words) | LayerState::NotAvailable(words)) => words,
            Some(LayerState::LeftOut) | None => "",
        }
    }

    /// Whether less holds than in another record.
    #[must_use]
    pub fn is_weaker_than(&self, other: &Self) -> bool {
        let held = |record: &Self| Layer::ALL.iter().filter(|layer| record.has(**layer)).count();
        (self.level, held(self)) < (other.level, held(other))
    }

    /// What was wanted and does not hold, a sentence for each layer.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        let lack = |(layer, state): &(Layer, LayerState)| match state {
            LayerState::NotAvailable(why) => Some(format!("{}: {why}", layer.name())),
            LayerState::Enforced(_) | LayerState::LeftOut => None,
        };
        self.layers.iter().filter_map(lack).collect()
    }
}

/// `level 3 of candidate: process, identity, …; not cgroup (why)`.
impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let enforced = self.layers.iter().filter(|(_, state)| is_enforced(state));
        let names: Vec<_> = enforced.map(|(layer, _)| layer.name()).collect();
        write!(f, "level {} of {LEVEL_MAX} ({})", self.level, names.join(", "))?;
        let lacks = self.lacks();
        if lacks.is_empty() { Ok(()) } else { write!(f, "; not {}", lacks.join("; not ")) }
    }
}

fn is_enforced(state: &LayerState) -> bool {
    match state {
        LayerState::Enforced(_) => true,
        LayerState::NotAvailable(_) | LayerState::LeftOut => false,
    }
}

fn level_of(layers: &[(Layer, LayerState)]) -> u8 {
    let missing = layers.iter().filter(|(layer, state)| layer.level() > 0 && !is_enforced(state));
    missing.map(|(layer, _)| layer.level() - 1).min().unwrap_or(LEVEL_MAX)
}

#[cfg(test)]
mod tests {
    use super::{Confinement, LEVEL_MAX, Layer, LayerState, level_of_judging};

    fn record(missing: &[Layer]) -> Confinement {
        let state = |layer| match missing.contains(&layer) {
            true => (layer, LayerState::NotAvailable("no such thing".to_owned())),
            false => (layer, LayerState::Enforced(String::new())),
        };
        Confinement::new("candidate", Layer::ALL.map(state).to_vec())
    }

    #[test]
    fn a_level_needs_all_layers_up_to_it() {
        for (missing, level) in [
            (&[][..], LEVEL_MAX),
            (&[Layer::Identity], LEVEL_MAX),
            (&[Layer::Cgroup], 3),
            (&[Layer::Namespaces], 2),
            (&[Layer::Landlock], 1),
            (&[Layer::Seccomp], 0),
            (&[Layer::Rlimits], 0),
            (&[Layer::Cgroup, Layer::Landlock], 1),
        ] {
            assert_eq!(record(missing).level, level, "{missing:?}");
        }
        assert_eq!(Confinement::new("nothing", Vec::new()).level, 0);
    }

    #[test]
    fn the_weakest_child_that_judges_counts() {
        let of =
            |set: &str, missing: &[Layer]| Confinement { set: set.to_owned(), ..record(missing) };
        let full = of("candidate", &[Layer::Cgroup]);
        let weaker = of("build", &[Layer::Landlock]);
        let tool = of("ncu", &[Layer::Seccomp]);
        for (records, level) in [
            (&[][..], None),
            (std::slice::from_ref(&tool), None),
            (&[full.clone(), tool.clone()], Some(3)),
            (&[full, tool.clone(), weaker], Some(1)),
        ] {
            assert_eq!(level_of_judging(records), level);
        }
    }

    #[test]
    fn of_two_records_one_is_weaker() {
        let (all, fewer) = (record(&[]), record(&[Layer::Identity]));
        assert!(fewer.is_weaker_than(&all) && !all.is_weaker_than(&fewer));
        assert!(!all.is_weaker_than(&all));
        let (first, second) = (record(&[Layer::Cgroup]), record(&[Layer::Landlock]));
        assert!(second.is_weaker_than(&first) && !first.is_weaker_than(&second));
    }

    #[test]
    fn what_is_missing_is_said() {
        let record = record(&[Layer::Cgroup]);
        assert!(record.has(Layer::Landlock) && !record.has(Layer::Cgroup));
        assert_eq!(record.lacks(), ["cgroup: no such thing"]);
        assert_eq!(record.words(Layer::Cgroup), "no such thing");
        assert_eq!(
            record.to_string(),
            "level 3 of 4 (process, identity, rlimits, seccomp, landlock, namespaces); \
             not cgroup: no such thing"
        );
    }
}
