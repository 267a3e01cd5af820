//! `status`: the runs, or where one stands.

use std::collections::BTreeMap;

use pipeline::budget::Budget;
use pipeline::next_step::StopReason;
use pipeline::tell::{Leave, Told};
use store::{Booking, CardTime, Pause, RunRow, RunState, RunSummary, Store};

use crate::claims::words;
use crate::cli::StatusArgs;
use crate::commands::{set_aside, tell, why};
use crate::limits::{RUNS_LISTED_MAX, TASK_NAMES_MAX};
use crate::outcome::Outcome;
use crate::settings::model::ModelSetting;
use crate::settings::{Places, RunSettings, price};
use crate::{selector, terminal};

/// Lists the runs, or shows one.
pub(crate) async fn perform(places: &Places, args: &StatusArgs) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let selector = args.selector.as_deref();
    match selector {
        None if !args.why => list(&store).await,
        Some(_) | None => {
            let run = selector::resolve_run(&store, selector).await?;
            let summary = store.run_summary(&run).await?;
            let tells = store.tells(&run).await?;
            let told = Told::of(&tells);
            show(&store, &summary, &told);
            let pause = pause(&store, &summary).await?;
            if let Some(Pause { why, since_us }) = &pause {
                let line = format!("paused    since {}: {why}", minute(*since_us));
                terminal::line(&terminal::one_line(&line));
            }
            let aside = set_aside::show(&store, &summary, &told, args.why).await?;
            tell::lines(&tells, &summary.run).iter().for_each(|line| terminal::line(line));
            let claims = store.claims_of_kernels(&run).await?;
            for claim in &claims {
                terminal::line(&format!("claim     {}", words::of_kernel(&run, claim)));
            }
            let claims: Vec<_> = claims.iter().map(words::kernel_as_json).collect();
            let outcome = with_numbers(Outcome::done(), &store, &summary)
                .with("claims", claims)
                .with("set_aside", aside)
                .with("told", tell::as_json(&tells))
                .with("paused", pause.map(|pause| pause.why));
            if args.why { why::show(&store, &summary.run, outcome).await } else { Ok(outcome) }
        }
    }
}

async fn list(store: &Store) -> anyhow::Result<Outcome> {
    let runs = store.list_runs().await?;
    if runs.is_empty() {
        terminal::line("no runs yet; try `warpwright demo`");
    }
    let mut listed = Vec::new();
    for run in runs.iter().take(RUNS_LISTED_MAX) {
        let summary = store.run_summary(&run.id).await?;
        let (state, models) = (state(store, run), models_of(run));
        let reason = run.reason.as_deref().unwrap_or_default();
        let began = minute(run.started_us);
        let mut parts = vec![best_in_words(&summary), models.clone(), reason.to_owned()];
        parts.retain(|part| !part.is_empty());
        terminal::line(&terminal::one_line(&format!(
            "{}  {began}  {state:<9} {:<16} {}",
            run.id,
            run.tasks_in_words(),
            parts.join("; ")
        )));
        let tasks: Vec<_> = run.tasks.iter().map(|task| &task.name).collect();
        listed.push(serde_json::json!({
            "run": run.id.to_string(), "state": state, "tasks": tasks, "reason": run.reason,
            "started_us": run.started_us, "models": models,
            "verdicts": summary.verdicts.iter()
                .map(|(kind, count)| (kind.name(), count))
                .collect::<BTreeMap<_, _>>(),
        }));
    }
    if runs.len() > RUNS_LISTED_MAX {
        terminal::line(&format!("and {} older ones", runs.len() - RUNS_LISTED_MAX));
    }
    Ok(Outcome::done().with("runs", listed))
}

/// How far the best attempts of a run came: what is correct, else all verdicts.
fn best_in_words(summary: &RunSummary) -> String {
    let correct = summary.tasks.iter().filter(|task| task.best_seq.is_some()).count();
    match (summary.tasks.as_slice(), summary.attempts) {
        ([only], 1) if only.best_seq.is_some() => "Correct".to_owned(),
        ([only], attempts) => match only.best_seq {
            Some(seq) => format!("Correct (best #{seq} of {attempts})"),
            None => attempts_in_words(summary),
        },
        (several, _) if correct > 0 => format!("Correct at {correct} of {} tasks", several.len()),
        _ => attempts_in_words(summary),
    }
}

