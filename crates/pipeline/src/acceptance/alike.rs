//! What windows must have in common for their times to be held against each other.

use std::collections::BTreeMap;

use super::{Subject, WindowRecord};
use crate::hidden::Dims;

/// Conditions by name, as they were first met.
#[derive(Clone, Default)]
pub(super) struct Conditions {
    met: BTreeMap<String, String>,
}

/// The card may be another one in another round.
const CARD: &str = "the card";

impl Conditions {
    /// Takes the conditions of a round's windows; says which of them is not the one met before.
    pub(super) fn meet(&mut self, windows: &[&WindowRecord]) -> Result<(), String> {
        for record in windows {
            for (what, now) in conditions(record) {
                let before = self.met.entry(what.clone()).or_insert_with(|| now.clone());
                if *before != now {
                    return Err(format!("{what} changed from {before} to {now}"));
                }
            }
        }
        Ok(())
    }

    /// What later rounds have to meet too.
    pub(super) fn lasting(mut self) -> Self {
        self.met.remove(CARD);
        self
    }
}

fn conditions(record: &WindowRecord) -> Vec<(String, String)> {
    let gpu = record.gpu.as_ref();
    let known = |text: Option<&String>| text.cloned().unwrap_or_else(|| "an unknown one".into());
    let mut found = vec![
        (CARD.to_owned(), known(gpu.map(|gpu| &gpu.uuid))),
        ("the driver".to_owned(), known(gpu.map(|gpu| &gpu.driver))),
        (format!("the shape of `{}`", record.case), describe(&dims_of(record))),
    ];
    if let Subject::Baseline(baseline) = &record.subject {
        let mut versions: Vec<_> =
            record.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        versions.sort();
        found.push((format!("the versions of {baseline}"), versions.join(", ")));
    }
    found
}

/// The shape that a window timed; empty where it is not known.
pub(super) fn dims_of(record: &WindowRecord) -> Dims {
    let memory = record.gpu.as_ref().and_then(|gpu| gpu.memory.as_ref());
    memory.map(|fitted| fitted.dims.clone()).unwrap_or_default()
}

/// A shape in words.
pub(crate) fn describe(dims: &Dims) -> String {
    let parts: Vec<_> = dims.iter().map(|(name, extent)| format!("{name} = {extent}")).collect();
    parts.join(", ")
}
