//! `accept`: the full protocol behind a claim, for the best kernels of a run or for one attempt.

use std::time::{Duration, Instant};

use agent::Interrupt;
use judge::Judge;
use pipeline::comparison::Confidence;
use pipeline::limits::ROUNDS_MAX;
use store::{AcceptanceRow, AttemptRow, Ended, Store};

use crate::claims::accepting::{Accepted, Before, accept};
use crate::claims::carry::{Carried, Pace};
use crate::claims::{self, Effort, NEEDS_GPU, words};
use crate::cli::{AcceptArgs, EffortArgs};
use crate::commands::drive;
use crate::outcome::{Exit, Outcome, bad_input, not_available, record};
use crate::selector::{self, Selected, What};
use crate::settings::Places;
use crate::{admission, gpus, terminal, wiring};

const STOPPING: &str = "stopping after the step in hand; press Ctrl-C again to stop at once; the \
same command goes on from there";
const STOPPING_NOW: &str = "stopping at once; the same command repeats the step in hand";

/// Accepts what the selectors mean.
pub(crate) async fn perform(places: &Places, args: &AcceptArgs) -> anyhow::Result<Outcome> {
    // Reading first: a missing ledger must not be made by a typing error.
    let store = Store::open_read_only(&places.ledger).await?;
    let attempts = chosen(&store, &args.selectors).await?;
    let (attempts, mut outcome) = admitted(places, &store, attempts).await?;
    if attempts.is_empty() {
        return Ok(outcome);
    }
    let Some(judge) = claims::gpu_judge(places)? else { return Err(needs_gpu(places)) };
    let store = wiring::ledger(places).await?;
    let pace = pace(args.effort.deadline);
    let interrupts = drive::listen(pace.interrupt.clone(), [STOPPING, STOPPING_NOW])?;
    let mut records = Vec::new();
    for attempt in &attempts {
        let ended = one(&store, &judge, attempt, &args.effort, &pace).await?;
        records.push(record(&ended.clone().with("seq", attempt.ask.seq)));
        outcome = worse(outcome, ended);
        if outcome.exit == Exit::Interrupted || outcome.exit == Exit::BudgetEnded {
            break;
        }
    }
    interrupts.abort();
    store.close().await;
    Ok(outcome.with("accepted", records))
}

/// Without a GPU nothing is claimed; says where it can be.
pub(crate) fn needs_gpu(places: &Places) -> anyhow::Error {
    not_available(format!(
        "{NEEDS_GPU}: {}. Attempts of a simulator's run can be accepted on a machine with a GPU: \
         take the ledger there ({}, with its -wal and -shm files if there are any), or one kernel \
         (`show SELECTOR --out DIR` here, `evaluate TASK DIR` and `accept @last` there)",
        gpus::why_none(&places.device),
        places.ledger.display()
    ))
}

/// Until when, and who may stop it.
pub(crate) fn pace(deadline_s: Option<u32>) -> Pace {
    let end = deadline_s.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
    Pace { interrupt: Interrupt::patient(), cancel: None, deadline: end, card_time: None }
}

impl EffortArgs {
    /// How much is measured.
    pub(crate) fn effort(&self) -> Effort {
        let confidence = if self.confidence == 99 { Confidence::P99 } else { Confidence::P95 };
        Effort { rounds_max: self.rounds.unwrap_or(ROUNDS_MAX), confidence }
    }
}

/// The correct attempts that the selectors mean: of a run, the best of each task.
async fn chosen(store: &Store, selectors: &[String]) -> anyhow::Result<Vec<AttemptRow>> {
    let mut attempts: Vec<AttemptRow> = Vec::new();
    for text in selectors {
        let Selected { run, what } = selector::resolve(store, Some(text)).await?;
        let pairs = match what {
            What::Attempt(task, seq) => vec![(task, seq)],
            What::Task(task) => best_of(store, &run, vec![task]).await?,
            What::Run => best_of(store, &run, store.run(&run).await?.tasks).await?,
        };
        if pairs.is_empty() {
            return Err(bad_input(format!("`{text}` has no correct attempt yet")));
        }
        for (task, seq) in pairs {
            let attempt = store.attempt_detail(&run, &task.hash, seq).await?.attempt;
            if !attempt.verdict.as_ref().is_some_and(|verdict| verdict.is_correct()) {
                let name = &task.name;
                return Err(bad_input(format!("attempt {seq} at {name} is not correct")));
            }
            if !attempts.iter().any(|other| other.id == attempt.id) {
                attempts.push(attempt);
            }
        }
    }
    Ok(attempts)
}

