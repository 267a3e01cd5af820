//! The judge against the catalogue of cheats and honest tricks, on a GPU or on the simulator.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use judge::CancelFlag;
use judge::catalogue::{Catalogue, Entry};
use pipeline::task::spec::Place;

use super::{Bench, Found};
use crate::embedded;

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let catalogue = Catalogue::from_files(&embedded::catalogue(), &embedded::victim_tasks())?;
    let place = if bench.is_simulated() { Place::Sim } else { Place::Gpu };
    for entry in catalogue.entries.iter().filter(|entry| entry.on.contains(&place)) {
        bench.item(&entry.name, |bench| judged(bench, &catalogue, entry))?;
    }
    Ok(())
}

/// One entry by its name.
pub(super) fn named(bench: &Bench<'_>, name: &str) -> anyhow::Result<Found> {
    let catalogue = Catalogue::from_files(&embedded::catalogue(), &embedded::victim_tasks())?;
    let entry = catalogue.entry(name).with_context(|| format!("no entry {name}"))?;
    judged(bench, &catalogue, entry)
}

fn judged(bench: &Bench<'_>, catalogue: &Catalogue, entry: &Entry) -> anyhow::Result<Found> {
    let judge = Arc::clone(&bench.judge);
    let started = Instant::now();
    let ended = catalogue.run(entry, &judge, &bench.seed, &CancelFlag::default())?;
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
