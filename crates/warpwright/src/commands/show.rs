//! `show`: everything about one attempt, or the attempts of a run.

use std::path::Path;

use pipeline::attempt::Attempt;
use pipeline::build::Diagnostic;
use pipeline::feedback::Feedback;
use pipeline::memory::words as dims_in_words;
use pipeline::report::CaseStatus;
use similar::TextDiff;
use store::{AttemptRow, CallRow, CallState, JudgementRow, RunId, RunTask, Store, StoreError};

use crate::claims::{measured, words};
use crate::cli::ShowArgs;
use crate::commands::drive::attempt_line;
use crate::commands::status::dollars;
use crate::commands::tell;
use crate::outcome::{Outcome, bad_input};
use crate::selector::{self, Selected, What};
use crate::settings::Places;
use crate::terminal;

/// Unchanged lines around each change of a diff.
const DIFF_CONTEXT_LINES: usize = 3;

/// Shows what a selector means.
pub(crate) async fn perform(
    places: &Places,
    args: &ShowArgs,
    json: bool,
) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let Selected { run, what } = selector::resolve(&store, args.selector.as_deref()).await?;
    if let Some(folder) = &args.out {
        let What::Attempt(task, seq) = what else {
            return Err(bad_input("--out is about one attempt: write RUN:SEQ or RUN:best"));
        };
        let attempt = store.attempt_detail(&run, &task.hash, seq).await?.attempt;
        return write_out(&attempt, folder);
    }
    match what {
        What::Attempt(task, seq) => show_attempt(&store, &run, &task, seq, args, json).await,
        What::Task(task) => list(&store, &run, &[task], json).await,
        What::Run => {
            let tasks = store.run(&run).await?.tasks;
            list(&store, &run, &tasks, json).await
        }
    }
}

/// Writes a candidate as a folder that `evaluate` takes.
fn write_out(attempt: &AttemptRow, folder: &Path) -> anyhow::Result<Outcome> {
    let none = || bad_input(format!("attempt {} has no kernel", attempt.ask.seq));
    let candidate = attempt.candidate.as_ref().ok_or_else(none)?;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => bad_input(format!(
            "{} exists already; name another folder with --out, or remove it",
            folder.display()
        )),
        _ => bad_input(format!("{}: {error}", folder.display())),
    };
    std::fs::create_dir(folder).map_err(failed)?;
    std::fs::write(folder.join("kernel.cu"), &candidate.source).map_err(failed)?;
    std::fs::write(folder.join("plan.toml"), &candidate.plan_text).map_err(failed)?;
    terminal::line(&format!("wrote {0}/kernel.cu and {0}/plan.toml", folder.display()));
    Ok(Outcome::done().with("folder", folder.display().to_string()))
}

async fn list(
    store: &Store,
    run: &RunId,
    tasks: &[RunTask],
    json: bool,
) -> anyhow::Result<Outcome> {
    let mut listed = Vec::new();
    let summary = store.run_summary(run).await?;
    for task in tasks {
        let attempts = summary.tasks.iter().find(|it| it.task == *task).map_or(0, |it| it.attempts);
        if tasks.len() > 1 && !json {
            terminal::line(&format!("{}:", task.name));
        }
        for seq in 1..=attempts {
            let attempt = store.attempt_detail(run, &task.hash, seq).await?.attempt;
            if !json {
                terminal::line(&terminal::one_line(&attempt_line(&attempt)));
            }
            listed.push(serde_json::json!({
                "task": task.name, "seq": seq, "state": attempt.state, "mode": attempt.ask.mode,
                "parent": attempt.ask.parent, "verdict": attempt.verdict,
            }));
        }
    }
    Ok(Outcome::done().with("run", run.to_string()).with("attempts", listed))
}

