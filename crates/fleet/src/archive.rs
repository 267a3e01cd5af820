//! What travels: a job as a compressed archive, a result as JSON.
//!
//! `job.json` says what is asked and under which judge, device and compiler; beside it are the
//! candidate and, for a promote, the incumbent, what was built of them, and the files of the task.
//! Reading checks everything, sizes included: a folder can hold anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use judge::{Build, Job, JobStage, Judgement, RunSeed, judge_hash};
use pipeline::build::{BuildFacts, Diagnostic};
use pipeline::candidate::eval_key;
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::reply::candidate_of_parts;
use pipeline::report::Report;
use pipeline::scrub::Scrubber;
use pipeline::task::Task;
use pipeline::verdict::Verdict;
use serde::{Deserialize, Serialize};

use crate::files::{pack_files, read_files, take, take_text};
use crate::limits::JOB_BYTES_MAX;

/// Format version of jobs and results.
const VERSION: u32 = 3;
const MANIFEST: &str = "job.json";
const SOURCE: &str = "kernel.cu";
const PLAN: &str = "plan.toml";
const PTX: &str = "kernel.ptx";
const CUBIN: &str = "kernel.cubin";
const TASK: &str = "task/";
const INCUMBENT: &str = "incumbent/";

/// Under which judge, device and compiler a verdict is wanted: a worker refuses others than its
/// own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    pub judge_hash: String,
    pub toolchain_id: String,
    pub device: DeviceFacts,
    /// The level of confinement below which nothing is judged.
    pub required_confinement: u8,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    job: u32,
    conditions: Conditions,
    stage: AskedStage,
    candidate: Built,
    incumbent: Option<Built>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AskedStage {
    Search,
    Promote,
}

/// A built candidate, but for its files.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Built {
    id: String,
    eval_key: Digest,
    tunables: BTreeMap<String, i64>,
    /// 64 hexadecimal digits.
    seed: String,
    index: u64,
    build_id: Digest,
    facts: BuildFacts,
    diagnostics: Vec<Diagnostic>,
}

/// A judgement with what it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobResult {
    result: u32,
    /// The job that was answered.
    pub id: String,
    /// What the job is found by.
    pub key: Digest,
    pub judge_hash: String,
    pub verdict: Verdict,
    pub report: Report,
    pub repeatable: bool,
}

/// A worker's reason for giving no judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFailure {
    failure: u32,
    pub why: String,
}

impl JobResult {
    /// The result of `job`.
    #[must_use]
    pub fn of(job: &Job, judgement: &Judgement) -> Self {
        Self {
            result: VERSION,
            id: job.id.clone(),
            key: job.key(),
            judge_hash: judge_hash().to_string(),
            verdict: judgement.verdict.clone(),
            report: judgement.report.clone(),
            repeatable: judgement.repeatable,
        }
    }

    /// The same without what `scrubber` finds in it; `None` where it would be no result any more.
    #[must_use]
    pub fn scrubbed(&self, scrubber: &Scrubber) -> Option<Self> {
        scrubber.scrub_value(self)
    }

    /// Reads a result.
    ///
    /// # Errors
    /// Text that is no result of this version, in words.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let parsed: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_version(parsed.result)?;
        let fits = match parsed.verdict.reason {
            Some(reason) => reason.kinds().contains(&parsed.verdict.kind),
            None => parsed.verdict.is_correct(),
        };
        if fits { Ok(parsed) } else { Err(format!("{} is no verdict", parsed.verdict)) }
    }

    /// The judgement that travelled.
    #[must_use]
    pub fn judgement(self) -> Judgement {
        let Self { verdict, report, repeatable, .. } = self;
        Judgement { verdict, report, repeatable }
    }
}

impl JobFailure {
    /// A failure in words.
    #[must_use]
    pub fn new(why: String) -> Self {
        Self { failure: VERSION, why }
    }

    /// Reads a failure.
    ///
    /// # Errors
    /// Text that is no failure of this version, in words.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let parsed: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_version(parsed.failure)?;
        Ok(parsed)
    }
}

/// Packs a job.
///
/// # Errors
/// A build that has no facts, which nobody can run, or values that do not serialise, in words.
pub fn pack(job: &Job, conditions: &Conditions) -> Result<Vec<u8>, String> {
    let (stage, incumbent) = match &job.stage {
        JobStage::Search => (AskedStage::Search, None),
        JobStage::Promote { incumbent } => (AskedStage::Promote, incumbent.as_deref()),
    };
    let manifest = Manifest {
        job: VERSION,
        conditions: conditions.clone(),
        stage,
        candidate: Built::of(job)?,
        incumbent: incumbent.map(Built::of).transpose()?,
    };
    let manifest = serde_json::to_vec(&manifest).map_err(|error| error.to_string())?;
    let incumbent = incumbent.into_iter().flat_map(|job| files_of(INCUMBENT, job));
    let built = files_of("", job).into_iter().chain(incumbent);
    let task = job.task_files.iter().map(|(name, bytes)| (format!("{TASK}{name}"), &bytes[..]));
    pack_files([(MANIFEST.to_owned(), &manifest[..])].into_iter().chain(built).chain(task))
}

