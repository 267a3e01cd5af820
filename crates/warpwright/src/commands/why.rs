//! `status --why`: what it is worth to go on with each task of a run, by the rule that decides.

use pipeline::attempt::Attempt;
use pipeline::next_step::{Ask, SearchLimits};
use pipeline::schedule::{Phase, Search, Standing, Turn, next_turn, standing};
use pipeline::tell::Told;
use store::{RunRow, Store};

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
    let mut known = Vec::new();
    let open = store.attempts_in_hand(&run.id).await?;
    for task in &run.tasks {
        let attempts = store.outlines(&run.id, &task.hash).await?;
        let of_task = open.iter().filter(|attempt| attempt.task_hash == task.hash);
        known.push(Known { attempts, in_flight: of_task.map(|attempt| attempt.ask).collect() });
    }
    let told = Told::of(&store.tells(&run.id).await?);
    let mut searches = Vec::new();
    for ((operator, known), task) in settings.operators.iter().zip(&known).zip(&run.tasks) {
        let weight = told.weight(&task.hash, operator.weight);
        searches.push(Search { weight, ..search(&settings, operator, known) });
    }
    let next = match next_turn(settings.budget.attempts_max, &searches) {
        Turn::Ask { task, .. } => Some(task),
        Turn::Wait | Turn::Stop(_) => None,
    };
    let mut standings: Vec<_> = searches.iter().map(standing).enumerate().collect();
    standings.sort_by(|(one, a), (other, b)| {
        let rank = |index: usize| Some(index) != next;
        rank(*one).cmp(&rank(*other)).then(b.expected_gain.total_cmp(&a.expected_gain))
    });
    terminal::line(
        "expected gain = headroom x weight / attempts per improvement / (1 + under way)",
    );
    let mut rows = Vec::new();
    for (index, standing) in standings {
        let task = &run.tasks[index].name;
        let is_next = Some(index) == next;
        terminal::line(&terminal::one_line(&line(task, &standing, is_next)));
        rows.push(serde_json::json!({ "task": task, "next": is_next, "standing": standing }));
    }
    Ok(outcome.with("why", rows))
}

fn search<'a>(settings: &RunSettings, operator: &OperatorSetting, known: &'a Known) -> Search<'a> {
    let limits = SearchLimits {
        attempts_max: operator.attempts_max.unwrap_or(u32::MAX),
        plateau: settings.search.plateau,
        in_flight_max: settings.search.in_flight,
    };
    let Known { attempts, in_flight } = known;
    Search { limits, weight: operator.weight, attempts, in_flight, ended: None }
}

fn line(task: &str, standing: &Standing, is_next: bool) -> String {
    let Standing { weight, headroom, attempts_per_improvement, expected_gain, .. } = standing;
    let phase = match standing.phase {
        Phase::Start => "gets its first attempts".to_owned(),
        Phase::Search => "by its gain".to_owned(),
        Phase::Full => "waits for what is under way".to_owned(),
        Phase::Ended(end) => format!("ended: {}", end.describe()),
    };
    let phase = if is_next { format!("asks next, {phase}") } else { phase };
    format!(
        "{task:<16} {phase}; {} attempts, {} under way; {headroom:.2} x {weight} / \
         {attempts_per_improvement:.1} = {expected_gain:.3}",
        standing.attempts, standing.in_flight
    )
}
