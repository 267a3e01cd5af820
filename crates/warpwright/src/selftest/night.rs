//! A night that nobody watches, in some minutes: one run over all tasks whose replies are right,
//! wrong, hanging and faulting in turn, with a model that fails at times; afterwards every best
//! kernel is measured and the card works. The report's pages are kept beside the rows.

use pipeline::transcript::Entry;
use serde_json::Value;

use super::loops::{Ran, count, verdicts};
use super::{Bench, Found, hostile};
use crate::{embedded, wiring};

/// What the night must have at least, at all tasks together.
const ATTEMPTS_MIN: usize = 100;
/// The files that are kept: the report as a page and as Markdown.
const PAGE: &str = "night.html";
const MARKDOWN: &str = "night.md";

/// What a reply is made of.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The shipped kernels as they are.
    Good,
    Naive,
    /// The naive one with this before its first statement.
    With(&'static str),
    /// With this in place of the first line of the plan.
    Planned(&'static str),
    Prose,
}

const SLOW: &str = "for (volatile int spin = 0; spin < 300; ++spin) {}";
/// An endless loop over a local variable alone, volatile or not, is left out by ptxas.
const ENDLESS: &str = "for (;;) __nanosleep(100);";
const TRAP: &str = "if (blockDim.x > 0) __trap();";
const FAR: &str = "*(volatile int*)(1ull << 44) = 1;";
const IDLE: &str = "if (blockIdx.x == 0) return;";

/// The replies to each task in their order, with the verdict that each must get. The best kernels
/// come last, since a kernel near the floor of the card ends the search. The same cheat comes more
/// than once: a program that is known to hang or to fault is not run again.
const NIGHT: [(Part, &str); 20] = [
    (Part::With(SLOW), "Correct"),
    (Part::Prose, "Malformed/REPLY"),
    (Part::With("this is not C++;"), "BuildFailed/COMPILE"),
    (Part::With(ENDLESS), "Hung/TIMEOUT"),
    (Part::With(TRAP), "Faulted/CRASH"),
    (Part::With(SLOW), "Correct"),
    (Part::With(FAR), "Faulted/GUARD"),
    (Part::With(ENDLESS), "Hung/TIMEOUT"),
    (Part::With(IDLE), "Wrong/POISON"),
    (Part::With(SLOW), "Correct"),
    (Part::With(TRAP), "Faulted/CRASH"),
    (Part::Planned("plan = 99"), "Malformed/PLAN"),
    (Part::With(TRAP), "Faulted/CRASH"),
    (Part::With(FAR), "Faulted/GUARD"),
    (Part::With(IDLE), "Wrong/POISON"),
    (Part::Prose, "Malformed/REPLY"),
    (Part::With(SLOW), "Correct"),
    (Part::With(ENDLESS), "Hung/TIMEOUT"),
    (Part::Naive, "Correct"),
    (Part::Good, "Correct"),
];
/// The attempt before whose reply the model fails once.
const FAILS_BEFORE: u32 = 10;
/// Replies that each task has beside these, all the naive kernel: the run gives its attempts to
/// where they gain most.
const MORE: usize = 20;

/// What a task is answered, in the order of its attempts, with the verdict that each must get.
fn script() -> impl Iterator<Item = (u32, Part, &'static str)> {
    let more = std::iter::repeat_n((Part::Naive, "Correct"), MORE);
    NIGHT.into_iter().chain(more).zip(1..).map(|((part, verdict), seq)| (seq, part, verdict))
}

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    bench.item("all tasks, hangs and faults among the replies", night)
}

fn night(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let tasks = embedded::selftest_kernels().iter().filter(|(_, name, _)| name == "naive").count();
    let ran = Ran::with(bench, ("all", tasks * NIGHT.len()), &replies(), &["--no-accept"], &[])?;
    let tasks = ran.report.get("tasks").and_then(Value::as_array).cloned().unwrap_or_default();
    let made: usize = tasks.iter().map(|task| verdicts(task).len()).sum();
    let strange: Vec<String> = tasks.iter().flat_map(strange).collect();
    let kept = keep_pages(bench, &ran)?;
    let next = hostile::next_one(&bench.judge, &bench.seed)?;
    let all_measured = !tasks.is_empty() && tasks.iter().all(is_measured);
    let whole = ran.exit == Some(0) && made >= ATTEMPTS_MIN && strange.is_empty();
    Ok(Found::new(whole && all_measured && kept && next.1)
        .with("exit", format!("{:?}", ran.exit))
        .with("attempts", made.to_string())
        .with("tasks with a measured kernel", count(&tasks, &is_measured))
        .with("other verdicts than expected", strange.join(", "))
        .with("the next kernel", next.0)
        .with("seconds", format!("{:.0}", ran.seconds))
        .with("ended", ran.report.get("reason").map(ToString::to_string).unwrap_or_default()))
}

