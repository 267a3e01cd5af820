//! House rules that the compiler does not check. Each rule is a function from what it looks at to
//! a list of violations, with a test that shows that it can fail.
//!
//! Start at [`check`]. To change a limit, change the constant beside its rule.

mod architecture;
mod docs;
mod edges;
mod images;
mod lex;
mod licences;
mod metadata;
mod modules;
mod prompts;
mod ratchet;
mod sizes;
mod source;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;

use crate::report;
use metadata::Workspace;
use source::Tree;

/// One rule broken at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Violation {
        Violation { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks everything and prints what is wrong; true if nothing is.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let tree = Tree::read(root)?;
    let workspace = metadata::read(root)?;
    let mut found = check(&tree, &workspace);
    found.sort();
    for violation in &found {
        report::say(&violation.to_string());
    }
    for note in ratchet::notes(&tree) {
        report::say(&note);
    }
    report::say(&format!("tidy: {} files, {} violations", tree.files.len(), found.len()));
    Ok(found.is_empty())
}

/// Writes the ratchet file with the counts of now where they are lower.
pub(crate) fn lower_ratchet(root: &Path) -> anyhow::Result<()> {
    ratchet::lower(root, &Tree::read(root)?)
}

/// Every rule.
fn check(tree: &Tree, workspace: &Workspace) -> Vec<Violation> {
    [
        sizes::check(tree),
        words::check(tree),
        unsafety::check(tree),
        modules::check(tree),
        edges::check(workspace),
        edges::check_walls(workspace),
        architecture::check(tree, workspace),
        prompts::check(tree),
        docs::check(tree),
        images::check(tree),
        licences::check(tree, workspace),
        ratchet::check(tree),
    ]
    .concat()
}
