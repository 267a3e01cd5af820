//! What a person sees while a run goes on: a line for each closed attempt.

use agent::Progress;
use pipeline::attempt::State;

use crate::commands::drive::attempt_line;
use crate::settings::RunSettings;
use crate::terminal;

/// An observer that prints; with several tasks, each line names its own.
pub(crate) fn printer(settings: &RunSettings) -> impl Fn(Progress<'_>) + Send + Sync + 'static {
    let many = settings.operators.len() > 1;
    let prefix = move |task: &str| if many { format!("{task} ") } else { String::new() };
    move |progress| match progress {
        Progress::Reached { task, attempt } if attempt.state == State::Closed => {
            let line = format!("{}{}", prefix(task), attempt_line(attempt));
            terminal::line(&terminal::one_line(&line));
        }
        Progress::Reached { .. } | Progress::Booked { .. } | Progress::Elsewhere { .. } => {}
        Progress::Retrying { task, seq, why, wait_ms } => {
            let seconds = wait_ms as f64 / 1e3;
            terminal::line(&terminal::one_line(&format!(
                "{}#{seq} asking again in {seconds:.1} s: {why}",
                prefix(task)
            )));
        }
        Progress::Unnoted { why } => {
            terminal::note(&format!("the run broke, and the ledger could not note it: {why}"));
        }
    }
}
