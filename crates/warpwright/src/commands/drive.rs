//! `demo`, `run` and `resume`: everything that drives the loop.

use agent::{Interrupt, Progress};
use anyhow::Context;
use judge::{CancelFlag, Judge, JudgeError, judge_hash};
use pipeline::attempt::State;
use pipeline::next_step::SearchLimits;
use pipeline::report::Score;
use pipeline::task::Task;
use store::{AttemptRow, NewRun, NewTask, RunId, RunRow, RunState, Store};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::{EvaluateArgs, ResumeArgs, RunArgs};
use crate::commands::ending;
use crate::outcome::{Outcome, bad_input};
use crate::settings::{ModelSetting, Places, RunSettings};
use crate::wiring::{self, LoadedTask, Parts};
use crate::{embedded, terminal};

/// Attempts of the demo: as many as its transcript holds.
const DEMO_ATTEMPTS: u32 = 6;

/// Runs the demo.
pub(crate) async fn demo(places: &Places) -> anyhow::Result<Outcome> {
    terminal::line(
        "The loop on the task softmax_rows: prompt, reply, compile, run, compare, store.",
    );
    terminal::line("Kernels run on the built-in simulator (no GPU); replies are hand-written.\n");
    let task = wiring::load_task(embedded::DEMO_TASK)?;
    let settings = RunSettings {
        model: ModelSetting::Demo,
        limits: SearchLimits { attempts_max: DEMO_ATTEMPTS },
        prompts: None,
    };
    start(places, task, settings, None).await
}

/// Starts a run.
pub(crate) async fn run(places: &Places, args: &RunArgs) -> anyhow::Result<Outcome> {
    let task = wiring::load_task(&args.task)?;
    let prompts = args.prompts.as_ref().map(std::path::absolute).transpose()?;
    let settings = RunSettings {
        model: ModelSetting::parse(&args.model, args.strict_replay)?,
        limits: SearchLimits { attempts_max: args.attempts },
        prompts,
    };
    start(places, task, settings, args.seed.as_deref()).await
}

/// Judges one kernel of a person: a run of one attempt, along the same path.
pub(crate) async fn evaluate(places: &Places, args: &EvaluateArgs) -> anyhow::Result<Outcome> {
    let loaded = wiring::load_task(&args.task)?;
    let settings = RunSettings {
        model: ModelSetting::Candidate {
            task: loaded.task.spec.name.clone(),
            path: std::path::absolute(&args.candidate)?,
        },
        limits: SearchLimits { attempts_max: 1 },
        prompts: None,
    };
    start(places, loaded, settings, args.seed.as_deref()).await
}

async fn start(
    places: &Places,
    loaded: LoadedTask,
    settings: RunSettings,
    seed: Option<&str>,
) -> anyhow::Result<Outcome> {
    let seed = match seed {
        Some(text) => wiring::parse_seed(text)?,
        None => wiring::fresh_seed()?,
    };
    let templates = wiring::templates(settings.prompts.as_ref())?;
    // Bad input must be known before a run is stored.
    wiring::model(&settings.model)?;
    let toolchain = wiring::toolchain(places)?;
    let judge = prove_reference(wiring::judge(&toolchain)?, &loaded.task).await?;
    let store = wiring::ledger(places).await?;
    let settings_json = settings.to_json()?;
    let seed_json = serde_json::to_string(&wiring::seed_text(&seed))?;
    let run = store
        .start_run(&NewRun {
            kind: settings.model.run_kind(),
            settings_json: &settings_json,
            secret_seeds_json: &seed_json,
            judge_hash: judge_hash().as_str(),
            toolchain_id: &toolchain.id,
            prompts_hash: templates.hash().as_str(),
            task: NewTask::of(&loaded.task, &loaded.files),
            device: &judge.config().device,
        })
        .await?;
    let _lock = store.lock_run(&run)?;
    let parts = Parts { store, task: loaded.task, judge, templates, seed };
    drive(places, &run, parts, &settings).await
}

/// Goes on with a run.
pub(crate) async fn resume(places: &Places, args: &ResumeArgs) -> anyhow::Result<Outcome> {
    // Reading first: a missing ledger must not be made by a typing error.
    Store::open_read_only(&places.ledger).await?;
    let store = wiring::ledger(places).await?;
    let run = store.resolve_run(&args.run).await?;
    // Held before anything is read, so that no other process changes it meanwhile.
    let _lock = store.lock_run(&run)?;
    let row = store.run(&run).await?;
    let settings = resumed_settings(&row, args)?;
    if row.state == RunState::Finished && args.attempts.is_none() {
        let reason = row.reason.as_deref().unwrap_or("no reason is stored");
        terminal::line(&format!("run {run} is finished: {reason}; give --attempts N to go on"));
        return Ok(Outcome::done());
    }
    let templates = wiring::templates(settings.prompts.as_ref())?;
    let toolchain = wiring::toolchain(places)?;
    check_same(&row, &toolchain.id, templates.hash().as_str())?;
    let loaded = wiring::parse_task(store.task_files(&row.task_hash).await?)?;
    let seed = wiring::stored_seed(&store, &run).await?;
    let judge = wiring::judge(&toolchain)?;
    // Bad input must be known before it is stored.
    wiring::model(&settings.model)?;
    store.reopen_run(&run, &settings.to_json()?).await?;
    let parts = Parts { store, task: loaded.task, judge, templates, seed };
    drive(places, &run, parts, &settings).await
}

