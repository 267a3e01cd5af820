//! From a verdict and its evidence to what the model is told.
//!
//! Facts carry ids, so that a reply can point at them. Everything is capped and in plain words.

use std::fmt::Write as _;

use serde::Serialize;

use crate::attempt::Attempt;
use crate::build::{Diagnostic, Severity};
use crate::check::OutputCheck;
use crate::hardware::FloorLimit;
use crate::limits::{DIAGNOSTICS_SHOWN_MAX, FINDINGS_SHOWN_MAX, MESSAGE_BYTES_MAX, capped};
use crate::report::{CaseReport, CaseStatus, Finding, FindingSeverity, Report, Score};
use crate::verdict::{Kind, Reason};
use crate::visible::visible;

/// What the model learns of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feedback {
    /// The verdict and its one sentence.
    pub headline: String,
    /// What to do about this kind of verdict.
    pub advice: &'static str,
    /// Numbered evidence: f1, f2, …
    pub facts: Vec<Fact>,
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    pub id: String,
    pub text: String,
}

impl Feedback {
    /// The feedback on a closed attempt.
    #[must_use]
    pub fn of(attempt: &Attempt) -> Self {
        let mut texts = diagnostic_facts(&attempt.diagnostics);
        if let Some(report) = &attempt.report {
            texts.extend(report_facts(report));
        }
        let numbered = texts.into_iter().enumerate();
        let facts =
            numbered.map(|(i, text)| Fact { id: format!("f{}", i + 1), text: shown(&text) });
        Self { headline: headline(attempt), advice: advice(attempt), facts: facts.collect() }
    }
}

/// Cut after what has no shape is written out, which makes it longer.
fn shown(text: &str) -> String {
    capped(&visible(text), MESSAGE_BYTES_MAX)
}

fn headline(attempt: &Attempt) -> String {
    let verdict = &attempt.verdict;
    if verdict.detail.is_empty() {
        return verdict.to_string();
    }
    format!("{verdict}: {}", shown(&verdict.detail))
}

fn advice(attempt: &Attempt) -> &'static str {
    match (attempt.verdict.kind, attempt.verdict.reason) {
        (Kind::Correct, _) => "It passed every public case.",
        (_, Some(reason)) => reason_advice(reason),
        (_, None) => "",
    }
}

fn reason_advice(reason: Reason) -> &'static str {
    match reason {
        Reason::Reply => "Answer with exactly one ```cuda fence and one ```toml fence.",
        Reason::Plan => {
            "Mend the launch plan, or the kernel's parameters so that they agree with it."
        }
        Reason::Static => {
            "Remove what the gate names; nothing of it is needed for a pure operator."
        }
        Reason::Compile => "Mend the compile errors; the compiler is NVRTC, device code only.",
        Reason::Launch => "Stay within the device's limits for blocks, grid and shared memory.",
        Reason::Guard => "Every access must stay inside its buffer, at every shape.",
        Reason::Crash => "The kernel stopped abnormally; look at alignment and traps.",
        Reason::Timeout => "The kernel did not end; look at loop conditions and barriers.",
        Reason::Unsupported => "This counts neither for nor against the kernel.",
        Reason::Mismatch => "Make the result right at every shape, the ragged ones included.",
        Reason::Poison => "Some output elements are never written; cover the whole output.",
        Reason::Input => "Inputs are read-only; write only outputs and workspaces.",
        Reason::Nonfinite => "NaN and infinities must appear exactly where the reference has them.",
        Reason::Shape => "It fails at a shape that is not shown; check the general case.",
        Reason::Dist => "It fails for other input values; check ranges and special cases.",
        Reason::Precision => "The arithmetic is less accurate than the declared precision.",
        Reason::Nondet => "Results differ from run to run; look for races.",
        Reason::State => "Results depend on earlier calls; keep no state.",
    }
}

fn diagnostic_facts(diagnostics: &[Diagnostic]) -> Vec<String> {
    let worth = |d: &&Diagnostic| d.severity != Severity::Note;
    let mut shown: Vec<&Diagnostic> = diagnostics.iter().filter(worth).collect();
    shown.sort_by_key(|d| d.severity != Severity::Error);
    shown.into_iter().take(DIAGNOSTICS_SHOWN_MAX).map(diagnostic_text).collect()
}

