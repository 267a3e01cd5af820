//! `ledger verify`: the chains of hashes, and every row that wrote itself into one. `ledger copy`:
//! the ledger of one moment as one file.

use std::path::Path;

use store::{Chain, Store};

use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::{selector, terminal};

/// Verifies one run, or the whole ledger.
pub(crate) async fn verify(places: &Places, selector: Option<&str>) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let runs = match selector {
        Some(_) => vec![selector::resolve_run(&store, selector).await?],
        None => {
            store.check_file().await?;
            store.list_runs().await?.into_iter().rev().map(|run| run.id).collect()
        }
    };
    for run in &runs {
        match store.verify_run(run).await? {
            Ok(Chain::Intact { events, head }) => {
                terminal::line(&format!("run {run}: {events} events, intact; head {head}"));
            }
            Ok(Chain::Broken { seq }) => {
                return Ok(damaged(format!("run {run}: event {seq} was changed or is missing")));
            }
            Err(misfit) => {
                let at = misfit.seq.map_or_else(String::new, |seq| format!("event {seq}: "));
                return Ok(damaged(format!("run {run}: {at}{}", misfit.what)));
            }
        }
    }
    if selector.is_none() {
        terminal::line(&format!("{} runs and the file itself are intact", runs.len()));
    }
    Ok(Outcome::done().with("runs", runs.len()))
}

fn damaged(reason: String) -> Outcome {
    terminal::line(&reason);
    Outcome::ended(Exit::LedgerTrouble, reason)
}

/// Copies the ledger into a new file.
pub(crate) async fn copy(places: &Places, file: &Path) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    store.copy_to(file).await?;
    terminal::line(&format!("{} is a copy of {}", file.display(), places.ledger.display()));
    Ok(Outcome::done().with("file", file.display().to_string()))
}