/// Everything that the model says, to all tasks.
fn replies() -> Vec<Entry> {
    let kernels = embedded::selftest_kernels();
    let mut all = Vec::new();
    for (task, _, naive) in kernels.iter().filter(|(_, name, _)| name == "naive") {
        let good = kernels.iter().find(|(other, name, _)| other == task && name == "good");
        let good = good.map_or("", |(_, _, reply)| reply);
        for (seq, part, _) in script() {
            let text = part.reply(naive, good);
            let entry = wiring::person_entry(task, seq, text);
            if seq == FAILS_BEFORE {
                let error = Some("503 overloaded".to_owned());
                all.push(Entry { reply: String::new(), error, ..entry.clone() });
            }
            all.push(entry);
        }
    }
    all
}

impl Part {
    fn reply(self, naive: &str, good: &str) -> String {
        match self {
            Self::Good => good.to_owned(),
            Self::Naive => naive.to_owned(),
            Self::With(statement) => with_statement(naive, statement),
            Self::Planned(line) => naive.replacen("plan = 1", line, 1),
            Self::Prose => "I would need to know more about the tensors.".to_owned(),
        }
    }
}

/// A reply whose first kernel begins with a statement.
fn with_statement(reply: &str, statement: &str) -> String {
    let kernel = reply.find("__global__").unwrap_or(0);
    let Some(body) = reply[kernel..].find('{').map(|at| kernel + at + 1) else {
        return reply.to_owned();
    };
    format!("{}\n    {statement}{}", &reply[..body], &reply[body..])
}

/// The attempts of a task that got another verdict than their reply must get.
fn strange(task: &Value) -> Vec<String> {
    let name = task.get("task").and_then(Value::as_str).unwrap_or_default();
    let pairs = verdicts(task).into_iter().zip(NIGHT).zip(1..);
    let others = pairs.filter(|((got, (_, expected)), _)| got != expected);
    others
        .map(|((got, (_, expected)), seq)| format!("{name} #{seq} {got}, not {expected}"))
        .collect()
}

/// True when the task's best kernel has at least a measurement beside a baseline.
fn is_measured(task: &Value) -> bool {
    matches!(task.get("standing").and_then(Value::as_str), Some("measured" | "claimed"))
}

/// Writes the report's pages into the folder of the self-test; true when both are there.
fn keep_pages(bench: &Bench<'_>, ran: &Ran) -> anyhow::Result<bool> {
    let page = bench.folder.join(PAGE);
    let words = ["report", "@last", "--force", "--html", &page.display().to_string()];
    let (page_exit, _) = ran.ask(bench, &words)?;
    let (markdown_exit, markdown) = ran.ask(bench, &["report", "@last"])?;
    std::fs::write(bench.folder.join(MARKDOWN), markdown)?;
    Ok(page_exit == Some(0) && markdown_exit == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_night_has_enough_replies_and_each_is_what_it_should_be() {
        let replies = replies();
        let (failed, answered): (Vec<_>, Vec<_>) =
            replies.iter().partition(|entry| entry.error.is_some());
        let tasks = failed.len();
        assert!(tasks * NIGHT.len() >= ATTEMPTS_MIN, "{tasks}");
        assert_eq!(answered.len(), tasks * (NIGHT.len() + MORE));
        let (naive, good) = ("```\n__global__ void k() {\n}\n```\nplan = 1\n", "good");
        for (part, _) in NIGHT {
            let same = part.reply(naive, good) == naive;
            assert_eq!(same, matches!(part, Part::Naive), "{part:?}");
        }
    }

    #[test]
    fn a_statement_comes_first_in_the_first_kernel() {
        let reply = "struct A { int a; };\n__global__ void k(int* p)\n{\n    *p = 1;\n}\n";
        let expected =
            "struct A { int a; };\n__global__ void k(int* p)\n{\n    TRAP;\n    *p = 1;\n}\n";
        assert_eq!(with_statement(reply, "TRAP;"), expected);
        assert_eq!(with_statement("no kernel", "TRAP;"), "no kernel");
    }
}
