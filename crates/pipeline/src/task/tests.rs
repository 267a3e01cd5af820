//! Task files: the shipped task is accepted, and each kind of damage is named.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Task, spec::Place};

/// Files of a task of this repository, as the program would embed them.
pub(crate) fn task_files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks").join(name);
    let mut files = BTreeMap::new();
    for folder in ["", "wrong", "baseline"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let key = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.insert(key, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

pub(crate) fn softmax() -> Task {
    Task::from_files(&task_files("softmax_rows")).unwrap()
}

fn damaged(file: &str, from: &str, to: &str) -> String {
    let mut files = task_files("softmax_rows");
    let text = String::from_utf8(files[file].clone()).unwrap();
    assert!(text.contains(from), "{file} has no `{from}`");
    files.insert(file.to_owned(), text.replace(from, to).into_bytes());
    Task::from_files(&files).map(|_| "accepted".to_owned()).unwrap_or_else(|e| e.to_string())
}

#[test]
fn the_shipped_task_is_accepted() {
    let task = softmax();
    assert_eq!(task.cases(Place::Sim).count(), 3);
    assert!(task.wrong.len() >= 4);
    assert_eq!(task.golden.input_bytes("x", crate::dtype::Dtype::F32).len(), 4 * 36);
    assert_eq!(task.hash, softmax().hash);
}

#[test]
fn each_damage_is_named() {
    for (from, to, part) in [
        ("task = 1", "task = 2", "not a format this program reads"),
        ("name = \"x\"", "name = \"X\"", "write lower-case letters"),
        ("name = \"x\"", "name = \"min\"", "meaning of its own"),
        ("name = \"x\"", "name = \"rows\"", "used twice"),
        ("shape = [\"rows\", \"cols\"]", "shape = [\"rows\", \"col\"]", "unknown name `col`"),
        ("name = \"headline\"", "name = \"big\"", "must be named `headline`"),
        ("rows = 37, cols = 1009", "rows = 37", "must give a value to each"),
        ("rows = 37, cols", "rows = 0, cols", "`rows` must be in 1..="),
        ("rows = 37, cols", "rows = 1099511627776, cols", "too large"),
        ("on = [\"gpu\", \"sim\"]", "on = [\"gpu\"]", "must be ragged: every extent a prime"),
        ("rows = 37, cols = 1009", "rows = 36, cols = 1009", "must be ragged"),
        ("rows = 3, cols = 5", "rows = 3, cols = 50", "must be tiny"),
        ("nu = { fp32 = 5e-5 }", "", "`gate.nu` must give a limit"),
        ("nu = { fp32 = 5e-5 }", "nu = { fp32 = nan }", "`gate.nu` must give a limit"),
        ("nu = { fp32 = 5e-5 }", "nu = { fp32 = 5e-5, bf16 = inf }", "in 1e-12..=1"),
        ("rows = [1, 16384]\n", "", "a range to every dimension"),
        ("weight = 1.0", "weight = -1.0", "at least 0"),
        ("weight = 1.0", "weight = nan", "at least 0"),
        ("dtype = \"f32\"", "dtype = \"float\"", "unknown variant `float`"),
        ("role = \"activation\"", "role = \"weights\"", "unknown role `weights`"),
        ("compare = \"bound\"", "compare = \"index_of_max\"", "not judged by this version"),
        ("bytes = \"8 * rows * cols\"", "bytes = \"8 * rows / 2\"", "use //"),
        ("rows = [1, 16384]", "rows = [9, 1]", "low <= high"),
        ("rows = [\"rows\"]", "rows = [\"row\"]", "`metamorphic`: `row` is no dimension"),
        ("rows = [\"rows\"]", "scales = [[\"y\"]]", "`y` is no input of floats"),
        ("rows = [\"rows\"]", "linear = [[]]", "a group is empty"),
        ("rows = [\"rows\"]", "columns = []", "unknown field `columns`"),
        ("family = \"softmax\"", "familly = \"softmax\"", "unknown field `familly`"),
    ] {
        let message = damaged("task.toml", from, to);
        assert!(message.contains(part), "{from} → {to}: {message}");
    }
}

#[test]
fn the_other_files_are_checked_too() {
    for (file, from, to, part) in [
        ("reference.toml", "y_bound\", ", "y_bounds\", ", "`y_bounds` is unknown"),
        ("reference.toml", "\"exact\"", "\"fp32\"", "not admitted"),
        ("golden.json", "\"rows\": 4", "\"rows\": 5", "has 36 values, the shape 45"),
        ("golden.json", "\"golden\": 1", "\"golden\": 7", "this program reads 1"),
        ("wrong/no_max.toml", "MISMATCH", "NOISE", "unknown reason `NOISE`"),
        ("wrong/no_max.toml", "\"Wrong\"", "\"Hung\"", "Hung never carries MISMATCH"),
        ("wrong/no_max.toml", "[expect]", "[expected]", "has no [expect] table"),
    ] {
        let message = damaged(file, from, to);
        assert!(message.contains(part) && message.contains(file), "{file}: {message}");
    }
    let mut files = task_files("softmax_rows");
    files.remove("reference.cu");
    assert!(
        Task::from_files(&files).unwrap_err().to_string().contains("`reference.cu` is missing")
    );
    files.insert("notes.txt".to_owned(), Vec::new());
    assert!(Task::from_files(&files).unwrap_err().to_string().contains("`notes.txt` is not one"));
}
