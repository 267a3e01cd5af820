//! A claim with everything that a stranger needs to get it too.
//!
//! `manifest.json` says what is claimed, of what and under which conditions; beside it are the
//! entries of the acceptance, the kernel, its plan and the files of its task. [`Bundle::check`]
//! holds all of it against itself and names what was changed; only measuring again shows more.

use std::collections::BTreeMap;

use judge::{RunSeed, input_digest};
use pipeline::acceptance::{
    Claim, Conclusion, Entry, Protocol, Step, conclude, next_step, reviewed,
};
use pipeline::candidate::{Candidate, eval_key};
use pipeline::digest::Digest;
use pipeline::inputs::Distribution;
use pipeline::limits::{ROUNDS_MAX, ROUNDS_MIN};
use pipeline::reply::candidate_of_parts;
use pipeline::scrub::{Found, Scrubber};
use pipeline::task::Task;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::archive::seed;
use crate::files::{CUT_SHORT, pack_files, read_files, take, take_text};
use crate::limits::{BUNDLE_BYTES_MAX, BUNDLE_ENTRIES_MAX, BUNDLE_LIST_MAX, BUNDLE_POSITIONS_MAX};

/// Format version.
const VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";
const ENTRIES: &str = "entries.json";
const SOURCE: &str = "kernel.cu";
const PLAN: &str = "plan.toml";
const DIGEST: &str = "digest";
const TASK: &str = "task/";
/// Relative difference of two numbers that are the same but for another machine's last digits.
const ALIKE: f64 = 1e-9;

/// What is claimed, of what and under which conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Format version.
    pub bundle: u32,
    /// Id of the claim in the ledger that made it.
    pub claim_id: String,
    /// Version of the program that made it.
    pub program: String,
    pub task: String,
    pub claim: Claim,
    pub conclusion: Conclusion,
    /// What a person wrote who let it pass; `None` where nobody had to.
    pub review_note: Option<String>,
    pub protocol: Protocol,
    /// The acceptance's seed, 64 hexadecimal digits.
    pub seed: String,
    /// What is drawn from it for the public cases.
    pub inputs: Vec<InputDigest>,
    pub tunables: BTreeMap<String, i64>,
    pub hashes: Hashes,
    pub device_model: String,
    /// UUID and driver of each card that was used.
    pub cards: Vec<Card>,
    /// Process tree and start of the acceptance, µs UTC.
    pub process: String,
    pub started_us: i64,
    /// Head of the run's chain of events just before the claim.
    pub chain_head: Digest,
}

/// A card that windows were measured on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub uuid: String,
    pub driver: String,
}

/// Identities of what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hashes {
    pub source: Digest,
    pub plan: Digest,
    pub candidate: Digest,
    /// Of the normalised PTX.
    pub ptx: String,
    pub cubin: String,
    pub task: Digest,
    pub judge: String,
    pub toolchain_id: String,
    pub eval_key: Digest,
}

/// The inputs of one public case under one distribution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputDigest {
    pub case: String,
    pub distribution: Distribution,
    pub digest: Digest,
}

/// A bundle as it was read or is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    pub manifest: Manifest,
    pub entries: Vec<Entry>,
    pub source: String,
    pub plan: String,
    pub task_files: BTreeMap<String, Vec<u8>>,
    /// Over everything in it.
    pub digest: Digest,
}

/// What a bundle holds, held against itself.
#[derive(Clone, Debug)]
pub struct Checked {
    pub task: Task,
    pub candidate: Candidate,
}

/// Digests of the inputs that a seed gives for the public cases.
///
/// # Errors
/// A case without a size, in words.
pub fn expected_inputs(task: &Task, seed: &RunSeed) -> Result<Vec<InputDigest>, String> {
    let mut inputs = Vec::new();
    for case in &task.spec.cases {
        for distribution in Distribution::search_pair(&task.spec.family) {
            let master = seed.master(&case.name, 0);
            let digest = input_digest(task, &case.dims, distribution, &master)?;
            inputs.push(InputDigest { case: case.name.clone(), distribution, digest });
        }
    }
    Ok(inputs)
}

impl Manifest {
    /// The format that this program writes.
    pub const VERSION: u32 = VERSION;
}

