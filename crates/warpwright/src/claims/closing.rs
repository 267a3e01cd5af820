//! The looks at the best kernels of a run on this machine's cards: what [`agent::Closer`] asks for.
//!
//! Each is made on one card, so that the windows of a round have the same one; as many as there are
//! cards go on side by side. What is looked at, and when, is the loop's; nothing here asks a model.

use std::sync::Arc;

use agent::{CardPace, Closer, Doing, Done, Looked, Pace};
use judge::{CancelFlag, Judge, JudgeError};
use pipeline::closing::costs::{Seen, active_ms};
use pipeline::closing::tries::stand_of;
use pipeline::closing::{Best, Costs, Look, Work};
use pipeline::comparison::Confidence;
use pipeline::digest::Digest;
use pipeline::limits::{ROUNDS_MAX, TASK_CHECK_MS};
use store::{AcceptanceTimes, AttemptRow, Ended, Purpose, RunId, RunTask, Store};

use crate::claims::accepting::{Accepted, accept, try_of};
use crate::claims::carry::Carried;
use crate::claims::lanes::Lanes;
use crate::claims::subject::Subject;
use crate::claims::{Aim, Effort, take, words};
use crate::settings::{EvaluatorSetting, Places, RunSettings};
use crate::{admission, gpus, wiring};

/// What is measured for a claim, as `accept` does without flags.
const CLAIM: Effort = Effort { rounds_max: ROUNDS_MAX, confidence: Confidence::P95 };
const MEASUREMENT: Effort = Effort { rounds_max: 1, confidence: Confidence::P95 };

/// The cards of this machine as those who look at the best kernels of a run.
pub(crate) struct Cards {
    store: Store,
    run: RunId,
    tasks: Vec<RunTask>,
    device_model: String,
    toolchain_id: String,
    /// One for each card.
    judges: Vec<Arc<Judge>>,
    lanes: Arc<Lanes>,
}

/// True for a run whose best kernels are looked at on this machine, if it has cards.
pub(crate) fn is_for(settings: &RunSettings) -> bool {
    settings.evaluator == EvaluatorSetting::Local && settings.run_kind() != store::RunKind::Manual
}

impl Cards {
    /// Those of a run; `None` where it has none.
    pub(crate) async fn of_run(
        places: &Places,
        store: &Store,
        judge: &Arc<Judge>,
        run: &RunId,
    ) -> anyhow::Result<Option<Self>> {
        let config = judge.config();
        let Some(gpus) = &config.gpus else { return Ok(None) };
        let count = gpus.sheets.len();
        let mut judges = Vec::new();
        if count == 1 {
            judges.push(Arc::clone(judge));
        } else {
            let toolchain = wiring::toolchain(places)?;
            for sheet in &gpus.sheets {
                let mut one = gpus::config(vec![sheet.clone()]);
                // The judge of the search and those of all cards share the machine's memory.
                one.case_cache_bytes_max /= 1 + count as u64;
                let facts = sheet.facts.clone();
                judges.push(Arc::new(wiring::judge_for(&toolchain, facts, Some(one))?));
            }
        }
        Ok(Some(Self {
            store: store.clone(),
            run: run.clone(),
            tasks: store.run(run).await?.tasks,
            device_model: config.device.model.clone(),
            toolchain_id: config.toolchain_id.clone(),
            lanes: lanes(&judges),
            judges,
        }))
    }

    async fn perform(&self, work: Work, seq: u32, pace: &Pace) -> anyhow::Result<Done> {
        let look = |lane: usize, cancel: CancelFlag| {
            let pace = Pace { cancel: Some(cancel), ..pace.clone() };
            async move { self.perform_on(&self.judges[lane], work, seq, &pace).await }
        };
        let done = self.lanes.perform(&pace.cancel_flag(), was_stopped, look).await;
        done.unwrap_or_else(|| Ok(Done::Left("no card is free".to_owned())))
    }

    async fn perform_on(
        &self,
        judge: &Judge,
        work: Work,
        seq: u32,
        pace: &Pace,
    ) -> anyhow::Result<Done> {
        let task = &self.tasks[work.place()];
        let attempt = self.store.attempt_detail(&self.run, &task.hash, seq).await?.attempt;
        let books_on = Some((self.run.clone(), attempt.id.clone()));
        let card_time = pace.card_time.clone().map(|it| CardPace { books_on, ..it });
        let pace = &Pace { card_time, ..pace.clone() };
        match work {
            Work::Measure(_) => self.measure(judge, &attempt, pace).await,
            Work::Accept(_) => {
                let named = format!("{} #{seq}: ", task.name);
                let store = &self.store;
                done(store, accept(store, judge, &attempt, &named, CLAIM, pace).await?).await
            }
        }
    }

    /// Gives a kernel a number beside a baseline.
    async fn measure(
        &self,
        judge: &Judge,
        attempt: &AttemptRow,
        pace: &Pace,
    ) -> anyhow::Result<Done> {
        let (store, purpose) = (&self.store, Purpose::Measurement);
        let subject = Subject::of_attempt(store, judge, attempt).await?;
        let aim = Aim {
            attempt: &attempt.id,
            purpose,
            of_claim: None,
            weaknesses: &[],
            against: None,
            named: "",
        };
        let (_, carried) = match take(store, judge, &subject, aim, MEASUREMENT, pace).await {
            Ok(taken) => taken,
            Err(error) => match error.downcast::<JudgeError>()? {
                JudgeError::NotAvailable(why) => return Ok(Done::Without(why)),
                other => return Err(other.into()),
            },
        };
        Ok(match carried {
            Carried::Ended(conclusion, _) if conclusion.measurement().is_some() => Done::Quietly,
            Carried::Ended(conclusion, _) => Done::Without(conclusion.cause.clone()),
            Carried::Deadline(left) | Carried::Interrupted(left) => Done::Left(left),
        })
    }
}

