//! `evaluate`: kernels of a person, one or many, along the same path as a model's.
//!
//! One kernel is a run of one attempt. Many are attempts of one run: a thread reads them, the
//! engine carries as many at once as there are jobs, and each is told of as it ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::{Handed, Handover, Interrupt, Progress, Promotes, RunEnd};
use llm::{Model, ReplayModel};
use pipeline::verdict::Kind;
use serde_json::json;
use store::{AttemptRow, RunId};
use tokio::sync::mpsc;

use crate::cli::EvaluateArgs;
use crate::commands::{drive, ending};
use crate::handed::{Given, read_lines, read_paths};
use crate::limits::KERNELS_MAX;
use crate::outcome::{Exit, Outcome, bad_input, exit_of_agent, record};
use crate::settings::model::ModelSetting;
use crate::settings::{Places, ResolvedRun, RunSettings};
use crate::{environment, runtime, terminal, wiring};

/// Judges what was given.
pub(crate) async fn perform(
    places: &Places,
    args: &EvaluateArgs,
    json: bool,
) -> anyhow::Result<Outcome> {
    match (&args.jsonl, args.candidates.as_slice()) {
        (None, [only]) => one(places, args, only).await,
        (None, _) => {
            let paths = args.candidates.clone();
            let form = if json { Form::Records } else { Form::Lines };
            many(places, args, form, move |each| read_paths(&paths, each)).await
        }
        (Some(path), _) => {
            let input = open(path)?;
            many(places, args, Form::Records, move |each| read_lines(input, each)).await
        }
    }
}

/// One kernel: a run of one attempt.
async fn one(places: &Places, args: &EvaluateArgs, path: &Path) -> anyhow::Result<Outcome> {
    let loaded = wiring::load_task(&args.task)?;
    let task = loaded.task.spec.name.clone();
    let path = std::path::absolute(path)?;
    let settings = RunSettings::simple(
        &args.task,
        ModelSetting::Candidate { task, path },
        1,
        places.device.clone(),
    );
    let resolved = ResolvedRun { settings, tasks: vec![loaded] };
    drive::start(places, resolved, args.seed.as_deref(), true).await
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdin()));
    }
    let file = File::open(path).map_err(|e| bad_input(format!("{}: {e}", path.display())))?;
    Ok(Box::new(file))
}

/// How each kernel's end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// JSON for programs.
    Records,
    /// Lines for people.
    Lines,
}

/// Many kernels: attempts of one run.
async fn many(
    places: &Places,
    args: &EvaluateArgs,
    form: Form,
    read: impl FnOnce(&mut dyn FnMut(Given) -> bool) + Send + 'static,
) -> anyhow::Result<Outcome> {
    let loaded = wiring::load_task(&args.task)?;
    let task = loaded.task.spec.name.clone();
    let settings =
        RunSettings::simple(&args.task, ModelSetting::Lines, KERNELS_MAX, places.device.clone());
    let resolved = ResolvedRun { settings, tasks: vec![loaded] };
    let replies = ReplayModel::empty(wiring::A_PERSON);
    let model = Model::Replay(replies.clone());
    let models = |_: &RunSettings| Ok(vec![model]);
    let begun = drive::begin(places, resolved, models, args.seed.as_deref()).await?;
    let store = begun.parts.store.clone();
    let mut engine = wiring::engine(begun.parts, &begun.settings, observe)?;
    engine.interrupt = Interrupt::patient();
    // Each stands for itself: there is no incumbent that it would replace.
    engine.promotes = Promotes::Each;
    let session =
        Arc::new(Session { task, run: begun.run.clone(), replies, form, tally: Mutex::default() });
    let interrupts = drive::listen(engine.interrupt.clone(), [STOPPING, STOPPING_NOW])?;
    let (sender, seqs) = mpsc::channel(1);
    let feeder = tokio::spawn(feed(Arc::clone(&session), given(read)?, sender));
    let told = |seq, handed: Handed<'_>| session.told(seq, handed);
    let handover = Handover { seqs, jobs: jobs(args), told };
    let end = Arc::new(engine).run_handed(&begun.run, handover).await;
    feeder.abort();
    // What it may be saying comes before the summary.
    let _ = feeder.await;
    interrupts.abort();
    // Folds the write-ahead log into the file, so that the ledger is one file again.
    store.close().await;
    Ok(session.outcome(&end?, places))
}

const STOPPING: &str = "taking no more kernels; those in hand are finished; press Ctrl-C again to \
stop at once";
const STOPPING_NOW: &str = "stopping at once";

/// Each kernel's end is told by the session.
fn observe(progress: Progress<'_>) {
    if let Progress::Unnoted { why } = progress {
        terminal::note(&format!("the run broke, and the ledger could not note it: {why}"));
    }
}

fn jobs(args: &EvaluateArgs) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    args.jobs.map_or_else(cores, |jobs| jobs as usize)
}

/// Reads on a thread of its own, one kernel ahead. It is not waited for: a read of standard input
/// may last for ever.
fn given(
    read: impl FnOnce(&mut dyn FnMut(Given) -> bool) + Send + 'static,
) -> anyhow::Result<mpsc::Receiver<Given>> {
    let (sender, receiver) = mpsc::channel(1);
    let work = move || read(&mut |given| sender.blocking_send(given).is_ok());
    // It ends by itself.
    drop(runtime::spawn("reads the kernels", work)?);
    Ok(receiver)
}

