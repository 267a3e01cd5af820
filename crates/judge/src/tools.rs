//! Tools of the CUDA toolkit that watch a child: where they are, and what they need around them.

use std::path::{Path, PathBuf};

use sandbox::wire::{RunReport, RunRequest};
use sandbox::{CancelFlag, ChildKind, ConfinementSet, Memfd};

use crate::children::{Call, ChildEnd};
use crate::limits::WATCHED_LIMITS;
use crate::on_card::in_trouble;
use crate::reference::Whose;
use crate::{Judge, JudgeError};

/// Where a tool's own scripts find the programs that they need.
const TOOL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A tool of the CUDA toolkit: on the path, or where the toolkit is installed by default.
#[must_use]
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    let mut found = folders.map(|folder| folder.join(name));
    found.find(|path: &PathBuf| Path::is_file(path))
}

fn environment_of_tools(mut environment: Vec<(String, String)>) -> Vec<(String, String)> {
    let tools = [("PATH", TOOL_PATH), ("HOME", "/tmp")];
    environment.extend(tools.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment
}

impl Judge {
    /// Finds out what holds the tools that are there, with a child under each one's set.
    pub(crate) fn note_tools(&self, cancel: &CancelFlag) -> Result<(), JudgeError> {
        let config = &self.config;
        let of_gpus = config.gpus.as_ref().map_or_else(Vec::new, |gpus| gpus.environment.clone());
        let environment = environment_of_tools(of_gpus);
        let sets = [
            ("compute-sanitizer", ConfinementSet::of_sanitizer()),
            ("ncu", ConfinementSet::of_profiler()),
        ];
        for (name, set) in sets {
            let Some(tool) = find_tool(name) else { continue };
            let set = config.confinement.of_tool(set, &tool, &config.program, &environment);
            let reached = self.reach_with(set, false, &environment, cancel)?;
            self.note_confinement(Some(reached.confinement));
        }
        Ok(())
    }

    /// Runs a candidate's child under a tool, on a card that is looked after; gives its end, and
    /// the end of what the tool and the child wrote. `watched_by` are the words before the child's
    /// own; both are held by the tool's set.
    pub(crate) fn perform_watched(
        &self,
        mut request: RunRequest,
        bulk: &[&Memfd],
        (set, watched_by): (ConfinementSet, &[String]),
        cancel: &CancelFlag,
    ) -> Result<(ChildEnd<RunReport>, String), JudgeError> {
        let lease = self.lease(cancel)?;
        let lease = lease.ok_or_else(|| JudgeError::NotAvailable("no GPU".to_owned()))?;
        request.device = self.device_choice(Some(&lease), Whose::Reference);
        let environment = environment_of_tools(lease.environment());
        let program = &self.config.program;
        let tool = watched_by.first().map_or(Path::new(""), Path::new);
        let call = Call {
            program,
            watched_by,
            kind: ChildKind::Candidate,
            limits: &WATCHED_LIMITS,
            environment: &environment,
            confinement: self.config.confinement.of_tool(set, tool, program, &environment),
        };
        let (end, said) = match call.perform(&request, bulk, cancel) {
            Ok(performed) => {
                self.note_confinement(performed.confinement);
                (Ok(performed.end), performed.said)
            }
            Err(error) => (Err(error), String::new()),
        };
        if in_trouble(&end) {
            self.check_health(&lease, cancel)?;
        }
        Ok((end?, said))
    }
}
