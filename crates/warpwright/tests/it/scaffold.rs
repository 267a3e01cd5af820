//! `task new`: what it makes proves itself, and it overwrites nothing.

use std::path::Path;
use std::process::Command;

use crate::program::Program;

#[test]
fn every_example_proves_itself() {
    for (name, like) in [
        ("my_gelu", "elementwise"),
        ("my_norm", "rowwise"),
        ("my_gemm", "gemm"),
        ("sums", "reduce_sum_rows"),
    ] {
        let program = Program::new();
        let made = program.call(&["task", "new", name, "--like", like, "--json"]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        assert_eq!(made.closing()["folder"], name);
        for part in ["golden.py >", "task check", "wrong/", "reference.py", "accept @last"] {
            assert!(made.stdout.contains(part), "{part}: {}", made.stdout);
        }
        let task = std::fs::read_to_string(program.path(name).join("task.toml")).unwrap();
        assert!(task.contains(&format!("\nname = \"{name}\"\n")), "{task}");
        let checked = program.call(&["task", "check", name]);
        assert_eq!(checked.code, Some(0), "{like}: {}{}", checked.stdout, checked.stderr);
        assert!(checked.stdout.contains(&format!("{name}: proven")), "{}", checked.stdout);
        assert!(checked.stdout.matches(": rejected: ").count() >= 4, "{}", checked.stdout);
        assert!(!checked.stderr.contains("built-in one"), "{}", checked.stderr);
    }
}

/// The golden case of each example is what its program prints.
#[test]
fn golden_cases_come_from_their_programs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scaffold");
    for entry in std::fs::read_dir(folder).unwrap() {
        let example = entry.unwrap().path();
        let printed = Command::new("python3").arg(example.join("golden.py")).output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let stored = std::fs::read(example.join("golden.json")).unwrap();
        assert_eq!(printed.stdout, stored, "{}", example.display());
    }
}

#[test]
fn nothing_is_overwritten_and_names_are_checked() {
    let program = Program::new();
    std::fs::create_dir(program.path("empty")).unwrap();
    std::fs::create_dir(program.path("full")).unwrap();
    std::fs::write(program.path("full/mine"), "mine").unwrap();
    std::fs::write(program.path("file"), "mine").unwrap();
    for (arguments, code, part) in [
        (vec!["a", "--dir", "empty"], 0, "Made empty"),
        (vec!["a", "--dir", "empty"], 2, "is not an empty folder"),
        (vec!["a", "--dir", "full"], 2, "is not an empty folder"),
        (vec!["a", "--dir", "file"], 2, "is not an empty folder"),
        (vec!["a", "--dir", "deep/er"], 0, "Made deep/er"),
        (vec!["My-Task"], 2, "lower-case letters"),
        (vec!["a\"b"], 2, "lower-case letters"),
        (vec!["max"], 2, "a meaning of its own"),
        (vec!["gelu"], 2, "`gelu` is a built-in task"),
        (vec!["a", "--like", "conv"], 2, "there are elementwise, gemm, rowwise"),
    ] {
        let made = program.call(&[&["task", "new"], &arguments[..]].concat());
        let all = format!("{}{}", made.stdout, made.stderr);
        assert_eq!(made.code, Some(code), "{arguments:?}: {all}");
        assert!(all.contains(part), "{arguments:?}: {part} not in {all}");
    }
    assert_eq!(std::fs::read(program.path("full/mine")).unwrap(), b"mine");
}
