//! What the loop, writes and looks cost on a ledger that is long already.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use judge::{CancelFlag, Evaluator, Judge};
use pipeline::attempt::Mode;
use pipeline::candidate::Candidate;
use pipeline::digest::Digest;
use pipeline::next_step::{Ask, SearchEnd};
use pipeline::prompt::{Message, MessageRole, Prompt};
use pipeline::reply;
use pipeline::report::{Report, Score, Stage};
use pipeline::transcript::Usage;
use pipeline::verdict::{Reason, Verdict};
use store::{CallTarget, NewBuild, NewCandidate, NewJudgement, Reservation, SettledReply, Store};

use crate::lease::measured;
use crate::model::{Holds, SlowModel, text};
use crate::world::{World, judge};
use crate::{
    Figures, MEMORY_MAX_MB, OVERHEAD_MAX_MS, STATUS_MAX_MS, WRITE_MAX_MS, percentile, say,
};

/// Attempts that the loop makes on the long ledger.
const MORE: u32 = 2_000;
/// Writes and looks that are timed one by one.
const WRITES: u32 = 2_000;
const LOOKS: u32 = 20;
/// Time on a card that an evaluation is reserved, in microseconds.
const CARD_US: u64 = 60_000_000;
/// One in so many attempts of the ledger has a kernel that is right.
const CORRECT_ONE_IN: u32 = 4;

pub(crate) async fn measure(
    attempts: u32,
    tasks: u32,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let mut world = World::new(tasks).await?;
    let judge = judge()?;
    let begun = Instant::now();
    let filler = Filler::new(&world, &judge)?;
    for index in 0..attempts {
        filler.attempt(&world, index).await?;
    }
    let ledger = world.store.path().to_owned();
    let bytes = std::fs::metadata(&ledger)?.len() >> 20;
    say!("{attempts} attempts at {tasks} tasks: {bytes} MiB, filled in {:.0?}", begun.elapsed());
    world.store.close().await;
    world.store = Store::open(&ledger).await?;
    let taken_up = until(&world, &judge, attempts + 1).await?;
    say!("  the run is taken up, and one attempt made, in {taken_up:.0?}");
    let all = until(&world, &judge, attempts + 1 + MORE).await?;
    let each_ms = all.saturating_sub(taken_up).as_secs_f64() * 1e3 / f64::from(MORE);
    figures.below("an attempt of the loop, ms", each_ms, OVERHEAD_MAX_MS)?;
    writes_and_looks(&world, &ledger, figures).await?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("");
    let peak_kb: f64 = peak.trim().trim_end_matches(" kB").parse()?;
    figures.below("memory at most, MB", peak_kb / 1e3, MEMORY_MAX_MB)?;
    Ok(())
}

/// How long the loop takes from taking the run up until it has so many attempts.
async fn until(world: &World, judge: &Arc<Judge>, attempts: u32) -> anyhow::Result<Duration> {
    let model = SlowModel::new(Duration::ZERO, Holds::Words);
    let evaluator: Arc<dyn Evaluator> = Arc::<Judge>::clone(judge);
    let store = world.store.clone();
    let engine = world.engine(store, model, Arc::clone(judge), evaluator, attempts)?;
    let begun = Instant::now();
    let end = Arc::new(engine).run(&world.run).await?;
    let took = begun.elapsed();
    let made = world.store.run_summary(&world.run).await?.attempts;
    anyhow::ensure!(made == attempts, "{made} of {attempts} attempts: {}", end.describe());
    Ok(took)
}

async fn writes_and_looks(
    world: &World,
    ledger: &Path,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let mut writes = Vec::new();
    for _ in 0..WRITES {
        let begun = Instant::now();
        let task = &world.tasks[0].hash;
        world.store.note_search_ended(&world.run, task, SearchEnd::Plateau).await?;
        writes.push(begun.elapsed());
    }
    say!("  half of the writes within {:.3} ms", percentile(&mut writes, 50));
    figures.below("99 of 100 writes within, ms", percentile(&mut writes, 99), WRITE_MAX_MS)?;
    let mut syncs = Vec::new();
    let mut file = std::fs::File::create(ledger.with_extension("sync"))?;
    for _ in 0..WRITES / 10 {
        file.write_all(&[7; 8_192])?;
        let begun = Instant::now();
        file.sync_data()?;
        syncs.push(begun.elapsed());
    }
    let of = [50, 99].map(|percent| percentile(&mut syncs, percent));
    say!("  the disk alone syncs 8 KiB within {:.3} ms, 99 of 100 within {:.3} ms", of[0], of[1]);
    decisions(world, figures).await?;
    let mut looks = Vec::new();
    for _ in 0..LOOKS {
        let begun = Instant::now();
        // As `status RUN` looks.
        let store = Store::open_read_only(ledger).await?;
        let summary = store.run_summary(&world.run).await?;
        store.tells(&world.run).await?;
        store.claims_of_kernels(&world.run).await?;
        looks.push(begun.elapsed());
        anyhow::ensure!(summary.tasks.iter().all(|task| task.best_seq.is_some()), "no best");
        store.close().await;
    }
    say!("  half of the looks within {:.1} ms", percentile(&mut looks, 50));
    figures.below(
        "every look of `status` within, ms",
        percentile(&mut looks, 100),
        STATUS_MAX_MS,
    )?;
    Ok(())
}

