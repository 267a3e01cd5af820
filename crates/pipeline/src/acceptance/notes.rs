//! What a claim says besides its numbers.

use super::claim::said;
use super::{Entry, Found, Subject};

/// What checks noted, and what memory forbade of the cases as they were asked for.
pub(super) fn noted(entries: &[Entry]) -> Vec<String> {
    let mut notes = said(entries, &|found| match found {
        Found::Notes { detail } => Some(detail.clone()),
        Found::Clean | Found::Fails { .. } | Found::Audits { .. } => None,
        Found::NotAvailable { .. } => None,
    });
    for entry in entries {
        let gave_way = match entry {
            Entry::Window(record) if record.subject == Subject::Candidate => {
                let memory = record.gpu.as_ref().and_then(|gpu| gpu.memory.as_ref());
                memory.and_then(|fitted| fitted.describe(&format!("{} timed", record.case)))
            }
            Entry::Window(_) | Entry::Rebuilt { .. } | Entry::Trials(_) => None,
            Entry::Checked { .. } | Entry::Pilot(_) => None,
        };
        notes.extend(gave_way.filter(|note| !notes.contains(note)));
    }
    notes
}