impl Bundle {
    /// Packs it, with its digest; nothing is left out of what was measured, so what `scrubber`
    /// finds in it is refused.
    ///
    /// # Errors
    /// Values that do not serialise, and anything private in it, in words.
    pub fn pack(&self, scrubber: &Scrubber) -> Result<Vec<u8>, String> {
        let mut files = self.files()?;
        for (name, bytes) in &files {
            refuse_private(scrubber, name, bytes)?;
        }
        let digest = digest_of(&files);
        files.insert(DIGEST.to_owned(), digest.as_str().as_bytes().to_vec());
        pack_files(files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())))
    }

    /// Everything but the digest, by name.
    fn files(&self) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let json = |value: Result<Vec<u8>, serde_json::Error>| value.map_err(|e| e.to_string());
        let mut files = BTreeMap::from([
            (MANIFEST.to_owned(), json(serde_json::to_vec_pretty(&self.manifest))?),
            (ENTRIES.to_owned(), json(serde_json::to_vec(&self.entries))?),
            (SOURCE.to_owned(), self.source.clone().into_bytes()),
            (PLAN.to_owned(), self.plan.clone().into_bytes()),
        ]);
        let task = self.task_files.iter();
        files.extend(task.map(|(name, bytes)| (format!("{TASK}{name}"), bytes.clone())));
        Ok(files)
    }

    /// Unpacks a bundle, without holding it against itself.
    ///
    /// # Errors
    /// Anything that is not exactly a bundle of this version, in words.
    pub fn unpack(bytes: &[u8]) -> Result<(Self, Digest), String> {
        let mut files = read_files(bytes, BUNDLE_BYTES_MAX).map_err(no_bundle)?;
        let stated = Digest::from(take_text(&mut files, DIGEST).map_err(no_bundle)?);
        let digest = digest_of(&files);
        let manifest = take(&mut files, MANIFEST).map_err(no_bundle)?;
        check_version(&manifest)?;
        let manifest =
            serde_json::from_slice(&manifest).map_err(|error| foreign(MANIFEST, &error))?;
        let entries = take(&mut files, ENTRIES)?;
        let entries = serde_json::from_slice(&entries).map_err(|error| foreign(ENTRIES, &error))?;
        let source = take_text(&mut files, SOURCE)?;
        let plan = take_text(&mut files, PLAN)?;
        let mut task_files = BTreeMap::new();
        for (name, content) in files {
            let inside = name.strip_prefix(TASK);
            let inside = inside.ok_or_else(|| format!("`{name}` does not belong into a bundle"))?;
            task_files.insert(inside.to_owned(), content);
        }
        Ok((Self { manifest, entries, source, plan, task_files, digest }, stated))
    }

    /// Reads a bundle and holds it against itself.
    ///
    /// # Errors
    /// Names what was changed.
    pub fn read(bytes: &[u8]) -> Result<(Self, Checked), String> {
        let (bundle, stated) = Self::unpack(bytes)?;
        let checked = bundle.check()?;
        if stated != bundle.digest {
            return Err("something in it was changed: its digest is another one".to_owned());
        }
        Ok((bundle, checked))
    }

    /// Holds everything in it against everything else.
    ///
    /// # Errors
    /// Names what was changed.
    pub fn check(&self) -> Result<Checked, String> {
        let (manifest, hashes) = (&self.manifest, &self.manifest.hashes);
        let changed = |what: &str, why: &str| Err(format!("the {what} was changed: {why}"));
        check_sizes(&manifest.protocol, &self.entries)?;
        let task = Task::from_files(&self.task_files).map_err(|error| error.to_string())?;
        if task.hash != hashes.task || task.spec.name != manifest.task {
            return changed("task", "its files do not have the hash of the claim's task");
        }
        if Digest::of_bytes(self.source.as_bytes()) != hashes.source {
            return changed("source", "it does not have the hash in the manifest");
        }
        if Digest::of_bytes(self.plan.as_bytes()) != hashes.plan {
            return changed("plan", "it does not have the hash in the manifest");
        }
        let candidate = candidate_of_parts(&self.source, &self.plan, &task.signature())
            .map_err(|malformed| malformed.to_string())?;
        if candidate.id() != hashes.candidate {
            return changed("source or plan", "together they are another candidate");
        }
        let verdict_hash = candidate.plan.verdict_hash(&manifest.tunables);
        let device = &manifest.device_model;
        let key = eval_key(&hashes.ptx, &verdict_hash, &hashes.task, device, &hashes.judge);
        if key != hashes.eval_key {
            return changed("program", "PTX, launch, task, GPU and judge are not those measured");
        }
        let seed = seed(&manifest.seed)?;
        if expected_inputs(&task, &seed)? != manifest.inputs {
            return changed("seed", "it gives other inputs than the ones in the manifest");
        }
        self.check_claim()?;
        Ok(Checked { task, candidate })
    }

    /// The claim must follow from the entries.
    fn check_claim(&self) -> Result<(), String> {
        let Manifest { protocol, claim, conclusion, review_note, .. } = &self.manifest;
        if next_step(protocol, &self.entries) != Step::Done {
            return Err("entries were taken out: the acceptance is not complete".to_owned());
        }
        let found = conclude(protocol, &self.entries);
        if !alike(&as_value(&found)?, &as_value(conclusion)?) {
            return Err(
                "a time was changed: the conclusion does not follow from the entries".into()
            );
        }
        let follows = match review_note {
            Some(note) => reviewed(protocol, &self.entries, note),
            None => found.claim,
        };
        let Some(follows) = follows else {
            return Err("the claim was changed: its entries make none".to_owned());
        };
        if alike(&as_value(&follows)?, &as_value(claim)?) {
            return Ok(());
        }
        Err("the claim was changed: it does not follow from the entries".to_owned())
    }
}

