//! What people told a run while it was on, and what of it holds now: a fold over append-only rows.
//!
//! Nothing here is obeyed: the loop reads [`Told`] before each decision. Start at [`Told::of`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::digest::Digest;
use crate::limits::HINTS_SHOWN_MAX;

/// One thing that a run was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Said {
    /// Begin nothing new until `Resume`.
    Pause,
    /// Go on; ends a pause and a stop.
    Resume,
    /// Begin nothing new for good, unless `Resume` follows.
    Stop,
    /// How much the task counts beside others.
    Weight(f64),
    /// Words for the next prompt.
    Hint(String),
    /// The caps change by so much.
    Add(Added),
    /// Said by the run itself: the prompt of the task's attempt `seq` showed the hint of a row.
    Shown { hint: u32, seq: u32 },
}

/// What caps change by. People only add; a new absolute cap takes back what was added before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Added {
    pub attempts: i64,
    pub tokens: i64,
    /// Nano-dollars.
    pub nusd: i64,
    /// Time of the run, in microseconds.
    pub us: i64,
    /// Time on GPUs, in microseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub gpu_us: i64,
}

/// Rows of older programs say nothing of it, and read back as they are.
fn is_zero(amount: &i64) -> bool {
    *amount == 0
}

/// One row of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct TellRow {
    /// 0-based, in the order in which they were said.
    pub position: u32,
    /// The task that it is about; `None` for the whole run.
    pub task: Option<Digest>,
    pub said: Said,
    /// Who said it.
    pub teller: String,
    pub told_us: i64,
}

/// A hint that waits for a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Position of its row.
    pub position: u32,
    pub text: String,
    task: Option<Digest>,
}

/// Whether a task may begin something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    Go,
    Paused,
    Stopped,
}

/// What pauses, stops and weights hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Standing {
    paused: bool,
    stopped: bool,
    weight: Option<f64>,
}

/// What holds now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    whole: Standing,
    tasks: BTreeMap<Digest, Standing>,
    hints: Vec<Hint>,
    /// Hint and task of prompts that showed it.
    shown: BTreeSet<(u32, Digest)>,
    /// By how much the caps were changed.
    pub added: Added,
}

impl Told {
    /// Folds the rows of a run, oldest first.
    #[must_use]
    pub fn of(rows: &[TellRow]) -> Self {
        let mut told = Self::default();
        for row in rows {
            told.take(row);
        }
        told
    }

    /// Adds the next row.
    pub fn take(&mut self, row: &TellRow) {
        let standing = match &row.task {
            Some(task) => self.tasks.entry(task.clone()).or_default(),
            None => &mut self.whole,
        };
        match &row.said {
            Said::Pause => standing.paused = true,
            Said::Resume => (standing.paused, standing.stopped) = (false, false),
            Said::Stop => standing.stopped = true,
            Said::Weight(weight) => standing.weight = Some(*weight),
            Said::Add(more) => self.added = self.added.plus(*more),
            Said::Hint(text) => self.hints.push(Hint {
                position: row.position,
                text: text.clone(),
                task: row.task.clone(),
            }),
            Said::Shown { hint, .. } => {
                self.shown.extend(row.task.clone().map(|task| (*hint, task)));
            }
        }
    }

    /// Whether the run as a whole may begin something new.
    #[must_use]
    pub fn leave_of_run(&self) -> Leave {
        self.whole.leave()
    }

    /// Whether a task may begin something new: the stricter of its own and the run's.
    #[must_use]
    pub fn leave(&self, task: &Digest) -> Leave {
        let own = self.tasks.get(task).copied().unwrap_or_default().leave();
        match (self.whole.leave(), own) {
            (Leave::Stopped, _) | (_, Leave::Stopped) => Leave::Stopped,
            (Leave::Paused, _) | (_, Leave::Paused) => Leave::Paused,
            (Leave::Go, Leave::Go) => Leave::Go,
        }
    }

