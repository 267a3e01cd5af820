//! `stop`: asks a run that is on to stop, and waits until it has.

use std::time::{Duration, Instant};

use pipeline::tell::Said;
use rustix::process::{Pid, Signal, kill_process};
use store::{RunId, RunState, Store};

use crate::cli::StopArgs;
use crate::commands::tell::teller;
use crate::limits::FOLLOW_POLL_MS;
use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::{terminal, wiring};

/// Stops a run.
pub(crate) async fn perform(places: &Places, args: &StopArgs) -> anyhow::Result<Outcome> {
    let by = teller(args.by.as_deref())?;
    // Reading first: a missing ledger must not be made by a typing error.
    Store::open_read_only(&places.ledger).await?;
    let store = wiring::ledger(places).await?;
    let run = store.resolve_run(&args.run).await?;
    let Some(driver) = driver(&store, &run)? else {
        let state = super::status::state(&store, &store.run(&run).await?);
        terminal::line(&format!("run {run} is not on: it is {state}"));
        return Ok(Outcome::done().with("run", run.to_string()).with("state", state));
    };
    store.tell(&run, None, &Said::Stop, &by).await?;
    // What it is in the middle of hears the signal; the row is for its next decision.
    for _ in 0..=u32::from(args.now) {
        ask(driver);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    wait(&store, &run, args).await
}

/// The process that drives a run, if one does.
fn driver(store: &Store, run: &RunId) -> anyhow::Result<Option<Option<Pid>>> {
    let driver = store.driver_of(run)?;
    Ok(driver.map(|pid| pid.parse().ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)))
}

fn ask(driver: Option<Pid>) {
    let asked = driver.map(|pid| kill_process(pid, Signal::TERM));
    if !matches!(asked, Some(Ok(()))) {
        terminal::note("its process cannot be signalled from here: it stops at its next decision");
    }
}

async fn wait(store: &Store, run: &RunId, args: &StopArgs) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    loop {
        let row = store.run(run).await?;
        if row.state != RunState::Running || driver(store, run)?.is_none() {
            let reason = row.reason.as_deref().unwrap_or_default();
            let state = super::status::state(store, &row);
            terminal::line(&format!("run {run} is {state}: {reason}; `resume {run}` goes on"));
            return Ok(Outcome::done().with("run", run.to_string()).with("state", state));
        }
        if begun.elapsed() >= Duration::from_secs(args.wait.into()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(FOLLOW_POLL_MS)).await;
    }
    let reason = format!(
        "run {run} was asked to stop and still finishes its step (a question that was sent waits \
         for its reply); `stop {run} --now` does not wait for it"
    );
    terminal::line(&reason);
    let exit = if args.wait == 0 { Exit::Done } else { Exit::BudgetEnded };
    Ok(Outcome::ended(exit, reason).with("run", run.to_string()).with("state", "running"))
}
