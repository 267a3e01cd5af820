//! `worker --folder`: judges what a run elsewhere puts into a folder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::{Drained, FleetError, Worker, WorkerEvent};
use judge::CancelFlag;

use crate::cli::WorkerArgs;
use crate::outcome::{Exit, Outcome, bad_input, not_available};
use crate::settings::Places;
use crate::signals::StopSignals;
use crate::{privacy, terminal, wiring};

/// Works on a folder until it is empty, a deadline, or a signal; with several GPUs on as many jobs
/// at once.
pub(crate) async fn perform(places: &Places, args: &WorkerArgs) -> anyhow::Result<Outcome> {
    let toolchain = wiring::toolchain(places)?;
    let judge = wiring::judge(places, &places.device, &toolchain)?;
    let folder = std::path::absolute(&args.folder)?;
    let judge = Arc::new(judge);
    let cards = judge.config().gpus.as_ref().map_or(1, |gpus| gpus.sheets.len());
    let scrubber = Arc::new(privacy::scrubber(places));
    let open = |_| Worker::open(&folder, Arc::clone(&judge), Arc::clone(&scrubber));
    let workers = (0..cards).map(open);
    let workers = workers.collect::<Result<Vec<_>, _>>().map_err(bad_input)?;
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
    let worked: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            let (stop, cancel) = (stop.clone(), cancel.clone());
            tokio::task::spawn_blocking(move || {
                let end = worker.work(drain, deadline, &stop, &cancel, &print_event);
                if end.is_err() {
                    // The others share the machine that is broken.
                    stop.cancel();
                }
                end
            })
        })
        .collect();
    let mut ends = Vec::new();
    for work in worked {
        ends.push(work.await?);
    }
    listener.abort();
    if let Some(alarm) = alarm {
        alarm.abort();
    }
    outcome(ends)
}

fn outcome(ends: Vec<Result<Drained, FleetError>>) -> anyhow::Result<Outcome> {
    let ends = ends.into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| match error {
        FleetError::NotAvailable(_) => not_available(error),
        FleetError::OtherDevice { .. } => bad_input(error),
        FleetError::Io { .. } => error.into(),
    })?;
    Ok(if ends.contains(&Drained::Stopped) {
        Outcome::ended(Exit::Interrupted, "stopped; the jobs stay")
    } else if ends.contains(&Drained::Deadline) {
        Outcome::ended(Exit::BudgetEnded, "the deadline came")
    } else {
        Outcome::done()
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
