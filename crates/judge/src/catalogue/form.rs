//! From files to a catalogue: what each may hold, and what they must be together.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::defence::Defence;
use pipeline::task::Task;
use pipeline::task::spec::Place;
use pipeline::verdict::Reason;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Catalogue, CatalogueError, Code, Constructed, Entry, KnownGap, Stage};

/// Text before the source of every entry.
const PRELUDE: &str = "prelude.cuh";
/// The ids that must be covered.
const MANIFEST: &str = "manifest.toml";
/// The ids without a kernel.
const CONSTRUCTED: &str = "constructed.toml";

/// The `[entry]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    id: String,
    title: String,
    task: String,
    expect: Vec<Code>,
    stage: Stage,
    on: Vec<Place>,
    #[serde(default)]
    cut_set: Vec<Defence>,
    #[serde(default)]
    cut_set_gpu: Vec<Defence>,
    uncut: Option<String>,
    plain: Option<String>,
    #[serde(default)]
    slow: bool,
    known_gap: Option<KnownGap>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstructedRows {
    constructed: Vec<Constructed>,
}

type Files = BTreeMap<String, Vec<u8>>;

impl Catalogue {
    /// Reads a catalogue: file name → bytes, and task name → files of the task.
    ///
    /// # Errors
    /// The first file that is missing, unknown or not what it must be.
    pub fn from_files(
        files: &Files,
        tasks: &BTreeMap<String, Files>,
    ) -> Result<Self, CatalogueError> {
        let prelude = text(files, PRELUDE)?;
        let manifest: Manifest = parsed(files, MANIFEST)?;
        let rows: ConstructedRows = parsed(files, CONSTRUCTED)?;
        let tasks: BTreeMap<String, Task> = tasks
            .iter()
            .map(|(name, files)| {
                let failed = |why| CatalogueError::Task { name: name.clone(), why: Box::new(why) };
                Ok((name.clone(), Task::from_files(files).map_err(failed)?))
            })
            .collect::<Result<_, CatalogueError>>()?;
        let mut entries = Vec::new();
        for file in files.keys() {
            if let Some(name) = file.strip_suffix(".cu") {
                entries.push(entry(files, name, prelude)?);
            } else if !is_known(files, file) {
                return Err(CatalogueError::UnknownFile(file.clone()));
            }
        }
        let catalogue = Self { ids: manifest.ids, entries, constructed: rows.constructed, tasks };
        catalogue.check()?;
        Ok(catalogue)
    }

    fn check(&self) -> Result<(), CatalogueError> {
        let names: BTreeSet<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        for entry in &self.entries {
            let failed =
                |why: String| CatalogueError::File { file: format!("{}.toml", entry.name), why };
            if !self.tasks.contains_key(&entry.task) {
                return Err(failed(format!("there is no victim task `{}`", entry.task)));
            }
            if let Some(plain) = entry.plain.as_deref().filter(|plain| !names.contains(plain)) {
                return Err(failed(format!("there is no entry `{plain}` to compare it with")));
            }
            if entry.expect.is_empty() || entry.on.is_empty() {
                return Err(failed("`expect` and `on` must name something".to_owned()));
            }
            let has_set = !entry.cut_set.is_empty() || !entry.cut_set_gpu.is_empty();
            let cuts = usize::from(has_set) + usize::from(entry.uncut.is_some());
            if cuts != usize::from(!entry.is_honest()) {
                let why =
                    "a cheat has a cut set or says why there is none, an honest kernel neither";
                return Err(failed(why.to_owned()));
            }
            if entry.expect.contains(&Code::NoGain) && entry.plain.is_none() {
                return Err(failed("`NOGAIN` needs `plain`".to_owned()));
            }
        }
        Ok(())
    }
}

/// True for a plan beside its source, and for the files that are no entries.
fn is_known(files: &Files, file: &str) -> bool {
    let beside = file.strip_suffix(".toml").map(|name| format!("{name}.cu"));
    [PRELUDE, MANIFEST, CONSTRUCTED].contains(&file)
        || beside.is_some_and(|source| files.contains_key(&source))
}

fn entry(files: &Files, name: &str, prelude: &str) -> Result<Entry, CatalogueError> {
    let file = format!("{name}.toml");
    let mut table: toml::Table = parsed(files, &file)?;
    let failed = |why: String| CatalogueError::File { file: file.clone(), why };
    let form = table.remove("entry").ok_or_else(|| failed("has no [entry] table".to_owned()))?;
    let form = Form::deserialize(form).map_err(|error| failed(error.to_string()))?;
    let source = text(files, &format!("{name}.cu"))?;
    Ok(Entry {
        name: name.to_owned(),
        id: form.id,
        title: form.title,
        task: form.task,
        expect: form.expect,
        stage: form.stage,
        on: form.on,
        cut_set: form.cut_set,
        cut_set_gpu: form.cut_set_gpu,
        uncut: form.uncut,
        plain: form.plain,
        slow: form.slow,
        known_gap: form.known_gap,
        source: format!("{prelude}\n{source}"),
        plan: toml::to_string(&table).map_err(|error| failed(error.to_string()))?,
    })
}

fn text<'a>(files: &'a Files, name: &str) -> Result<&'a str, CatalogueError> {
    let bytes = files.get(name).ok_or_else(|| CatalogueError::MissingFile(name.to_owned()))?;
    std::str::from_utf8(bytes)
        .map_err(|error| CatalogueError::File { file: name.to_owned(), why: error.to_string() })
}

fn parsed<T: DeserializeOwned>(files: &Files, name: &str) -> Result<T, CatalogueError> {
    toml::from_str(text(files, name)?)
        .map_err(|error| CatalogueError::File { file: name.to_owned(), why: error.to_string() })
}

impl TryFrom<String> for Code {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "PASS" => Ok(Self::Pass),
            "NOGAIN" => Ok(Self::NoGain),
            "AUDIT" => Ok(Self::Audit),
            code => Reason::from_code(code)
                .map(Self::Reason)
                .ok_or_else(|| format!("unknown code `{code}`")),
        }
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.name().to_owned()
    }
}

impl TryFrom<String> for KnownGap {
    type Error = String;

    /// Reads `CODE: why`.
    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once(": ");
        let (code, why) = parts.ok_or("a known gap is `CODE: why`")?;
        Ok(Self { ends: code.to_owned().try_into()?, why: why.to_owned() })
    }
}