/// Numbers the kernels and hands them over.
async fn feed(session: Arc<Session>, mut given: mpsc::Receiver<Given>, seqs: mpsc::Sender<u32>) {
    while let Some(given) = given.recv().await {
        let gone = match session.take(given) {
            Some(seq) => seqs.send(seq).await.is_err(),
            None => terminal::reader_is_gone(),
        };
        if gone {
            return;
        }
    }
}

/// One call that judges many kernels.
struct Session {
    task: String,
    run: RunId,
    replies: ReplayModel,
    form: Form,
    tally: Mutex<Tally>,
}

/// What came of the kernels so far.
#[derive(Debug, Default)]
struct Tally {
    taken: u32,
    bad: u32,
    verdicts: BTreeMap<&'static str, u32>,
    /// Line and id of the kernels in hand, by seq.
    in_hand: BTreeMap<u32, (u64, Option<String>)>,
}

impl Session {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a kernel its seq; one that could not be read is told of at once.
    fn take(&self, given: Given) -> Option<u32> {
        let reply = match given.reply {
            Ok(reply) => reply,
            Err(why) => {
                self.tally().bad += 1;
                let outcome = Outcome::ended(Exit::BadInput, why);
                self.print(given.line, given.id.as_deref(), &outcome, None);
                return None;
            }
        };
        let mut tally = self.tally();
        tally.taken += 1;
        let seq = tally.taken;
        tally.in_hand.insert(seq, (given.line, given.id));
        self.replies.push(wiring::person_entry(&self.task, seq, reply));
        Some(seq)
    }

    /// Tells of a kernel's end; false when nobody listens.
    fn told(&self, seq: u32, handed: Handed<'_>) -> bool {
        self.replies.forget(&self.task, seq);
        let (line, id) = self.tally().in_hand.remove(&seq).unwrap_or_default();
        let (outcome, row) = match handed {
            Handed::Closed(row) => (self.judged(row), Some(row)),
            Handed::Stopped(end) => (ending::outcome(end), None),
            Handed::Broken(error) => {
                let exit = exit_of_agent(error);
                (Outcome::ended(exit, error.to_string()), None)
            }
        };
        self.print(line, id.as_deref(), &outcome.with("seq", seq), row);
        !terminal::reader_is_gone()
    }

    fn judged(&self, row: &AttemptRow) -> Outcome {
        let Some(verdict) = &row.verdict else {
            return Outcome::ended(Exit::OurError, "the ledger closed it without a verdict");
        };
        let mut tally = self.tally();
        *tally.verdicts.entry(verdict.kind.name()).or_default() += 1;
        let report = row.judgement.as_ref().and_then(|judgement| judgement.report.as_ref());
        let cached = row.judgement.as_ref().is_some_and(|judgement| judgement.from_cache);
        match ending::of_verdict(verdict, report) {
            Ok(outcome) => outcome.with("from_cache", cached),
            Err(error) => Outcome::ended(Exit::OurError, format!("{error:#}")),
        }
    }

    fn print(&self, line: u64, id: Option<&str>, outcome: &Outcome, row: Option<&AttemptRow>) {
        if self.form == Form::Lines {
            let what = row.map_or_else(|| outcome.reason.clone(), drive::attempt_line);
            let id = id.unwrap_or_default();
            // What is wrong with a path names it.
            let line = if what.starts_with(id) { what } else { format!("{id}: {what}") };
            return terminal::line(&terminal::one_line(&line));
        }
        let mut outcome = outcome.clone().with("line", line).with("task", self.task.as_str());
        outcome = outcome.with("run", self.run.to_string());
        if let Some(id) = id {
            outcome = outcome.with("id", id);
        }
        terminal::json(&record(&outcome));
    }

    /// How the call ends: being stopped weighs most, then lines that could not be read, whose
    /// kernels nobody judged, then kernels that did not pass.
    fn outcome(&self, end: &RunEnd, places: &Places) -> Outcome {
        let tally = self.tally();
        let judged: u32 = tally.verdicts.values().sum();
        let correct = tally.verdicts.get(Kind::Correct.name()).copied().unwrap_or(0);
        let ended = ending::outcome(end);
        let outcome = if ended.exit != Exit::Done {
            ended
        } else if tally.bad > 0 {
            Outcome::ended(Exit::BadInput, format!("{} could not be read", tally.bad))
        } else if correct < judged {
            let failed = judged - correct;
            Outcome::ended(Exit::DidNotPass, format!("{failed} of {judged} did not pass"))
        } else {
            ended
        };
        if self.form == Form::Lines {
            self.print_end(judged, correct, tally.bad);
        }
        let verdicts: BTreeMap<_, _> = tally.verdicts.clone();
        outcome
            .with(
                "summary",
                json!({
                    "judged": judged, "correct": correct, "bad": tally.bad, "verdicts": verdicts,
                }),
            )
            .with("task", self.task.as_str())
            .with("run", self.run.to_string())
            .with("ledger", places.ledger.display().to_string())
    }

    fn print_end(&self, judged: u32, correct: u32, bad: u32) {
        let unread = if bad > 0 { format!(", {bad} could not be read") } else { String::new() };
        let program = environment::program_name();
        terminal::line(&format!("\n{correct} of {judged} are correct{unread}; run {}", self.run));
        terminal::line(&format!(
            "  {program} show @last:1      one of them: build, evidence, verdict"
        ));
    }
}