/// Who answered: the models, or the file or folder of a person's kernel.
fn models_of(run: &RunRow) -> String {
    let settings = serde_json::from_str::<RunSettings>(&run.settings_json);
    let models = settings.map(|settings| settings.models).unwrap_or_default();
    let name = |model: &ModelSetting| match model {
        ModelSetting::Candidate { path, .. } => path.display().to_string(),
        ModelSetting::Demo | ModelSetting::Lines | ModelSetting::Replay { .. } => model.describe(),
        ModelSetting::Openai(_) | ModelSetting::Command(_) | ModelSetting::Mailbox(_) => {
            model.describe()
        }
    };
    models.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// A time of the ledger by this machine's clock, to the minute.
pub(crate) fn minute(us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(us).unwrap_or(jiff::Timestamp::MAX);
    time.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// The state in a word; a run that nobody drives any more is not running.
pub(crate) fn state(store: &Store, run: &RunRow) -> &'static str {
    match run.state {
        RunState::Running if matches!(store.driver_of(&run.id), Ok(None)) => "died",
        other => other.name(),
    }
}

/// What a run that is on waits for.
async fn pause(store: &Store, summary: &RunSummary) -> anyhow::Result<Option<Pause>> {
    let is_on = state(store, &summary.run) == RunState::Running.name();
    Ok(if is_on { store.pause(&summary.run.id).await? } else { None })
}

/// The names of the tasks, or how many there are: the lines below name each.
fn task_names(run: &RunRow) -> String {
    if run.tasks.len() > TASK_NAMES_MAX {
        return format!("{} of them", run.tasks.len());
    }
    let names: Vec<_> = run.tasks.iter().map(|task| task.name.as_str()).collect();
    names.join(", ")
}

fn show(store: &Store, summary: &RunSummary, told: &Told) {
    let run = &summary.run;
    terminal::line(&format!("run       {}", run.id));
    terminal::line(&format!("task      {}", task_names(run)));
    let reason = run.reason.as_deref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let state = state(store, run);
    let hint = match (state, told.leave_of_run()) {
        ("died", _) => "; `resume` goes on from its last step",
        ("running", Leave::Paused) => "; paused: `tell --resume` has it go on",
        ("running", Leave::Stopped) => "; it stops after the step in hand",
        (_, Leave::Go | Leave::Paused | Leave::Stopped) => "",
    };
    terminal::line(&format!("state     {state}{reason}{hint}"));
    terminal::line(&format!("attempts  {}", attempts_in_words(summary)));
    for task in &summary.tasks {
        let best = task.best_seq.map_or_else(|| "none".to_owned(), |seq| format!("#{seq}"));
        let of = match summary.tasks.len() {
            1 => String::new(),
            _ => {
                let attempts = terminal::counted(task.attempts.into(), "attempt");
                format!("  {} ({attempts})", task.task.name)
            }
        };
        terminal::line(&format!("best      {best}{of}"));
    }
    show_money(store, summary, told);
}

pub(crate) fn attempts_in_words(summary: &RunSummary) -> String {
    let kinds = summary.verdicts.iter();
    let mut verdicts: Vec<_> =
        kinds.map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    if summary.attempts > summary.closed {
        verdicts.push(format!("in hand {}", summary.attempts - summary.closed));
    }
    format!("{} ({})", summary.attempts, verdicts.join(", "))
}

fn show_money(store: &Store, summary: &RunSummary, told: &Told) {
    let bookings = summary.bookings;
    terminal::line(&format!(
        "tokens    {} in, {} out",
        summary.usage.input_tokens, summary.usage.output_tokens
    ));
    terminal::line(&format!(
        "booked    {} settled, {} reserved, {} lost (US dollars); {} calls failed, {} drifted",
        dollars(bookings.settled.nusd.saturating_add(bookings.failed.nusd)),
        dollars(bookings.reserved.nusd),
        dollars(bookings.lost.nusd),
        bookings.failed.calls,
        summary.drifted
    ));
    if bookings.unpriced_calls > 0 {
        terminal::line(&format!(
            "unpriced  {} calls at a price that nobody knows, counted as nothing",
            bookings.unpriced_calls
        ));
    }
    if summary.card_time.evaluations > 0 {
        terminal::line(&format!("cards     {}", card_time_in_words(summary.card_time)));
    }
    if let Ok(settings) = serde_json::from_str::<RunSettings>(&summary.run.settings_json) {
        let budget = told.budget(settings.budget);
        let used = (bookings.total(), summary.card_time);
        let limits = limits_in_words(&budget, used, store.now_us());
        terminal::line(&format!("limits    {limits}"));
        if let Some(rest) = unreachable(&budget, used, run_reason(summary)) {
            terminal::line(&format!("rest      {rest}"));
        }
        for line in price::lines(&settings.models) {
            terminal::line(&format!("price     {line}"));
        }
        for warning in price::warnings(&settings.models, summary.run.started_us) {
            terminal::line(&format!("warning   {warning}"));
        }
    }
}

fn run_reason(summary: &RunSummary) -> &str {
    summary.run.reason.as_deref().unwrap_or_default()
}

/// What is left of the limit that ended a run: no call fits into it.
fn unreachable(budget: &Budget, used: (Booking, CardTime), reason: &str) -> Option<String> {
    let (booked, cards) = used;
    if reason == StopReason::TokensSpent.describe() {
        let left = budget.tokens_max?.saturating_sub(booked.tokens);
        return Some(format!("{left} tokens, too little for another call"));
    }
    if reason == StopReason::DollarsSpent.describe() {
        let left = dollars(budget.nusd_max?.saturating_sub(booked.nusd));
        return Some(format!("{left} dollars, too little for another call"));
    }
    if reason == StopReason::GpuSecondsSpent.describe() {
        let left = seconds(budget.gpu_us_max?.saturating_sub(cards.total_us()));
        let kept = "too little for another kernel beside what is kept for measuring the best";
        return Some(format!("{left} GPU-seconds, {kept}"));
    }
    None
}

/// Time on cards, and what of it may still change.
pub(crate) fn card_time_in_words(time: CardTime) -> String {
    let CardTime { used_us, reserved_us, evaluations } = time;
    let reserved = match reserved_us {
        0 => String::new(),
        reserved_us => format!(", {} reserved or lost", seconds(reserved_us)),
    };
    let evaluations = terminal::counted(evaluations, "evaluation");
    format!("{} GPU-seconds used{reserved}, {evaluations}", seconds(used_us))
}

/// Microseconds as seconds.
pub(crate) fn seconds(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e6)
}