    /// Whether any of `tasks` may begin something new: `Go` if one may, else `Paused` if one only
    /// waits, else `Stopped`.
    #[must_use]
    pub fn leave_of_any<'a>(&self, tasks: impl IntoIterator<Item = &'a Digest>) -> Leave {
        let mut best = self.leave_of_run();
        if best == Leave::Go {
            best = Leave::Stopped;
            for task in tasks {
                best = match (best, self.leave(task)) {
                    (Leave::Go, _) | (_, Leave::Go) => Leave::Go,
                    (Leave::Paused, _) | (_, Leave::Paused) => Leave::Paused,
                    (Leave::Stopped, Leave::Stopped) => Leave::Stopped,
                };
            }
        }
        best
    }

    /// The weight of a task: what was said last about it, else about the run, else `otherwise`.
    #[must_use]
    pub fn weight(&self, task: &Digest, otherwise: f64) -> f64 {
        let own = self.tasks.get(task).and_then(|standing| standing.weight);
        own.or(self.whole.weight).unwrap_or(otherwise)
    }

    /// Hints that no prompt of the task has shown yet, oldest first; the rest of many waits for the
    /// prompt after the next.
    #[must_use]
    pub fn hints(&self, task: &Digest) -> Vec<&Hint> {
        let waits = |hint: &&Hint| {
            let about = hint.task.as_ref().is_none_or(|about| about == task);
            about && !self.shown.contains(&(hint.position, task.clone()))
        };
        self.hints.iter().filter(waits).take(HINTS_SHOWN_MAX).collect()
    }

    /// Hints that the prompts of some of `tasks` have not shown yet.
    #[must_use]
    pub fn hints_waiting<'a>(&self, tasks: impl Iterator<Item = &'a Digest> + Clone) -> usize {
        let waits = |hint: &&Hint| {
            tasks.clone().any(|task| {
                hint.task.as_ref().is_none_or(|about| about == task)
                    && !self.shown.contains(&(hint.position, task.clone()))
            })
        };
        self.hints.iter().filter(waits).count()
    }

    /// The caps with what was added; one that does not bind stays so.
    #[must_use]
    pub fn budget(&self, base: Budget) -> Budget {
        let Added { attempts, tokens, nusd, us, gpu_us } = self.added;
        let attempts = i64::from(base.attempts_max).saturating_add(attempts).max(0);
        let mut raised = base;
        raised.attempts_max = u32::try_from(attempts).unwrap_or(u32::MAX);
        raised.tokens_max = base.tokens_max.map(|cap| cap.saturating_add_signed(tokens));
        raised.nusd_max = base.nusd_max.map(|cap| cap.saturating_add(nusd).max(0));
        raised.deadline_us = base.deadline_us.map(|end| end.saturating_add(us));
        raised.gpu_us_max = base.gpu_us_max.map(|cap| cap.saturating_add_signed(gpu_us));
        raised
    }
}

impl Standing {
    fn leave(self) -> Leave {
        match (self.stopped, self.paused) {
            (true, _) => Leave::Stopped,
            (false, true) => Leave::Paused,
            (false, false) => Leave::Go,
        }
    }
}