fn files_of<'a>(folder: &str, job: &'a Job) -> [(String, &'a [u8]); 4] {
    [
        (SOURCE, job.candidate.source.as_bytes()),
        (PLAN, job.candidate.plan_text.as_bytes()),
        (PTX, &job.build.ptx),
        (CUBIN, &job.build.cubin),
    ]
    .map(|(name, bytes)| (format!("{folder}{name}"), bytes))
}

/// Unpacks a job with the conditions that it was made for.
///
/// # Errors
/// Anything that is not exactly a job, in words.
pub fn unpack(bytes: &[u8]) -> Result<(Job, Conditions), String> {
    let mut files = read_files(bytes, JOB_BYTES_MAX)?;
    let mut task_files = BTreeMap::new();
    for name in files.keys().cloned().collect::<Vec<_>>() {
        if let Some(inside) = name.strip_prefix(TASK) {
            task_files.insert(inside.to_owned(), files.remove(&name).unwrap_or_default());
        }
    }
    let manifest = take(&mut files, MANIFEST)?;
    let manifest: Manifest =
        serde_json::from_slice(&manifest).map_err(|error| format!("{MANIFEST}: {error}"))?;
    check_version(manifest.job)?;
    let task = Task::from_files(&task_files).map_err(|error| error.to_string())?;
    let task = (Arc::new(task), Arc::new(task_files));
    let conditions = manifest.conditions;
    let mut job = |folder, built: Built| built.job(folder, &mut files, &task, &conditions);
    let incumbent = manifest.incumbent.map(|built| job(INCUMBENT, built)).transpose()?;
    let mut job = job("", manifest.candidate)?;
    job.stage = match (manifest.stage, incumbent) {
        (AskedStage::Search, None) => JobStage::Search,
        (AskedStage::Search, Some(_)) => return Err("a search has no incumbent".to_owned()),
        (AskedStage::Promote, incumbent) => {
            JobStage::Promote { incumbent: incumbent.map(Box::new) }
        }
    };
    match files.keys().next() {
        Some(stranger) => Err(format!("`{stranger}` does not belong into a job")),
        None => Ok((job, conditions)),
    }
}

/// A task and the files that it was read from.
type TaskAndFiles = (Arc<Task>, Arc<BTreeMap<String, Vec<u8>>>);

impl Built {
    fn of(job: &Job) -> Result<Self, String> {
        Ok(Self {
            id: job.id.clone(),
            eval_key: job.eval_key.clone(),
            tunables: job.tunables.clone(),
            seed: job.seed.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            index: job.index,
            build_id: job.build.id.clone(),
            facts: job.build.facts.clone().ok_or("its build has no facts")?,
            diagnostics: job.build.diagnostics.clone(),
        })
    }

    /// The job of the search stage that this and the files in `folder` are.
    fn job(
        self,
        folder: &str,
        files: &mut BTreeMap<String, Vec<u8>>,
        (task, task_files): &TaskAndFiles,
        conditions: &Conditions,
    ) -> Result<Job, String> {
        let source = take_text(files, &format!("{folder}{SOURCE}"))?;
        let plan = take_text(files, &format!("{folder}{PLAN}"))?;
        let candidate = candidate_of_parts(&source, &plan, &task.signature())
            .map_err(|malformed| malformed.to_string())?;
        let build = Build {
            id: self.build_id,
            facts: Some(self.facts),
            diagnostics: self.diagnostics,
            log: String::new(),
            ptx: take(files, &format!("{folder}{PTX}"))?,
            cubin: take(files, &format!("{folder}{CUBIN}"))?,
            verdict: None,
            held: None,
        };
        let job = Job {
            id: self.id,
            stage: JobStage::Search,
            eval_key: self.eval_key,
            task: Arc::clone(task),
            task_files: Arc::clone(task_files),
            candidate,
            tunables: self.tunables,
            build,
            seed: seed(&self.seed)?,
            index: self.index,
        };
        check_key(&job, conditions)?;
        Ok(job)
    }
}

/// A key that is not the job's own would answer other jobs with this one's verdict.
fn check_key(job: &Job, conditions: &Conditions) -> Result<(), String> {
    let ptx_hash = job.build.facts.as_ref().map_or("", |facts| facts.ptx_hash.as_str());
    let key = eval_key(
        ptx_hash,
        &job.candidate.plan.verdict_hash(&job.tunables),
        &job.task.hash,
        &conditions.device.model,
        &conditions.judge_hash,
    );
    if key == job.eval_key {
        return Ok(());
    }
    Err("its key is not the one of what it holds".to_owned())
}

/// Reads 64 hexadecimal digits.
pub(crate) fn seed(text: &str) -> Result<RunSeed, String> {
    let mut seed = [0; 32];
    let pairs = text.len() == 64 && text.is_ascii();
    for (index, byte) in seed.iter_mut().enumerate() {
        let pair = text.get(2 * index..2 * index + 2).filter(|_| pairs);
        let value = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        *byte = value.ok_or("its seed is not 64 hexadecimal digits")?;
    }
    Ok(RunSeed(seed))
}

fn check_version(found: u32) -> Result<(), String> {
    if found == VERSION {
        return Ok(());
    }
    Err(format!("it has format {found}; this program reads {VERSION}"))
}
