//! The prompts folder holds exactly the files that the template registry names.

use std::collections::BTreeSet;

use super::Violation;
use super::source::{Tree, line_of, test_spans};

const REGISTRY: &str = "crates/pipeline/src/template.rs";
const FOLDER: &str = "prompts/";
const ENDING: &str = ".md";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(registry) = tree.get(REGISTRY) else {
        return vec![Violation::new(REGISTRY, 1, "the registry of the prompts is missing")];
    };
    let code = &registry.lexed.code;
    let tests: Vec<(usize, usize)> = test_spans(code)
        .into_iter()
        .map(|(open, close)| (line_of(code, open), line_of(code, close)))
        .collect();
    let in_tests = |line: usize| tests.iter().any(|(first, last)| (*first..=*last).contains(&line));
    // A path to the folder, as in an `include_str!`, names the same file.
    let named: Vec<(usize, &str)> = registry
        .lexed
        .strings
        .iter()
        .filter(|(line, text)| text.ends_with(ENDING) && !in_tests(*line))
        .map(|(line, text)| {
            (*line, text.rsplit_once(FOLDER).map_or(text.as_str(), |(_, name)| name))
        })
        .filter(|(_, name)| *name != ENDING)
        .collect();
    let files: BTreeSet<&str> =
        tree.files.keys().filter_map(|path| path.strip_prefix(FOLDER)).collect();
    let missing = named.iter().filter(|(_, name)| !files.contains(name)).map(|(line, name)| {
        Violation::new(REGISTRY, *line, format!("{FOLDER}{name} does not exist"))
    });
    let known: BTreeSet<&str> = named.iter().map(|(_, name)| *name).collect();
    let unknown = files.difference(&known).map(|name| {
        Violation::new(&format!("{FOLDER}{name}"), 1, "the registry does not name this prompt")
    });
    missing.chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_and_registry_must_agree() {
        let registry = "const A: &str = \"first.md\";\n\
                        #[cfg(test)]\nmod tests {\n  const B: &str = \"other.md\";\n}";
        let good = [(REGISTRY, registry), ("prompts/first.md", "")];
        assert_eq!(check(&Tree::of(&good)), []);
        let found = check(&Tree::of(&[(REGISTRY, registry), ("prompts/second.md", "")]));
        let text: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 2, "{text:?}");
        assert!(text[0].ends_with("template.rs:1: prompts/first.md does not exist"), "{text:?}");
        assert!(text[1].starts_with("prompts/second.md:1: "), "{text:?}");
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
