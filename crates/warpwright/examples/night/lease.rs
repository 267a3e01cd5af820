//! How busy a card is while there is work for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use judge::{CancelFlag, Evaluator, Job, JobPoll, JobTicket, Judge, JudgeError, Judgement};
use pipeline::hardware::{Floor, FloorLimit};
use pipeline::report::{Measured, Report, Score};
use pipeline::timing::Spread;
use pipeline::verdict::Verdict;
use store::{Boundary, Store};

use crate::model::{Holds, SlowModel};
use crate::world::{World, judge};
use crate::{Figures, LEASE_BUSY_MIN, OVERHEAD_MAX_MS, processor_time, say};

const LATENCY: Duration = Duration::from_secs(20);
const JOB: Duration = Duration::from_secs(1);
const TASKS: u32 = 32;

/// Time during which at least one of several things is there.
#[derive(Debug, Default)]
struct Presence {
    here: u32,
    since: Option<Instant>,
    sum: Duration,
}

impl Presence {
    fn come(&mut self) {
        self.here += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn go(&mut self) {
        self.here = self.here.saturating_sub(1);
        if self.here == 0 {
            self.sum += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

/// What there was to do, seen at the boundaries that the ledger passes.
#[derive(Debug, Default)]
struct Work {
    /// Compiled kernels that wait for their verdict, or are under way to it.
    compiled: Presence,
    /// The same from the reply on: parsing and compiling belong to it.
    replied: Presence,
}

/// A card with one lease that every job holds for a second.
#[derive(Debug, Default)]
struct Card {
    jobs: Mutex<BTreeMap<JobTicket, Arc<Job>>>,
    lease: Mutex<Duration>,
}

impl Evaluator for Card {
    fn submit(&self, job: &Arc<Job>) -> Result<JobTicket, JudgeError> {
        let ticket = JobTicket(job.key().to_string());
        locked(&self.jobs).insert(ticket.clone(), Arc::clone(job));
        Ok(ticket)
    }

    fn poll(&self, ticket: &JobTicket, _: &CancelFlag) -> Result<JobPoll, JudgeError> {
        let taken = locked(&self.jobs).remove(ticket);
        let job = taken.ok_or_else(|| JudgeError::UnknownJob { ticket: ticket.0.clone() })?;
        let mut busy = locked(&self.lease);
        let begun = Instant::now();
        std::thread::sleep(JOB);
        *busy += begun.elapsed();
        drop(busy);
        let score = Score::Measured(measured(job.index));
        let report = Report::of_score(score);
        let verdict = Verdict::correct();
        Ok(JobPoll::Done(Box::new(Judgement { verdict, report, repeatable: true })))
    }

    fn cancel(&self, ticket: &JobTicket) -> Result<(), JudgeError> {
        locked(&self.jobs).remove(ticket);
        Ok(())
    }
}

/// A time that mostly improves nothing.
pub(crate) fn measured(index: u64) -> Measured {
    let median_ns = 100_000.0 + (index * 7_919 % 10_000) as f64;
    let floor = Floor {
        ns: 50_000.0,
        limit: FloorLimit::Bandwidth,
        bytes: 1e9,
        flops: 0.0,
        flops_per_s: 0.0,
    };
    let spread = Spread {
        median_ns,
        p10_ns: 0.99 * median_ns,
        p90_ns: 1.02 * median_ns,
        samples: 30,
        dropped: 0,
    };
    Measured {
        device: "NVIDIA H200".to_owned(),
        uuid: "GPU-01234567-89ab-cdef-0123-456789abcdef".to_owned(),
        cold: spread,
        warm: Some(spread),
        floor: Some(floor),
        event_pair_ns: 1.0,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has `work` follow what the ledger passes.
fn watched(store: Store, work: &Arc<Mutex<Work>>) -> Store {
    let work = Arc::clone(work);
    store.with_boundary_hook(Arc::new(move |boundary, _| {
        let mut work = locked(&work);
        match boundary {
            Boundary::Replied => work.replied.come(),
            Boundary::Built => work.compiled.come(),
            Boundary::Judged => {
                work.compiled.go();
                work.replied.go();
            }
            _ => {}
        }
    }))
}

/// Runs for about so long, in real time.
pub(crate) async fn measure(during: Duration, figures: &mut Figures) -> anyhow::Result<()> {
    let waves = (during.as_secs() / LATENCY.as_secs()).max(2) - 1;
    let attempts = u32::try_from(16 * waves)?;
    say!("{attempts} attempts, 16 calls of 20 s at once, jobs of 1 s, real builds, in real time:");
    let world = World::new(TASKS).await?;
    let (work, card) = (Arc::new(Mutex::new(Work::default())), Arc::new(Card::default()));
    let store = watched(world.store.clone(), &work);
    let model = SlowModel::new(LATENCY, Holds::Kernel);
    let evaluator: Arc<dyn Evaluator> = Arc::<Card>::clone(&card);
    let judge = judge()?;
    let build_ms = build_ms(&world, &judge)?;
    let engine = world.engine(store, model, judge, evaluator, attempts)?;
    let (begun, used) = (Instant::now(), processor_time());
    let end = Arc::new(engine).run(&world.run).await?;
    let (wall, used) = (begun.elapsed(), processor_time().saturating_sub(used));
    let summary = world.store.run_summary(&world.run).await?;
    say!("  {}: {:?}", end.describe(), summary.verdicts);
    let busy = locked(&card.lease).as_secs_f64();
    let (compiled, replied) = {
        let work = locked(&work);
        (work.compiled.sum.as_secs_f64(), work.replied.sum.as_secs_f64())
    };
    anyhow::ensure!(summary.closed == attempts, "{} attempts closed", summary.closed);
    say!("  busy {busy:.1} s of {:.1} s with replies in hand", replied);
    say!("  of {:.1} s in all", wall.as_secs_f64());
    figures.from(
        "lease busy while compiled kernels wait, share",
        busy / compiled,
        LEASE_BUSY_MIN,
    )?;
    let each = |seconds: f64| seconds * 1e3 / f64::from(attempts);
    let used_ms = each(used.as_secs_f64());
    say!(
        "  of processors this process used {used_ms:.1} ms an attempt; a build takes {build_ms:.1}"
    );
    say!(
        "  from a reply to its verdict {:.1} ms an attempt more than the jobs",
        each(replied - busy)
    );
    figures.below("what the loop adds to a job, ms", each(compiled - busy), OVERHEAD_MAX_MS)?;
    Ok(())
}

/// Processor time that this process, not its children, spends on one build: the judge's part.
fn build_ms(world: &World, judge: &Judge) -> anyhow::Result<f64> {
    const BUILDS: u32 = 16;
    let task = &world.tasks[0];
    let begun = processor_time();
    for index in 0..BUILDS {
        let text = crate::model::text(&format!("measured {index}"), Holds::Kernel);
        let candidate = pipeline::reply::candidate(&text, &task.signature())
            .map_err(|malformed| anyhow::anyhow!("{malformed:?}"))?;
        let tunables = candidate.default_variant().tunables;
        let build = judge.build(task, &candidate, &tunables, &CancelFlag::default())?;
        anyhow::ensure!(build.verdict.is_none(), "{:?}", build.verdict);
    }
    let used = processor_time().saturating_sub(begun);
    Ok(used.as_secs_f64() * 1e3 / f64::from(BUILDS))
}
