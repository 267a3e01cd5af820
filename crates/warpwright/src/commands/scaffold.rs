//! `task new`: a task folder that works, to be changed piece by piece.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pipeline::task::spec::check_task_name;

use crate::cli::TaskNewArgs;
use crate::outcome::{Outcome, bad_input};
use crate::{embedded, environment, terminal, wiring};

/// Writes the folder and says what to do with it.
pub(crate) fn make(args: &TaskNewArgs) -> anyhow::Result<Outcome> {
    check_task_name(&args.name).map_err(bad_input)?;
    if embedded::task(&args.name).is_some() {
        return Err(bad_input(format!(
            "`{0}` is a built-in task: a second one of that name would stand beside it in the \
             ledger, and `{0}@best` would mean either; name yours otherwise",
            args.name
        )));
    }
    let like = args.like.as_str();
    let files = embedded::example(like).or_else(|| embedded::task(like)).ok_or_else(|| {
        bad_input(format!(
            "`--like {like}`: there are {}, and the tasks {}",
            embedded::example_names().join(", "),
            embedded::task_names().join(", ")
        ))
    })?;
    let files = renamed(files, &args.name);
    wiring::parse_task(files.clone())?;
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    make_folder(&folder)?;
    for (name, content) in &files {
        write(&folder.join(name), content)?;
    }
    print_next_steps(&folder, like);
    Ok(Outcome::done().with("folder", folder.display().to_string()))
}

/// The files with the name of the new task in task.toml.
fn renamed(mut files: BTreeMap<String, Vec<u8>>, name: &str) -> BTreeMap<String, Vec<u8>> {
    if let Some(content) = files.get_mut("task.toml") {
        let text = String::from_utf8_lossy(content).into_owned();
        let mut done = false;
        let lines = text.lines().map(|line| {
            let first = !done && line.starts_with("name = ");
            done |= first;
            if first { format!("name = \"{name}\"\n") } else { format!("{line}\n") }
        });
        *content = lines.collect::<String>().into_bytes();
    }
    files
}

/// Makes the folder; one that holds anything is left alone.
fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let failed = |error: std::io::Error| bad_input(format!("{}: {error}", folder.display()));
    let taken = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => folder.symlink_metadata().is_ok(),
    };
    if taken {
        return Err(bad_input(format!(
            "{} exists and is not an empty folder; name another with --dir, or remove it",
            folder.display()
        )));
    }
    std::fs::create_dir_all(folder).map_err(failed)
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let failed = |error: std::io::Error| bad_input(format!("{}: {error}", path.display()));
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    std::fs::write(path, content).map_err(failed)
}

fn print_next_steps(folder: &Path, like: &str) {
    let (program, folder) = (environment::program_name(), folder.display());
    let marked = if embedded::example_names().iter().any(|name| name == like) {
        "its comments say what to replace"
    } else {
        "change it piece by piece"
    };
    terminal::line(&format!(
        "Made {folder}, a task like {like} that works as it stands; {marked}."
    ));
    terminal::line("\nNext:");
    for (command, what) in [
        (format!("edit {folder}/task.toml"), "inputs, outputs, shapes, roofline"),
        (format!("edit {folder}/reference.cu"), "the formula and its error bound, in fp64"),
        (format!("edit {folder}/golden.py"), "the same formula, independently"),
        (format!("edit {folder}/wrong/"), "kernels that must be rejected, and why"),
        (format!("python3 {folder}/golden.py > {folder}/golden.json"), ""),
        (format!("{program} task check {folder}"), "the task proves itself"),
        (format!("{program} run {folder} --model NAME"), "let a model write kernels"),
        (format!("write {folder}/reference.py"), "the operator in PyTorch, for a claim"),
        (format!("{program} accept @last"), "a claim, on a GPU, against it or a [[baseline]]"),
    ] {
        terminal::line(format!("  {command:<48} {what}").trim_end());
    }
}
