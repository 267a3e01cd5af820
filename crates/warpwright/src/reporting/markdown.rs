//! The report in Markdown.

use pipeline::attempt::Attempt;
use pipeline::standing::{COLUMNS, FAST_P, MEDIAN, WHOLE};
use pipeline::template::fence;

use crate::commands::status::{card_time_in_words, dollars, seconds};
use crate::reporting::books::Spent;
use crate::reporting::timeline::Timeline;
use crate::reporting::{RunReport, TaskPart, number_lines, scored};
use crate::terminal;

/// The whole report.
pub(crate) fn as_markdown(report: &RunReport) -> String {
    let run = &report.summary.run;
    let parts = &report.parts;
    let mut lines = vec![
        format!("# {}", run.tasks_in_words()),
        String::new(),
        format!("Run `{}`, {}. Device: {}.", run.id, report.state(), report.device()),
        report.scores_in_words().to_owned(),
    ];
    if parts.len() > 1 {
        lines.push(
            "\n| task | attempts | correct | best | claim, or why not | what helps |\n\
             |---|--:|--:|---|---|---|"
                .to_owned(),
        );
        lines.extend(parts.iter().map(overview_row));
    }
    lines.extend(numbers(report));
    for part in parts {
        if parts.len() > 1 {
            lines.push(format!("\n## {}", part.summary.task.name));
        }
        lines.extend(task_lines(part));
    }
    lines.extend(spending(report));
    lines.extend(failures(report));
    lines.extend(report.timeline.iter().flat_map(time_lines));
    lines.push(money(report));
    terminal::plain(&lines.join("\n"))
}

fn numbers(report: &RunReport) -> Vec<String> {
    let mut lines = vec!["\n| number | value |\n|---|---|".to_owned()];
    let rows = number_lines(&report.board, report.weighted);
    lines.extend(rows.iter().map(|[name, value]| format!("| {name} | {value} |")));
    lines.push(String::new());
    lines.extend([FAST_P, COLUMNS, MEDIAN, WHOLE].map(|line| format!("- {line}")));
    lines
}

fn overview_row(part: &TaskPart) -> String {
    let best = part.best().map_or_else(
        || "none".to_owned(),
        |best| format!("#{}, {}", best.seq, cell(&scored(best))),
    );
    let claim = part.claims.first().map_or(&part.advice.why, |claim| &claim.words);
    format!(
        "| {} | {} | {} | {best} | {} | {} |",
        part.summary.task.name,
        part.attempts.len(),
        part.correct(),
        cell(claim),
        part.advice.command.as_ref().map(|it| format!("`{it}`")).unwrap_or_default()
    )
}

fn task_lines(part: &TaskPart) -> Vec<String> {
    let mut lines = vec![
        "\n| # | asked | from | verdict | detail or score |\n|--:|---|--:|---|---|".to_owned(),
    ];
    lines.extend(part.attempts.iter().map(row));
    lines.push(String::new());
    if !part.claims.is_empty() {
        lines.push("Claims:\n".to_owned());
        for claim in &part.claims {
            lines.push(format!("- {}", cell(&claim.words)));
            lines.extend(claim.baseline.iter().map(|line| format!("  - {}", cell(line))));
        }
        lines.push(String::new());
    }
    let why = cell(&part.advice.why);
    lines.push(match &part.advice.command {
        Some(command) => format!("Next: {why}. What helps: `{command}`\n"),
        None => format!("Next: {why}.\n"),
    });
    if let Some(end) = part.search_end {
        lines.push(format!("Search ended: {}.\n", end.describe()));
    }
    let Some(best) = part.best() else {
        lines.push("No attempt is correct.".to_owned());
        return lines;
    };
    let measured = part.measured.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
    lines.push(format!("Best: #{}, {}{measured}.", best.seq, scored(best)));
    if let Some(code) = &best.code {
        // A kernel's comment must not be able to end its fence and go on as the report.
        lines.push(format!(
            "\n{}\n\n{}",
            fence(code.source.trim_end(), "cuda"),
            fence(code.plan.trim(), "toml")
        ));
    }
    lines
}

