//! The files that tidy looks at, and small readings of Rust code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::lex::{Lexed, lex};

/// Files of these endings are read.
const ENDINGS: [&str; 7] = ["rs", "md", "toml", "cu", "cuh", "sh", "sql"];

/// One file, with its path from the root.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    pub(super) path: String,
    pub(super) text: String,
    /// Taken apart if it is Rust, else empty.
    pub(super) lexed: Lexed,
}

/// All files of the repository, by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<String, SourceFile>,
    /// Every path that exists, files and folders, read or not.
    pub(super) paths: Vec<String>,
}

/// A function: its name, first and last line, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Function {
    pub(super) fn lines(&self) -> usize {
        self.last - self.first + 1
    }
}

impl Tree {
    /// Reads the repository, without build output and hidden folders.
    pub(super) fn read(root: &Path) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder)
                .with_context(|| format!("cannot read {}", folder.display()))?;
            for entry in entries {
                let path = entry?.path();
                tree.enter(root, path, &mut folders)?;
            }
        }
        tree.paths.sort();
        Ok(tree)
    }

    fn enter(
        &mut self,
        root: &Path,
        path: PathBuf,
        folders: &mut Vec<PathBuf>,
    ) -> anyhow::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name.starts_with("target") && path.is_dir() {
            return Ok(());
        }
        let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
        self.paths.push(relative.clone());
        if path.is_dir() {
            folders.push(path);
        } else if name.starts_with("Dockerfile")
            || ENDINGS.iter().any(|ending| name.ends_with(&format!(".{ending}")))
        {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            self.insert(&relative, text);
        }
        Ok(())
    }

    /// Adds one file.
    pub(super) fn insert(&mut self, path: &str, text: String) {
        let lexed = if path.ends_with(".rs") { lex(&text) } else { Lexed::default() };
        let file = SourceFile { path: path.to_owned(), text, lexed };
        self.files.insert(path.to_owned(), file);
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.values().filter(|file| file.path.ends_with(".rs"))
    }

    pub(super) fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.get(path)
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.insert(path, (*text).to_owned());
            tree.paths.push((*path).to_owned());
        }
        tree
    }
}

/// The line of a byte offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Offsets of `word` in code, where it is no part of a longer word.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let in_word =
        |each: Option<char>| each.is_some_and(|each| each.is_alphanumeric() || each == '_');
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !in_word(code[..*at].chars().next_back())
            && !in_word(code[at + word.len()..].chars().next())
    })
}

/// Every function with a body.
pub(super) fn functions(code: &str) -> Vec<Function> {
    words(code, "fn").filter_map(|at| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let after = code[at + 2..].trim_start();
    let end = after.find(|each: char| !(each.is_alphanumeric() || each == '_'))?;
    // A function pointer type has no name.
    let name = (end > 0).then(|| after[..end].to_owned())?;
    let open = body_start(code, at)?;
    let close = matching_brace(code, open)?;
    Some(Function { name, first: line_of(code, at), last: line_of(code, close) })
}

/// The brace that opens the body; none if a semicolon comes first.
fn body_start(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (index, each) in code[at..].char_indices() {
        match each {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(at + index),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The brace that closes the one at `open`.
pub(super) fn matching_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, each) in code[open..].char_indices() {
        match each {
            '{' => depth += 1,
            '}' if depth <= 1 => return Some(open + index),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Offsets of the braces of each `#[cfg(test)]` item with a body.
pub(super) fn test_spans(code: &str) -> Vec<(usize, usize)> {
    const MARK: &str = "#[cfg(test)]";
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find(MARK).map(|at| from + at) {
        from = at + MARK.len();
        let Some(open) = body_start(code, from) else { continue };
        let Some(close) = matching_brace(code, open) else { continue };
        spans.push((open, close));
        from = close;
    }
    spans
}

/// The code with the bodies of `#[cfg(test)]` items blanked out.
pub(super) fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut from = 0;
    for (open, close) in test_spans(code) {
        kept.push_str(&code[from..open]);
        kept.extend(code[open..close].chars().map(|each| if each == '\n' { '\n' } else { ' ' }));
        from = close;
    }
    kept.push_str(&code[from..]);
    kept
}

/// Whether a file holds only tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_lines() {
        let code = "fn a() -> [u8; 4] {\n  x\n}\ntrait T { fn b(); fn c() {} }\nlet p: fn(u8) = q;";
        let found: Vec<_> = functions(code)
            .into_iter()
            .map(|each| (each.name.clone(), each.first, each.lines()))
            .collect();
        assert_eq!(found, [("a".to_owned(), 1, 3), ("c".to_owned(), 4, 1)]);
    }

    #[test]
    fn tests_are_blanked_out_and_the_rest_stays() {
        let code = "std::fs;\n#[cfg(test)]\nmod tests {\n  std::fs;\n}\nfn z() {}";
        let kept = without_tests(code);
        assert_eq!(kept.matches("std::fs").count(), 1);
        assert_eq!(kept.lines().count(), code.lines().count());
        assert!(kept.ends_with("fn z() {}"));
        assert_eq!(without_tests("#[cfg(test)]\nmod tests;\nfn z() {}").matches("fn z").count(), 1);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("unsafe unsafe_code xunsafe unsafe{", "unsafe").count(), 2);
    }
}
