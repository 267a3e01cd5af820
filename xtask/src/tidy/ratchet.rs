//! Counts that may only fall. The file says what they were; `bless` lowers it, nothing raises it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Violation;
use super::source::{Tree, functions};
use super::words::allow_attributes;

const PAGE: &str = "xtask/ratchet.toml";
const HEADER: &str = "# Counts that may only fall; `cargo xtask bless` lowers them.\n";
const FUNCTION_LINES: usize = 50;
const FILE_LINES: usize = 400;

type Counts = BTreeMap<String, usize>;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let recorded = recorded(tree);
    let now = count(tree);
    now.iter()
        .filter_map(|(name, count)| {
            let message = match recorded.get(name) {
                None => format!("{name} is not recorded; it is {count}"),
                Some(most) if count > most => format!("{name} rose from {most} to {count}"),
                Some(_) => return None,
            };
            Some(Violation::new(PAGE, 1, message))
        })
        .collect()
}

/// Says which counts can be lowered.
pub(super) fn notes(tree: &Tree) -> Vec<String> {
    let now = count(tree);
    recorded(tree)
        .iter()
        .filter_map(|(name, most)| {
            let count = now.get(name)?;
            (count < most).then(|| {
                format!("note: {name} fell from {most} to {count}; `cargo xtask bless` records it")
            })
        })
        .collect()
}

/// Writes the counts of now where they are lower.
pub(super) fn lower(root: &Path, tree: &Tree) -> anyhow::Result<()> {
    let path = root.join(PAGE);
    fs::write(&path, lowered(tree)).with_context(|| format!("cannot write {}", path.display()))
}

fn lowered(tree: &Tree) -> String {
    let mut counts = count(tree);
    for (name, most) in recorded(tree) {
        counts.entry(name).and_modify(|count| *count = most.min(*count));
    }
    let lines = counts.iter().map(|(name, count)| format!("{name} = {count}\n"));
    HEADER.to_owned() + &lines.collect::<String>()
}

fn recorded(tree: &Tree) -> Counts {
    tree.get(PAGE).and_then(|file| toml::from_str(&file.text).ok()).unwrap_or_default()
}

fn count(tree: &Tree) -> Counts {
    let long = |file: &super::source::SourceFile| {
        functions(&file.lexed.code).iter().filter(|each| each.lines() > FUNCTION_LINES).count()
    };
    let exceptions = tree.rust().map(|file| allow_attributes(&file.lexed.code).count()).sum();
    let files = tree.rust().filter(|file| file.text.lines().count() > FILE_LINES).count();
    [
        ("exceptions_from_lints".to_owned(), exceptions),
        (format!("files_over_{FILE_LINES}_lines"), files),
        (format!("functions_over_{FUNCTION_LINES}_lines"), tree.rust().map(long).sum()),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#[allow(dead_code, reason = \"x\")]\nfn a() {}\n";

    fn tree(exceptions: usize) -> Tree {
        let page = format!(
            "exceptions_from_lints = {exceptions}\nfiles_over_400_lines = 0\n\
             functions_over_50_lines = 0\n"
        );
        Tree::of(&[("a.rs", SOURCE), (PAGE, &page)])
    }

    #[test]
    fn a_count_may_not_rise() {
        assert_eq!(check(&tree(1)), []);
        let found = check(&tree(0));
        assert!(found[0].message.contains("rose from 0 to 1"), "{found:?}");
        assert_eq!(check(&Tree::of(&[("a.rs", SOURCE)])).len(), 3);
    }

    #[test]
    fn a_lower_count_is_noted_and_recorded() {
        assert!(notes(&tree(2))[0].contains("fell from 2 to 1"));
        assert!(notes(&tree(1)).is_empty());
        assert!(lowered(&tree(2)).contains("exceptions_from_lints = 1\n"));
        assert!(lowered(&tree(0)).contains("exceptions_from_lints = 0\n"), "it never raises");
    }

    #[test]
    fn long_functions_and_files_are_counted() {
        let text = format!("fn a() {{\n{}}}\n", "x;\n".repeat(450));
        let counts = count(&Tree::of(&[("a.rs", &text)]));
        assert_eq!(counts.values().copied().collect::<Vec<_>>(), [0, 1, 1]);
    }
}
