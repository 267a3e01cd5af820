//! `tell`: says something to a run while it is on. It is stored, and obeyed at the next decision.

use pipeline::budget::Budget;
use pipeline::limits::HINT_BYTES_MAX;
use pipeline::tell::{Added, Leave, Said, TellRow, Told};
use serde_json::{Value, json};
use store::{RunId, RunRow, RunTask, Store};

use crate::cli::{BudgetArgs, TellArgs, TellWhat};
use crate::limits::{REVIEWER_BYTES_MAX, TELLS_SHOWN_MAX, WEIGHT_MAX};
use crate::outcome::{Outcome, bad_input};
use crate::settings::operator;
use crate::settings::price::nano_dollars;
use crate::settings::{Places, RunSettings};
use crate::{environment, terminal, wiring};

/// Tells a run.
pub(crate) async fn perform(places: &Places, args: &TellArgs) -> anyhow::Result<Outcome> {
    let by = teller(args.by.as_deref())?;
    // Reading first: a missing ledger must not be made by a typing error.
    Store::open_read_only(&places.ledger).await?;
    let store = wiring::ledger(places).await?;
    let run = store.resolve_run(&args.run).await?;
    let row = store.run(&run).await?;
    let task = args.task.as_deref().map(|name| task_named(&row, name)).transpose()?;
    let said = said(&args.what, task.is_some(), &budget_of(&row))?;
    refuse_bound(&row, &said)?;
    for said in &said {
        store.tell(&run, task.as_ref().map(|task| &task.hash), said, &by).await?;
    }
    let whom = task.map_or_else(|| format!("run {run}"), |task| format!("{} of {run}", task.name));
    // A secret in a hint is kept out of the ledger; it must not come back from here either.
    let said: Vec<_> = said.into_iter().map(|said| kept(&store, said)).collect();
    let words: Vec<_> = said.iter().map(in_words).collect();
    let when = match store.driver_of(&run)? {
        None => "it is not on: this holds from its next `resume` on",
        Some(_) => "obeyed at its next decision",
    };
    terminal::line(&format!("told {whom}: {}; {when}", words.join(", ")));
    Ok(Outcome::done().with("run", run.to_string()).with("told", json!(said)))
}

/// What the ledger keeps of something that was said.
fn kept(store: &Store, said: Said) -> Said {
    match said {
        Said::Hint(text) => Said::Hint(store.scrubber().scrub(&text).into_owned()),
        Said::Pause | Said::Resume | Said::Stop | Said::Weight(_) => said,
        Said::Add(_) | Said::Shown { .. } => said,
    }
}

/// Who says it: the name that is given, or the user's.
pub(crate) fn teller(by: Option<&str>) -> anyhow::Result<String> {
    let name = by.map_or_else(environment::user_name, |by| by.trim().to_owned());
    if name.is_empty() || name.len() > REVIEWER_BYTES_MAX {
        return Err(bad_input(format!("--by: write a name of 1 to {REVIEWER_BYTES_MAX} bytes")));
    }
    Ok(name)
}

/// The budget that a run was started with; none that binds where nobody can read it.
fn budget_of(row: &RunRow) -> Budget {
    let settings = serde_json::from_str::<RunSettings>(&row.settings_json);
    settings.map(|settings| settings.budget).unwrap_or_default()
}

/// Attempts are not added where each operator has a limit of its own that ends it before.
fn refuse_bound(row: &RunRow, said: &[Said]) -> anyhow::Result<()> {
    let adds = said.iter().any(|said| matches!(said, Said::Add(added) if added.attempts > 0));
    let Ok(settings) = serde_json::from_str::<RunSettings>(&row.settings_json) else {
        return Ok(());
    };
    match operator::attempts_of_all(&settings.operators) {
        Some(together) if adds && together <= settings.budget.attempts_max.into() => {
            Err(bad_input(format!(
                "--add attempts: the operators' own `attempts` allow {together} together, and end \
                 the run before: `resume {} --attempts N`, once it has ended, raises them",
                row.id
            )))
        }
        Some(_) | None => Ok(()),
    }
}