/// A card of each judge, in service while its judge says so.
fn lanes(judges: &[Arc<Judge>]) -> Arc<Lanes> {
    let all = judges.to_vec();
    let in_service = move |lane: usize| all[lane].parked_gpus().is_empty();
    Lanes::new(judges.len(), Arc::new(in_service))
}

/// True for a look of which something is left, or whose wait for a card was ended.
fn was_stopped(done: &anyhow::Result<Done>) -> bool {
    match done {
        Ok(Done::Left(_)) => true,
        Ok(Done::Quietly | Done::Claimed { .. } | Done::Without(_) | Done::Noisy(_)) => false,
        Err(error) => matches!(error.downcast_ref::<JudgeError>(), Some(JudgeError::Cancelled)),
    }
}

/// What an acceptance came to.
async fn done(store: &Store, accepted: Accepted) -> anyhow::Result<Done> {
    let (row, carried) = match accepted {
        Accepted::Before(before) if before.row.conclusion.as_ref().is_some_and(is_claim) => {
            return Ok(Done::Quietly);
        }
        Accepted::Before(before) => return Ok(Done::Without(before.cause())),
        Accepted::Now(row, carried) => (row, carried),
    };
    Ok(match carried {
        Carried::Ended(_, Ended::Claimed(id)) => {
            let says = words::of_row(&store.claim(id.as_str()).await?);
            Done::Claimed { claim: id.to_string(), says }
        }
        Carried::Ended(conclusion, Ended::Waits) => Done::Without(format!(
            "a person has to look: {}; `review approve {} --reason TEXT`",
            conclusion.cause, row.id
        )),
        Carried::Ended(conclusion, Ended::Nothing) if conclusion.is_worth_another_try() => {
            Done::Noisy(conclusion.cause.clone())
        }
        Carried::Ended(conclusion, Ended::Nothing) => Done::Without(conclusion.cause.clone()),
        Carried::Deadline(left) | Carried::Interrupted(left) => Done::Left(left),
    })
}

fn is_claim(conclusion: &pipeline::acceptance::Conclusion) -> bool {
    conclusion.claim.is_some()
}

impl Closer for Cards {
    fn lanes(&self) -> usize {
        self.judges.len()
    }

    fn look<'a>(&'a self, bests: &'a [Option<u32>]) -> Doing<'a, Result<Vec<Looked>, String>> {
        Box::pin(async move {
            let on = (self.device_model.as_str(), self.toolchain_id.as_str());
            let looked = look(&self.store, &self.run, &self.tasks, bests, on).await;
            looked.map_err(|error| format!("{error:#}"))
        })
    }

    fn perform<'a>(&'a self, work: Work, seq: u32, pace: Pace) -> Doing<'a, Result<Done, String>> {
        Box::pin(async move {
            let done = Cards::perform(self, work, seq, &pace).await;
            done.map_err(|error| format!("{error:#}"))
        })
    }
}

/// What the ledger knows of the best kernels of a run, and of what looks at them take with a model
/// of card and a compiler.
pub(crate) async fn look(
    store: &Store,
    run: &RunId,
    tasks: &[RunTask],
    bests: &[Option<u32>],
    (device_model, toolchain_id): (&str, &str),
) -> anyhow::Result<Vec<Looked>> {
    let times = store.acceptance_times(device_model).await?;
    let of_run = store.acceptances_of_run(run).await?;
    let mut looked = Vec::new();
    for (task, best) in tasks.iter().zip(bests) {
        let is_try = |it: &&AcceptanceTimes| {
            it.task_hash == task.hash && it.purpose == Purpose::Claim && it.ended
        };
        let best = match best {
            Some(seq) => Some(best_of(store, run, task, *seq).await?),
            None => None,
        };
        let mut costs = Costs::of(&seen(&times, &task.hash));
        if !admission::is_checked(store, &task.hash, toolchain_id).await? {
            costs.accept_ms += TASK_CHECK_MS;
        }
        looked.push(Looked { best, tried: of_run.iter().any(|it| is_try(&it)), costs });
    }
    Ok(looked)
}

async fn best_of(store: &Store, run: &RunId, task: &RunTask, seq: u32) -> anyhow::Result<Best> {
    let attempt = store.attempt_id(run, &task.hash, seq).await?;
    let rows = store.looks_at(&attempt).await?;
    let measured = rows.iter().any(|row| {
        row.purpose == Purpose::Measurement && row.attempt_id == attempt && row.conclusion.is_some()
    });
    let claims = rows.iter().filter(|row| row.purpose == Purpose::Claim);
    let tries: Vec<_> = claims.map(|row| try_of(row.started_us, row.conclusion.as_ref())).collect();
    Ok(Best {
        measurement: if measured { Look::Ended } else { Look::Due },
        acceptance: stand_of(&tries, store.now_us()),
    })
}

fn seen(times: &[AcceptanceTimes], task: &Digest) -> Seen {
    let took = |purpose: Purpose, own: bool| {
        let of = times.iter().filter(|it| it.purpose == purpose);
        let of = of.filter(|it| (it.task_hash == *task) == own);
        of.map(|it| active_ms(&it.times_us)).collect()
    };
    Seen {
        own_measurements: took(Purpose::Measurement, true),
        other_measurements: took(Purpose::Measurement, false),
        own_acceptances: took(Purpose::Claim, true),
        other_acceptances: took(Purpose::Claim, false),
    }
}
