//! How children are confined: which set each gets, and what held those that ran.
//!
//! The sets are the sandbox's; here they get the folders that this judge's compiler, interpreter
//! and tools are in. Start at [`ConfinementConfig`].

use std::path::{Path, PathBuf};

use pipeline::confinement::{Confinement, LEVEL_MAX, SETS_OF_JUDGING};
use sandbox::{ChildKind, ConfinementSet};

use crate::Judge;
use crate::cases::lock;

/// What is beside the tools of a toolkit, one of which is there.
const TOOLKIT_PARTS: [&str; 4] = ["nvvm", "version.json", "libsanitizer-public.so", "sections"];
/// Where programs look for libraries.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// How the children of a judge are confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinementConfig {
    /// Layers above this level are left out: only for machines where something fails under them.
    pub level_max: u8,
    /// A child that is held by less, or by less than its set can reach, is not run.
    pub level_required: u8,
    /// What the compiler needs.
    pub toolchain_folders: Vec<PathBuf>,
}

impl Default for ConfinementConfig {
    /// As much as there is, whatever that is; no compiler.
    fn default() -> Self {
        Self { level_max: LEVEL_MAX, level_required: 0, toolchain_folders: Vec::new() }
    }
}

impl ConfinementConfig {
    /// The set of a child of this program; one with a card has the variables of its driver.
    pub(crate) fn of_child(
        &self,
        kind: ChildKind,
        with_gpu: bool,
        environment: &[(String, String)],
    ) -> ConfinementSet {
        let mut set = ConfinementSet::of_child(kind, with_gpu);
        if kind == ChildKind::Build {
            set = set.reading(self.toolchain_folders.iter().cloned());
        }
        if with_gpu {
            set = set.reading(libraries(environment));
        }
        self.finished(set)
    }

    /// The set of a tool that watches a child of `program`.
    pub(crate) fn of_tool(
        &self,
        set: ConfinementSet,
        tool: &Path,
        program: &Path,
        environment: &[(String, String)],
    ) -> ConfinementSet {
        let real = tool.canonicalize().unwrap_or_else(|_| tool.to_owned());
        let own = [Some(program), Some(tool), Some(&*real), toolkit_of(&real)]
            .into_iter()
            .flatten()
            .map(Path::to_owned);
        self.finished(set.reading(own).reading(libraries(environment)))
    }

    /// The set of the server of baselines, whose compilers keep files in a folder.
    pub(crate) fn of_python(
        &self,
        readable: impl IntoIterator<Item = PathBuf>,
        cache_folder: &Path,
        environment: &[(String, String)],
    ) -> ConfinementSet {
        let set = ConfinementSet::of_python().reading(readable).writing([cache_folder.to_owned()]);
        self.finished(set.reading(libraries(environment)))
    }

    /// The highest level at which ncu works here, layers that are left out apart.
    pub(crate) fn reach_of_profiler(&self) -> u8 {
        ConfinementSet::of_profiler().level_max()
    }

    fn finished(&self, set: ConfinementSet) -> ConfinementSet {
        set.requiring(self.level_required).up_to(self.level_max)
    }
}

/// A toolkit keeps what a tool needs beside the folder that the tool is in. What is not known as
/// one is not opened: the tool may lie in somebody's home.
fn toolkit_of(tool: &Path) -> Option<&Path> {
    let own = tool.parent()?;
    let above = own.parent()?;
    let has = |folder: &Path| TOOLKIT_PARTS.iter().any(|part| folder.join(part).exists());
    [above, own].into_iter().find(|folder| has(folder))
}

fn libraries(environment: &[(String, String)]) -> Vec<PathBuf> {
    let named = environment.iter().filter(|(name, _)| name == LIBRARY_PATH);
    named.flat_map(|(_, value)| std::env::split_paths(value)).collect()
}

impl Judge {
    /// What held the children so far, one record for each set: of several, the weakest.
    #[must_use]
    pub fn confinements(&self) -> Vec<Confinement> {
        lock(&self.held).values().cloned().collect()
    }

    /// What held the children so far by which kernels are judged.
    pub(crate) fn held_in_judging(&self) -> Vec<Confinement> {
        let held = lock(&self.held);
        SETS_OF_JUDGING.iter().filter_map(|set| held.get(*set)).cloned().collect()
    }

    /// What held the children of a kind so far.
    pub(crate) fn confinement_of(&self, kind: ChildKind) -> Option<Confinement> {
        lock(&self.held).get(kind.as_str()).cloned()
    }

    /// Remembers what held a child.
    pub(crate) fn note_confinement(&self, found: Option<Confinement>) {
        let Some(found) = found else { return };
        let mut held = lock(&self.held);
        if held.get(&found.set).is_none_or(|known| found.is_weaker_than(known)) {
            held.insert(found.set.clone(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::toolkit_of;

    #[test]
    fn only_a_toolkit_is_opened_around_a_tool() {
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join("bin/ncu");
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(&tool, "").unwrap();
        assert_eq!(toolkit_of(&tool), None);
        fs::write(folder.path().join("version.json"), "{}").unwrap();
        assert_eq!(toolkit_of(&tool), Some(folder.path()));
    }
}