async fn show_attempt(
    store: &Store,
    run: &RunId,
    task: &RunTask,
    seq: u32,
    args: &ShowArgs,
    json: bool,
) -> anyhow::Result<Outcome> {
    let detail = store.attempt_detail(run, &task.hash, seq).await.map_err(|error| match error {
        StoreError::UnknownAttempt { .. } => bad_input(format!(
            "run {run} has no attempt {seq} at {}; `show {run}` lists them",
            task.name
        )),
        other => other.into(),
    })?;
    let closed = store.closed_attempts(run, &task.hash).await?;
    let attempt = &detail.attempt;
    let mut claims = store.claims_of_kernels(run).await?;
    claims.retain(|it| it.is_of(&task.hash, seq));
    let promotion = store.promotion(&attempt.id).await?;
    if json {
        return Ok(as_json(run, task, attempt, &detail.calls)?
            .with("claims", claims.iter().map(words::kernel_as_json).collect::<Vec<_>>())
            .with("hints", tell::hints(store, run, task, seq).await?)
            .with("promotion", promotion.map(|it| promotion_as_json(&it, args.hidden))));
    }
    terminal::line(&terminal::plain(&format!("{} {}", task.name, attempt_line(attempt))));
    tell::show_hints(store, run, task, seq).await?;
    show_messages(attempt);
    show_calls(&detail.calls);
    let parent = attempt.ask.parent.and_then(|seq| closed.iter().find(|it| it.seq == seq));
    show_code(attempt, parent);
    show_build(attempt);
    if let Some(closed) = closed.iter().find(|it| it.seq == seq) {
        show_findings(attempt, closed);
        show_gpu(closed);
        show_verdict(closed);
    }
    if let Some(promotion) = promotion {
        show_promotion(&promotion, args.hidden);
    }
    if let Some(measured) = measured::in_words(store, &attempt.id).await? {
        section("beside a baseline", &measured);
    }
    if !claims.is_empty() {
        let claims: Vec<_> = claims.iter().map(|it| words::of_kernel(run, it)).collect();
        section("claims", &claims.join("\n"));
    }
    Ok(Outcome::done().with("run", run.to_string()).with("task", task.name.clone()))
}

fn as_json(
    run: &RunId,
    task: &RunTask,
    attempt: &AttemptRow,
    calls: &[CallRow],
) -> anyhow::Result<Outcome> {
    let reply = attempt.reply.as_ref();
    let code = attempt.candidate.as_ref();
    let report = attempt.judgement.as_ref().and_then(|judgement| judgement.report.as_ref());
    let calls: Vec<_> = calls
        .iter()
        .map(|call| {
            serde_json::json!({
                "try": call.try_index, "provider": call.provider, "model": call.model,
                "state": call.state.name(), "usage": call.usage, "cost_nusd": call.cost_nusd,
                "reserved_nusd": call.reservation.nusd, "error": call.error,
            })
        })
        .collect();
    let build = attempt.build.as_ref();
    Ok(Outcome::done()
        .with("run", run.to_string())
        .with("task", task.name.clone())
        .with("seq", attempt.ask.seq)
        .with("mode", attempt.ask.mode.name())
        .with("parent", attempt.ask.parent)
        .with("state", attempt.state.name())
        .with("prompt", serde_json::to_value(&attempt.prompt.messages)?)
        .with("reply", reply.map(|reply| reply.text.clone()))
        .with("reasoning", reply.map(|reply| reply.reasoning.clone()))
        .with("finish_reason", reply.map(|reply| reply.finish_reason.clone()))
        .with("source", code.map(|code| code.source.clone()))
        .with("plan", code.map(|code| code.plan_text.clone()))
        .with("build_confinement", serde_json::to_value(build.and_then(|it| it.held.as_ref()))?)
        .with("build_log", build.map(|build| build.log.clone()))
        .with("verdict", serde_json::to_value(&attempt.verdict)?)
        .with("report", serde_json::to_value(report)?)
        .with("calls", calls))
}

fn show_messages(attempt: &AttemptRow) {
    for message in &attempt.prompt.messages {
        section(&format!("prompt, {}", message.role.name()), &message.content);
    }
    let Some(reply) = &attempt.reply else { return };
    if !reply.reasoning.is_empty() {
        section("reasoning", &reply.reasoning);
    }
    let drift = if reply.drift { ", recorded for another prompt" } else { "" };
    let ended = match reply.finish_reason.as_str() {
        "" | "stop" => String::new(),
        other => format!(", ended by `{other}`"),
    };
    section(&format!("reply, {}{drift}{ended}", reply.model), &reply.text);
}

