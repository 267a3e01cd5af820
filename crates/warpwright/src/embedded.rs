//! What is compiled into the program: prompts, tasks, examples of tasks and the demo's transcript.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};

static PROMPTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../prompts");
static TASKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../tasks");
static SELFTEST: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/selftest");
static CATALOGUE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../judge/tests/catalogue");
static VICTIMS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../judge/tests/tasks");
static SCAFFOLD: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scaffold");

/// Replies for `demo`, written by hand.
pub(crate) const DEMO_TRANSCRIPT: &str =
    include_str!("../../../examples/softmax_rows.transcript.jsonl");
/// Modules of the self-test's baselines.
pub(crate) const SAME_WORK: &str = include_str!("../selftest/python/same_work.py");
pub(crate) const CHAIN: &str = include_str!("../selftest/python/chain.py");
/// A product that rounds its operands to TF32, for `matmul_f32`.
pub(crate) const TF32: &str = include_str!("../selftest/tf32.md");
/// Builds a kernel as PyTorch programs do.
pub(crate) const LOAD_INLINE: &str = include_str!("../selftest/load_inline.py");
/// The task of `demo`.
pub(crate) const DEMO_TASK: &str = "softmax_rows";

/// The built-in prompt files.
pub(crate) fn prompts() -> BTreeMap<String, String> {
    let text = |file: &include_dir::File<'_>| {
        let name = file.path().file_name()?.to_str()?.to_owned();
        Some((name, file.contents_utf8()?.to_owned()))
    };
    PROMPTS.files().filter_map(text).collect()
}

/// Names of the built-in tasks.
pub(crate) fn task_names() -> Vec<String> {
    folder_names(&TASKS)
}

/// Names of the examples that a new task can start from.
pub(crate) fn example_names() -> Vec<String> {
    folder_names(&SCAFFOLD)
}

fn folder_names(dir: &Dir<'_>) -> Vec<String> {
    let names = dir.dirs().filter_map(|dir| dir.path().file_name()?.to_str().map(str::to_owned));
    names.collect()
}

/// Files of a built-in task.
pub(crate) fn task(name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    folder(&TASKS, name)
}

/// Files of an example task.
pub(crate) fn example(name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    folder(&SCAFFOLD, name)
}

/// Files of the catalogue of cheats.
pub(crate) fn catalogue() -> BTreeMap<String, Vec<u8>> {
    let file = |file: &include_dir::File<'_>| (file_name(file.path()), file.contents().to_vec());
    CATALOGUE.files().map(file).collect()
}

/// The tasks that the catalogue attacks: name, files.
pub(crate) fn victim_tasks() -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
    let task = |name: String| Some((name.clone(), folder(&VICTIMS, &name)?));
    folder_names(&VICTIMS).into_iter().filter_map(task).collect()
}

/// Kernels of the self-test: task, `naive` or `good`, reply.
pub(crate) fn selftest_kernels() -> Vec<(String, String, String)> {
    let tasks = SELFTEST.get_dir("kernels").into_iter().flat_map(Dir::dirs);
    let mut kernels: Vec<_> = tasks
        .flat_map(|task| {
            let name = file_name(task.path());
            texts(task).into_iter().map(move |(kernel, reply)| (name.clone(), kernel, reply))
        })
        .collect();
    kernels.sort();
    kernels
}

/// Hostile kernels of the self-test: name, reply.
pub(crate) fn selftest_hostile() -> Vec<(String, String)> {
    SELFTEST.get_dir("hostile").map_or_else(Vec::new, texts)
}

/// Replies of the self-test that use what a plan can ask for: name, reply.
pub(crate) fn selftest_features() -> Vec<(String, String)> {
    SELFTEST.get_dir("features").map_or_else(Vec::new, texts)
}

/// Kernels of the self-test for the sanitizers: name, reply.
pub(crate) fn selftest_sanitizer() -> Vec<(String, String)> {
    SELFTEST.get_dir("sanitizer").map_or_else(Vec::new, texts)
}

/// Name without ending, and text, of each Markdown file of a folder.
fn texts(dir: &Dir<'_>) -> Vec<(String, String)> {
    let text = |file: &include_dir::File<'_>| {
        let name = file_name(file.path()).strip_suffix(".md")?.to_owned();
        Some((name, file.contents_utf8()?.to_owned()))
    };
    let mut found: Vec<_> = dir.files().filter_map(text).collect();
    found.sort();
    found
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn folder(all: &Dir<'_>, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let root = all.dirs().find(|dir| dir.path().as_os_str() == name)?;
    let mut files = BTreeMap::new();
    collect(root, name, &mut files);
    Some(files)
}

fn collect(dir: &Dir<'_>, root: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for file in dir.files() {
        if let Some(path) = file.path().strip_prefix(root).ok().and_then(|path| path.to_str()) {
            files.insert(path.to_owned(), file.contents().to_vec());
        }
    }
    dir.dirs().for_each(|inner| collect(inner, root, files));
}
