//! The operators of a survey: names, folders, or a run file, each with its task or why it has none.

use pipeline::survey::Weight;

use crate::outcome::bad_input;
use crate::settings::run_file::{OperatorSection, RunFile};
use crate::settings::{self, OperatorSetting};
use crate::wiring::{LoadedTask, load_task};

/// What is surveyed.
pub(crate) struct List {
    /// What the run file says besides; nothing where there is none.
    pub(crate) file: RunFile,
    pub(crate) operators: Vec<Listed>,
    /// True where somebody said how much an operator matters.
    pub(crate) weighted: bool,
}

/// One operator of the list.
pub(crate) struct Listed {
    pub(crate) section: OperatorSection,
    pub(crate) weight: Weight,
    /// Its task and what the run would make of it; or why it is none.
    pub(crate) loaded: Result<(LoadedTask, OperatorSetting), String>,
}

impl Listed {
    /// The task's name, or what was written for it.
    pub(crate) fn name(&self) -> &str {
        match &self.loaded {
            Ok((loaded, _)) => &loaded.task.spec.name,
            Err(_) => &self.section.task,
        }
    }
}

/// Reads the list. A task that does not read is to be mended; where none does, the list is wrong.
///
/// # Errors
/// A run file that does not read, an operator that is not well formed, no task that reads.
pub(crate) fn read(names: &[String]) -> anyhow::Result<List> {
    let (file, sections) = settings::operator_sections(names)?;
    let calls = sections.iter().filter(|section| section.calls.is_some()).count();
    if calls > 0 && calls < sections.len() {
        return Err(bad_input(
            "some operators have `calls` and others have not: shares of time need it of all, or of \
             none",
        ));
    }
    let weighted = sections.iter().any(|it| it.weight.is_some() || it.calls.is_some());
    let mut operators: Vec<Listed> = Vec::new();
    for section in sections {
        let weight = weight(&section)?;
        let loaded = match load_task(&section.task) {
            Ok(loaded) => {
                let setting = settings::operator(&section, &loaded)?;
                unrepeated(&operators, loaded).map(|loaded| (loaded, setting))
            }
            Err(error) => Err(format!("{error:#}")),
        };
        operators.push(Listed { section, weight, loaded });
    }
    let first = operators.iter().find_map(|it| it.loaded.as_ref().err());
    match first {
        Some(why) if operators.iter().all(|it| it.loaded.is_err()) => Err(bad_input(why)),
        Some(_) | None => Ok(List { file, operators, weighted }),
    }
}

/// A task, unless one before it has its name, which a run refuses.
fn unrepeated(before: &[Listed], loaded: LoadedTask) -> Result<LoadedTask, String> {
    let name = &loaded.task.spec.name;
    let same = |it: &Listed| matches!(&it.loaded, Ok((other, _)) if other.task.spec.name == *name);
    if before.iter().any(same) {
        return Err(format!("the task `{name}` is listed before"));
    }
    Ok(loaded)
}

fn weight(section: &OperatorSection) -> anyhow::Result<Weight> {
    let wrong = |what| {
        let task = &section.task;
        Err(bad_input(format!("operator `{task}`: `{what}` is a number above 0")))
    };
    let positive = |value: f64| value > 0.0 && value.is_finite();
    match (section.weight, section.calls) {
        (Some(_), Some(_)) => Err(bad_input(format!(
            "operator `{}`: `weight` and `calls` say the same; leave one out",
            section.task
        ))),
        (Some(weight), None) if positive(weight) => Ok(Weight::Share(weight)),
        (None, Some(calls)) if positive(calls) => Ok(Weight::Calls(calls)),
        (Some(_), None) => wrong("weight"),
        (None, Some(_)) => wrong("calls"),
        (None, None) => Ok(Weight::Share(1.0)),
    }
}
