//! The survey as `run.toml`, which `run` takes as it is: what is worth spending on as operators,
//! the rest as comments with the reason.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pipeline::survey::{Advice, Survey};

use crate::cli::SurveyArgs;
use crate::commands::status::dollars;
use crate::outcome::bad_input;
use crate::settings::run_file::RunFile;
use crate::survey::Operator;
use crate::survey::list::List;
use crate::survey::look::weight_in_words;
use crate::terminal;

/// Refuses a file that is there, before anything is measured for it.
pub(crate) fn refuse_existing(args: &SurveyArgs) -> anyhow::Result<()> {
    if args.force || !args.output.exists() {
        return Ok(());
    }
    Err(exists(&args.output))
}

fn exists(path: &Path) -> anyhow::Error {
    bad_input(format!(
        "{} is there already: name another with --output FILE, or overwrite it with --force",
        path.display()
    ))
}

/// Writes the text; a file that appeared meanwhile stays, unless it may be overwritten.
pub(crate) fn write(args: &SurveyArgs, text: &str) -> anyhow::Result<()> {
    let path = &args.output;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    let options = match args.force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(path)),
        Err(error) => return Err(bad_input(format!("{}: {error}", path.display()))),
    };
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}

/// The file's text, for a file at `args.output`.
///
/// # Errors
/// A text that `run` would not take: our own error.
pub(crate) fn text(
    args: &SurveyArgs,
    list: &List,
    operators: &[Operator<'_>],
    survey: &Survey,
    measured_by: &str,
) -> anyhow::Result<String> {
    let mut lines = vec![
        "# Written by `warpwright survey`; `warpwright run` takes it as it is.".to_owned(),
        comment(measured_by),
    ];
    if let Some(gain) = survey.gain_of_whole {
        lines.push(format!(
            "# Together at most {gain:.3} times as fast, if each operator below reaches its \
             roofline."
        ));
    }
    lines.push("run = 1".to_owned());
    lines.extend(head(args, &list.file)?);
    lines.push("\n[budget]".to_owned());
    lines.extend(budget(args, &list.file, operators)?);
    let folder = std::path::absolute(&args.output)?;
    let folder = folder.parent().unwrap_or(Path::new("/"));
    for operator in operators {
        lines.push(String::new());
        lines.extend(section(operator, folder)?);
    }
    let text = lines.join("\n") + "\n";
    toml::from_str::<RunFile>(&text)
        .map(|_| text)
        .context("the run file that was made does not read")
}

/// What the run file or the flags say of the run besides operators and limits.
fn head(args: &SurveyArgs, file: &RunFile) -> anyhow::Result<Vec<String>> {
    let of_file = file.models.as_ref().map(|models| models.names()).unwrap_or_default();
    let models = if args.models.is_empty() { of_file } else { args.models.clone() };
    let mut lines = Vec::new();
    match models.is_empty() {
        true => lines.push(
            "# models = [\"NAME\"]   # none was named: default_model of warpwright.toml".to_owned(),
        ),
        false => {
            let names: Vec<String> = models.iter().map(|name| quoted(name)).collect();
            lines.push(format!("models = [{}]", names.join(", ")));
        }
    }
    if let Some(until) = args.budget.until.as_ref().or(file.until.as_ref()) {
        lines.push(format!("until = {}", quoted(until)));
    }
    if let Some(prompts) = &file.prompts {
        let prompts = std::path::absolute(prompts)?;
        lines.push(format!("prompts = {}", quoted(&prompts.to_string_lossy())));
    }
    if let Some(evaluator) = &file.evaluator {
        lines.push(format!("evaluator = {}", quoted(evaluator)));
    }
    Ok(lines)
}

fn budget(
    args: &SurveyArgs,
    file: &RunFile,
    operators: &[Operator<'_>],
) -> anyhow::Result<Vec<String>> {
    let attempts: u64 = operators.iter().map(|it| it.row.allotment.attempts).sum();
    let mut lines = vec![format!("attempts = {attempts}")];
    if let Some(tokens) = args.budget.tokens.or(file.budget.tokens) {
        lines.push(format!("tokens = {tokens}"));
    }
    let float = |name: &str, value: f64| format!("{name} = {}", toml::Value::Float(value));
    lines.extend(args.budget.dollars.or(file.budget.dollars).map(|it| float("dollars", it)));
    lines.extend(args.budget.hours.or(file.budget.hours).map(|it| float("hours", it)));
    let gpu_seconds = args.budget.gpu_seconds.or(file.budget.gpu_seconds);
    lines.extend(gpu_seconds.map(|it| format!("gpu_seconds = {it}")));
    Ok(lines)
}

fn section(operator: &Operator<'_>, folder: &Path) -> anyhow::Result<Vec<String>> {
    let section = &operator.listed.section;
    let row = operator.row;
    let ns = row.strongest.as_ref().map(|(_, ns)| *ns);
    let mut fields = vec![format!("task = {}", quoted(&task_path(&section.task, folder)?))];
    match weight_in_words(operator.listed.weight, ns) {
        Some((weight, why)) => {
            let why = if why.is_empty() { why } else { format!("   # {why}") };
            fields.push(format!("weight = {}{why}", toml::Value::Float(weight)));
        }
        None => fields.push(comment("no weight: its calls could not be timed here")),
    }
    if let Some(classes) = &section.classes {
        let classes: Vec<String> = classes.iter().map(|class| quoted(class)).collect();
        fields.push(format!("classes = [{}]", classes.join(", ")));
    }
    fields.extend(section.target.map(|it| format!("target = {}", toml::Value::Float(it))));
    let mut lines = remarks(operator);
    match row.advice {
        Advice::Spend => {
            lines.push("[[operator]]".to_owned());
            lines.extend(fields);
            lines.push(format!("attempts = {}", row.allotment.attempts));
            lines.extend(operator.nusd().map(|it| format!("dollars = {}", dollars(it))));
        }
        Advice::Skip(_) | Advice::Fix(_) => {
            lines.push("# [[operator]]".to_owned());
            lines.extend(fields.iter().map(|field| format!("# {field}")));
        }
    }
    Ok(lines)
}

/// What was found, as comments above the operator.
fn remarks(operator: &Operator<'_>) -> Vec<String> {
    let row = operator.row;
    let mut lines = Vec::new();
    let (advice, name) = (row.advice.name(), operator.listed.name());
    match row.advice.reason() {
        Some(why) => lines.push(comment(&format!("{advice} {name}: {why}"))),
        None => lines.push(comment(&format!("{advice}: {name}"))),
    }
    if let (Some((baseline, ns)), Some(distance)) = (&row.strongest, row.distance) {
        let us = pipeline::report::microseconds(*ns);
        lines.push(comment(&format!("{baseline}: {us} µs, {distance:.2} times the floor")));
    }
    lines
}

/// One line that stays a comment, whatever the text.
fn comment(text: &str) -> String {
    let flat = terminal::plain(text).replace(['\n', '\t'], " ");
    format!("# {}", flat.trim_end())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A folder as it is found from the file's own folder; a built-in task's name as it is.
fn task_path(task: &str, folder: &Path) -> anyhow::Result<String> {
    if !Path::new(task).join("task.toml").is_file() {
        return Ok(task.to_owned());
    }
    let path = std::path::absolute(task)?;
    let path = path.strip_prefix(folder).map_or_else(|_| path.clone(), PathBuf::from);
    Ok(path.to_string_lossy().into_owned())
}