/// What a decision asks the books for, where operators have allotments and cards a limit.
async fn decisions(world: &World, figures: &mut Figures) -> anyhow::Result<()> {
    let mut asked = Vec::new();
    for _ in 0..WRITES {
        let begun = Instant::now();
        let spent = world.store.spent_of_tasks(&world.run).await?;
        let time = world.store.card_time(&world.run).await?;
        asked.push(begun.elapsed());
        anyhow::ensure!(spent.len() == world.tasks.len(), "{} tasks", spent.len());
        anyhow::ensure!(time.used_us > 0, "no time on cards");
    }
    say!("  half of the decisions' questions within {:.3} ms", percentile(&mut asked, 50));
    let within = percentile(&mut asked, 99);
    Ok(figures.below("99 of 100 decisions' questions within, ms", within, OVERHEAD_MAX_MS)?)
}

/// Writes attempts into the ledger as the loop does, with what a real one compiled to.
struct Filler {
    build: judge::Build,
    candidate: Candidate,
    system: String,
}

impl Filler {
    fn new(world: &World, judge: &Judge) -> anyhow::Result<Self> {
        let task = &world.tasks[0];
        let text = text("one", Holds::Kernel);
        let candidate = reply::candidate(&text, &task.signature())
            .map_err(|malformed| anyhow::anyhow!("{malformed:?}"))?;
        let tunables = candidate.default_variant().tunables;
        let build = judge.build(task, &candidate, &tunables, &CancelFlag::default())?;
        anyhow::ensure!(build.verdict.is_none(), "{:?}", build.verdict);
        Ok(Self { build, candidate, system: "Write CUDA kernels. ".repeat(300) })
    }

    async fn attempt(&self, world: &World, index: u32) -> anyhow::Result<()> {
        let (store, tasks) = (&world.store, u32::try_from(world.tasks.len())?);
        let (seq, task) = (index / tasks + 1, &world.tasks[(index % tasks) as usize]);
        let is_correct = (index / tasks).is_multiple_of(CORRECT_ONE_IN);
        let holds = if is_correct { Holds::Kernel } else { Holds::Words };
        let ask = Ask { seq, mode: Mode::First, parent: None, subset_notice: false };
        let text = text(&format!("filled {index}"), holds);
        let message = |role, content: &str| Message { role, content: content.to_owned() };
        let messages = vec![
            message(MessageRole::System, &self.system),
            message(MessageRole::User, &text[..8_000.min(text.len())]),
        ];
        let prompt = Prompt { mode: ask.mode, messages };
        let reserved = Reservation { tokens: 50_000, nusd: 500 };
        let target = CallTarget { provider: "scripted", model: "slow", price_json: "\"free\"" };
        let opened =
            store.open_attempt(&world.run, &task.hash, &ask, &prompt, reserved, target).await?;
        store.mark_sent(&opened.id).await?;
        store.put_ticket(&opened.id, "ticket").await?;
        store.settle_reply(&opened.id, &settled(text)).await?;
        if !is_correct {
            let verdict = Verdict::failed(Reason::Reply, "the reply has no fence with a kernel");
            return Ok(store.close_attempt(&opened.id, &verdict).await?);
        }
        self.judged(store, &opened.id, index).await
    }

    async fn judged(&self, store: &Store, id: &store::AttemptId, index: u32) -> anyhow::Result<()> {
        let (source, plan_text) = crate::model::kernel(&format!("filled {index}"));
        let tunables = self.candidate.default_variant().tunables;
        let name = Digest::of_bytes(source.as_bytes());
        let new =
            NewCandidate { id: &name, source: &source, plan_text: &plan_text, tunables: &tunables };
        store.record_parsed(id, &new).await?;
        let build = NewBuild {
            id: &self.build.id,
            facts: self.build.facts.as_ref(),
            diagnostics: &self.build.diagnostics,
            log: &self.build.log,
            ptx: Some(&self.build.ptx),
            cubin: Some(&self.build.cubin),
            verdict: None,
            held: self.build.held.as_ref(),
        };
        store.record_built(id, &build).await?;
        let verdict = Verdict::correct();
        let report = Report {
            notes: vec![format!("attempt {index}")],
            ..Report::of_score(Score::Measured(measured(index.into())))
        };
        let new = NewJudgement {
            stage: Stage::Search,
            eval_key: Some(&name),
            verdict: &verdict,
            report: Some(&report),
            from_cache: false,
            danger: None,
        };
        let hold = store.reserve_card(id, Stage::Search, CARD_US).await?;
        store.release_card(&hold, CARD_US / 60).await?;
        store.record_judged(id, &new).await?;
        Ok(store.close_attempt(id, &verdict).await?)
    }
}

fn settled(text: String) -> SettledReply {
    SettledReply {
        text,
        usage: Some(Usage::of(3_000, 4_000)),
        finish_reason: "stop".to_owned(),
        model: "slow".to_owned(),
        latency_ms: 20_000,
        cost_nusd: Some(0),
        drift: false,
        reasoning: String::new(),
        http_log: String::new(),
    }
}
