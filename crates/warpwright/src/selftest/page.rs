//! The self-test's rows as lines on a terminal and as a page in Markdown.

use std::path::PathBuf;

use crate::outcome::bad_input;

use super::{Bench, PARTS, Row, Status};

fn word(status: Status) -> &'static str {
    match status {
        Status::Passed => "ok",
        Status::Failed => "FAILED",
        Status::NotAvailable => "not available here",
    }
}

/// A row on one line.
pub(super) fn plain_row(row: &Row) -> String {
    let columns: Vec<_> = row
        .columns
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name} {text}"))
        .collect();
    format!("  {:<6} {}: {}", word(row.status), row.item, columns.join(", "))
}

/// Writes the page; gives its path.
pub(crate) fn write(bench: &Bench<'_>, command: &str) -> anyhow::Result<PathBuf> {
    let path = bench.file("md");
    let text = page(bench, command);
    std::fs::write(&path, text)
        .map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
    Ok(path)
}

fn page(bench: &Bench<'_>, command: &str) -> String {
    let place = if bench.is_simulated() { "the simulator" } else { "a GPU" };
    let mut lines = vec![format!("# Self-test on {place}"), String::new()];
    lines.extend(bench.sheets.iter().map(|sheet| {
        format!("- {} (`{}`), driver {}", sheet.facts.model, sheet.uuid, sheet.driver)
    }));
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("WARPWRIGHT_COMMIT"));
    lines.push(format!("- warpwright {version}, commit {commit}, judge {}", judge::judge_hash()));
    lines.push(format!("- CUDA compiler {}", bench.toolchain.id));
    lines.push(format!("- command: `{command}`"));
    for part in PARTS {
        let rows: Vec<&Row> = bench.rows.iter().filter(|row| row.part == part.name).collect();
        if !rows.is_empty() {
            lines.push(format!("\n## {}: {}\n", part.name, part.about));
            lines.extend(table(&rows));
        }
    }
    lines.join("\n") + "\n"
}

fn table(rows: &[&Row]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.columns) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut lines = vec![
        format!("| item | | {} | at (UTC) |", names.join(" | ")),
        format!("|---|---|{}---|", "---|".repeat(names.len())),
    ];
    for row in rows {
        let cell = |name: &&str| {
            let found = row.columns.iter().find(|(other, _)| other == name);
            found.map_or_else(String::new, |(_, text)| escaped(text))
        };
        let cells: Vec<_> = names.iter().map(cell).collect();
        let (item, status) = (escaped(&row.item), word(row.status));
        lines.push(format!("| {item} | {status} | {} | {} |", cells.join(" | "), row.at));
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