fn show_calls(calls: &[CallRow]) {
    let lines: Vec<_> = calls.iter().map(call_line).collect();
    section("calls", &lines.join("\n"));
}

fn call_line(call: &CallRow) -> String {
    let tokens = call.usage.map_or_else(String::new, |usage| {
        let guess = if usage.estimated { " (estimated)" } else { "" };
        let cached = match usage.cached_input_tokens {
            0 => String::new(),
            cached => format!(" ({cached} cached)"),
        };
        let reasoning = match usage.reasoning_tokens {
            0 => String::new(),
            reasoning => format!(" ({reasoning} reasoning)"),
        };
        format!(
            ", {} in{cached}, {} out{reasoning}{guess}",
            usage.input_tokens, usage.output_tokens
        )
    });
    let cost = match (call.state, call.cost_nusd) {
        (_, Some(nusd)) => format!(", {} dollars", dollars(nusd)),
        (CallState::Settled, None) => ", at an unknown price".to_owned(),
        (CallState::Failed, None) => String::new(),
        (CallState::Reserved | CallState::Sent | CallState::Lost, None) => {
            format!(", {} dollars reserved", dollars(call.reservation.nusd))
        }
    };
    let error =
        call.error.as_ref().map_or_else(String::new, |(class, why)| format!("; {class}: {why}"));
    let (index, state) = (call.try_index + 1, call.state.name());
    format!("{index}. {} {}: {state}{tokens}{cost}{error}", call.provider, call.model)
}

/// The source, or what changed of it since the parent.
fn show_code(attempt: &AttemptRow, parent: Option<&Attempt>) {
    let Some(code) = &attempt.candidate else { return };
    let before = parent.and_then(|parent| Some((parent.seq, parent.code.as_ref()?)));
    match before {
        None => section("kernel", &code.source),
        Some((seq, before)) => {
            let diff = TextDiff::from_lines(&before.source, &code.source);
            let text = diff.unified_diff().context_radius(DIFF_CONTEXT_LINES).to_string();
            let text = if text.is_empty() { "the same source".to_owned() } else { text };
            section(&format!("kernel, changed since #{seq}"), &text);
        }
    }
    section("plan", &code.plan_text);
}

fn show_build(attempt: &AttemptRow) {
    let Some(build) = &attempt.build else { return };
    build.held.iter().for_each(|held| section("confinement of the compiler", &held.to_string()));
    section("compiler log", &build.log);
    let source = attempt.candidate.as_ref().map_or("", |code| code.source.as_str());
    let on_lines: Vec<_> = build.diagnostics.iter().map(|it| on_its_line(it, source)).collect();
    if !on_lines.is_empty() {
        section("diagnostics on their lines", &on_lines.join("\n"));
    }
}

fn on_its_line(diagnostic: &Diagnostic, source: &str) -> String {
    let line = diagnostic.line.and_then(|line| quoted_line(source, line as usize));
    let quoted = line.map_or_else(String::new, |line| format!("{line}\n"));
    format!("{quoted}    ^ {}", diagnostic.message)
}

/// Line `number` of a source with its number; `None` past its end.
fn quoted_line(source: &str, number: usize) -> Option<String> {
    let line = source.lines().nth(number.checked_sub(1)?)?;
    Some(format!("{number:>5} | {line}"))
}

/// What held each kind of child by which it was judged, or only the candidate's in an old record.
fn show_confinement(closed: &Attempt) {
    let Some(report) = &closed.report else { return };
    let old = report.confinement.iter().filter(|_| report.held.is_empty());
    let held = report.held.iter().chain(old);
    held.for_each(|held| section(&format!("confinement of `{}`", held.set), &held.to_string()));
}

