//! `run.toml`: one run to review, commit and start, with its operators and caps.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::limits::SETTINGS_BYTES_MAX;
use crate::outcome::bad_input;
use crate::settings::file::{BudgetSection, OneOrMany, SearchSection, in_words};
use crate::wiring::read_text;

/// A `run.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFile {
    /// Format version.
    run: u32,
    pub(crate) models: Option<OneOrMany>,
    pub(crate) until: Option<String>,
    pub(crate) prompts: Option<PathBuf>,
    pub(crate) evaluator: Option<String>,
    pub(crate) notify: Option<String>,
    #[serde(default)]
    pub(crate) budget: BudgetSection,
    #[serde(default)]
    pub(crate) search: SearchSection,
    #[serde(rename = "operator")]
    pub(crate) operators: Vec<OperatorSection>,
}

/// `[[operator]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperatorSection {
    /// A built-in task's name, or a task folder.
    pub(crate) task: String,
    pub(crate) weight: Option<f64>,
    /// How often the program calls it, for `survey`, which makes a weight of it.
    pub(crate) calls: Option<f64>,
    pub(crate) classes: Option<Vec<String>>,
    pub(crate) target: Option<f64>,
    pub(crate) attempts: Option<u32>,
    /// Of the run's, before others may use them.
    pub(crate) dollars: Option<f64>,
}

impl RunFile {
    /// Reads a file; paths in it are relative to its folder.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let failed = |why: String| bad_input(format!("{}: {why}", path.display()));
        let text = read_text(path, SETTINGS_BYTES_MAX)?;
        let mut file: Self = toml::from_str(&text).map_err(|error| failed(in_words(&error)))?;
        if file.run != 1 {
            return Err(failed(format!("run = {}: this program reads run = 1", file.run)));
        }
        if file.operators.is_empty() {
            return Err(failed("no [[operator]]: name at least one task".to_owned()));
        }
        let folder = std::path::absolute(path)?;
        let folder = folder.parent().unwrap_or(Path::new("/"));
        file.prompts = file.prompts.map(|prompts| folder.join(prompts));
        for operator in &mut file.operators {
            let beside = folder.join(&operator.task);
            if beside.join("task.toml").is_file() {
                operator.task = beside.to_string_lossy().into_owned();
            }
        }
        Ok(file)
    }
}
