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

#[cfg(test)]
mod tests {
    use super::super::{Check, Entry, Found, Subject, WindowRecord};
    use super::noted;
    use crate::baseline::BaselineId;
    use crate::memory::{Fitted, Memory, Rung};
    use crate::report::GpuRecord;

    fn window(subject: Subject, round: u32, why: &str) -> Entry {
        let fitted = Fitted {
            rung: Rung::SmallerShape,
            dims: [("rows".to_owned(), 64)].into(),
            largest: 256,
            need: Memory { device: 8, host: 8 },
            free: Memory { device: 10, host: 10 },
            why: why.to_owned(),
        };
        let gpu = GpuRecord {
            uuid: "GPU-made-up".to_owned(),
            driver: "1".to_owned(),
            before: None,
            after: None,
            cold: Vec::new(),
            warm: Vec::new(),
            cost: Vec::new(),
            memory: Some(fitted),
        };
        let begun = WindowRecord::begun("headline", subject, round, 0);
        Entry::Window(WindowRecord { gpu: Some(gpu), ..begun })
    }

    /// Once, however many windows there were, and what is said of the candidate's only.
    #[test]
    fn a_claim_says_what_memory_forbade() {
        let detail = "max size verified: 256 bytes".to_owned();
        let eager = BaselineId::from_name("eager-strict").unwrap();
        let entries = [
            Entry::Checked { check: Check::BigShape, found: Found::Notes { detail } },
            Entry::Checked { check: Check::Timers, found: Found::Clean },
            window(Subject::Candidate, 1, "it is small"),
            window(Subject::Baseline(eager), 1, "it wants more"),
            window(Subject::Candidate, 2, "it is small"),
        ];
        let wanted = [
            "BigShape: max size verified: 256 bytes",
            "headline timed at rows = 64, smaller than asked because it is small",
        ];
        assert_eq!(noted(&entries), wanted);
    }
}
