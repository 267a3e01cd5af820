//! `resume`: goes on with a run under what it was started with, and what is changed now.

use judge::{Judge, judge_hash};
use pipeline::tell::Told;
use store::{RunRow, RunState, Store};

use crate::cli::ResumeArgs;
use crate::commands::drive::{Begun, drive};
use crate::commands::tell;
use crate::outcome::{Exit, Outcome, bad_input};
use crate::settings::model::ModelSetting;
use crate::settings::{self, Places, RunSettings};
use crate::wiring::{self, LoadedTask, Parts};
use crate::{detach, notify, privacy, terminal};

/// Goes on with a run.
pub(crate) async fn perform(places: &Places, args: &ResumeArgs) -> anyhow::Result<Outcome> {
    if args.background.detach {
        return detach::start(places);
    }
    args.background.background.as_deref().map_or(Ok(()), detach::enter)?;
    // Reading first: a missing ledger must not be made by a typing error.
    Store::open_read_only(&places.ledger).await?;
    let store = wiring::ledger(places).await?;
    let run = store.resolve_run(&args.run).await?;
    // Held before anything is read, so that no other process changes it meanwhile.
    let lock = store.lock_run(&run)?;
    let row = store.run(&run).await?;
    if let Some(why) = tell::held(&store, &run).await? {
        terminal::line(&why);
        return Ok(Outcome::ended(Exit::Interrupted, why).with("run", run.to_string()));
    }
    let settings = resumed_settings(places, &row, args)?;
    check_priced(&settings, store.bookings(&run).await?.unpriced_calls)?;
    let told = Told::of(&store.tells(&run).await?);
    let is_spent = args.budget.attempts.is_none() && told.added.attempts <= 0;
    if row.state == RunState::Finished && is_spent {
        let reason = row.reason.as_deref().unwrap_or("no reason is stored");
        terminal::line(&format!("run {run} is finished: {reason}; give --attempts N to go on"));
        return Ok(Outcome::done());
    }
    let templates = wiring::templates(settings.prompts.as_ref())?;
    let toolchain = wiring::toolchain(places)?;
    check_same(&row, &toolchain.id, templates.hash().as_str())?;
    let tasks = stored_tasks(&store, &row).await?;
    let seed = wiring::stored_seed(&store, &run).await?;
    let judge = wiring::judge_of_run(places, &settings, &toolchain)?;
    check_device(&store, &row, &judge).await?;
    // Bad input must be known before it is stored.
    privacy::refuse_secret_words(places, &settings.models)?;
    let models = wiring::models(&settings)?;
    if args.models.is_empty() {
        let models: Vec<_> = settings.models.iter().map(ModelSetting::describe).collect();
        terminal::note(&format!(
            "going on as the run was started, with {}; --model NAME reads the settings file again",
            models.join(", ")
        ));
    }
    // In this order: killed in between, the caps are only lower.
    tell::take_over(&store, &run, &told, &args.budget).await?;
    store.reopen_run(&run, &settings.to_json()?).await?;
    detach::begun(&places.ledger, &run)?;
    let parts = Parts { store, tasks, models, judge, templates, seed, known: Vec::new() };
    drive(places, Begun { run, settings, parts, lock }).await
}

async fn stored_tasks(store: &Store, row: &RunRow) -> anyhow::Result<Vec<LoadedTask>> {
    let mut tasks = Vec::new();
    for task in &row.tasks {
        tasks.push(wiring::parse_task(store.task_files(&task.hash).await?)?);
    }
    Ok(tasks)
}

fn resumed_settings(
    places: &Places,
    row: &RunRow,
    args: &ResumeArgs,
) -> anyhow::Result<RunSettings> {
    let mut settings: RunSettings = serde_json::from_str(&row.settings_json).map_err(|error| {
        bad_input(format!(
            "the settings of run {} are not those of this version ({error}); start a new run",
            row.id
        ))
    })?;
    if settings.models.contains(&ModelSetting::Lines) {
        return Err(bad_input(format!(
            "run {} judged kernels that were handed over by `evaluate`, as lines of standard input \
             or as several files, and does not have them any more: give them to `evaluate` again; \
             what was judged is answered from the ledger",
            row.id
        )));
    }
    settings::budget::change(&mut settings.budget, &args.budget)?;
    if let Some(attempts) = args.budget.attempts
        && settings::operator::grow(&mut settings.operators, attempts)
    {
        terminal::note("the `attempts` of each operator grow in proportion, up to --attempts");
    }
    settings.search.change(args.search)?;
    if let Some(program) = notify::program(&[&args.background.notify])? {
        settings.notify = Some(program);
    }
    if let Some(device) = &places.asked_device {
        settings.device = device.clone();
    }
    if let Some(evaluator) = &args.evaluator {
        settings.evaluator = settings::evaluator_setting(Some(evaluator))?;
    }
    let strict = |model: &ModelSetting| matches!(model, ModelSetting::Replay { strict: true, .. });
    let was_strict = settings.models.iter().any(strict);
    if !args.models.is_empty() {
        settings.models = ModelSetting::resolve_all(&args.models, &places.file, &args.prices)?;
    }
    for model in &mut settings.models {
        if let ModelSetting::Replay { strict, .. } = model {
            *strict = was_strict && !args.allow_drift;
        }
    }
    settings.check_prices()?;
    settings::search::check_modes(&settings.models)?;
    Ok(settings)
}

/// Calls at a price that nobody knew count as nothing, so that no dollar limit can hold them.
fn check_priced(settings: &RunSettings, unpriced_calls: u64) -> anyhow::Result<()> {
    if settings.budget.nusd_max.is_none() || unpriced_calls == 0 {
        return Ok(());
    }
    Err(bad_input(format!(
        "{unpriced_calls} calls of this run were made at an unknown price, so that no dollar limit \
         can be kept: start a new run, or resume without --dollars"
    )))
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

/// Attempts on another device are not comparable.
async fn check_device(store: &Store, row: &RunRow, judge: &Judge) -> anyhow::Result<()> {
    let (then, now) = (store.device_model(&row.device_id).await?, &judge.config().device.model);
    if then == *now {
        return Ok(());
    }
    Err(bad_input(format!(
        "run {} was judged on {then}, here it would be {now}: name the device with --device, or \
         start a new run",
        row.id
    )))
}
