//! What was spent, by model and by task, and what failed, by class.

use std::collections::BTreeMap;

use pipeline::attempt::Attempt;
use serde::Serialize;
use store::{BookedCall, CallState};

/// Spending and failures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Books {
    pub(crate) by_model: Vec<Spent>,
    pub(crate) by_task: Vec<Spent>,
    /// Verdicts that are not correct, the most frequent first.
    pub(crate) candidates: Vec<(String, usize)>,
    /// Classes of calls that failed or were lost, the most frequent first.
    pub(crate) providers: Vec<(String, usize)>,
}

/// What the calls of one model or task came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Spent {
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// As it counts against a cap: paid, or the worst case while that is not known.
    pub(crate) nusd: i64,
    /// Answered calls whose price nobody knows; they count as nothing.
    pub(crate) unpriced: u64,
    /// Time for which cards were held for a task, in microseconds, or may have been.
    pub(crate) gpu_us: u64,
}

impl Books {
    /// Adds up the calls of a run; `task` names a call's task.
    pub(crate) fn of<'a>(
        calls: &[BookedCall],
        task: impl Fn(&BookedCall) -> String,
        attempts: impl Iterator<Item = &'a Attempt>,
    ) -> Self {
        let failed = attempts.filter(|attempt| !attempt.verdict.is_correct());
        let classes = calls.iter().filter_map(|call| call.error_class.clone());
        Self {
            by_model: spent(calls, |call| format!("{} {}", call.provider, call.model)),
            by_task: spent(calls, task),
            candidates: counted(failed.map(|attempt| attempt.verdict.to_string())),
            providers: counted(classes),
        }
    }
}

impl Books {
    /// Adds the time for which cards were held for a task.
    pub(crate) fn note_card_time(&mut self, task: &str, gpu_us: u64) {
        match self.by_task.iter_mut().find(|spent| spent.name == task) {
            Some(spent) => spent.gpu_us = spent.gpu_us.saturating_add(gpu_us),
            None => {
                self.by_task.push(Spent { name: task.to_owned(), gpu_us, ..Spent::default() });
            }
        }
    }
}

fn spent(calls: &[BookedCall], name: impl Fn(&BookedCall) -> String) -> Vec<Spent> {
    let mut all: BTreeMap<String, Spent> = BTreeMap::new();
    for call in calls {
        let name = name(call);
        let spent = all.entry(name.clone()).or_insert_with(|| Spent { name, ..Spent::default() });
        spent.calls += 1;
        match call.state {
            CallState::Failed => spent.failed += 1,
            CallState::Lost => spent.lost += 1,
            CallState::Settled => spent.unpriced += u64::from(call.cost_nusd.is_none()),
            CallState::Reserved | CallState::Sent => {}
        }
        let usage = call.usage.unwrap_or_default();
        spent.input_tokens = spent.input_tokens.saturating_add(usage.input_tokens);
        spent.output_tokens = spent.output_tokens.saturating_add(usage.output_tokens);
        spent.nusd = spent.nusd.saturating_add(call.booked_nusd());
    }
    let mut rows: Vec<Spent> = all.into_values().collect();
    rows.sort_by_key(|spent| (std::cmp::Reverse(spent.nusd), std::cmp::Reverse(spent.calls)));
    rows
}

/// How often each text comes, the most frequent first.
pub(crate) fn counted(texts: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    let mut rows: Vec<(String, usize)> = counts.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    rows
}

#[cfg(test)]
mod tests {
    use pipeline::digest::Digest;
    use pipeline::transcript::Usage;
    use store::{AttemptId, BookedCall, CallState, Reservation};

    use super::{Books, Spent, counted};

    fn call(model: &str, state: CallState, cost_nusd: Option<i64>) -> BookedCall {
        let class = matches!(state, CallState::Failed | CallState::Lost);
        BookedCall {
            attempt: AttemptId::from("a".to_owned()),
            task: Digest::of_bytes(b"task"),
            provider: "openai".to_owned(),
            model: model.to_owned(),
            state,
            reservation: Reservation { tokens: 1_000, nusd: 500 },
            usage: (state == CallState::Settled).then(|| Usage::of(70, 30)),
            cost_nusd,
            error_class: class.then(|| "rate".to_owned()),
            sent_us: Some(0),
            ended_us: Some(1),
        }
    }

    #[test]
    fn what_is_not_known_yet_counts_at_its_worst_case() {
        let calls = [
            call("small", CallState::Settled, Some(200)),
            call("small", CallState::Settled, None),
            call("small", CallState::Lost, None),
            call("large", CallState::Sent, None),
            call("large", CallState::Reserved, None),
            call("large", CallState::Failed, None),
        ];
        let books = Books::of(&calls, |_| "gelu".to_owned(), [].iter());
        let small = Spent {
            name: "openai small".to_owned(),
            calls: 3,
            failed: 0,
            lost: 1,
            input_tokens: 140,
            output_tokens: 60,
            nusd: 700,
            unpriced: 1,
            gpu_us: 0,
        };
        let large = Spent {
            name: "openai large".to_owned(),
            calls: 3,
            failed: 1,
            nusd: 1_000,
            ..Spent::default()
        };
        assert_eq!(books.by_model, [large, small]);
        assert_eq!(books.by_task.len(), 1);
        assert_eq!(books.by_task[0].nusd, 1_700);
        assert_eq!(books.providers, [("rate".to_owned(), 2)]);
        let mut books = books;
        for (task, us) in [("gelu", 5), ("gelu", 7), ("softmax", 1)] {
            books.note_card_time(task, us);
        }
        let times: Vec<_> = books.by_task.iter().map(|it| (&*it.name, it.gpu_us)).collect();
        assert_eq!(times, [("gelu", 12), ("softmax", 1)]);
    }

    #[test]
    fn the_most_frequent_comes_first() {
        let texts = ["b", "a", "b", "c"].map(str::to_owned).into_iter();
        let rows = counted(texts);
        let rows: Vec<_> = rows.iter().map(|(text, count)| (text.as_str(), *count)).collect();
        assert_eq!(rows, [("b", 2), ("a", 1), ("c", 1)]);
    }
}
