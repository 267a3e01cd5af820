//! How a claim is printed: the tier always beside the number, and never more than was measured.

use pipeline::acceptance::{
    Against, Claim, Conclusion, Entry, LengthClass, Measurement, Subject, Tier,
};
use pipeline::report::{Measured, Score, microseconds};
use serde_json::{Value, json};
use store::{CheckOutcome, ClaimRow, ClaimState, KernelClaim, RunId};

use crate::claims::approval;
use crate::commands::status::minute;

/// The tier of a claim that stands; `None` for one that does not.
pub(crate) fn tier_of(state: ClaimState) -> Option<Tier> {
    match state {
        ClaimState::Claimed => Some(Tier::Claimed),
        ClaimState::Confirmed => Some(Tier::Confirmed),
        ClaimState::Withdrawn => None,
    }
}

/// A claim in a line: the lower end of its interval, over what, and how far it can be trusted.
pub(crate) fn headline(claim: &Claim, tier: Tier) -> String {
    let (interval, baseline) = (claim.against.interval, &claim.against.baseline);
    let number = format!("{:.3}x", interval.low());
    let what = if claim.over_framework {
        format!("speed-up {number} over {baseline}")
    } else {
        format!("{number} faster than {baseline}")
    };
    format!("{what} [{}]: at least that; {}", tier.name(), interval.describe())
}

/// A claim of a run's kernel in a line; of one that another run made, which run and when.
pub(crate) fn of_kernel(run: &RunId, it: &KernelClaim) -> String {
    let row = &it.claim;
    match it.seqs.first() {
        Some(here) if row.run_id != *run => {
            format!("{}; {}", line_of(row, *here), elsewhere(&row.run_id, row.seq, row.created_us))
        }
        Some(_) | None => of_row(row),
    }
}

/// Whose an acceptance of another run is.
pub(crate) fn elsewhere(run: &RunId, seq: u32, us: i64) -> String {
    format!("by run {run}, of its #{seq}, {}", minute(us))
}

/// A claim of the ledger in a line, with what became of it.
pub(crate) fn of_row(row: &ClaimRow) -> String {
    line_of(row, row.seq)
}

fn line_of(row: &ClaimRow, seq: u32) -> String {
    let what = match tier_of(row.state) {
        Some(tier) => format!("{}{}", headline(&row.claim, tier), weakness(&row.claim)),
        None => format!("withdrawn: {}", row.why),
    };
    let last = row
        .checks
        .last()
        .map(|check| format!("; last look: {}, {}", outcome_in_words(check.outcome), check.detail));
    let last = last.filter(|_| row.state != ClaimState::Withdrawn).unwrap_or_default();
    let energy = energies(&row.claim).next().map(|it| format!("; {it}")).unwrap_or_default();
    let decided = row.approvals.last().map(|it| format!("; {}", approval::in_words(it)));
    let decided = decided.unwrap_or_default();
    format!("{} #{seq}: {what}{energy}{last}{decided}", row.task_name)
}

/// Energy of one call on each case where the card's counter told both.
fn energies(claim: &Claim) -> impl Iterator<Item = String> {
    claim.cases.iter().filter_map(|case| {
        let (own, other) = (case.candidate_mj?, case.baseline_mj?);
        Some(format!("{own:.3} mJ against {other:.3} mJ a call on `{}`", case.case))
    })
}

/// What the task could not have told; nothing for a proven task.
fn weakness(claim: &Claim) -> String {
    match claim.weaknesses[..] {
        [] => String::new(),
        _ => format!("; weak task: {}", claim.weaknesses.join("; ")),
    }
}

/// An outcome as it is printed.
pub(crate) fn outcome_in_words(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Reproduced => "REPRODUCED",
        CheckOutcome::NotReproduced => "NOT REPRODUCED",
        CheckOutcome::NotComparable => "NOT COMPARABLE",
        CheckOutcome::Holds => "HOLDS",
        CheckOutcome::Weaker => "WEAKER",
        CheckOutcome::Lost => "LOST",
    }
}

/// Everything that a claim says, and what it was compared with.
pub(crate) fn lines(claim: &Claim, conclusion: &Conclusion, entries: &[Entry]) -> Vec<String> {
    let mut lines = vec![headline(claim, Tier::Claimed), String::new()];
    lines.push("case             weight   candidate µs    baseline µs   ratio".to_owned());
    lines.extend(claim.cases.iter().map(|case| {
        format!(
            "{:<16} {:>6} {:>14} {:>14} {:>7.3}",
            case.case,
            case.weight,
            microseconds(case.candidate_ns),
            microseconds(case.baseline_ns),
            case.baseline_ns / case.candidate_ns
        )
    }));
    lines.extend(energies(claim).map(|it| format!("energy, without a verdict: {it}")));
    lines.push(String::new());
    lines.extend(conclusion.against.iter().map(|it| against_line(it, entries)));
    let class = serde_json::to_value(claim.class).unwrap_or_default();
    let kind = if claim.deterministic { "deterministic" } else { "not deterministic" };
    lines.push(format!("class {}, {kind}", class.as_str().unwrap_or_default()));
    lines.extend(lengths(claim));
    for (title, texts) in [
        ("scope", &claim.scope.lines()),
        ("weak task", &claim.weaknesses),
        ("steady state", &claim.steady),
        ("not available", &claim.not_available),
        ("note", &claim.notes),
    ] {
        lines.extend(texts.iter().map(|text| format!("{title}: {text}")));
    }
    lines
}

