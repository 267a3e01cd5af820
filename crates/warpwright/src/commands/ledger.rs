//! `ledger verify`: the chain of hashes over a run's events.

use store::{Chain, Store};

use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::{selector, terminal};

/// Verifies the chain of one run.
pub(crate) async fn verify(places: &Places, selector: Option<&str>) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let run = selector::resolve_run(&store, selector).await?;
    Ok(match store.verify_chain(&run).await? {
        Chain::Intact { events, head } => {
            terminal::line(&format!("run {run}: {events} events, intact; head {head}"));
            Outcome::done()
        }
        Chain::Broken { seq } => {
            let reason = format!("run {run}: event {seq} was changed or is missing");
            terminal::line(&reason);
            Outcome::ended(Exit::LedgerTrouble, reason)
        }
    })
}
