//! Files, functions and lines have a greatest size.

use super::Violation;
use super::source::{SourceFile, Tree, functions};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARS_MAX: usize = 100;

/// Flat tables of instructions, where a split would hide the table: end of the path, function.
const TABLES: [(&str, &str); 1] = [("ptx-sim/src/exec/alu.rs", "execute")];

/// Functions that must stay on one screen: end of the path, function, lines.
const SCREENS: [(&str, &str, usize); 1] = [("agent/src/drive.rs", "drive", 40)];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().flat_map(|file| check_file(file, &TABLES)).collect()
}

fn check_file(file: &SourceFile, tables: &[(&str, &str)]) -> Vec<Violation> {
    let mut found = Vec::new();
    let count = file.text.lines().count();
    if count > FILE_LINES_MAX {
        let message = format!("the file has {count} lines, at most {FILE_LINES_MAX}: split it");
        found.push(Violation::new(&file.path, count, message));
    }
    for (index, line) in file.text.lines().enumerate() {
        let count = line.chars().count();
        if count > LINE_CHARS_MAX {
            let message = format!("the line has {count} characters, at most {LINE_CHARS_MAX}");
            found.push(Violation::new(&file.path, index + 1, message));
        }
    }
    let exempt = |name: &str| {
        tables.iter().any(|(path, function)| file.path.ends_with(path) && *function == name)
    };
    let most = |name: &str| {
        let screen = SCREENS
            .iter()
            .find(|(path, function, _)| file.path.ends_with(path) && *function == name);
        screen.map_or(FUNCTION_LINES_MAX, |(_, _, lines)| *lines)
    };
    let functions = functions(&file.lexed.code);
    for (path, name, _) in &SCREENS {
        if file.path.ends_with(path) && !functions.iter().any(|function| function.name == *name) {
            let message = format!("function {name} is gone: name in SCREENS what took its place");
            found.push(Violation::new(&file.path, 1, message));
        }
    }
    for function in functions {
        let (count, most) = (function.lines(), most(&function.name));
        if count > most && !exempt(&function.name) {
            let name = &function.name;
            let message = format!("function {name} has {count} lines, at most {most}");
            found.push(Violation::new(&file.path, function.first, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_can_be_exceeded() {
        let long_file = "\n".repeat(FILE_LINES_MAX + 1);
        let long_line = format!("// {}", "x".repeat(LINE_CHARS_MAX));
        let long_function = format!("fn long() {{\n{}}}", "x;\n".repeat(FUNCTION_LINES_MAX));
        for (text, expected) in [
            (long_file.as_str(), "501 lines"),
            (&long_line, "103 characters"),
            (&long_function, "function long has 72 lines"),
        ] {
            let found = check(&Tree::of(&[("a.rs", text)]));
            assert_eq!(found.len(), 1);
            assert!(found[0].message.contains(expected), "{}", found[0]);
        }
        let loop_text = format!("fn drive() {{\n{}}}", "x;\n".repeat(40));
        let found = check(&Tree::of(&[("crates/agent/src/drive.rs", &loop_text)]));
        assert!(found[0].message.contains("function drive has 42 lines, at most 40"));
        let tree = Tree::of(&[("src/a.rs", &long_function)]);
        assert_eq!(check_file(tree.get("src/a.rs").unwrap(), &[("a.rs", "long")]), []);
        assert_eq!(check(&Tree::of(&[("a.rs", "fn short() {}\n")])), []);
    }

    #[test]
    fn a_screened_function_cannot_vanish() {
        let found = check(&Tree::of(&[("crates/agent/src/drive.rs", "fn loop_on() {}\n")]));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("drive is gone"), "{}", found[0]);
    }
}