/// What held the children, the card and its state, and how the evaluation took its time.
fn show_gpu(closed: &Attempt) {
    show_confinement(closed);
    let Some(gpu) = closed.report.as_ref().and_then(|report| report.gpu.as_ref()) else { return };
    let mut lines = vec![format!("{}, driver {}", gpu.uuid, gpu.driver)];
    for (when, state) in [("before", &gpu.before), ("after", &gpu.after)] {
        lines.extend(state.as_ref().map(|state| {
            format!(
                "{when}: SM {:.0} MHz, memory {:.0} MHz, {} °C, {:.0} W, throttle: {}, other \
                 processes: {}",
                state.sm_clock_hz / 1e6,
                state.memory_clock_hz / 1e6,
                state.temperature_c,
                state.power_w,
                if state.throttle.is_empty() {
                    "none".to_owned()
                } else {
                    state.throttle.join(", ")
                },
                state
                    .foreign_processes
                    .map_or_else(|| "unknown".to_owned(), |count| count.to_string())
            )
        }));
    }
    let parts = gpu.cost.iter().map(|part| format!("{} {:.0} ms", part.part, part.ms));
    lines.push(format!("took: {}", parts.collect::<Vec<_>>().join(", ")));
    section("GPU", &lines.join("\n"));
}

/// What the device noticed, each under the source line that it names.
fn show_findings(attempt: &AttemptRow, closed: &Attempt) {
    let source = attempt.candidate.as_ref().map_or("", |code| code.source.as_str());
    let cases = closed.report.iter().flat_map(|report| &report.cases);
    let mut lines = Vec::new();
    for case in cases {
        for finding in &case.findings {
            let at = named_line(&finding.message);
            let quoted = at.and_then(|number| quoted_line(source, number));
            lines.extend(quoted);
            let (case, count) = (&case.case, finding.count);
            lines.push(format!("    ^ {} (case `{case}`, {count} times)", finding.message));
        }
    }
    if !lines.is_empty() {
        section("findings on their lines", &lines.join("\n"));
    }
}

/// The first `line N` of a message.
fn named_line(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("line ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn show_verdict(closed: &Attempt) {
    let feedback = Feedback::of(closed);
    let facts: Vec<_> =
        feedback.facts.iter().map(|fact| format!("[{}] {}", fact.id, fact.text)).collect();
    if !facts.is_empty() {
        section("evidence", &facts.join("\n"));
    }
    section("verdict", &feedback.headline);
}

fn show_promotion(promotion: &JudgementRow, hidden: bool) {
    section("hidden cases", &format!("{} {}", promotion.verdict, promotion.verdict.detail));
    if hidden {
        section("hidden cases, in full", &hidden_lines(promotion).join("\n"));
    }
}

/// The promote's own verdict, and each case.
fn hidden_lines(promotion: &JudgementRow) -> Vec<String> {
    let Some(report) = &promotion.report else { return vec!["no report was stored".to_owned()] };
    let ended = report.ended.iter().map(|verdict| format!("{verdict}: {}", verdict.detail));
    let cases = report.cases.iter().map(|case| {
        let status = match &case.status {
            CaseStatus::Passed => "passed".to_owned(),
            CaseStatus::NotRun => "not run".to_owned(),
            CaseStatus::Failed { reason, detail } => format!("{}: {detail}", reason.code()),
        };
        format!("{} ({}), {:?}: {status}", case.case, dims_in_words(&case.dims), case.distribution)
    });
    ended.chain(cases).chain(report.notes.iter().cloned()).collect()
}

fn promotion_as_json(promotion: &JudgementRow, hidden: bool) -> serde_json::Value {
    let report = promotion.report.as_ref().filter(|_| hidden);
    serde_json::json!({ "verdict": promotion.verdict, "report": report })
}

fn section(title: &str, text: &str) {
    terminal::line(&format!("\n──── {title} ────"));
    terminal::line(terminal::plain(text).trim_end());
}

#[cfg(test)]
mod tests {
    use super::{named_line, quoted_line};

    #[test]
    fn a_finding_is_put_under_the_line_that_it_names() {
        for (message, line) in [
            ("kernel k, line 12: reads past `x`", Some(12)),
            ("on line 3", Some(3)),
            ("baseline shift", None),
            ("no number", None),
        ] {
            assert_eq!(named_line(message), line, "{message}");
        }
        assert_eq!(quoted_line("a\nb", 2).as_deref(), Some("    2 | b"));
        assert_eq!(quoted_line("a\nb", 3), None);
        assert_eq!(quoted_line("a\nb", 0), None);
    }
}
