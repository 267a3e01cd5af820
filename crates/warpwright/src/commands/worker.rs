//! `worker --folder`: judges what a run elsewhere puts into a folder.

use std::time::{Duration, Instant};

use fleet::{Drained, Worker, WorkerEvent};
use judge::CancelFlag;

use crate::cli::WorkerArgs;
use crate::outcome::{Exit, Outcome, bad_input};
use crate::settings::Places;
use crate::signals::StopSignals;
use crate::{terminal, wiring};

/// Works on a folder until it is empty, a deadline, or a signal.
pub(crate) async fn perform(places: &Places, args: &WorkerArgs) -> anyhow::Result<Outcome> {
    let toolchain = wiring::toolchain(places)?;
    let judge = wiring::judge(places, &places.device, &toolchain)?;
    let folder = std::path::absolute(&args.folder)?;
    let mut worker = Worker::open(&folder, judge).map_err(bad_input)?;
    let (stop, cancel) = (CancelFlag::new(), CancelFlag::new());
    let listener = listen(stop.clone(), cancel.clone())?;
    let alarm = args.deadline.map(|seconds| {
        let cancel = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds.into())).await;
            cancel.cancel();
        })
    });
    let deadline = args.deadline.map(|s| Instant::now() + Duration::from_secs(s.into()));
    let drain = args.drain;
    terminal::note(&format!("working on {}; Ctrl-C stops after the job in hand", folder.display()));
    let worked = tokio::task::spawn_blocking(move || {
        worker.work(drain, deadline, &stop, &cancel, &print_event)
    })
    .await?;
    listener.abort();
    if let Some(alarm) = alarm {
        alarm.abort();
    }
    Ok(match worked? {
        Drained::Empty => Outcome::done(),
        Drained::Deadline => Outcome::ended(Exit::BudgetEnded, "the deadline came"),
        Drained::Stopped => Outcome::ended(Exit::Interrupted, "stopped; the jobs stay"),
    })
}

fn print_event(event: WorkerEvent<'_>) {
    let line = match event {
        WorkerEvent::Taken { .. } => return wiring::die_at("taken"),
        WorkerEvent::Judged { task, key, verdict } => {
            wiring::die_at("answered");
            format!("{} {task} {verdict} {}", short(key), verdict.detail)
        }
        WorkerEvent::Failed { key, why } => format!("{} not judged: {why}", short(key)),
    };
    terminal::line(&terminal::one_line(&line));
}

fn short(key: &str) -> &str {
    key.get(..12).unwrap_or(key)
}

/// A signal to stop once: stop after the job in hand; twice: at once.
fn listen(stop: CancelFlag, cancel: CancelFlag) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut signals = StopSignals::listen()?;
    Ok(tokio::spawn(async move {
        while signals.next().await.is_some() {
            if stop.is_cancelled() {
                cancel.cancel();
            }
            stop.cancel();
        }
    }))
}
