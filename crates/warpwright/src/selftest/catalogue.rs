//! The judge against the catalogue of cheats and honest tricks, on a GPU or on the simulator.

use std::sync::Arc;
use std::time::Instant;

use judge::CancelFlag;
use judge::catalogue::Catalogue;
use pipeline::task::spec::Place;

use super::{Bench, Found};
use crate::embedded;

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let catalogue = Catalogue::from_files(&embedded::catalogue(), &embedded::victim_tasks())?;
    let judge = Arc::clone(&bench.judge);
    let (seed, cancel) = (bench.seed, CancelFlag::default());
    let place = if bench.is_simulated() { Place::Sim } else { Place::Gpu };
    for entry in catalogue.entries.iter().filter(|entry| entry.on.contains(&place)) {
        bench.item(&entry.name, |_| {
            let started = Instant::now();
            let ended = catalogue.run(entry, &judge, &seed, &cancel)?;
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
        })?;
    }
    Ok(())
}
