//! `demo` and `run`, and what drives the loop; `resume` is beside it.

use std::sync::Arc;

use agent::{Claims, Closer, Engine, Interrupt};
use judge::{CancelFlag, Judge, JudgeError, judge_hash};
use llm::Model;
use pipeline::report::Score;
use pipeline::task::Task;
use pipeline::tell::Told;
use store::{AttemptRow, NewRun, NewTask, RunId, RunKind, RunLock, Store};

use crate::claims::{closing, words};
use crate::cli::RunArgs;
use crate::commands::{ending, estimate};
use crate::live::Live;
use crate::notify::Notifier;
use crate::outcome::{Exit, Outcome};
use crate::progress::Watch;
use crate::settings::model::ModelSetting;
use crate::settings::{self, Places, ResolvedRun, RunSettings, price};
use crate::signals::StopSignals;
use crate::wiring::{self, Parts};
use crate::{admission, detach, embedded, goals, gpus, known, privacy, progress, terminal};

/// Attempts of the demo: as many as its transcript holds.
const DEMO_ATTEMPTS: u32 = 6;

/// Tasks of a rehearsal.
const REHEARSED_TASKS: usize = 3;

/// Runs the demo.
pub(crate) async fn demo(places: &Places) -> anyhow::Result<Outcome> {
    terminal::line(
        "The loop on the task softmax_rows: prompt, reply, compile, run, compare, store.",
    );
    terminal::line(match gpus::chosen(places, &places.device)? {
        None => "Kernels run on the built-in simulator (no GPU); replies are hand-written.\n",
        Some(_) => "Kernels run on this machine's GPU; replies are hand-written.\n",
    });
    let tasks = vec![wiring::load_task(embedded::DEMO_TASK)?];
    let device = places.device.clone();
    let settings =
        RunSettings::simple(embedded::DEMO_TASK, ModelSetting::Demo, DEMO_ATTEMPTS, device);
    start(places, ResolvedRun { settings, tasks }, None, true).await
}

/// Starts a run.
pub(crate) async fn run(places: &Places, args: &RunArgs) -> anyhow::Result<Outcome> {
    if args.background.detach {
        return detach::start(places);
    }
    args.background.background.as_deref().map_or(Ok(()), detach::enter)?;
    let resolved = settings::resolve_run(places, args)?;
    if args.dry_run {
        return estimate::perform(places, &resolved).await;
    }
    if args.rehearse {
        return rehearse(places, args, &resolved).await;
    }
    start(places, resolved, args.seed.as_deref(), args.fresh).await
}

/// One attempt at each of the weightiest tasks, then the estimate for all from what it took.
async fn rehearse(
    places: &Places,
    args: &RunArgs,
    resolved: &ResolvedRun,
) -> anyhow::Result<Outcome> {
    let mut short = settings::resolve_run(places, args)?;
    short.keep_weightiest(REHEARSED_TASKS);
    // What it asks is what models need; what cards need is known from the ledger.
    short.settings.search.accept = false;
    let rehearsed = start(places, short, args.seed.as_deref(), true).await?;
    if rehearsed.exit != Exit::Done {
        return Ok(rehearsed);
    }
    estimate::perform(places, resolved).await
}

pub(crate) async fn start(
    places: &Places,
    resolved: ResolvedRun,
    seed: Option<&str>,
    fresh: bool,
) -> anyhow::Result<Outcome> {
    let mut begun = begin(places, resolved, wiring::models, seed).await?;
    detach::begun(&places.ledger, &begun.run)?;
    // Recorded replies answer what was asked when they were recorded, and a person knows.
    if !fresh && begun.settings.run_kind() == RunKind::Auto {
        let Parts { store, tasks, judge, .. } = &begun.parts;
        begun.parts.known = known::of_ledger(store, tasks, &judge.config().device.model).await?;
    }
    drive(places, begun).await
}

/// A run that is stored and locked.
pub(crate) struct Begun {
    pub(crate) run: RunId,
    pub(crate) settings: RunSettings,
    pub(crate) parts: Parts,
    /// Held as long as the run is driven.
    pub(crate) lock: RunLock,
}