fn resumed_settings(row: &RunRow, args: &ResumeArgs) -> anyhow::Result<RunSettings> {
    let mut settings: RunSettings = serde_json::from_str(&row.settings_json)
        .map_err(|error| bad_input(format!("the settings of run {}: {error}", row.id)))?;
    if let Some(attempts_max) = args.attempts {
        settings.limits.attempts_max = attempts_max;
    }
    let was_strict = matches!(settings.model, ModelSetting::Replay { strict: true, .. });
    if let Some(model) = &args.model {
        settings.model = ModelSetting::parse(model, was_strict)?;
    }
    if let ModelSetting::Replay { strict, .. } = &mut settings.model {
        *strict &= !args.allow_drift;
    }
    Ok(settings)
}

/// A run goes on only with what it was started with: otherwise its attempts are not comparable.
fn check_same(row: &RunRow, toolchain_id: &str, prompts_hash: &str) -> anyhow::Result<()> {
    for (what, then, now) in [
        ("toolchain", row.toolchain_id.as_str(), toolchain_id),
        ("judge", row.judge_hash.as_str(), judge_hash().as_str()),
        ("set of prompts", row.prompts_hash.as_str(), prompts_hash),
    ] {
        if then != now {
            return Err(bad_input(format!(
                "run {} was started with another {what} ({then}, now {now}); start a new run",
                row.id
            )));
        }
    }
    Ok(())
}

/// Drives a run, whose lock the caller holds.
async fn drive(
    places: &Places,
    run: &RunId,
    parts: Parts,
    settings: &RunSettings,
) -> anyhow::Result<Outcome> {
    let store = parts.store.clone();
    let engine = wiring::engine(parts, settings, print_progress)?;
    let interrupts = listen(engine.interrupt.clone())?;
    let end = engine.run(run).await;
    interrupts.abort();
    let ended = match end {
        Ok(end) => ending::print(places, &store, run, &end).await,
        Err(error) => Err(error.into()),
    };
    // Folds the write-ahead log into the file, so that the ledger is one file again.
    store.close().await;
    ended
}

/// Starts only from a reference that reproduces its golden case: everything is judged by it.
async fn prove_reference(judge: Judge, task: &Task) -> anyhow::Result<Judge> {
    let owned = task.clone();
    let (judge, checked) = tokio::task::spawn_blocking(move || {
        let checked = judge.check_golden(&owned, &CancelFlag::default());
        (judge, checked)
    })
    .await?;
    let report = checked?;
    let Some(first) = report.deviations.first() else { return Ok(judge) };
    let why = format!(
        "{} of {} golden values differ; `{}` at {}: the reference gives {}, golden.json says {}; \
         mend one of them, `task check` shows the rest",
        report.deviations.len(),
        report.compared,
        first.output,
        first.index,
        first.reference,
        first.golden
    );
    Err(JudgeError::Reference { task: task.spec.name.clone(), why }.into())
}

/// Ctrl-C or SIGTERM once: stop after the step in hand; twice: at once.
fn listen(interrupt: Interrupt) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut ctrl_c = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    Ok(tokio::spawn(async move {
        while next_of(&mut ctrl_c, &mut terminate).await.is_some() {
            let again = interrupt.is_set();
            interrupt.request();
            terminal::note(if again { STOPPING_NOW } else { STOPPING });
        }
    }))
}

const STOPPING: &str = "stopping after the step in hand (a question that was sent waits for its \
reply); press Ctrl-C again to stop at once; `resume` goes on from there";
const STOPPING_NOW: &str = "stopping at once; `resume` repeats the step in hand";

async fn next_of(ctrl_c: &mut Signal, terminate: &mut Signal) -> Option<()> {
    tokio::select! {
        received = ctrl_c.recv() => received,
        received = terminate.recv() => received,
    }
}

fn print_progress(progress: Progress<'_>) {
    match progress {
        Progress::Reached(attempt) if attempt.state == State::Closed => {
            terminal::line(&terminal::one_line(&attempt_line(attempt)));
        }
        Progress::Reached(_) => {}
        Progress::Retrying { seq, why } => {
            terminal::line(&terminal::one_line(&format!("#{seq} asking again: {why}")));
        }
        Progress::Unnoted { why } => {
            terminal::note(&format!("the run broke, and the ledger could not note it: {why}"));
        }
    }
}

/// One line about an attempt.
pub(crate) fn attempt_line(attempt: &AttemptRow) -> String {
    let parent = attempt.ask.parent.map_or_else(String::new, |seq| format!(" #{seq}"));
    let asked = format!("{}{parent}", attempt.ask.mode.name());
    let Some(verdict) = &attempt.verdict else {
        return format!("#{:<3} {asked:<12} in hand: {}", attempt.ask.seq, attempt.state.name());
    };
    let report = attempt.judgement.as_ref().and_then(|judgement| judgement.report.as_ref());
    let mut detail = match report.map(|report| &report.score) {
        Some(score @ Score::Estimated(_)) if verdict.is_correct() => score.describe(),
        _ => verdict.detail.lines().next().unwrap_or_default().to_owned(),
    };
    if let Some(report) = report.filter(|report| verdict.is_correct() && !report.notes.is_empty()) {
        detail = format!("{detail}; {}", report.notes.join("; "));
    }
    format!("#{:<3} {asked:<12} {:<25} {detail}", attempt.ask.seq, verdict.to_string())
}
