//! `stop`: asks a run that is on to stop, and waits until it has.

use std::time::{Duration, Instant};

use pipeline::tell::Said;
use rustix::process::{Pid, Signal, kill_process};
use store::{RunId, Store};

use crate::cli::StopArgs;
use crate::commands::tell::teller;
use crate::limits::FOLLOW_POLL_MS;
use crate::outcome::{Exit, Outcome, exit_of};
use crate::settings::Places;
use crate::{terminal, wiring};

/// Stops a run.
pub(crate) async fn perform(places: &Places, args: &StopArgs) -> anyhow::Result<Outcome> {
    let by = teller(args.by.as_deref())?;
    let store = Store::open_read_only(&places.ledger).await?;
    let run = store.resolve_run(&args.run).await?;
    let Some(driver) = driver(&store, &run)? else {
        let state = super::status::state(&store, &store.run(&run).await?);
        let line = match state {
            "died" => "its process has died".to_owned(),
            state => format!("it is {state}"),
        };
        terminal::line(&format!("run {run} is not on: {line}"));
        return Ok(Outcome::done().with("run", run.to_string()).with("state", state));
    };
    // What it is in the middle of hears the signal; the row is for its next decision.
    if let Err(error) = note(places, &run, &by).await {
        let exit = exit_of(&error);
        if exit != Exit::LedgerTrouble || driver.is_none() {
            return Err(error);
        }
        terminal::note(&format!("{error:#}; its process is asked all the same, without a record"));
    }
    for _ in 0..=u32::from(args.now) {
        ask(driver);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    wait(&store, &run, args).await
}

/// Stores that the run is to stop.
async fn note(places: &Places, run: &RunId, by: &str) -> anyhow::Result<()> {
    let store = wiring::ledger(places).await?;
    store.tell(run, None, &Said::Stop, by).await?;
    store.close().await;
    Ok(())
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
    let driver = loop {
        let Some(driver) = driver(store, run)? else {
            // Read after its process has gone, so that its end is seen.
            let row = store.run(run).await?;
            let reason = row.reason.as_deref().unwrap_or_default();
            let state = super::status::state(store, &row);
            let line = match state {
                "died" => format!("the process of run {run} has died; `resume {run}` goes on"),
                state => format!("run {run} is {state}: {reason}; `resume {run}` goes on"),
            };
            terminal::line(&terminal::one_line(&line));
            return Ok(Outcome::done().with("run", run.to_string()).with("state", state));
        };
        if begun.elapsed() >= Duration::from_secs(args.wait.into()) {
            break driver;
        }
        tokio::time::sleep(Duration::from_millis(FOLLOW_POLL_MS)).await;
    };
    let reason = still_on(run, driver, args.now);
    terminal::line(&reason);
    let exit = if args.wait == 0 { Exit::Done } else { Exit::BudgetEnded };
    Ok(Outcome::ended(exit, reason).with("run", run.to_string()).with("state", "running"))
}

/// Why a run that was asked to stop is still on, and what helps.
fn still_on(run: &RunId, driver: Option<Pid>, now: bool) -> String {
    if !now {
        return format!(
            "run {run} was asked to stop and still finishes its step (a question that was sent \
             waits for its reply); `stop {run} --now` does not wait for it"
        );
    }
    let Some(pid) = driver.map(Pid::as_raw_nonzero) else {
        return format!("run {run} was asked to stop at once and is still on");
    };
    format!(
        "run {run} was asked to stop at once and is still on: if process {pid} is suspended, \
         `kill -CONT {pid}` lets it stop; `kill -KILL {pid}` ends it, and `resume {run}` goes on \
         from its last stored step"
    )
}