impl Added {
    fn plus(self, other: Self) -> Self {
        Self {
            attempts: self.attempts.saturating_add(other.attempts),
            tokens: self.tokens.saturating_add(other.tokens),
            nusd: self.nusd.saturating_add(other.nusd),
            us: self.us.saturating_add(other.us),
            gpu_us: self.gpu_us.saturating_add(other.gpu_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Added, Leave, Said, TellRow, Told};
    use crate::budget::Budget;
    use crate::digest::Digest;
    use crate::limits::HINTS_SHOWN_MAX;

    fn task(name: &str) -> Digest {
        Digest::of_bytes(name.as_bytes())
    }

    /// Rows about the run for an empty name, else about the task with that name.
    fn told(said: &[(&str, Said)]) -> Told {
        let row = |(position, (about, said)): (u32, &(&str, Said))| TellRow {
            position,
            task: (!about.is_empty()).then(|| task(about)),
            said: said.clone(),
            teller: "ada".to_owned(),
            told_us: i64::from(position),
        };
        Told::of(&(0..).zip(said).map(row).collect::<Vec<_>>())
    }

    #[test]
    fn pauses_and_stops_hold_until_they_are_taken_back() {
        use Leave::{Go, Paused, Stopped};
        use Said::{Pause, Resume, Stop};
        for (said, whole, a, any) in [
            (vec![], Go, Go, Go),
            (vec![("", Pause)], Paused, Paused, Paused),
            (vec![("", Pause), ("", Resume)], Go, Go, Go),
            (vec![("", Stop)], Stopped, Stopped, Stopped),
            (vec![("", Stop), ("", Pause)], Stopped, Stopped, Stopped),
            (vec![("", Stop), ("", Resume)], Go, Go, Go),
            (vec![("a", Pause)], Go, Paused, Go),
            (vec![("a", Stop), ("b", Pause)], Go, Stopped, Paused),
            (vec![("a", Stop), ("b", Stop)], Go, Stopped, Stopped),
            // A task's own word outlives the run's, and the other way round.
            (vec![("a", Pause), ("", Pause), ("", Resume)], Go, Paused, Go),
            (vec![("", Pause), ("a", Resume)], Paused, Paused, Paused),
            (vec![("a", Stop), ("", Pause)], Paused, Stopped, Paused),
        ] {
            let told = told(&said);
            let found = (told.leave_of_run(), told.leave(&task("a")));
            assert_eq!(found, (whole, a), "{said:?}");
            assert_eq!(told.leave_of_any([&task("a"), &task("b")]), any, "{said:?}");
        }
    }

    #[test]
    fn the_last_weight_of_a_task_counts() {
        let told = told(&[("a", Said::Weight(2.0)), ("a", Said::Weight(3.0))]);
        assert_eq!((told.weight(&task("a"), 1.0), told.weight(&task("b"), 1.5)), (3.0, 1.5));
    }

    #[test]
    fn a_hint_waits_once_for_each_task_that_it_is_about() {
        let hint = |text: &str| Said::Hint(text.to_owned());
        let shown = |hint| Said::Shown { hint, seq: 1 };
        let texts = |told: &Told, name: &str| {
            let hints = told.hints(&task(name)).into_iter().map(|hint| hint.text.clone());
            hints.collect::<Vec<_>>()
        };
        let rows = [("", hint("all")), ("a", hint("a only")), ("a", shown(0))];
        let before = told(&rows[..2]);
        assert_eq!(texts(&before, "a"), ["all", "a only"]);
        assert_eq!(texts(&before, "b"), ["all"]);
        let after = told(&rows);
        let waiting = |told: &Told, names: &[&str]| {
            let tasks: Vec<_> = names.iter().map(|name| task(name)).collect();
            told.hints_waiting(tasks.iter())
        };
        assert_eq!((waiting(&before, &["a", "b"]), waiting(&before, &["b"])), (2, 1));
        assert_eq!((waiting(&after, &["a", "b"]), waiting(&after, &["a"])), (2, 1));
        assert_eq!(
            (texts(&after, "a"), texts(&after, "b")),
            (vec!["a only".into()], vec!["all".into()])
        );
        let many: Vec<_> = (0..=HINTS_SHOWN_MAX).map(|_| ("a", hint("x"))).collect();
        assert_eq!(told(&many).hints(&task("a")).len(), HINTS_SHOWN_MAX);
    }

    #[test]
    fn what_was_added_raises_the_caps_that_there_are() {
        let add = |attempts, tokens, nusd, us| {
            Said::Add(Added { attempts, tokens, nusd, us, gpu_us: us })
        };
        let base = Budget {
            tokens_max: Some(1_000),
            nusd_max: Some(50),
            deadline_us: Some(7),
            gpu_us_max: Some(7),
            ..Budget::of_attempts(10)
        };
        for (said, wanted) in [
            (vec![], (10, Some(1_000), Some(50), Some(7))),
            (vec![add(5, 0, 50, 3)], (15, Some(1_000), Some(100), Some(10))),
            (vec![add(0, 0, 50, 0), add(0, 9, 1, 0)], (10, Some(1_009), Some(101), Some(7))),
            // A resume with an absolute cap takes back what was added to the one before.
            (vec![add(0, 0, 50, 0), add(0, 0, -50, 0)], (10, Some(1_000), Some(50), Some(7))),
            (
                vec![add(i64::MAX, i64::MAX, i64::MAX, i64::MAX)],
                (u32::MAX, Some(i64::MAX as u64 + 1_000), Some(i64::MAX), Some(i64::MAX)),
            ),
            (vec![add(-99, -9_999, -99, 0)], (0, Some(0), Some(0), Some(7))),
        ] {
            let said: Vec<_> = said.into_iter().map(|said| ("", said)).collect();
            let found = told(&said).budget(base);
            let caps = (found.attempts_max, found.tokens_max, found.nusd_max, found.deadline_us);
            assert_eq!(caps, wanted, "{said:?}");
            assert!(found.gpu_us_max.unwrap() >= 7, "{said:?}");
        }
        let unbound = told(&[("", add(1, 1, 1, 1))]).budget(Budget::of_attempts(1));
        assert_eq!(unbound, Budget::of_attempts(2));
        let gpu = |gpu_us| Said::Add(Added { gpu_us, ..Added::default() });
        let raised = told(&[("", gpu(600)), ("", gpu(-100))]).budget(base);
        assert_eq!((raised.gpu_us_max, raised.deadline_us), (Some(507), Some(7)));
    }

    #[test]
    fn what_was_said_reads_back_from_its_stored_form() {
        for (said, json) in [
            (Said::Pause, r#""pause""#),
            (Said::Weight(3.0), r#"{"weight":3.0}"#),
            (Said::Hint("use \"mma\"".to_owned()), r#"{"hint":"use \"mma\""}"#),
            (Said::Shown { hint: 1, seq: 2 }, r#"{"shown":{"hint":1,"seq":2}}"#),
            (
                Said::Add(Added { nusd: 5, ..Added::default() }),
                r#"{"add":{"attempts":0,"tokens":0,"nusd":5,"us":0}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&said).unwrap(), json);
            assert_eq!(serde_json::from_str::<Said>(json).unwrap(), said);
        }
        assert!(serde_json::from_str::<Said>(r#"{"add":{"euros":1}}"#).is_err());
    }
}
