//! What a user, or whoever sends a task, writes: task files, plans, expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use pipeline::device_facts::DeviceFacts;
use pipeline::expression::Expression;
use pipeline::plan::Plan;
use pipeline::scope::Scope;
use pipeline::task::Task;
use pipeline::task::signature::Signature;

/// What begins the line with a file's name.
const FILE_MARK: &str = "=== ";
/// Values of dimensions at which arithmetic goes wrong.
const EXTENTS: [i64; 8] = [0, 1, 7, 4096, 1 << 31, 1 << 62, i64::MAX, i64::MIN];
/// The names that an expression may use here.
const NAMES: [&str; 3] = ["rows", "cols", "sm_count"];

/// Of a shipped task.
pub(crate) fn signature() -> Signature {
    static SIGNATURE: LazyLock<Signature> = LazyLock::new(|| {
        let files = [
            ("task.toml", &include_bytes!("../../../tasks/softmax_rows/task.toml")[..]),
            ("reference.cu", include_bytes!("../../../tasks/softmax_rows/reference.cu")),
            ("reference.toml", include_bytes!("../../../tasks/softmax_rows/reference.toml")),
            ("golden.json", include_bytes!("../../../tasks/softmax_rows/golden.json")),
            ("baseline/naive.cu", include_bytes!("../../../tasks/softmax_rows/baseline/naive.cu")),
            (
                "baseline/naive.toml",
                include_bytes!("../../../tasks/softmax_rows/baseline/naive.toml"),
            ),
        ];
        let files = files.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
        let task = Task::from_files(&files.into());
        task.unwrap_or_else(|error| panic!("{error}")).signature()
    });
    SIGNATURE.clone()
}

/// A plan; what is one is resolved at shapes of every size.
pub(crate) fn plan(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let signature = signature();
    let Ok(plan) = Plan::parse(&text, &signature) else { return };
    for extent in EXTENTS {
        let dims = signature.dims.iter().map(|dim| (dim.clone(), extent)).collect();
        let scope = Scope::of_dims(&dims).with(&plan.default_tunables());
        let _ = plan.resolve(&scope.with_device(&DeviceFacts::simulated_h200()), &signature);
    }
}

/// An expression; its text reads as the same expression, and values are the same each time.
pub(crate) fn expression(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let names: BTreeSet<String> = NAMES.map(str::to_owned).into();
    let Ok(expression) = Expression::parse(&text, &names) else { return };
    let again = Expression::parse(expression.text(), &names);
    let again = again.unwrap_or_else(|error| panic!("{error}"));
    for (rows, cols) in EXTENTS.iter().flat_map(|rows| EXTENTS.map(|cols| (*rows, cols))) {
        let values = [rows, cols, 132].into_iter();
        let dims = NAMES.map(str::to_owned).into_iter().zip(values).collect();
        let scope = Scope::of_dims(&dims);
        assert_eq!(expression.integer(&scope).ok(), again.integer(&scope).ok());
        assert_eq!(expression.boolean(&scope).ok(), again.boolean(&scope).ok());
    }
}

/// The files of a task, one after the other, each behind a line with its name. What is a task has
/// sizes at its own cases.
pub(crate) fn files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix(FILE_MARK) {
            Some(next) => next.trim().clone_into(&mut name),
            None => files.entry(name.clone()).or_default().extend(line.as_bytes()),
        }
    }
    let Ok(task) = Task::from_files(&files) else { return };
    for case in &task.spec.cases {
        let _ = pipeline::hidden::tensor_bytes(&task.spec, &case.dims);
    }
}
