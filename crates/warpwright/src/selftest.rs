//! Everything that needs a GPU, as one program: what `selftest gpu` runs, and the parts of it that
//! the simulator can run too: `selftest sim`.
//!
//! A part has items; each gives one [`Row`], which is appended to a file at once, so that a call
//! that was ended goes on where it stopped. Rows of another judge, card or driver count as not
//! there, but for parts that any card of the model may go on with. Start at [`PARTS`]; nothing here
//! decides what a kernel is, the judge does.

mod baselines;
mod calibration;
mod catalogue;
mod clock;
mod confinement;
mod cost;
#[cfg(feature = "judge-mutation")]
mod cut_sets;
mod devices;
mod hostile;
mod kernels;
mod loops;
mod memory;
mod night;
mod null;
mod page;
mod parts;
mod sanitizer;
mod shipped;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use device::toolchain::Toolchain;
use judge::{Judge, JudgeError, RunSeed, judge_hash};
use pipeline::device_facts::DeviceFacts;
use pipeline::hardware::HardwareSheet;
use serde::{Deserialize, Serialize};

use crate::limits::SELFTEST_ROWS_BYTES_MAX;
use crate::outcome::bad_input;
use crate::{gpus, terminal, wiring};

pub(crate) use page::write as write_page;
pub(crate) use parts::{PARTS, Part};
pub(crate) use shipped::{Judged, Shipped};

/// How long the kernels of one run may take here, in milliseconds: less than in a run, so that the
/// self-test ends soon.
const LAUNCH_DEADLINE_MS: u64 = 3_000;
/// Items that wait for one card at once, and the cores that each wants.
const LANES_PER_CARD: usize = 6;
const CORES_PER_LANE: usize = 2;

/// How an item ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Passed,
    Failed,
    /// This machine lacks something; what, is in the row.
    NotAvailable,
}

/// One line of the self-test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) part: String,
    pub(crate) item: String,
    pub(crate) status: Status,
    /// Name and text of each column.
    pub(crate) columns: Vec<(String, String)>,
    /// What it was found on.
    pub(crate) judge: String,
    pub(crate) gpus: Vec<String>,
    pub(crate) model: String,
    pub(crate) driver: String,
    /// When, in UTC.
    pub(crate) at: String,
}

/// What an item found; [`Bench::item`] makes a row of it.
pub(crate) struct Found {
    status: Status,
    columns: Vec<(String, String)>,
}

impl Found {
    pub(crate) fn new(passed: bool) -> Self {
        let status = if passed { Status::Passed } else { Status::Failed };
        Self { status, columns: Vec::new() }
    }

    pub(crate) fn not_available(why: &str) -> Self {
        let found = Self { status: Status::NotAvailable, columns: Vec::new() };
        found.with("why", why)
    }

    pub(crate) fn with(mut self, name: &str, text: impl Into<String>) -> Self {
        self.columns.push((name.to_owned(), text.into()));
        self
    }
}

/// Where a self-test stands.
pub(crate) struct Bench<'a> {
    pub(crate) toolchain: &'a Toolchain,
    pub(crate) sheets: Vec<HardwareSheet>,
    pub(crate) folder: &'a Path,
    pub(crate) rows: Vec<Row>,
    deadline: Option<Instant>,
    part: &'static str,
    /// One judge and one seed for all parts, so that each reference is computed once.
    judge: Arc<Judge>,
    seed: RunSeed,
    /// Only items whose names contain one of these are run; none, all.
    pub(crate) only_items: Vec<String>,
    /// Items that were left for another call.
    pub(crate) left: u32,
}