fn row(attempt: &Attempt) -> String {
    let parent = attempt.parent.map_or_else(String::new, |seq| seq.to_string());
    let detail = if attempt.verdict.is_correct() {
        cell(&scored(attempt))
    } else {
        cell(attempt.verdict.detail.lines().next().unwrap_or_default())
    };
    format!(
        "| {} | {} | {parent} | {} | {detail} |",
        attempt.seq,
        attempt.mode.name(),
        attempt.verdict
    )
}

fn spending(report: &RunReport) -> Vec<String> {
    let mut lines = vec![
        "\n| spent by | calls | failed | lost | tokens in | tokens out | dollars | GPU-seconds |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|"
            .to_owned(),
    ];
    let row = |kind: &str, spent: &Spent| {
        let unpriced = match spent.unpriced {
            0 => String::new(),
            calls => format!(" ({calls} calls unpriced)"),
        };
        format!(
            "| {kind} {} | {} | {} | {} | {} | {} | {}{unpriced} | {} |",
            cell(&spent.name),
            spent.calls,
            spent.failed,
            spent.lost,
            spent.input_tokens,
            spent.output_tokens,
            dollars(spent.nusd),
            gpu_seconds(kind, spent)
        )
    };
    lines.extend(report.books.by_model.iter().map(|spent| row("model", spent)));
    lines.extend(report.books.by_task.iter().map(|spent| row("task", spent)));
    lines
}

/// A model holds no card.
fn gpu_seconds(kind: &str, spent: &Spent) -> String {
    if kind == "task" { seconds(spent.gpu_us) } else { String::new() }
}

fn failures(report: &RunReport) -> Vec<String> {
    let books = &report.books;
    if books.candidates.is_empty() && books.providers.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["\n| failed | class | how often |\n|---|---|--:|".to_owned()];
    for (kind, rows) in [("candidate", &books.candidates), ("provider", &books.providers)] {
        lines.extend(
            rows.iter().map(|(name, count)| format!("| {kind} | {} | {count} |", cell(name))),
        );
    }
    lines
}

fn time_lines(timeline: &Timeline) -> Vec<String> {
    let [from, to] = [timeline.from_us, timeline.to_us].map(clock);
    let mut lines = vec![format!("\nBusy from {from} to {to}:\n"), "```".to_owned()];
    for lane in &timeline.lanes {
        lines.push(terminal::one_line(&lane.name));
        lines.push(format!(
            "  |{}| peak {:.2}, {:.1} s in all",
            lane.blocks(),
            lane.peak,
            lane.busy_s
        ));
        lines.push(format!("  {}", lane.what));
    }
    lines.push("```".to_owned());
    lines.extend(timeline.remarks());
    lines
}

/// A time of the ledger by this machine's clock.
pub(crate) fn clock(us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(us).unwrap_or(jiff::Timestamp::MAX);
    let zoned = time.to_zoned_datetime(jiff::tz::TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// The last line: all that was booked.
pub(crate) fn money(report: &RunReport) -> String {
    let (summary, bookings) = (&report.summary, report.summary.bookings);
    let unpriced = match bookings.unpriced_calls {
        0 => String::new(),
        calls => format!(" {calls} calls at an unknown price are not among them."),
    };
    let prices: Vec<_> = report.prices.iter().map(|price| format!(" Price: {price}.")).collect();
    let cards = match summary.card_time.evaluations {
        0 => String::new(),
        _ => format!(" Cards: {}.", card_time_in_words(summary.card_time)),
    };
    format!(
        "\nTokens: {} in, {} out. Dollars: {} paid, {} reserved, {} booked for calls whose fate is \
         unknown.{unpriced}{cards}{}",
        summary.usage.input_tokens,
        summary.usage.output_tokens,
        dollars(bookings.settled.nusd.saturating_add(bookings.failed.nusd)),
        dollars(bookings.reserved.nusd),
        dollars(bookings.lost.nusd),
        prices.concat()
    )
}

/// Text that a model or compiler wrote, as it stands in a table of a page that renders HTML.
fn cell(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|");
    text.replace('\n', " ")
}
