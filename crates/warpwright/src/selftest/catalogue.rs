//! The judge against the catalogue of cheats and honest tricks, on a GPU or on the simulator.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use judge::catalogue::{Catalogue, Entry, Stage};
use judge::{CancelFlag, Judge, RunSeed};
use pipeline::task::spec::Place;

use super::{Bench, Found};
use crate::embedded;

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let catalogue = Catalogue::from_files(&embedded::catalogue(), &embedded::victim_tasks())?;
    let place = if bench.is_simulated() { Place::Sim } else { Place::Gpu };
    let entries = catalogue.entries.iter().filter(|entry| entry.on.contains(&place));
    let mut all: Vec<_> = entries.map(|entry| (entry.name.clone(), entry)).collect();
    // What takes long comes last: a deadline then leaves the fewest.
    all.sort_by_key(|(_, entry)| if entry.is_honest() { Stage::Accept } else { entry.stage });
    let (judge, seed) = (Arc::clone(&bench.judge), bench.seed);
    bench.items(&all, |entry| judged(&judge, &seed, &catalogue, entry))
}

/// One entry by its name.
pub(super) fn named(bench: &Bench<'_>, name: &str) -> anyhow::Result<Found> {
    let catalogue = Catalogue::from_files(&embedded::catalogue(), &embedded::victim_tasks())?;
    let entry = catalogue.entry(name).with_context(|| format!("no entry {name}"))?;
    judged(&bench.judge, &bench.seed, &catalogue, entry)
}

fn judged(
    judge: &Judge,
    seed: &RunSeed,
    catalogue: &Catalogue,
    entry: &Entry,
) -> anyhow::Result<Found> {
    let started = Instant::now();
    let ended = catalogue.run(entry, judge, seed, &CancelFlag::default())?;
    let fit = entry.fit(&ended);
    Ok(Found::new(fit.is_good())
        .with("about", &*entry.title)
        .with("task", &*entry.task)
        .with("expected", entry.expected())
        .with("ended", ended.code.name())
        .with("stage", ended.stage.name())
        .with("so", fit.name())
        .with("ms", started.elapsed().as_millis().to_string())
        .with("said", ended.detail))
}