impl<'a> Bench<'a> {
    /// A self-test that goes on with what its folder holds.
    pub(crate) fn open(
        folder: &'a Path,
        toolchain: &'a Toolchain,
        sheets: Vec<HardwareSheet>,
        deadline: Option<Instant>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)
            .map_err(|error| bad_input(format!("{}: {error}", folder.display())))?;
        let judge = Arc::new(judge_on(toolchain, &sheets, LAUNCH_DEADLINE_MS)?);
        let mut bench = Self {
            toolchain,
            sheets,
            folder,
            rows: Vec::new(),
            deadline,
            part: "",
            judge,
            seed: wiring::fresh_seed()?,
            only_items: Vec::new(),
            left: 0,
        };
        let path = bench.rows_path();
        if path.exists() {
            let text = wiring::read_text(&path, SELFTEST_ROWS_BYTES_MAX)?;
            // A line that was cut by a kill is an item that is run again.
            let rows = text.lines().filter_map(|line| serde_json::from_str::<Row>(line).ok());
            bench.rows = rows.filter(|row| bench.is_about_this(row)).collect();
        }
        Ok(bench)
    }

    fn rows_path(&self) -> PathBuf {
        self.file("jsonl")
    }

    /// A file of the folder, named after what the parts run on.
    fn file(&self, ending: &str) -> PathBuf {
        let device = if self.is_simulated() { "sim" } else { "gpu" };
        self.folder.join(format!("selftest-{device}.{ending}"))
    }

    /// True when there is no GPU under test.
    pub(crate) fn is_simulated(&self) -> bool {
        self.sheets.is_empty()
    }

    fn is_about_this(&self, row: &Row) -> bool {
        let any_card = PARTS.iter().any(|part| part.any_card && part.name == row.part);
        let same_card = row.gpus == self.uuids() && row.driver == self.driver();
        row.judge == judge_hash().as_str() && (same_card || any_card && row.model == self.model())
    }

    fn model(&self) -> String {
        self.sheets.first().map(|sheet| sheet.facts.model.clone()).unwrap_or_default()
    }

    pub(crate) fn uuids(&self) -> Vec<String> {
        self.sheets.iter().map(|sheet| sheet.uuid.clone()).collect()
    }

    pub(crate) fn driver(&self) -> String {
        self.sheets.first().map(|sheet| sheet.driver.clone()).unwrap_or_default()
    }

    /// Runs a part.
    pub(crate) fn run(&mut self, part: &Part) -> anyhow::Result<()> {
        self.part = part.name;
        terminal::line(&format!("{}: {}", part.name, part.about));
        (part.run)(self)
    }

    /// Runs one item unless it was run before or the time is up. What breaks is a failed row: the
    /// other items still run.
    pub(crate) fn item(
        &mut self,
        name: &str,
        run: impl FnOnce(&Self) -> anyhow::Result<Found>,
    ) -> anyhow::Result<()> {
        if self.has(name) || !self.wants(name) {
            return Ok(());
        }
        if is_late(self.deadline) {
            self.left += 1;
            return Ok(());
        }
        let found = run(self).unwrap_or_else(broken);
        self.add(name, found)
    }

    /// As [`Self::item`] for many that need nothing of each other: several at once, since each has
    /// a card only for a part of its time.
    pub(crate) fn items<T: Sync>(
        &mut self,
        all: &[(String, T)],
        run: impl Fn(&T) -> anyhow::Result<Found> + Sync,
    ) -> anyhow::Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let most = LANES_PER_CARD * self.sheets.len().max(1);
        let lanes = vec![(); (cores / CORES_PER_LANE).clamp(1, most)];
        self.items_in(&lanes, all, |(), subject| run(subject))
    }

    /// As [`Self::items`] for what takes times: one at once on each card, by a judge that has no
    /// other.
    pub(crate) fn items_on_cards<T: Sync>(
        &mut self,
        all: &[(String, T)],
        run: impl Fn(&Judge, &T) -> anyhow::Result<Found> + Sync,
    ) -> anyhow::Result<()> {
        let judges = self
            .sheets
            .iter()
            .map(|sheet| judge_on(self.toolchain, std::slice::from_ref(sheet), LAUNCH_DEADLINE_MS));
        let judges: Vec<Judge> = judges.collect::<anyhow::Result<_>>()?;
        self.items_in(&judges, all, run)
    }

    /// Takes the items one after the other in each of the lanes.
    fn items_in<L: Sync, T: Sync>(
        &mut self,
        lanes: &[L],
        all: &[(String, T)],
        run: impl Fn(&L, &T) -> anyhow::Result<Found> + Sync,
    ) -> anyhow::Result<()> {
        let missing = all.iter().filter(|(name, _)| !self.has(name) && self.wants(name));
        let missing: Vec<_> = missing.collect();
        let mut left = missing.len();
        let (missing, run, deadline) = (Mutex::new(missing.into_iter()), &run, self.deadline);
        let next = || missing.lock().unwrap_or_else(PoisonError::into_inner).next();
        let (sender, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            for lane in lanes {
                let (sender, next) = (sender.clone(), &next);
                let work = move || {
                    while !is_late(deadline)
                        && let Some((name, subject)) = next()
                    {
                        let found = run(lane, subject).unwrap_or_else(broken);
                        if sender.send((name, found)).is_err() {
                            return;
                        }
                    }
                };
                std::thread::Builder::new().spawn_scoped(scope, work)?;
            }
            drop(sender);
            for (name, found) in ended {
                left -= 1;
                self.add(name, found)?;
            }
            anyhow::Ok(())
        })?;
        self.left += u32::try_from(left).unwrap_or(u32::MAX);
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        let only = &self.only_items;
        only.is_empty() || only.iter().any(|text| name.contains(text))
    }

    fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.part == self.part && row.item == name)
    }

    fn add(&mut self, item: &str, found: Found) -> anyhow::Result<()> {
        let row = Row {
            part: self.part.to_owned(),
            item: item.to_owned(),
            status: found.status,
            columns: found.columns,
            judge: judge_hash().as_str().to_owned(),
            gpus: self.uuids(),
            model: self.model(),
            driver: self.driver(),
            at: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string(),
        };
        terminal::line(&terminal::one_line(&page::plain_row(&row)));
        let path = self.rows_path();
        append_line(&path, &serde_json::to_string(&row)?)
            .map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
        self.rows.push(row);
        Ok(())
    }
}

/// What broke an item, as what was found.
fn broken(error: anyhow::Error) -> Found {
    match error.downcast_ref::<JudgeError>() {
        Some(JudgeError::NotAvailable(why)) => Found::not_available(why),
        _ => Found::new(false).with("error", format!("{error:#}")),
    }
}

fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// What a line at the top of a shipped reply says; empty without it.
fn head_line(reply: &str, key: &str) -> String {
    let found = reply.lines().find_map(|line| line.strip_prefix(key));
    found.unwrap_or_default().trim().to_owned()
}

/// Appends a line; one that a kill cut short before is closed first.
fn append_line(path: &Path, line: &str) -> std::io::Result<()> {
    let cut = std::fs::read(path).is_ok_and(|bytes| bytes.last().is_some_and(|it| *it != b'\n'));
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let before = if cut { "\n" } else { "" };
    writeln!(file, "{before}{line}")
}

/// A judge on every card, with kernels hung after so long; on the simulator where there is none.
fn judge_on(
    toolchain: &Toolchain,
    sheets: &[HardwareSheet],
    launch_deadline_ms: u64,
) -> anyhow::Result<Judge> {
    let Some(first) = sheets.first() else {
        return wiring::judge_for(toolchain, DeviceFacts::simulated_h200(), None);
    };
    let facts = first.facts.clone();
    let mut config = gpus::config(sheets.to_vec());
    config.launch_deadline_ms = launch_deadline_ms;
    wiring::judge_for(toolchain, facts, Some(config))
}