/// A claim goes out as it was measured, so nothing is taken out of a file.
fn refuse_private(scrubber: &Scrubber, name: &str, bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let is_json = name.ends_with(".json");
    let found = if is_json { scrubber.find_json(&text) } else { scrubber.find(&text) };
    let (what, place) = match (found, scrubber.find(name)) {
        (Some(Found { what, line }), None) => (what, format!("`{name}` in line {line}")),
        (_, Some(Found { what, .. })) => (what, "the name of a file of its task".to_owned()),
        (None, None) => return Ok(()),
    };
    let way_out = match name {
        SOURCE => "take it out of the kernel, and accept that",
        PLAN => "take it out of the plan, and accept that",
        MANIFEST | ENTRIES => "accept it anew, and give no reason that says it",
        _ => "take it out of the task, and accept a kernel for that",
    };
    Err(format!("{place} holds {what}, which must not leave this machine; {way_out}"))
}

/// Says of a file that is something else that it is; one that is cut short may have been a bundle.
fn no_bundle(why: String) -> String {
    if why == CUT_SHORT { why } else { format!("it is not a bundle of `export`: {why}") }
}

/// No acceptance is as long as what a bundle may say.
fn check_sizes(protocol: &Protocol, entries: &[Entry]) -> Result<(), String> {
    let Protocol { groups, checks, cases, baselines, .. } = protocol;
    let lists = [groups.len(), checks.len(), cases.len(), baselines.len()];
    if lists.iter().any(|&length| length > BUNDLE_LIST_MAX) || entries.len() > BUNDLE_ENTRIES_MAX {
        return Err("its protocol or its entries are longer than any acceptance".to_owned());
    }
    if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&protocol.rounds_max) {
        return Err(format!("its acceptance has {} rounds at most", protocol.rounds_max));
    }
    for entry in entries {
        let record = match entry {
            Entry::Pilot(record) | Entry::Window(record) => record,
            Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Checked { .. } => continue,
        };
        let (round, position) = (record.round, record.position);
        if round > ROUNDS_MAX || position >= BUNDLE_POSITIONS_MAX {
            return Err(format!("it has a window at place {position} of round {round}"));
        }
    }
    Ok(())
}

fn check_version(manifest: &[u8]) -> Result<(), String> {
    let value: Value =
        serde_json::from_slice(manifest).map_err(|error| format!("{MANIFEST}: {error}"))?;
    if value["bundle"] == VERSION {
        return Ok(());
    }
    Err(format!("it has format {}; this program reads {VERSION}", value["bundle"]))
}

/// What was written otherwise than this program writes it.
fn foreign(file: &str, error: &serde_json::Error) -> String {
    format!(
        "{file}: {error}; if another version of this program made it, that one can reproduce it"
    )
}

fn digest_of(files: &BTreeMap<String, Vec<u8>>) -> Digest {
    let parts: Vec<&[u8]> =
        files.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes.as_slice()]).collect();
    Digest::of_parts("bundle", &parts)
}

fn as_value(value: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

/// Equal but for the last digits of numbers, which differ between machines.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_f64(), y.as_f64()) {
            (Some(x), Some(y)) => (x - y).abs() <= ALIKE * x.abs().max(y.abs()).max(1.0),
            (Some(_) | None, _) => x == y,
        },
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| alike(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            let same = |(name, x): (&String, &Value)| y.get(name).is_some_and(|y| alike(x, y));
            x.len() == y.len() && x.iter().all(same)
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests;
