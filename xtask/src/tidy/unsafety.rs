//! `unsafe` stands in few places, and each says why it is sound.

use super::Violation;
use super::source::{SourceFile, Tree, line_of, words};

const CRATES: [&str; 2] = ["crates/device/", "crates/sandbox/"];
/// Modules of the simulator, as a file or a folder.
const MODULES: [&str; 2] = ["lanes", "shared_memory"];
/// How far above a block its comment may begin, in lines.
const COMMENT_LINES_MAX: usize = 8;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Violation> {
    let code = &file.lexed.code;
    let allowed = is_allowed(&file.path);
    words(code, "unsafe")
        .filter_map(|at| {
            let line = line_of(code, at);
            let message = if !allowed {
                "unsafe outside of device, sandbox and the two modules of the simulator"
            } else if needs_comment(&code[at..]) && !has_comment(file, line) {
                "unsafe without a `// SAFETY:` comment above it"
            } else {
                return None;
            };
            Some(Violation::new(&file.path, line, message))
        })
        .collect()
}

fn is_allowed(path: &str) -> bool {
    let simulator = path.strip_prefix("crates/ptx-sim/src/").is_some_and(|inner| {
        inner.split('/').any(|part| MODULES.contains(&part.trim_end_matches(".rs")))
    });
    simulator || CRATES.iter().any(|start| path.starts_with(start))
}

/// Blocks and implementations make a promise; a declaration only demands one.
fn needs_comment(code: &str) -> bool {
    let after = code["unsafe".len()..].trim_start();
    after.starts_with('{') || after.starts_with("impl")
}

fn has_comment(file: &SourceFile, line: usize) -> bool {
    let first = line.saturating_sub(COMMENT_LINES_MAX + 1);
    let comments: Vec<&str> = file.lexed.comments.lines().skip(first).take(line - first).collect();
    let code: Vec<&str> = file.lexed.code.lines().skip(first).take(line - first - 1).collect();
    let Some(at) = comments.iter().rposition(|comment| comment.contains("SAFETY:")) else {
        return false;
    };
    // The comment belongs to the next statement, not to one after that.
    at + 1 == comments.len()
        || !code[at..].iter().any(|line| words(line, "unsafe").next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn unsafe_has_its_places() {
        let text = "// SAFETY: x\nunsafe { y }";
        for path in [
            "crates/device/src/a.rs",
            "crates/sandbox/src/a.rs",
            "crates/ptx-sim/src/lanes.rs",
            "crates/ptx-sim/src/exec/shared_memory/a.rs",
        ] {
            assert_eq!(count(path, text), 0, "{path}");
        }
        for path in ["crates/judge/src/a.rs", "crates/ptx-sim/src/exec.rs", "xtask/src/main.rs"] {
            assert_eq!(count(path, text), 1, "{path}");
        }
        assert_eq!(count("xtask/src/main.rs", "// unsafe { }\n#![deny(unsafe_code)]"), 0);
    }

    #[test]
    fn each_block_has_its_comment() {
        let path = "crates/device/src/a.rs";
        for (text, expected) in [
            ("unsafe { y }", 1),
            ("// SAFETY: x\nunsafe impl Send for Y {}", 0),
            ("unsafe impl Send for Y {}", 1),
            ("unsafe fn demand() {}", 0),
            ("// SAFETY: x\nlet a = call(\n    b,\n    unsafe { y },\n);", 0),
            ("// SAFETY: x\nunsafe { y };\nunsafe { z };", 1),
            ("let s = \"SAFETY:\"; unsafe { z };", 1),
        ] {
            assert_eq!(count(path, text), expected, "{text}");
        }
    }
}
