//! The judge with defences off against the catalogue: that each defence of a cut set works alone.
//!
//! Only in programs that are built with such judges, which no release is.

use std::time::Instant;

use judge::CancelFlag;
use judge::catalogue::Catalogue;
use pipeline::task::spec::Place;

use super::{Bench, Found};
use crate::embedded;

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let catalogue = Catalogue::from_files(&embedded::catalogue(), &embedded::victim_tasks())?;
    let (judge, seed) = (std::sync::Arc::clone(&bench.judge), bench.seed);
    let place = if bench.is_simulated() { Place::Sim } else { Place::Gpu };
    let attacks = catalogue.attacks(place).into_iter();
    let mut all: Vec<_> = attacks.map(|attack| (attack.name(), attack)).collect();
    // What takes long comes last: a deadline then leaves the fewest.
    all.sort_by_key(|(_, attack)| attack.entry.stage);
    bench.items(&all, |attack| {
        let started = Instant::now();
        let end = catalogue.attack(attack, &judge, &seed, &CancelFlag::default())?;
        let expected = if attack.succeeds { "succeeds" } else { "is caught" };
        Ok(Found::new(end.as_expected)
            .with("expected", expected)
            .with("ended", end.said)
            .with("ms", started.elapsed().as_millis().to_string()))
    })
}
