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

impl Judge {
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
        let tools = [("PATH", TOOL_PATH), ("HOME", "/tmp")];
        let mut environment = lease.environment();
        environment.extend(tools.map(|(name, value)| (name.to_owned(), value.to_owned())));
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
