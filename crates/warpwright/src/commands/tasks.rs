//! `task check`: a task proves itself before anybody spends a token on it.

use pipeline::admission::AdmissionTier;

use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::{admission, embedded, terminal, wiring};

/// Checks tasks, all built-in ones when none is named, and keeps what was found in the ledger.
pub(crate) async fn check(places: &Places, names: &[String]) -> anyhow::Result<Outcome> {
    let names = if names.is_empty() { embedded::task_names() } else { names.to_vec() };
    let toolchain = wiring::toolchain(places)?;
    let mut worst = AdmissionTier::Proven;
    for name in names {
        let loaded = wiring::load_task(&name)?;
        let judge = wiring::judge(places, &places.device, &toolchain)?;
        let seed = wiring::fresh_seed()?;
        let task = loaded.task.clone();
        let proving = tokio::task::spawn_blocking(move || admission::prove(&judge, &task, &seed));
        let found = proving.await??;
        let store = wiring::ledger(places).await?;
        admission::keep(&store, &toolchain.id, &loaded, &found).await?;
        store.close().await;
        terminal::line(&format!("{name}: {}\n", found.tier().name()));
        worst = worst.max(found.tier());
    }
    Ok(match worst {
        AdmissionTier::Proven => Outcome::done(),
        AdmissionTier::Weak | AdmissionTier::Refused => {
            Outcome::ended(Exit::DidNotPass, format!("a task is {}", worst.name()))
        }
    })
}
