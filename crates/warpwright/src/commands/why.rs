//! `status --why`: what it is worth to go on with each task of a run, by the rule that decides.

use pipeline::allotment::{Purse, Wish, purses};
use pipeline::attempt::Attempt;
use pipeline::budget::Budget;
use pipeline::card_time::bound_us;
use pipeline::next_step::{Ask, SearchEnd, SearchLimits};
use pipeline::report::Stage;
use pipeline::schedule::{Phase, Search, Standing, Turn, next_turn, standing};
use pipeline::tell::{Leave, Told};
use store::{RunRow, Store};

use crate::commands::status::{dollars, seconds};
use crate::goals::{self, Target};
use crate::outcome::{Outcome, bad_input};
use crate::settings::{OperatorSetting, RunSettings};
use crate::terminal;

/// One task as the ledger has it.
struct Known {
    attempts: Vec<Attempt>,
    in_flight: Vec<Ask>,
}

/// Prints a line for each task, the one that asks next first, and says the same in JSON.
pub(crate) async fn show(store: &Store, run: &RunRow, outcome: Outcome) -> anyhow::Result<Outcome> {
    let settings: RunSettings = serde_json::from_str(&run.settings_json)
        .map_err(|error| bad_input(format!("the settings of run {}: {error}", run.id)))?;
    let known = known(store, run).await?;
    let told = Told::of(&store.tells(&run.id).await?);
    let budget = told.budget(settings.budget);
    let targets = goals::of_run(store, run, &settings).await?;
    let purses = purses_of(store, run, &settings, &told).await?;
    let steered = run.tasks.iter().zip(&targets).zip(&purses);
    let searches: Vec<_> = (settings.operators.iter().zip(&known).zip(steered))
        .map(|((operator, known), ((task, target), purse))| {
            let mut search = Search {
                weight: told.weight(&task.hash, operator.weight),
                ended: (told.leave(&task.hash) == Leave::Stopped).then_some(SearchEnd::Stopped),
                goal_ns: target.as_ref().and_then(Target::goal_ns),
                purse: *purse,
                ..search(&settings, operator, known)
            };
            if told.leave(&task.hash) == Leave::Paused {
                search.limits.attempts_max = 0;
            }
            search
        })
        .collect();
    let next = match next_turn(budget.attempts_max, &searches) {
        Turn::Ask { task, .. } => Some(task),
        Turn::Wait | Turn::Stop(_) => None,
    };
    let mut standings: Vec<_> = searches.iter().map(standing).enumerate().collect();
    standings.sort_by(|(one, a), (other, b)| {
        let rank = |index: usize| Some(index) != next;
        rank(*one).cmp(&rank(*other)).then(b.expected_gain.total_cmp(&a.expected_gain))
    });
    say_rules(store, run, &budget, &purses).await?;
    let mut rows = Vec::new();
    for (index, standing) in standings {
        let task = &run.tasks[index].name;
        let is_next = Some(index) == next;
        let target = targets[index].as_ref();
        let is_paused = told.leave(&run.tasks[index].hash) == Leave::Paused;
        let phase = if is_paused { "paused".to_owned() } else { phase(&standing, is_next) };
        terminal::line(&terminal::one_line(&line(task, &standing, &phase, target)));
        rows.push(serde_json::json!({
            "task": task, "next": is_next, "paused": is_paused, "standing": standing,
            "goal_ns": target.and_then(Target::goal_ns),
        }));
    }
    Ok(outcome.with("why", rows))
}

/// What the ledger has of each task.
async fn known(store: &Store, run: &RunRow) -> anyhow::Result<Vec<Known>> {
    let mut known = Vec::new();
    let open = store.attempts_in_hand(&run.id).await?;
    for task in &run.tasks {
        let attempts = store.outlines(&run.id, &task.hash).await?;
        let of_task = open.iter().filter(|attempt| attempt.task_hash == task.hash);
        known.push(Known { attempts, in_flight: of_task.map(|attempt| attempt.ask).collect() });
    }
    Ok(known)
}

/// The rules that the figures below them follow.
async fn say_rules(
    store: &Store,
    run: &RunRow,
    budget: &Budget,
    purses: &[Option<Purse>],
) -> anyhow::Result<()> {
    terminal::line(
        "expected gain = headroom x weight / attempts per improvement / (1 + under way)",
    );
    if purses.iter().any(Option::is_some) {
        terminal::line(
            "whoever has used its allotment waits while another has not, and has something to gain",
        );
    }
    if let Some(cap_us) = budget.gpu_us_max {
        terminal::line(&format!(
            "GPU-seconds: {} of {} used or reserved; a first judgement reserves {}, a promotion {}",
            seconds(store.card_time(&run.id).await?.total_us()),
            seconds(cap_us),
            seconds(bound_us(Stage::Search)),
            seconds(bound_us(Stage::Promote)),
        ));
    }
    Ok(())
}

fn search<'a>(settings: &RunSettings, operator: &OperatorSetting, known: &'a Known) -> Search<'a> {
    let limits = SearchLimits {
        attempts_max: operator.attempts_max.unwrap_or(u32::MAX),
        plateau: settings.search.plateau,
        in_flight_max: settings.search.in_flight,
    };
    let Known { attempts, in_flight } = known;
    let weight = operator.weight;
    Search { limits, weight, attempts, in_flight, ended: None, goal_ns: None, purse: None }
}

/// What each operator may use before others, by the rule of the run itself.
async fn purses_of(
    store: &Store,
    run: &RunRow,
    settings: &RunSettings,
    told: &Told,
) -> anyhow::Result<Vec<Option<Purse>>> {
    let spent = store.spent_of_tasks(&run.id).await?;
    let pairs = settings.operators.iter().zip(&run.tasks);
    let (wishes, spent): (Vec<Wish>, Vec<i64>) = pairs
        .map(|(operator, task)| {
            let weight = told.weight(&task.hash, operator.weight);
            let nusd = spent.iter().find(|(of, _)| *of == task.hash).map_or(0, |(_, nusd)| *nusd);
            (Wish { nusd: operator.allotted_nusd, weight }, nusd)
        })
        .unzip();
    Ok(purses(told.budget(settings.budget).nusd_max, &wishes, &spent))
}

fn phase(standing: &Standing, is_next: bool) -> String {
    let phase = match standing.phase {
        Phase::Start => "gets its first attempts".to_owned(),
        Phase::Search => "by its gain".to_owned(),
        Phase::Full => "waits for what is under way".to_owned(),
        Phase::Ended(end) => format!("ended: {}", end.describe()),
    };
    if is_next { format!("asks next, {phase}") } else { phase }
}

fn line(task: &str, standing: &Standing, phase: &str, target: Option<&Target>) -> String {
    let Standing { weight, headroom, attempts_per_improvement, expected_gain, .. } = standing;
    let purse = standing.purse.map_or_else(String::new, |purse| {
        let Purse { allotted_nusd, spent_nusd } = purse;
        let used = if purse.is_used() { ", used up" } else { "" };
        format!("; {} of {} dollars allotted{used}", dollars(spent_nusd), dollars(allotted_nusd))
    });
    let target = target.map_or_else(String::new, |target| format!("; {}", target.describe()));
    format!(
        "{task:<16} {phase}; {} attempts, {} under way; {headroom:.2} x {weight} / \
         {attempts_per_improvement:.1} = {expected_gain:.3}{purse}{target}",
        standing.attempts, standing.in_flight
    )
}
