//! compute-sanitizer over the confined child: what it must find, and what it must not.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use judge::{CancelFlag, Evaluation, Judge, Sanitized, Sanitizer, find_tool};
use pipeline::acceptance;
use pipeline::limits::capped;

use super::{Bench, Found, Shipped, Status, clock, head_line};
use crate::embedded;

/// What is quoted of a tool, in bytes.
const SAID_BYTES_MAX: usize = 2_000;
/// How long a process that is not confined may take under the tool.
const UNCONFINED_SECONDS: &str = "150";

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let judge = Arc::clone(&bench.judge);
    let seed = bench.seed;
    let cancel = CancelFlag::default();
    bench.item("this program, not confined", |_| unconfined(&judge, &cancel))?;
    for (name, reply) in embedded::selftest_sanitizer() {
        let shipped = Shipped::new(&head_line(&reply, "task:"), &reply)?;
        for tool in tools(&reply) {
            bench.item(&format!("{name} {}", tool.name()), |_| {
                let started = Instant::now();
                let sanitized = shipped.with_evaluation(&judge, &seed, |it: &Evaluation<'_>| {
                    Ok(judge.sanitized(it, tool, &cancel)?)
                })?;
                let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
                Ok(told(&sanitized, &head_line(&reply, "expect:")).with("seconds", seconds))
            })?;
        }
    }
    Ok(())
}

/// The workload of the part `clock` under memcheck: whether the tool works here at all.
fn unconfined(judge: &Judge, cancel: &CancelFlag) -> anyhow::Result<Found> {
    let Some(sanitizer) = find_tool("compute-sanitizer") else {
        return Ok(Found::not_available("there is no compute-sanitizer"));
    };
    let folder = tempfile::tempdir()?;
    let harness = folder.path().join("harness.cubin");
    std::fs::write(&harness, judge.harness_cubin(cancel)?)?;
    let words = clock::workload(&std::env::current_exe()?, &harness, "ungated");
    let output = judge.with_gpu(cancel, |sheet| {
        Command::new("timeout")
            .args(["--signal=KILL", UNCONFINED_SECONDS])
            .arg(sanitizer)
            .args(["--tool", "memcheck", "--print-limit", "8", "--report-api-errors", "no"])
            .args(words)
            .env("CUDA_VISIBLE_DEVICES", &sheet.uuid)
            .stdin(Stdio::null())
            .output()
    })??;
    let said = String::from_utf8_lossy(&output.stdout);
    let of_tool = said.lines().filter(|line| line.starts_with("=========")).collect::<Vec<_>>();
    let of_tool = of_tool.join(" ");
    let clean = of_tool.contains("ERROR SUMMARY: 0 errors");
    Ok(Found::new(clean).with("said", capped(&of_tool, SAID_BYTES_MAX)))
}

fn tools(reply: &str) -> Vec<Sanitizer> {
    let line = head_line(reply, "tools:");
    let named = |tool: &Sanitizer| line.split_whitespace().any(|name| name == tool.name());
    Sanitizer::ALL.into_iter().filter(named).collect()
}

fn told(sanitized: &Sanitized, expected: &str) -> Found {
    let (word, detail) = match &sanitized.found {
        acceptance::Found::Clean => ("Clean", ""),
        acceptance::Found::Fails { detail, .. } => ("Fails", detail.as_str()),
        acceptance::Found::NotAvailable { why } => ("NotAvailable", why.as_str()),
        acceptance::Found::Audits { detail } => ("Audits", detail.as_str()),
        acceptance::Found::Notes { detail } => ("Notes", detail.as_str()),
    };
    let mut found = Found::new(word == expected);
    if word == "NotAvailable" {
        found.status = Status::NotAvailable;
    }
    let said = sanitized.said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = if found.status == Status::Passed { String::new() } else { said };
    found
        .with("found", word)
        .with("expected", expected)
        .with("detail", detail)
        .with("said", capped(&said, SAID_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use judge::{Sanitized, Sanitizer};
    use pipeline::acceptance::Found;
    use pipeline::verdict::Reason;

    use super::super::{Status, head_line};
    use super::{told, tools};
    use crate::embedded;

    #[test]
    fn each_tool_has_a_kernel_that_it_must_find_and_one_that_it_must_not() {
        let all = embedded::selftest_sanitizer();
        for expected in ["Clean", "Fails"] {
            let replies = all.iter().filter(|(_, reply)| head_line(reply, "expect:") == expected);
            let named: Vec<_> = replies.flat_map(|(_, reply)| tools(reply)).collect();
            assert!(Sanitizer::ALL.iter().all(|tool| named.contains(tool)), "{expected}");
        }
    }

    #[test]
    fn a_tool_that_gave_no_answer_is_quoted_and_passes_nothing() {
        let fails = Found::Fails { reason: Reason::Guard, detail: "a read".to_owned() };
        let silent = Found::NotAvailable { why: "no summary".to_owned() };
        for (found, expected, status) in [
            (Found::Clean, "Clean", Status::Passed),
            (Found::Clean, "Fails", Status::Failed),
            (fails, "Fails", Status::Passed),
            (silent, "Clean", Status::NotAvailable),
        ] {
            let sanitized = Sanitized { found, said: "its  own\nwords".to_owned() };
            let row = told(&sanitized, expected);
            assert_eq!(row.status, status);
            let quoted = row.columns.iter().any(|(_, text)| text == "its own words");
            assert_eq!(quoted, status != Status::Passed);
        }
    }
}
