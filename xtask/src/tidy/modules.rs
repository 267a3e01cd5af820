//! Every source file belongs to a module tree: a file that no `mod` names is dead.

use std::path::Path;

use super::Violation;
use super::source::{Tree, words};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree.rust().map(|file| file.path.as_str()).filter(|path| path.contains("src/"));
    sources
        .filter(|path| !is_root(path) && !is_declared(tree, path))
        .map(|path| Violation::new(path, 1, "no `mod` names this file: name it or delete it"))
        .collect()
}

fn is_root(path: &str) -> bool {
    ["/src/lib.rs", "/src/main.rs", "/build.rs"].iter().any(|end| path.ends_with(end))
        || path.contains("/src/bin/")
}

fn is_declared(tree: &Tree, path: &str) -> bool {
    let path = Path::new(path);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new(""));
    let (name, folder) = match &*stem {
        "mod" => (
            folder.file_name().unwrap_or_default().to_string_lossy(),
            folder.parent().unwrap_or(Path::new("")),
        ),
        _ => (stem.clone(), folder),
    };
    let folder_file = format!("{}.rs", folder.display());
    let inside =
        ["mod.rs", "lib.rs", "main.rs"].map(|file| folder.join(file).display().to_string());
    inside
        .into_iter()
        .chain([folder_file])
        .filter_map(|parent| tree.get(&parent))
        .any(|parent| declares(&parent.lexed.code, &name))
}

fn declares(code: &str, name: &str) -> bool {
    words(code, "mod").any(|at| {
        let after = code[at + "mod".len()..].trim_start();
        after.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(';'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_module_names_is_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "mod b;\npub mod c;\n// mod dead;"),
            ("crates/a/src/b.rs", "mod inner;"),
            ("crates/a/src/b/inner.rs", ""),
            ("crates/a/src/c/mod.rs", "mod deep;"),
            ("crates/a/src/c/deep.rs", ""),
            ("crates/a/src/dead.rs", ""),
            ("crates/a/tests/it.rs", ""),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/a/src/dead.rs");
    }
}