/// Stores a new run.
pub(crate) async fn begin(
    places: &Places,
    resolved: ResolvedRun,
    models: impl FnOnce(&RunSettings) -> anyhow::Result<Vec<Model>>,
    seed: Option<&str>,
) -> anyhow::Result<Begun> {
    let ResolvedRun { settings, tasks } = resolved;
    let seed = match seed {
        Some(text) => wiring::parse_seed(text)?,
        None => wiring::fresh_seed()?,
    };
    let templates = wiring::templates(settings.prompts.as_ref())?;
    // Bad input must be known before a run is stored.
    privacy::refuse_secret_words(places, &settings.models)?;
    let models = models(&settings)?;
    let toolchain = wiring::toolchain(places)?;
    let mut judge = wiring::judge_of_run(places, &settings, &toolchain)?;
    for loaded in &tasks {
        judge = prove_reference(judge, &loaded.task).await?;
    }
    let store = wiring::ledger(places).await?;
    for loaded in &tasks {
        if let Some(why) = admission::refusal(&store, &loaded.task, &toolchain.id).await? {
            return Err(JudgeError::Refused(why).into());
        }
    }
    let settings_json = settings.to_json()?;
    let seed_json = serde_json::to_string(&wiring::seed_text(&seed))?;
    let new_tasks: Vec<_> = tasks.iter().map(|it| NewTask::of(&it.task, &it.files)).collect();
    let run = store
        .start_run(&NewRun {
            kind: settings.run_kind(),
            settings_json: &settings_json,
            secret_seeds_json: &seed_json,
            judge_hash: judge_hash().as_str(),
            toolchain_id: &toolchain.id,
            prompts_hash: templates.hash().as_str(),
            tasks: &new_tasks,
            device: &judge.config().device,
            gpus: judge.config().gpus.as_ref().map_or(&[][..], |gpus| &gpus.sheets),
        })
        .await?;
    let lock = store.lock_run(&run)?;
    let parts = Parts { store, tasks, models, judge, templates, seed, known: Vec::new() };
    Ok(Begun { run, settings, parts, lock })
}

/// Drives a run to its end.
pub(crate) async fn drive(places: &Places, begun: Begun) -> anyhow::Result<Outcome> {
    let Begun { run, settings, parts, lock } = begun;
    let store = parts.store.clone();
    let watch = watch(places, &run, &settings, &parts).await?;
    let notifier = Notifier::of_run(&settings, &run, &store)?;
    let observer = progress::observer(&settings, watch.as_ref(), notifier.clone());
    let mut engine = wiring::engine(parts, &settings, observer)?;
    steer(&mut engine, &store, &run, &settings).await?;
    engine.tells_bookings = watch.is_some() || notifier.is_some();
    engine.claims = claims(places, &run, &settings, &engine).await?;
    if engine.claims.closer.is_some() {
        engine.cards.keep_for(engine.operators.len());
    }
    let stopped = [engine.interrupt.clone(), engine.claims.interrupt.clone()];
    let interrupts = listen_for(stopped, [STOPPING, STOPPING_NOW])?;
    let end = Arc::new(engine).run(&run).await;
    // Its end is stored: whoever resumes it need not wait for programs that are told of it.
    drop(lock);
    drop(watch);
    interrupts.abort();
    if let Some(notifier) = notifier {
        notifier.tell_end(&store, &run, &end).await;
    }
    let ended = match end {
        Ok(end) => ending::print(places, &store, &run, &end).await,
        Err(error) => Err(error.into()),
    };
    // Folds the write-ahead log into the file, so that the ledger is one file again.
    store.close().await;
    ended
}

/// Gives the engine what its targets are held against, and tells what has no effect or is old.
async fn steer(
    engine: &mut Engine<Model>,
    store: &Store,
    run: &RunId,
    settings: &RunSettings,
) -> anyhow::Result<()> {
    let row = store.run(run).await?;
    let targets = goals::of_run(store, &row, settings).await?;
    let steered = targets.iter().zip(&settings.operators);
    for (operator, (target, setting)) in engine.operators.iter_mut().zip(steered) {
        operator.goal_ns = target.as_ref().and_then(goals::Target::goal_ns);
        operator.allotted_nusd = setting.allotted_nusd;
    }
    let simulated = engine.judge.config().device.simulated;
    let mut remarks = goals::remarks(&targets, &row, simulated);
    if simulated && settings.budget.gpu_us_max.is_some() {
        let why = "the limit of GPU-seconds has no effect here: the simulator holds no GPU";
        remarks.push(why.to_owned());
    }
    remarks.extend(price::warnings(&settings.models, store.now_us()));
    remarks.iter().for_each(|remark| terminal::note(remark));
    Ok(())
}

/// Who looks at the best kernels: this machine's cards, where a run is judged on them.
async fn claims(
    places: &Places,
    run: &RunId,
    settings: &RunSettings,
    engine: &Engine<Model>,
) -> anyhow::Result<Claims> {
    if !closing::is_for(settings) {
        return Ok(Claims::default());
    }
    let cards = closing::Cards::of_run(places, &engine.store, &engine.judge, run).await?;
    Ok(cards.map_or_else(Claims::default, |cards| {
        Claims::by(Arc::new(cards) as Arc<dyn Closer>, settings.search.accept)
    }))
}