async fn best_of(
    store: &Store,
    run: &store::RunId,
    tasks: Vec<store::RunTask>,
) -> anyhow::Result<Vec<(store::RunTask, u32)>> {
    let mut best = Vec::new();
    for task in tasks {
        if let Some(seq) = selector::best_of_run(store, run, &task).await? {
            best.push((task, seq));
        }
    }
    Ok(best)
}

/// The attempts at tasks that something can be told by; those at others are named.
async fn admitted(
    places: &Places,
    store: &Store,
    attempts: Vec<AttemptRow>,
) -> anyhow::Result<(Vec<AttemptRow>, Outcome)> {
    let toolchain = wiring::toolchain(places)?;
    let (mut admitted, mut outcome) = (Vec::new(), Outcome::done());
    for attempt in attempts {
        let task = wiring::parse_task(store.task_files(&attempt.task_hash).await?)?.task;
        match admission::refusal(store, &task, &toolchain.id).await? {
            None => admitted.push(attempt),
            Some(why) => outcome = without_claim(why),
        }
    }
    Ok((admitted, outcome))
}

/// Accepts one attempt.
async fn one(
    store: &Store,
    judge: &Judge,
    attempt: &AttemptRow,
    effort: &EffortArgs,
    pace: &Pace,
) -> anyhow::Result<Outcome> {
    let name = store.run(&attempt.run_id).await?;
    let name = name.tasks.iter().find(|task| task.hash == attempt.task_hash);
    let name = name.map_or("", |task| task.name.as_str()).to_owned();
    terminal::line(&format!("{name} #{}", attempt.ask.seq));
    let outcome = match accept(store, judge, attempt, "", effort.effort(), pace).await? {
        Accepted::Before(before) => known(store, &before).await?,
        Accepted::Now(row, carried) => told(store, &row, &carried).await?,
    };
    Ok(outcome.with("task", name))
}

/// What is known of this program already: a claim, a verdict, or too many tries.
async fn known(store: &Store, before: &Before) -> anyhow::Result<Outcome> {
    let last = &before.row;
    terminal::line(&format!("the same program was accepted before ({})", last.id));
    let claims = store.claims().await?;
    if let Some(claim) = claims.iter().find(|claim| claim.acceptance_id == last.id) {
        terminal::line(&words::of_row(claim));
        let exit =
            if words::tier_of(claim.state).is_some() { Exit::Done } else { Exit::DidNotPass };
        return Ok(Outcome::ended(exit, claim.why.clone()).with("claim", words::as_json(claim)));
    }
    Ok(without_claim(before.cause()))
}

/// Prints how an acceptance ended.
pub(crate) async fn told(
    store: &Store,
    row: &AcceptanceRow,
    carried: &Carried,
) -> anyhow::Result<Outcome> {
    let (conclusion, ended) = match carried {
        Carried::Ended(conclusion, ended) => (conclusion, ended),
        Carried::Deadline(left) => {
            terminal::line(&format!("the deadline came first: {left}; accept again goes on"));
            return Ok(Outcome::ended(Exit::BudgetEnded, left.clone()));
        }
        Carried::Interrupted(left) => {
            return Ok(Outcome::ended(Exit::Interrupted, left.clone()));
        }
    };
    let id = match ended {
        Ended::Claimed(id) => id,
        Ended::Waits => {
            terminal::line(&format!(
                "a person has to look: review approve {} --reason TEXT",
                row.id
            ));
            return Ok(without_claim(conclusion.cause.clone()));
        }
        Ended::Nothing => return Ok(without_claim(conclusion.cause.clone())),
    };
    let entries = store.entries(&row.id).await?;
    let claim = store.claim(id.as_str()).await?;
    terminal::line("");
    for line in words::lines(&claim.claim, conclusion, &entries) {
        terminal::line(&line);
    }
    terminal::line(&format!("\nclaim {id}; `export {id} --out FILE` packs it for a stranger"));
    Ok(Outcome::done().with("claim", words::as_json(&claim)))
}

fn without_claim(cause: String) -> Outcome {
    terminal::line(&format!("no claim: {cause}"));
    Outcome::ended(Exit::DidNotPass, cause.clone()).with("cause", cause)
}

/// Of two ends the one that weighs more.
fn worse(a: Outcome, b: Outcome) -> Outcome {
    let weight = |outcome: &Outcome| match outcome.exit {
        Exit::Done => 0,
        Exit::DidNotPass => 1,
        Exit::BudgetEnded => 2,
        Exit::OurError
        | Exit::BadInput
        | Exit::NotAvailable
        | Exit::NotReproduced
        | Exit::LedgerTrouble
        | Exit::Interrupted => 3,
    };
    if weight(&b) >= weight(&a) { b } else { a }
}
