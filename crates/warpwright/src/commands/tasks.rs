//! `task check`: a task proves itself before anybody spends a token on it.

use pipeline::admission::{Admission, AdmissionTier};
use pipeline::task::Task;
use serde_json::{Value, json};

use crate::outcome::{Exit, Outcome, bad_input};
use crate::settings::Places;
use crate::{admission, embedded, python, terminal, wiring};

/// Checks tasks, all built-in ones when none is named, and keeps what was found in the ledger.
pub(crate) async fn check(places: &Places, names: &[String]) -> anyhow::Result<Outcome> {
    let names = if names.is_empty() { embedded::task_names() } else { names.to_vec() };
    let toolchain = wiring::toolchain(places)?;
    let mut worst = AdmissionTier::Proven;
    let mut records = Vec::new();
    for name in names {
        let loaded = wiring::load_task(&name)?;
        let module = check_module(&name, &loaded.task)?;
        let judge = wiring::judge(places, &places.device, &toolchain)?;
        let seed = wiring::fresh_seed()?;
        let task = loaded.task.clone();
        let proving = tokio::task::spawn_blocking(move || {
            admission::prove(&judge, &task, &seed, &terminal::line)
        });
        let found = proving.await??;
        let store = wiring::ledger(places).await?;
        admission::keep(&store, &toolchain.id, &loaded, &found).await?;
        store.close().await;
        terminal::line(&format!("{name}: {}\n", in_words(found.tier())));
        worst = worst.max(found.tier());
        records.push(as_json(&name, &found, module)?);
    }
    let outcome = match worst {
        AdmissionTier::Proven => Outcome::done(),
        AdmissionTier::Weak => Outcome::ended(Exit::Done, "a task is weak"),
        AdmissionTier::Refused => Outcome::ended(Exit::DidNotPass, "a task is refused"),
    };
    Ok(outcome.with("tasks", records))
}

/// The tier, with what follows from it.
fn in_words(tier: AdmissionTier) -> String {
    let follows = match tier {
        AdmissionTier::Proven => "",
        AdmissionTier::Weak => ": it can be used, and every claim by it says what would pass too",
        AdmissionTier::Refused => ": nothing can be judged by it",
    };
    format!("{}{follows}", tier.name())
}

fn as_json(name: &str, found: &Admission, module: Option<&str>) -> anyhow::Result<Value> {
    Ok(json!({
        "task": name, "tier": found.tier().name(), "deviations": found.deviations,
        "wrong": serde_json::to_value(&found.wrong)?,
        "mutants": serde_json::to_value(&found.mutants)?, "silent": found.silent,
        "refusals": found.refusals(), "weaknesses": found.weaknesses(), "reference_py": module,
    }))
}

/// What was looked at of the task's `reference.py`; `None` where it has none.
///
/// # Errors
/// One that is no Python.
fn check_module(name: &str, task: &Task) -> anyhow::Result<Option<&'static str>> {
    let Some(module) = &task.module else { return Ok(None) };
    match python::check_syntax(module) {
        Ok(Ok(())) => {
            terminal::line("  reference.py: it parses; only `accept` runs it");
            Ok(Some("parses"))
        }
        Ok(Err(why)) => Err(bad_input(format!("{name}: reference.py is no Python: {why}"))),
        Err(why) => {
            terminal::line(&format!("  reference.py: not looked at here ({why})"));
            Ok(Some("not looked at"))
        }
    }
}