/// Live lines, where a person watches; one kernel of a person needs none.
async fn watch(
    places: &Places,
    run: &RunId,
    settings: &RunSettings,
    parts: &Parts,
) -> anyhow::Result<Option<Watch>> {
    if !places.live || settings.run_kind() == RunKind::Manual {
        return Ok(None);
    }
    let store = &parts.store;
    let mut tasks = Vec::new();
    for (loaded, operator) in parts.tasks.iter().zip(&settings.operators) {
        let closed = store.outlines(run, &loaded.task.hash).await?;
        let allowed = operator.attempts_max.unwrap_or(u32::MAX);
        tasks.push((loaded.task.spec.name.clone(), allowed, closed));
    }
    let budget = Told::of(&store.tells(run).await?).budget(settings.budget);
    let left_us = budget.deadline_us.map(|end_us| end_us - store.now_us());
    let end_ms = left_us.map(|us| u64::try_from(us / 1_000).unwrap_or(0));
    let bookings = store.bookings(run).await?;
    Ok(Some(Watch::begin(Live::new(budget, end_ms, bookings, &tasks))?))
}

/// Starts only from a reference that reproduces its golden case: everything is judged by it. Where
/// only workers have the device, they prove it before they judge.
async fn prove_reference(judge: Judge, task: &Task) -> anyhow::Result<Judge> {
    let config = judge.config();
    if config.gpus.is_none() && !config.device.simulated {
        return Ok(judge);
    }
    let owned = task.clone();
    let (judge, checked) = tokio::task::spawn_blocking(move || {
        let checked = judge.check_golden(&owned, &CancelFlag::default());
        (judge, checked)
    })
    .await?;
    let report = checked?;
    let Some(first) = report.deviations.first() else { return Ok(judge) };
    let why = format!(
        "{} of {} golden values differ; `{}` at {}: the reference gives {}, golden.json says {}; \
         mend one of them, `task check` shows the rest",
        report.deviations.len(),
        report.compared,
        first.output,
        first.index,
        first.reference,
        first.golden
    );
    Err(JudgeError::Reference { task: task.spec.name.clone(), why }.into())
}

/// A signal to stop once: stop after the step in hand; twice: at once. `said` is what a person
/// reads at each.
pub(crate) fn listen(
    interrupt: Interrupt,
    said: [&'static str; 2],
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    listen_for([interrupt], said)
}

/// The same for several at once; the last one says whether it is the second time, since the end of
/// a search asks to stop too.
fn listen_for<const N: usize>(
    interrupts: [Interrupt; N],
    said: [&'static str; 2],
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut signals = StopSignals::listen()?;
    Ok(tokio::spawn(async move {
        while signals.next().await.is_some() {
            let again = interrupts.last().is_some_and(Interrupt::was_requested);
            interrupts.iter().for_each(Interrupt::request);
            terminal::note(said[usize::from(again)]);
        }
    }))
}

const STOPPING: &str = "stopping after the step in hand (a question that was sent waits for its \
reply); press Ctrl-C again to stop at once; `resume` goes on from there";
const STOPPING_NOW: &str = "stopping at once; `resume` repeats the step in hand";

/// One line about an attempt.
pub(crate) fn attempt_line(attempt: &AttemptRow) -> String {
    let parent = attempt.ask.parent.map_or_else(String::new, |seq| format!(" #{seq}"));
    let asked = format!("{}{parent}", attempt.ask.mode.name());
    let Some(verdict) = &attempt.verdict else {
        return format!("#{:<3} {asked:<12} in hand: {}", attempt.ask.seq, attempt.state.name());
    };
    let report = attempt.judgement.as_ref().and_then(|judgement| judgement.report.as_ref());
    let mut detail = vec![match report.map(|report| &report.score) {
        Some(score @ (Score::Estimated(_) | Score::Measured(_))) if verdict.is_correct() => {
            words::score(score)
        }
        _ => verdict.detail.lines().next().unwrap_or_default().to_owned(),
    }];
    let report = report.filter(|_| verdict.is_correct());
    detail.extend(report.iter().flat_map(|report| report.notes.clone()));
    let cached = attempt.judgement.as_ref().is_some_and(|judgement| judgement.from_cache);
    detail.extend(cached.then(|| "judged before, not again".to_owned()));
    detail.retain(|part| !part.is_empty());
    let detail = detail.join("; ");
    format!("#{:<3} {asked:<12} {:<25} {detail}", attempt.ask.seq, verdict.to_string())
}