/// Each limit with what of it is used.
pub(crate) fn limits_in_words(
    budget: &Budget,
    (used, cards): (Booking, CardTime),
    now_us: i64,
) -> String {
    let mut parts = vec![terminal::counted(budget.attempts_max.into(), "attempt")];
    if let Some(tokens) = budget.tokens_max {
        parts.push(format!("{} of {tokens} tokens", used.tokens));
    }
    if let Some(nusd) = budget.nusd_max {
        parts.push(format!("{} of {} dollars", dollars(used.nusd), dollars(nusd)));
    }
    if let Some(gpu_us) = budget.gpu_us_max {
        let (used, cap) = (seconds(cards.total_us()), seconds(gpu_us));
        parts.push(format!("{used} of {cap} GPU-seconds"));
    }
    if let Some(end_us) = budget.deadline_us {
        let end = jiff::Timestamp::from_microsecond(end_us).unwrap_or(jiff::Timestamp::MAX);
        let zoned = end.to_zoned_datetime(jiff::tz::TimeZone::system());
        let over = if end_us <= now_us { " (over)" } else { "" };
        parts.push(format!("until {}{over}", zoned.strftime("%Y-%m-%d %H:%M %Z")));
    }
    parts.join(", ")
}

fn with_numbers(outcome: Outcome, store: &Store, summary: &RunSummary) -> Outcome {
    let bookings = summary.bookings;
    let tasks: Vec<_> = summary
        .tasks
        .iter()
        .map(|task| {
            serde_json::json!({
                "task": task.task.name, "attempts": task.attempts, "closed": task.closed,
                "best": task.best_seq,
            })
        })
        .collect();
    outcome
        .with("run", summary.run.id.to_string())
        .with("state", state(store, &summary.run))
        .with("attempts", summary.attempts)
        .with("tasks", tasks)
        .with("input_tokens", summary.usage.input_tokens)
        .with("output_tokens", summary.usage.output_tokens)
        .with("settled_nusd", bookings.settled.nusd)
        .with("failed_nusd", bookings.failed.nusd)
        .with("reserved_nusd", bookings.reserved.nusd)
        .with("lost_nusd", bookings.lost.nusd)
        .with("unpriced_calls", bookings.unpriced_calls)
        .with("gpu_used_us", summary.card_time.used_us)
        .with("gpu_reserved_us", summary.card_time.reserved_us)
        .with(
            "calls",
            serde_json::json!({
                "settled": bookings.settled.calls, "reserved": bookings.reserved.calls,
                "lost": bookings.lost.calls, "failed": bookings.failed.calls,
            }),
        )
}

/// Nano-dollars as dollars.
pub(crate) fn dollars(nusd: i64) -> String {
    format!("{}.{:04}", nusd / 1_000_000_000, nusd % 1_000_000_000 / 100_000)
}