/// The class at each accumulation length; nothing where none was tried.
fn lengths(claim: &Claim) -> Option<String> {
    let at = |it: &LengthClass| {
        let class = serde_json::to_value(it.class).unwrap_or_default();
        let class = class.as_str().unwrap_or_default().to_owned();
        format!("{} {class} (error {:.1e})", it.length, it.norm_error)
    };
    let texts: Vec<_> = claim.lengths.iter().map(at).collect();
    (!texts.is_empty()).then(|| format!("class by accumulation length: {}", texts.join(", ")))
}

/// One compared baseline with its error and the switches that it was run with.
pub(crate) fn against_line(against: &Against, entries: &[Entry]) -> String {
    let mut line = format!("against {}: {}", against.baseline, against.interval.describe());
    let subject = Subject::Baseline(against.baseline.clone());
    let record = entries.iter().find_map(|entry| match entry {
        Entry::Pilot(record) | Entry::Window(record) if record.subject == subject => Some(record),
        Entry::Pilot(_) | Entry::Window(_) => None,
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Checked { .. } => None,
    });
    let Some(record) = record else { return line };
    if record.ungated {
        line.push_str("; ungated, with the host's delays");
    }
    if let Some(error) = &record.error {
        let gate = if error.passes { "passes the gate" } else { "does not pass the gate" };
        line = format!("{line}; error {:.2e}, {gate}", error.norm_error);
    }
    let pairs = record.versions.iter().chain(&record.flags_before);
    let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
    if pairs.is_empty() { line } else { format!("{line}; {}", pairs.join(" ")) }
}

/// A claim of a run's kernel for scripts; `here` are the numbers of the run's attempts that have
/// it.
pub(crate) fn kernel_as_json(it: &KernelClaim) -> Value {
    let mut json = as_json(&it.claim);
    json["here"] = json!(it.seqs);
    json
}

/// A claim for scripts.
pub(crate) fn as_json(row: &ClaimRow) -> Value {
    let interval = row.claim.against.interval;
    json!({
        "claim": row.id.to_string(),
        "task": row.task_name,
        "run": row.run_id.to_string(),
        "seq": row.seq,
        "made_us": row.created_us,
        "state": row.state.name(),
        "tier": tier_of(row.state).map(Tier::name),
        "why": row.why,
        "ratio_low": interval.low(),
        "ratio": interval.ratio(),
        "ratio_high": interval.high(),
        "baseline": row.claim.against.baseline.to_string(),
        "scope": row.claim.scope.lines(),
        "lengths": row.claim.lengths,
        "weaknesses": row.claim.weaknesses,
        "energy_mj": row.claim.cases.iter().map(|case| json!({
            "case": case.case, "candidate": case.candidate_mj, "baseline": case.baseline_mj,
        })).collect::<Vec<_>>(),
        "baseline_set": if row.claim.over_framework { "framework" } else { "native" },
        "approved": row.is_approved(),
        "decisions": row.approvals.iter().map(|it| json!({
            "decision": it.decision.name(), "reason": it.reason, "by": it.reviewer,
            "at_us": it.decided_us,
        })).collect::<Vec<_>>(),
        "checks": row.checks.iter().map(|check| json!({
            "outcome": check.outcome.name(), "detail": check.detail,
        })).collect::<Vec<_>>(),
    })
}

/// One round beside a baseline, which claims nothing.
pub(crate) fn measured(conclusion: &Conclusion) -> String {
    let tier = Tier::Measured.name();
    match conclusion.measurement() {
        Some(Measurement { baseline, ratio, .. }) => {
            format!("{ratio:.3}x of {baseline}'s speed [{tier}]: one round, no interval")
        }
        None if conclusion.verdict.is_correct() => {
            format!("not [{tier}]: {}", conclusion.cause)
        }
        None => format!("not [{tier}]: {}: {}", conclusion.verdict, conclusion.verdict.detail),
    }
}

/// A score with its tier where it is a time; counts of the simulator have none.
pub(crate) fn score(score: &Score) -> String {
    match score {
        Score::Measured(Measured { .. }) => {
            format!("{} [{}]", score.describe(), Tier::Searched.name())
        }
        Score::Estimated(_) | Score::None => score.describe(),
    }
}
