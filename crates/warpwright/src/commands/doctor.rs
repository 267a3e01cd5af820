//! `doctor`: what works on this machine, each line found out by doing it.

use device::toolchain;
use judge::CancelFlag;
use store::Store;

use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::{embedded, terminal, wiring};

/// Checks everything that a run needs.
pub(crate) async fn perform(places: &Places) -> anyhow::Result<Outcome> {
    let mut missing = Vec::new();
    let file = places.file_path.as_ref().map_or_else(
        || "no settings file (`warpwright init` writes one)".to_owned(),
        |path| format!("{}, {} models", path.display(), places.file.model.len()),
    );
    terminal::line(&format!("  --  settings: {file}"));
    let compiler = toolchain::find(&places.toolchain, &places.cache);
    report(
        "CUDA compiler",
        compiler.as_ref().map(|t| format!("NVRTC {} ({})", t.version, t.id)),
        &mut missing,
    );
    match &compiler {
        Ok(found) => {
            let golden = golden(found).await;
            report("compile and simulate in children", golden.as_ref().cloned(), &mut missing);
        }
        Err(_) => terminal::line("  --  compile and simulate in children: needs the compiler"),
    }
    report("ledger", ledger(places).await, &mut missing);
    terminal::line("  --  GPU: this version runs kernels on the simulator only");
    if missing.is_empty() {
        return Ok(Outcome::done());
    }
    Ok(Outcome::ended(Exit::NotAvailable, format!("missing: {}", missing.join(", "))))
}

fn report<E: std::fmt::Display>(
    what: &'static str,
    found: Result<String, E>,
    missing: &mut Vec<&'static str>,
) {
    match found {
        Ok(text) => terminal::line(&format!("  ok  {what}: {text}")),
        Err(error) => {
            terminal::line(&format!("  NO  {what}: {error}"));
            missing.push(what);
        }
    }
}

/// Runs the reference of the built-in task on its golden case, in real children.
async fn golden(found: &toolchain::Toolchain) -> Result<String, String> {
    let judge = wiring::judge(found).map_err(|error| error.to_string())?;
    let loaded = wiring::load_task(embedded::DEMO_TASK).map_err(|error| error.to_string())?;
    let checked = tokio::task::spawn_blocking(move || {
        judge.check_golden(&loaded.task, &CancelFlag::default())
    });
    let report = checked.await.map_err(|error| error.to_string())?;
    let report = report.map_err(|error| error.to_string())?;
    if report.deviations.is_empty() {
        return Ok(format!("{} golden values agree", report.compared));
    }
    Err(format!("{} of {} golden values differ", report.deviations.len(), report.compared))
}

async fn ledger(places: &Places) -> Result<String, String> {
    let path = places.ledger.display();
    if !places.ledger.exists() {
        return Ok(format!("{path} will be made by the first run"));
    }
    let store = Store::open_read_only(&places.ledger).await.map_err(|error| error.to_string())?;
    let runs = store.list_runs().await.map_err(|error| error.to_string())?;
    Ok(format!("{path}, {} runs", runs.len()))
}
