//! Every page of docs is in its index, and links to files of the repository lead somewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::Violation;
use super::source::{SourceFile, Tree};

const FOLDER: &str = "docs/";
const INDEX: &str = "docs/README.md";
const PAGES: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for page in tree.files.values().filter(|file| is_page(&file.path)) {
        found.extend(broken_links(tree, page));
    }
    let linked: BTreeSet<String> = match tree.get(INDEX) {
        Some(index) => links(&index.text).filter_map(|(_, to)| resolve(INDEX, to)).collect(),
        None => BTreeSet::new(),
    };
    let docs = tree.paths.iter().filter(|path| path.starts_with(FOLDER) && *path != INDEX);
    let folders: BTreeSet<&str> =
        docs.clone().filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| folder).collect();
    let missing = docs
        .filter(|path| !folders.contains(path.as_str()) && !linked.contains(path.as_str()))
        .map(|path| Violation::new(path, 1, format!("{INDEX} does not link this page")));
    found.extend(missing);
    found
}

fn is_page(path: &str) -> bool {
    PAGES.contains(&path) || (path.starts_with(FOLDER) && path.ends_with(".md"))
}

fn broken_links(tree: &Tree, page: &SourceFile) -> Vec<Violation> {
    links(&page.text)
        .filter(|(_, to)| !is_elsewhere(to))
        .filter_map(|(line, to)| {
            let exists = resolve(&page.path, to)
                .is_some_and(|path| path.is_empty() || tree.paths.contains(&path));
            let message = format!("the link to {to} leads nowhere");
            (!exists).then(|| Violation::new(&page.path, line, message))
        })
        .collect()
}

fn is_elsewhere(to: &str) -> bool {
    to.contains("://") || to.starts_with("mailto:") || to.starts_with('#')
}

/// Targets of `](target)` outside of fenced code, with their line.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    let lines = text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    });
    lines.flat_map(|(index, line)| {
        line.split("](").skip(1).filter_map(move |rest| {
            let target = rest.split([')', ' ']).next()?;
            Some((index + 1, target))
        })
    })
}

/// The path from the root that a link on `page` means; none if it leaves the repository.
fn resolve(page: &str, to: &str) -> Option<String> {
    let to = to.split('#').next().unwrap_or_default();
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut parts: Vec<&str> = Vec::new();
    let joined = folder.join(to);
    for part in joined.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str().unwrap_or_default()),
            Component::ParentDir => _ = parts.pop()?,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_must_be_in_the_index() {
        let good =
            [(INDEX, "[a](a.md), [b](sub/b.md#top)"), ("docs/a.md", ""), ("docs/sub/b.md", "")];
        assert_eq!(check(&Tree::of(&good)), []);
        let found = check(&Tree::of(&[(INDEX, "nothing"), ("docs/a.md", "")]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "docs/a.md");
    }

    #[test]
    fn links_must_lead_somewhere() {
        for (text, count) in [
            ("[a](crates/a/src/lib.rs)", 0),
            ("[a](./README.md#part) [b](https://example.org/x) [c](#here)", 0),
            ("one\n[a](no/such.md)", 1),
            ("[a](../outside.md)", 1),
            ("```\n[a](no.md)\n```", 0),
        ] {
            let tree = Tree::of(&[("README.md", text), ("crates/a/src/lib.rs", "")]);
            let found = check(&tree);
            assert_eq!(found.len(), count, "{text}: {found:?}");
        }
        let deep = Tree::of(&[(INDEX, "[up](../README.md)"), ("README.md", "")]);
        assert_eq!(check(&deep), []);
    }
}