fn task_named(row: &RunRow, name: &str) -> anyhow::Result<RunTask> {
    let found = row.tasks.iter().find(|task| task.name == name).cloned();
    found.ok_or_else(|| {
        let names: Vec<_> = row.tasks.iter().map(|task| task.name.as_str()).collect();
        bad_input(format!("run {} has no task `{name}`: it has {}", row.id, names.join(", ")))
    })
}

fn said(what: &TellWhat, of_task: bool, budget: &Budget) -> anyhow::Result<Vec<Said>> {
    let mut said = Vec::new();
    if let Some(text) = &what.add {
        if of_task {
            return Err(bad_input("--add is about the whole run: leave the task out"));
        }
        said.push(Said::Add(added(text, budget)?));
    }
    if let Some(weight) = what.weight {
        if !of_task {
            return Err(bad_input("--weight is about one task: name it after the run"));
        }
        if !(weight > 0.0 && weight <= WEIGHT_MAX) {
            return Err(bad_input(format!(
                "--weight {weight}: write more than 0, at most 1000000"
            )));
        }
        said.push(Said::Weight(weight));
    }
    if let Some(text) = &what.hint {
        let text = text.trim();
        if text.is_empty() || text.len() > HINT_BYTES_MAX {
            return Err(bad_input(format!("--hint: write 1 to {HINT_BYTES_MAX} bytes of text")));
        }
        said.push(Said::Hint(text.to_owned()));
    }
    for (is_said, what) in
        [(what.pause, Said::Pause), (what.resume, Said::Resume), (what.stop, Said::Stop)]
    {
        said.extend(is_said.then_some(what));
    }
    Ok(said)
}

/// `usd=50,hours=2,tokens=1000000,attempts=20,gpu-seconds=600`, of caps that the run has.
fn added(text: &str, budget: &Budget) -> anyhow::Result<Added> {
    let mut added = Added::default();
    let mut named = Vec::new();
    for part in text.split(',') {
        let wrong = |why: &str| bad_input(format!("--add {part}: {why}"));
        let (name, amount) = part.split_once('=').ok_or_else(|| {
            wrong(
                "write usd=50, hours=2, tokens=1000000, attempts=20 or gpu-seconds=600, with \
                 commas between",
            )
        })?;
        let unit = if name.trim() == "dollars" { "usd" } else { name.trim() }.replace('_', "-");
        if named.contains(&unit) {
            return Err(wrong(&format!("{unit} is there twice: write it once, with the sum")));
        }
        named.push(unit);
        let amount: f64 = amount.trim().parse().map_err(|_| wrong("the amount is no number"))?;
        if !(amount > 0.0 && amount <= 1e12) {
            return Err(wrong("write an amount above 0"));
        }
        let none = |what: &str| wrong(&format!("the run has no limit of {what} to add to"));
        let whole = |what: &str| match amount.fract() == 0.0 {
            true => Ok(amount as i64),
            false => Err(wrong(&format!("write whole {what}"))),
        };
        match name.trim() {
            "usd" | "dollars" if budget.nusd_max.is_none() => return Err(none("dollars")),
            "usd" | "dollars" => {
                added.nusd = nano_dollars("usd", amount).map_err(|why| wrong(&why))?;
            }
            "hours" if budget.deadline_us.is_none() => return Err(none("time")),
            "hours" if amount > 8_784.0 => return Err(wrong("write at most 8784 hours")),
            "hours" => added.us = (amount * 3.6e9) as i64,
            "tokens" if budget.tokens_max.is_none() => return Err(none("tokens")),
            "tokens" => added.tokens = whole("tokens")?,
            "attempts" if amount > 1e6 => return Err(wrong("write at most 1000000 attempts")),
            "attempts" => added.attempts = whole("attempts")?,
            "gpu-seconds" | "gpu_seconds" if budget.gpu_us_max.is_none() => {
                return Err(none("GPU-seconds"));
            }
            "gpu-seconds" | "gpu_seconds" if amount > 1e9 => {
                return Err(wrong("write at most 1000000000 GPU-seconds"));
            }
            "gpu-seconds" | "gpu_seconds" => added.gpu_us = (amount * 1e6) as i64,
            _ => return Err(wrong("write usd, hours, tokens, attempts or gpu-seconds")),
        }
    }
    Ok(added)
}