fn diagnostic_text(diagnostic: &Diagnostic) -> String {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let line = diagnostic.line.map_or_else(String::new, |line| format!(":{line}"));
    let mut text = format!("{}{line}: {severity}: {}", diagnostic.file, diagnostic.message);
    if !diagnostic.excerpt.trim().is_empty() {
        let _ = write!(text, " | {}", diagnostic.excerpt.trim());
    }
    text
}

fn report_facts(report: &Report) -> Vec<String> {
    let mut texts: Vec<String> = report.cases.iter().map(case_text).collect();
    texts.extend(report.notes.iter().cloned());
    texts.extend(finding_texts(&report.cases));
    for kernel in &report.kernels {
        texts.push(format!(
            "kernel `{}`: {} registers, {} bytes spilled, {} bytes of static shared memory",
            kernel.name, kernel.registers, kernel.spill_bytes, kernel.static_shared_bytes
        ));
    }
    texts.extend(score_text(&report.score));
    texts
}

fn score_text(score: &Score) -> Option<String> {
    let described = score.describe();
    match score {
        Score::None => None,
        Score::Estimated(estimate) => {
            let [run, total] = estimate.sampled_blocks;
            Some(format!("headline shape, {described}; {run} of {total} blocks simulated"))
        }
        Score::Measured(measured) => {
            let limit = measured.floor.map_or_else(String::new, |floor| match floor.limit {
                FloorLimit::Bandwidth => "; the floor is memory bandwidth".to_owned(),
                FloorLimit::Arithmetic => "; the floor is fp32 arithmetic".to_owned(),
            });
            Some(format!("headline shape, {described}{limit}"))
        }
    }
}

fn case_text(case: &CaseReport) -> String {
    let dims: Vec<_> = case.dims.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let place = format!("case `{}` ({}), {:?}", case.case, dims.join(", "), case.distribution);
    match &case.status {
        CaseStatus::Passed => format!("{place}: passed{}", counters_text(case)),
        CaseStatus::NotRun => format!("{place}: not run"),
        CaseStatus::Failed { reason, detail } => {
            let checks: Vec<_> = case.checks.iter().filter_map(check_text).collect();
            let what = if checks.is_empty() { detail.clone() } else { checks.join(" ") };
            format!("{place}: {} {what}", reason.code())
        }
    }
}

fn counters_text(case: &CaseReport) -> String {
    case.counters.map_or_else(String::new, |counters| {
        format!(
            "; {:.0} warp instructions, {:.2} sectors per request, {:.1} % divergent branches",
            counters.warp_instructions,
            counters.sectors_per_request(),
            100.0 * counters.divergent_branches / counters.branches.max(1.0)
        )
    })
}

fn check_text(check: &OutputCheck) -> Option<String> {
    check.failure?;
    let mut text = format!("output `{}`: ", check.output);
    if check.wrong == 0 {
        let _ = write!(
            text,
            "norm-wise error {:.2e}, the limit is {:.2e}",
            check.norm_error, check.norm_limit
        );
        return Some(text);
    }
    text.push_str(&check.pattern);
    if check.unwritten > 0 {
        let _ = write!(text, "; never written: {}", check.unwritten);
    }
    for element in &check.first {
        let _ = write!(
            text,
            "; {:?}: got {}, want {} ± {}",
            element.index, element.got, element.want, element.tolerance
        );
    }
    Some(text)
}

fn finding_texts(cases: &[CaseReport]) -> Vec<String> {
    let mut findings: Vec<&Finding> = Vec::new();
    for finding in cases.iter().flat_map(|case| &case.findings) {
        let known = findings.iter().any(|seen| seen.message == finding.message);
        if !known && finding.severity != FindingSeverity::Info {
            findings.push(finding);
        }
    }
    let shown = findings.into_iter().take(FINDINGS_SHOWN_MAX);
    shown.map(|finding| format!("{} (seen {} times)", finding.message, finding.count)).collect()
}
