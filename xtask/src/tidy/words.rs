//! Words that must not be written: unfinished work, unreasoned exceptions, and in the pure crates
//! everything that reaches outside of the process.

use super::Violation;
use super::source::{SourceFile, Tree, is_test_file, line_of, without_tests, words};

/// Crates that only compute.
const PURE_CRATES: [&str; 2] = ["pipeline", "ptx-sim"];
/// Modules of the standard library that they may not use.
const IMPURE_MODULES: [&str; 4] = ["fs", "env", "process", "net"];
/// Types that they may not use.
const IMPURE_TYPES: [&str; 2] = ["Instant", "SystemTime"];
/// Marks of unfinished work, put together here so that this file does not hold them.
const UNFINISHED: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];
const UNFINISHED_MACRO: &str = concat!("to", "do!");

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let unfinished = tree.files.values().flat_map(check_unfinished);
    let reasons = tree.rust().flat_map(check_reasons);
    let pure = tree.rust().filter(|file| is_pure(&file.path)).flat_map(check_pure);
    unfinished.chain(reasons).chain(pure).collect()
}

fn check_unfinished(file: &SourceFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for mark in UNFINISHED {
        found.extend(words(&file.text, mark).map(|at| (at, mark)));
    }
    found.extend(file.lexed.code.match_indices(UNFINISHED_MACRO));
    found
        .into_iter()
        .map(|(at, mark)| {
            let message = format!("{mark} is unfinished work: finish it or write an issue");
            Violation::new(&file.path, line_of(&file.text, at), message)
        })
        .collect()
}

/// `allow` and `expect` attributes say why.
fn check_reasons(file: &SourceFile) -> Vec<Violation> {
    let code = &file.lexed.code;
    allow_attributes(code)
        .filter(|at| {
            let end = code[*at..].find(']').map_or(code.len(), |end| at + end);
            words(&code[*at..end], "reason").next().is_none()
        })
        .map(|at| {
            let message = "an exception from a lint needs `reason = \"…\"`";
            Violation::new(&file.path, line_of(code, at), message)
        })
        .collect()
}

/// Offsets of the attributes that switch a lint off.
pub(super) fn allow_attributes(code: &str) -> impl Iterator<Item = usize> + '_ {
    ["#[allow(", "#![allow(", "#[expect(", "#![expect("]
        .into_iter()
        .flat_map(|start| code.match_indices(start).map(|(at, _)| at))
}

fn is_pure(path: &str) -> bool {
    let inside = |name: &str| path.starts_with(&format!("crates/{name}/src/"));
    PURE_CRATES.iter().any(|name| inside(name)) && !is_test_file(path)
}

fn check_pure(file: &SourceFile) -> Vec<Violation> {
    let code = without_tests(&file.lexed.code);
    let mut found: Vec<(usize, String)> = Vec::new();
    for module in IMPURE_MODULES {
        let path = format!("std::{module}");
        found.extend(words(&code, &path).map(|at| (at, path.clone())));
    }
    for (at, group) in code.match_indices("std::{").map(|(at, _)| (at, &code[at..])) {
        let group = &group[..group.find(';').unwrap_or(group.len())];
        let named =
            IMPURE_MODULES.into_iter().filter(|module| words(group, module).next().is_some());
        found.extend(named.map(|module| (at, format!("std::{module}"))));
    }
    for name in IMPURE_TYPES {
        found.extend(words(&code, name).map(|at| (at, name.to_owned())));
    }
    found
        .into_iter()
        .map(|(at, name)| {
            let message = format!("{name} in a pure crate: take the value as an argument");
            Violation::new(&file.path, line_of(&code, at), message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unfinished_work_is_found_in_every_kind_of_file() {
        let text = format!("a\n// {} later", UNFINISHED[0]);
        for path in ["crates/judge/src/a.rs", "docs/a.md", "Cargo.toml", "tasks/a.cu"] {
            let found = messages(path, &text);
            assert_eq!(found.len(), 1, "{path}");
            assert!(found[0].starts_with(&format!("{path}:2: ")), "{found:?}");
        }
        assert_eq!(messages("a.rs", &format!("fn a() {{ {UNFINISHED_MACRO}() }}")).len(), 1);
        assert!(messages("a.rs", &format!("// no {UNFINISHED_MACRO} in a comment")).is_empty());
        assert!(messages("a.md", &format!("{}L and more", UNFINISHED[1])).is_empty());
    }

    #[test]
    fn exceptions_need_a_reason() {
        assert_eq!(messages("a.rs", "#[allow(dead_code)]\nfn a() {}").len(), 1);
        assert_eq!(messages("a.rs", "#![expect(unsafe_code)]").len(), 1);
        assert!(messages("a.rs", "#![allow(\n  dead_code,\n  reason = \"x\"\n)]").is_empty());
        assert!(messages("a.rs", "// #[allow(dead_code)]").is_empty());
    }

    #[test]
    fn pure_crates_do_not_reach_outside() {
        let path = "crates/pipeline/src/a.rs";
        for text in [
            "use std::fs;",
            "use std::{collections::HashMap, env};",
            "let x = std::process::id();",
            "fn a(at: Instant) {}",
            "use std::time::SystemTime;",
        ] {
            assert_eq!(messages(path, text).len(), 1, "{text}");
            assert!(messages("crates/judge/src/a.rs", text).is_empty(), "{text}");
            assert!(messages("crates/pipeline/tests/a.rs", text).is_empty(), "{text}");
            let test = format!("#[cfg(test)]\nmod tests {{ {text} }}");
            assert!(messages(path, &test).is_empty(), "{text}");
        }
        assert!(messages(path, "use std::fmt; // not std::fs").is_empty());
    }
}