/// Why a run is not to be resumed: it was told to pause or to stop while it was not on.
pub(crate) async fn held(store: &Store, run: &RunId) -> anyhow::Result<Option<String>> {
    let Some(first) = store.first_unheard(run).await? else { return Ok(None) };
    let rows = store.tells(run).await?;
    let whole: Vec<_> = rows.into_iter().filter(|row| row.task.is_none()).collect();
    let unheard: Vec<_> = whole.iter().filter(|row| row.position >= first).cloned().collect();
    let what = match Told::of(&unheard).leave_of_run() {
        Leave::Go => return Ok(None),
        Leave::Paused => "pause",
        Leave::Stopped => "stop",
    };
    let last = whole.iter().rev().find(|row| matches!(row.said, Said::Pause | Said::Stop));
    let who = last.map_or_else(String::new, |row| {
        format!(" by {} at {}", terminal::one_line(&row.teller), super::status::minute(row.told_us))
    });
    Ok(Some(format!(
        "run {run} was told to {what}{who}, while it was not on: \
         `tell {run} --resume` takes that back, then `resume` goes on"
    )))
}

/// `resume` takes back a pause and a stop that the run was told while it was on, and is the last
/// word about each cap that it names.
pub(crate) async fn take_over(
    store: &Store,
    run: &RunId,
    told: &Told,
    args: &BudgetArgs,
) -> anyhow::Result<()> {
    let by = environment::user_name();
    let back = match told.leave_of_run() {
        Leave::Go => None,
        Leave::Paused => Some("pause"),
        Leave::Stopped => Some("stop"),
    };
    if let Some(what) = back {
        store.tell(run, None, &Said::Resume, &by).await?;
        terminal::note(&format!("the {what} that this run was told while it was on ends here"));
    }
    if let Some(back) = taken_back(told, args) {
        store.tell(run, None, &Said::Add(back), &by).await?;
    }
    Ok(())
}

/// What takes back, for each cap that `resume` sets anew, what was added to the one before.
fn taken_back(told: &Told, args: &BudgetArgs) -> Option<Added> {
    let back = |is_set: bool, amount: i64| if is_set { amount.saturating_neg() } else { 0 };
    let taken = Added {
        attempts: back(args.attempts.is_some(), told.added.attempts),
        tokens: back(args.tokens.is_some(), told.added.tokens),
        nusd: back(args.dollars.is_some(), told.added.nusd),
        us: back(args.hours.is_some() || args.until.is_some(), told.added.us),
        gpu_us: back(args.gpu_seconds.is_some(), told.added.gpu_us),
    };
    (taken != Added::default()).then_some(taken)
}

/// What was said, in few words.
pub(crate) fn in_words(said: &Said) -> String {
    match said {
        Said::Pause => "pause".to_owned(),
        Said::Resume => "go on".to_owned(),
        Said::Stop => "stop".to_owned(),
        Said::Weight(weight) => format!("weight {weight}"),
        Said::Hint(text) => format!("hint: {text}"),
        Said::Shown { hint, seq } => format!("attempt {seq} was shown hint {hint}"),
        Said::Add(added) => {
            let sign = |amount: f64| if amount < 0.0 { "" } else { "+" };
            let parts = [
                (added.attempts as f64, "attempts"),
                (added.tokens as f64, "tokens"),
                (added.nusd as f64 / 1e9, "dollars"),
                (added.us as f64 / 3.6e9, "hours"),
                (added.gpu_us as f64 / 1e6, "GPU-seconds"),
            ];
            let parts = parts.iter().filter(|(amount, _)| *amount != 0.0);
            let parts: Vec<_> =
                parts.map(|(amount, what)| format!("{}{amount} {what}", sign(*amount))).collect();
            parts.join(", ")
        }
    }
}

