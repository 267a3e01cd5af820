//! ARCHITECTURE.md has a row for each crate, with the purpose that its root file states.
//!
//! The table is `| crate | purpose | may use |`.

use std::collections::BTreeSet;

use super::Violation;
use super::edges::{TABLE, Uses};
use super::metadata::Workspace;
use super::source::Tree;

const PAGE: &str = "ARCHITECTURE.md";
const ALL: &str = "all";

/// One row: line, crate, purpose, crates that it may use.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    name: &'a str,
    purpose: &'a str,
    may_use: &'a str,
}

pub(super) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Violation::new(PAGE, 1, "the page is missing")];
    };
    let rows = rows(&page.text, workspace);
    let mut found = Vec::new();
    for (name, member) in &workspace.members {
        let Some(row) = rows.iter().find(|row| row.name == name) else {
            found.push(Violation::new(PAGE, 1, format!("no row for crate {name}")));
            continue;
        };
        let purpose = tree.get(&member.root_file).and_then(|file| purpose(&file.text));
        if purpose != Some(row.purpose) {
            let stated = purpose.unwrap_or("nothing");
            let message = format!("purpose of {name} differs; {} says: {stated}", member.root_file);
            found.push(Violation::new(PAGE, row.line, message));
        }
        if let Some(message) = wrong_uses(row, workspace) {
            found.push(Violation::new(PAGE, row.line, message));
        }
    }
    found
}

/// Rows whose first cell is a crate.
fn rows<'a>(text: &'a str, workspace: &Workspace) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(inner) = line.trim().strip_prefix('|') else { continue };
        let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
        let [name, purpose, may_use, ..] = cells[..] else { continue };
        let name = name.trim_matches('`');
        if workspace.members.contains_key(name) {
            rows.push(Row { line: index + 1, name, purpose, may_use });
        }
    }
    rows
}

fn purpose(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix("//!").map(str::trim)
}

fn wrong_uses(row: &Row<'_>, workspace: &Workspace) -> Option<String> {
    let (_, uses) = TABLE.iter().find(|(name, _)| *name == row.name)?;
    let is_separator = |each: char| !(each.is_alphanumeric() || each == '-');
    let words: BTreeSet<&str> = row.may_use.split(is_separator).collect();
    let named: BTreeSet<&str> =
        words.iter().copied().filter(|word| workspace.members.contains_key(*word)).collect();
    match uses {
        Uses::Anything if words.contains(ALL) => None,
        Uses::Anything => Some(format!("crate {} may use {ALL}", row.name)),
        Uses::Exactly(expected) if named == expected.iter().copied().collect() => None,
        Uses::Exactly([]) => Some(format!("crate {} may use nothing", row.name)),
        Uses::Exactly(expected) => {
            Some(format!("crate {} may use {}", row.name, expected.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Member;
    use super::*;

    fn messages(page: &str) -> Vec<String> {
        let mut workspace = Workspace::default();
        for name in ["device", "ptx-sim", "warpwright"] {
            let root_file = format!("crates/{name}/src/lib.rs");
            let member = Member { root_file, ..Member::default() };
            workspace.members.insert(name.to_owned(), member);
        }
        let tree = Tree::of(&[
            ("crates/device/src/lib.rs", "//! Runs kernels.\n"),
            ("crates/ptx-sim/src/lib.rs", "//! Simulates.\n"),
            ("crates/warpwright/src/lib.rs", "//! The program.\n"),
            (PAGE, page),
        ]);
        check(&tree, &workspace).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_must_say_what_the_crates_say() {
        let good = "| crate | purpose | may use |\n|---|---|---|\n\
            | `device` | Runs kernels. | `ptx-sim` |\n\
            | ptx-sim | Simulates. | nothing |\n\
            | warpwright | The program. | all |\n";
        assert!(messages(good).is_empty(), "{:?}", messages(good));
        for (from, to, expected) in [
            ("| ptx-sim | Simulates. | nothing |\n", "", "no row for crate ptx-sim"),
            ("Runs kernels.", "Runs.", "ARCHITECTURE.md:3: purpose of device differs"),
            ("`ptx-sim` |", "- |", "crate device may use ptx-sim"),
            ("nothing", "device", "crate ptx-sim may use nothing"),
        ] {
            let found = messages(&good.replace(from, to));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
    }
}
