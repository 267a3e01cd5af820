//! The report as one page: no script, nothing outside it, readable on a phone and in the dark.
//!
//! The template escapes everything that it prints; a policy in the page itself forbids a browser to
//! run or load anything, should that ever fail.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use pipeline::attempt::Attempt;
use pipeline::next_step::SearchEnd;
use pipeline::standing::{COLUMNS, FAST_P, MEDIAN, Standing, WHOLE};
use pipeline::visible::visible;
use serde_json::{Value, json};

use crate::commands::status::{dollars, seconds};
use crate::limits::{LANE_COLUMNS, PAGE_ATTEMPTS_MAX, PAGE_CODE_BYTES_MAX};
use crate::reporting::books::Spent;
use crate::reporting::markdown::{clock, money};
use crate::reporting::timeline::Timeline;
use crate::reporting::{RunReport, ShownClaim, TaskPart, number_lines, scored};

const TEMPLATE: &str = include_str!("page.html");

/// The whole page.
///
/// # Errors
/// A template that does not render: our own error.
pub(crate) fn as_html(report: &RunReport) -> anyhow::Result<String> {
    render(&shown(context(report)))
}

fn render(context: &Value) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    environment.add_template("page", TEMPLATE)?;
    Ok(environment.get_template("page")?.render(Serde(context))?)
}

/// Every text of a value as it may be seen: nothing that hides or reorders.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(shown).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, shown(value))).collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

fn context(report: &RunReport) -> Value {
    let run = &report.summary.run;
    let mut code_left = PAGE_CODE_BYTES_MAX;
    let tasks: Vec<Value> =
        report.parts.iter().map(|part| task(part, run.id.as_str(), &mut code_left)).collect();
    let books = &report.books;
    let failures: Vec<Value> = [("candidate", &books.candidates), ("provider", &books.providers)]
        .into_iter()
        .flat_map(|(kind, rows)| {
            rows.iter()
                .map(move |(name, count)| json!({ "kind": kind, "name": name, "count": count }))
        })
        .collect();
    json!({
        "title": run.tasks_in_words(),
        "run": run.id.as_str(),
        "state": report.state(),
        "device": report.device(),
        "scores": report.scores_in_words(),
        "started": clock(run.started_us),
        "ended": run.ended_us.map(clock),
        "tiles": tiles(report),
        "numbers": number_lines(&report.board, report.weighted),
        "definitions": [FAST_P, COLUMNS, MEDIAN, WHOLE],
        "tasks": tasks,
        "models": books.by_model.iter().map(spent).collect::<Vec<_>>(),
        "task_costs": books.by_task.iter().map(spent).collect::<Vec<_>>(),
        "failures": failures,
        "timeline": report.timeline.as_ref().map(timeline),
        "money": money(report).trim(),
    })
}

/// What is seen first.
fn tiles(report: &RunReport) -> Vec<[String; 2]> {
    let claims = report.parts.iter().filter(|it| matches!(it.standing, Standing::Claimed { .. }));
    let booked = report.summary.bookings.total();
    let whole = report
        .board
        .whole_low
        .map_or_else(|| "no claim".to_owned(), |gain| format!("at least {gain:.3}x"));
    vec![
        ["operators".to_owned(), report.board.operators.to_string()],
        ["with a claim".to_owned(), claims.count().to_string()],
        ["correct".to_owned(), report.board.correct.to_string()],
        ["gain of the whole".to_owned(), whole],
        ["dollars booked".to_owned(), dollars(booked.nusd)],
        ["attempts".to_owned(), report.summary.attempts.to_string()],
    ]
}

fn task(part: &TaskPart, run: &str, code_left: &mut usize) -> Value {
    let name = &part.summary.task.name;
    let best = part.best();
    let skipped = part.attempts.len().saturating_sub(PAGE_ATTEMPTS_MAX);
    let claim = |claim: &ShownClaim| json!({ "words": claim.words, "baseline": claim.baseline });
    let (label, class) = match part.standing {
        Standing::Claimed { low, .. } => (format!("claim {low:.3}x"), "good"),
        Standing::Measured(ratio) => (format!("measured {ratio:.3}x, no claim"), "some"),
        Standing::Correct => ("correct, no claim".to_owned(), "some"),
        Standing::Nothing => ("no correct kernel".to_owned(), "bad"),
    };
    json!({
        "name": name,
        "label": label,
        "class": class,
        "share": format!("{:.1} %", 100.0 * part.share),
        "attempts": part.attempts.len(),
        "correct": part.correct(),
        "why": part.advice.why,
        "command": part.advice.command,
        "claims": part.claims.iter().map(claim).collect::<Vec<_>>(),
        "measured": part.measured,
        "search_end": part.search_end.map(SearchEnd::describe),
        "best": best.map(|best| json!({ "seq": best.seq, "score": scored(best) })),
        "code": best.and_then(|best| code(best, code_left)),
        "show": best.map(|best| format!("warpwright show {run}:{name}:{}", best.seq)),
        "skipped": skipped,
        "rows": part.attempts.iter().skip(skipped).map(row).collect::<Vec<_>>(),
    })
}

fn row(attempt: &Attempt) -> Value {
    let correct = attempt.verdict.is_correct();
    let detail = match correct {
        true => scored(attempt),
        false => attempt.verdict.detail.lines().next().unwrap_or_default().to_owned(),
    };
    json!({
        "seq": attempt.seq,
        "mode": attempt.mode.name(),
        "parent": attempt.parent,
        "verdict": attempt.verdict.to_string(),
        "class": if correct { "good" } else { "bad" },
        "detail": detail,
    })
}