/// Rows as lines, with when, who and about what; only the newest of many.
pub(crate) fn lines(rows: &[TellRow], run: &RunRow) -> Vec<String> {
    let name = |row: &TellRow| {
        let task = row.task.as_ref()?;
        Some(run.tasks.iter().find(|known| known.hash == *task)?.name.clone())
    };
    let line = |row: &TellRow| {
        let about = name(row).map_or_else(String::new, |name| format!("{name}: "));
        let when = super::status::minute(row.told_us);
        let text = format!("{when} by {}: {about}{}", row.teller, in_words(&row.said));
        format!("told      {}", terminal::one_line(&text))
    };
    let by_people = rows.iter().filter(|row| !matches!(row.said, Said::Shown { .. }));
    let mut lines: Vec<_> = by_people.map(line).collect();
    let older = lines.len().saturating_sub(TELLS_SHOWN_MAX);
    lines.drain(..older);
    if older > 0 {
        lines.insert(0, format!("told      ({older} older things)"));
    }
    lines
}

/// The hints that the prompt of an attempt showed, each with who gave it.
pub(crate) async fn hints(
    store: &Store,
    run: &RunId,
    task: &RunTask,
    seq: u32,
) -> anyhow::Result<Vec<String>> {
    let rows = store.tells(run).await?;
    let of_attempt = |row: &TellRow| match row.said {
        Said::Shown { hint, seq: of } if of == seq && row.task.as_ref() == Some(&task.hash) => {
            rows.iter().find(|row| row.position == hint)
        }
        Said::Pause | Said::Resume | Said::Stop | Said::Weight(_) => None,
        Said::Hint(_) | Said::Add(_) | Said::Shown { .. } => None,
    };
    let words = |row: &TellRow| match &row.said {
        Said::Hint(text) => Some(format!("by {}: {text}", row.teller)),
        Said::Pause | Said::Resume | Said::Stop | Said::Weight(_) => None,
        Said::Add(_) | Said::Shown { .. } => None,
    };
    Ok(rows.iter().filter_map(of_attempt).filter_map(words).collect())
}

/// Prints those hints.
pub(crate) async fn show_hints(
    store: &Store,
    run: &RunId,
    task: &RunTask,
    seq: u32,
) -> anyhow::Result<()> {
    for hint in hints(store, run, task, seq).await? {
        terminal::line(&format!("hint {}", terminal::one_line(&hint)));
    }
    Ok(())
}

/// Rows as JSON.
pub(crate) fn as_json(rows: &[TellRow]) -> Vec<Value> {
    let row = |row: &TellRow| {
        json!({
            "position": row.position, "task": row.task, "said": row.said, "by": row.teller,
            "at_us": row.told_us,
        })
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use pipeline::budget::Budget;
    use pipeline::tell::{Added, Said};

    use super::{added, in_words};

    #[test]
    fn amounts_are_of_caps_that_the_run_has() {
        let budget = Budget {
            attempts_max: 9,
            nusd_max: Some(1),
            deadline_us: Some(1),
            gpu_us_max: Some(1),
            ..Budget::default()
        };
        let found = added("usd=0.5,hours=2, attempts=20,gpu-seconds=600", &budget).unwrap();
        let (us, gpu_us) = (7_200_000_000, 600_000_000);
        let wanted = Added { attempts: 20, tokens: 0, nusd: 500_000_000, us, gpu_us };
        assert_eq!(found, wanted);
        let words = "+20 attempts, +0.5 dollars, +2 hours, +600 GPU-seconds";
        assert_eq!(in_words(&Said::Add(found)), words);
        let unbound = added("gpu-seconds=5", &Budget { gpu_us_max: None, ..budget });
        assert!(unbound.unwrap_err().to_string().contains("no limit of GPU-seconds"));
        for (text, part) in [
            ("tokens=5", "no limit of tokens to add to"),
            ("usd", "write usd=50"),
            ("usd=-5", "above 0"),
            ("usd=x", "no number"),
            ("euros=5", "write usd, hours, tokens, attempts or gpu-seconds"),
            ("attempts=0.5", "whole attempts"),
            ("hours=inf", "above 0"),
            ("", "write usd=50"),
        ] {
            let why = added(text, &budget).unwrap_err().to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
