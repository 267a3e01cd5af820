//! Every package has a licence that deny.toml allows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Violation;
use super::metadata::Workspace;
use super::source::Tree;

const PAGE: &str = "deny.toml";

pub(super) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Violation> {
    let Some(allowed) = tree.get(PAGE).and_then(|file| allowed(&file.text)) else {
        return vec![Violation::new(PAGE, 1, "there is no list `licenses.allow`")];
    };
    let mut found = Vec::new();
    for package in workspace.packages.values() {
        let licence = package.licence.as_deref().unwrap_or_default();
        if !is_allowed(licence, &allowed) {
            let name = format!("{} {}", package.name, package.version);
            let message = match licence {
                "" => format!("package {name} states no licence"),
                _ => format!("package {name} has licence `{licence}`, which is not allowed"),
            };
            found.push(Violation::new(PAGE, 1, message));
        }
    }
    found
}

fn allowed(text: &str) -> Option<BTreeSet<String>> {
    let data: Value = toml::from_str(text).ok()?;
    let list = data["licenses"]["allow"].as_array()?;
    Some(list.iter().filter_map(|each| each.as_str().map(str::to_owned)).collect())
}

/// Whether a licence expression can be satisfied; a slash is an old form of OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let good = either(&words, &mut at, allowed);
    good == Some(true) && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut good = both(words, at, allowed)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        good |= both(words, at, allowed)?;
    }
    Some(good)
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut good = one(words, at, allowed)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        good &= one(words, at, allowed)?;
    }
    Some(good)
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let good = either(words, at, allowed)?;
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return closed.then_some(good);
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = *words.get(*at + 1)?;
        *at += 2;
        return Some(allowed.contains(&format!("{word} WITH {exception}")));
    }
    Some(allowed.contains(word))
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Package;
    use super::*;

    const ALLOWED: &str =
        "[licenses]\nallow = [\"MIT\", \"Zlib\", \"Apache-2.0 WITH LLVM-exception\"]";

    #[test]
    fn expressions_are_understood() {
        let allowed = allowed(ALLOWED).unwrap();
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "GPL-3.0 OR MIT",
            "MIT AND Zlib",
            "(GPL-3.0 OR MIT) AND Zlib",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "GPL-3.0 AND MIT OR Zlib",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "MIT OR", "(MIT", "MIT Zlib", "AND"]
        {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn a_package_may_not_have_another_licence() {
        let mut workspace = Workspace::default();
        let package = |licence: &str| Package {
            name: "p".to_owned(),
            licence: Some(licence.to_owned()),
            ..Package::default()
        };
        workspace.packages.insert("p".to_owned(), package("MIT"));
        let tree = Tree::of(&[(PAGE, ALLOWED)]);
        assert_eq!(check(&tree, &workspace), []);
        workspace.packages.insert("q".to_owned(), package("GPL-3.0"));
        workspace.packages.insert("r".to_owned(), Package::default());
        assert_eq!(check(&tree, &workspace).len(), 2);
        assert_eq!(check(&Tree::of(&[]), &workspace).len(), 1);
    }
}