/// Kernel and plan while there is room; `None` for one that the page has no room for.
fn code(best: &Attempt, left: &mut usize) -> Option<Value> {
    let code = best.code.as_ref()?;
    let bytes = code.source.len() + code.plan.len();
    *left = left.checked_sub(bytes)?;
    Some(json!({ "source": code.source.trim_end(), "plan": code.plan.trim() }))
}

fn spent(spent: &Spent) -> Value {
    json!({
        "name": spent.name, "calls": spent.calls, "failed": spent.failed, "lost": spent.lost,
        "input": spent.input_tokens, "output": spent.output_tokens,
        "dollars": dollars(spent.nusd), "unpriced": spent.unpriced,
        "gpu_seconds": seconds(spent.gpu_us),
    })
}

fn timeline(timeline: &Timeline) -> Value {
    let lanes: Vec<Value> = timeline
        .lanes
        .iter()
        .map(|lane| {
            json!({
                "name": lane.name, "what": lane.what, "area": lane.area(),
                "peak": format!("{:.2}", lane.peak), "busy": duration(lane.busy_s),
            })
        })
        .collect();
    json!({
        "from": clock(timeline.from_us),
        "to": clock(timeline.to_us),
        "length": duration((timeline.to_us - timeline.from_us) as f64 / 1e6),
        "columns": LANE_COLUMNS,
        "lanes": lanes,
        "remarks": timeline.remarks(),
    })
}

/// Seconds as a person says them.
fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 7_200.0 => format!("{:.1} h", long / 3_600.0),
        some if some >= 120.0 => format!("{:.1} min", some / 60.0),
        short => format!("{short:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{duration, render, shown};

    const HOSTILE: &str =
        "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{ 7*7 }}\u{202e}";

    /// A context in which every text is hostile.
    fn hostile() -> Value {
        let spent = json!({
            "name": HOSTILE, "calls": 1, "failed": 0, "lost": 0, "input": 1, "output": 1,
            "dollars": HOSTILE, "unpriced": 1, "gpu_seconds": HOSTILE,
        });
        let lane = json!({
            "name": HOSTILE, "what": HOSTILE, "area": HOSTILE, "peak": HOSTILE, "busy": HOSTILE,
        });
        json!({
            "title": HOSTILE, "run": HOSTILE, "state": HOSTILE, "device": HOSTILE,
            "scores": HOSTILE, "started": HOSTILE, "ended": HOSTILE, "money": HOSTILE,
            "tiles": [[HOSTILE, HOSTILE]], "numbers": [[HOSTILE, HOSTILE]],
            "definitions": [HOSTILE],
            "tasks": [{
                "name": HOSTILE, "label": HOSTILE, "class": HOSTILE, "share": HOSTILE,
                "attempts": 1, "correct": 1, "why": HOSTILE, "command": HOSTILE,
                "claims": [{ "words": HOSTILE, "baseline": HOSTILE }], "measured": HOSTILE,
                "search_end": HOSTILE,
                "best": { "seq": 1, "score": HOSTILE },
                "code": { "source": HOSTILE, "plan": HOSTILE }, "show": HOSTILE, "skipped": 3,
                "rows": [{
                    "seq": 1, "mode": HOSTILE, "parent": null, "verdict": HOSTILE,
                    "class": HOSTILE, "detail": HOSTILE,
                }],
            }],
            "models": [spent], "task_costs": [spent],
            "failures": [{ "kind": HOSTILE, "name": HOSTILE, "count": 1 }],
            "timeline": {
                "from": HOSTILE, "to": HOSTILE, "length": HOSTILE, "columns": 120,
                "lanes": [lane], "remarks": [HOSTILE],
            },
        })
    }

    #[test]
    fn text_is_never_markup_wherever_it_stands() {
        let page = render(&shown(hostile())).unwrap();
        for part in ["<script", "<img", "onerror=alert(1)>", "\u{202e}", "49"] {
            assert!(!page.contains(part), "{part} in {page}");
        }
        // It is there, as text.
        assert!(page.matches("&lt;script&gt;").count() > 40, "{page}");
        assert!(page.contains("{{ 7*7 }}\\u{202e}"), "{page}");
        for quote in page.match_indices("class=\"").map(|(at, _)| &page[at..]) {
            let value = quote["class=\"".len()..].split('"').next().unwrap();
            assert!(!value.contains('<') && !value.contains('>'), "{value}");
        }
    }

    #[test]
    fn nothing_is_loaded_and_nothing_runs() {
        let page = render(&shown(hostile())).unwrap();
        for part in ["src=", "href=", "url(", "@import", "http://", "https://", "<link"] {
            let found = page.replace("src=x onerror", "").contains(part);
            assert!(!found, "{part} in {page}");
        }
        assert!(page.contains("default-src 'none'"), "{page}");
        assert!(page.contains("name=\"viewport\""), "{page}");
        assert!(page.contains("prefers-color-scheme: dark"), "{page}");
    }

    #[test]
    fn durations_are_short() {
        for (seconds, text) in
            [(0.04, "0.0 s"), (90.0, "90.0 s"), (600.0, "10.0 min"), (36_000.0, "10.0 h")]
        {
            assert_eq!(duration(seconds), text);
        }
    }
}
