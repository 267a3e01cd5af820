//! Looks at best kernels beside a search and after it, with a script in the cards' place: what each
//! costs is what it says, and it takes no time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use llm::conformance::ScriptedModel;
use pipeline::attempt::Mode;
use pipeline::closing::{Best, Costs, Look, Work};
use pipeline::next_step::{Ask, SearchLimits, StopReason};
use pipeline::notice::Notice;
use pipeline::prompt::Prompt;
use pipeline::tell::Said;
use pipeline::verdict::Verdict;
use store::{CallTarget, Reservation, RunId, RunState, SettledReply, Store};

use super::fixtures::World;
use crate::{Claims, Closer, Doing, Done, Engine, Looked, Pace, Progress, RunEnd};

const TASKS: [&str; 3] = ["softmax_rows", "gelu", "vector_add"];
const WEIGHTS: [f64; 3] = [1.0, 3.0, 2.0];
const SECOND_US: i64 = 1_000_000;
pub(super) const DONE: RunEnd = RunEnd::Finished(StopReason::AttemptsSpent);

type Acting = Box<dyn Fn(Work, Pace) -> Doing<'static, Result<Done, String>> + Send + Sync>;

/// Cards that remember what they looked at, as the ledger would.
pub(super) struct Script {
    lanes: usize,
    ended: Mutex<BTreeMap<Work, u32>>,
    begun: Mutex<Vec<Work>>,
    now: AtomicUsize,
    most: AtomicUsize,
    act: Acting,
}

impl Script {
    fn new(lanes: usize) -> Self {
        Self::acting(lanes, |work, _| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                Ok(match work {
                    Work::Measure(_) => Done::Quietly,
                    Work::Accept(place) => {
                        Done::Claimed { claim: format!("claim-{place}"), says: "1.3x".to_owned() }
                    }
                })
            })
        })
    }

    pub(super) fn acting(
        lanes: usize,
        act: impl Fn(Work, Pace) -> Doing<'static, Result<Done, String>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            lanes,
            ended: Mutex::default(),
            begun: Mutex::default(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            act: Box::new(act),
        }
    }

    fn begun(&self) -> Vec<Work> {
        self.begun.lock().unwrap().clone()
    }
}

impl Closer for Script {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn look<'a>(&'a self, bests: &'a [Option<u32>]) -> Doing<'a, Result<Vec<Looked>, String>> {
        let ended = self.ended.lock().unwrap().clone();
        let look = move |work: Work, seq: u32| match ended.get(&work) {
            Some(done) if *done == seq => Look::Ended,
            Some(_) | None => Look::Due,
        };
        let looked = bests.iter().enumerate().map(|(place, best)| Looked {
            best: best.map(|seq| Best {
                measurement: look(Work::Measure(place), seq),
                acceptance: look(Work::Accept(place), seq),
            }),
            tried: self.ended.lock().unwrap().contains_key(&Work::Accept(place)),
            costs: Costs { measure_ms: 60_000, accept_ms: 135_000 },
        });
        let looked = looked.collect();
        Box::pin(async move { Ok(looked) })
    }

    fn perform<'a>(&'a self, work: Work, seq: u32, pace: Pace) -> Doing<'a, Result<Done, String>> {
        Box::pin(async move {
            self.begun.lock().unwrap().push(work);
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let done = (self.act)(work, pace).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            if matches!(done, Ok(Done::Quietly | Done::Claimed { .. })) {
                self.ended.lock().unwrap().insert(work, seq);
            }
            done
        })
    }
}

/// What an observer heard.
#[derive(Default)]
struct Heard {
    first_claims: Mutex<Vec<String>>,
    ended: Mutex<Vec<(Work, bool)>>,
}

fn listen(engine: &mut Engine<ScriptedModel>) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    let sink = Arc::clone(&heard);
    engine.observer = Arc::new(move |progress: Progress<'_>| {
        if let Progress::Notice { notice: Notice::FirstClaim { task, claim, .. } } = progress {
            sink.first_claims.lock().unwrap().push(format!("{claim} at {task}"));
        }
        if let Progress::LookEnded { work, done, .. } = progress {
            let quiet = matches!(done, Done::Quietly | Done::Claimed { .. });
            sink.ended.lock().unwrap().push((work, quiet));
        }
    });
    heard
}

/// A run in which each task has a correct kernel, and may make `more` attempts.
pub(super) async fn world(more: u32, closer: &Arc<Script>) -> (World, Engine<ScriptedModel>) {
    let world = World::of(&TASKS).await;
    let store = world.store().await;
    for place in 0..TASKS.len() {
        give_kernel(&store, &world.run, &world, place).await;
    }
    let engine = engine(&world, store, more, closer);
    (world, engine)
}

fn engine(world: &World, store: Store, more: u32, closer: &Arc<Script>) -> Engine<ScriptedModel> {
    let mut engine = world.engine(store, world.model(true));
    for (operator, weight) in engine.operators.iter_mut().zip(WEIGHTS) {
        operator.limits = SearchLimits::of_attempts(1 + more);
        operator.weight = weight;
    }
    engine.budget.attempts_max = (1 + more) * TASKS.len() as u32;
    engine.claims = Claims::by(Arc::clone(closer) as Arc<dyn Closer>, true);
    engine
}

async fn give_kernel(store: &Store, run: &RunId, world: &World, place: usize) {
    let ask = Ask { seq: 1, mode: Mode::First, parent: None, subset_notice: false };
    let prompt = Prompt { mode: ask.mode, messages: Vec::new() };
    let target = CallTarget { provider: "replay", model: "m", price_json: "\"Free\"" };
    let none = Reservation::default();
    let task = &world.tasks[place].hash;
    let id = store.open_attempt(run, task, &ask, &prompt, none, target).await.unwrap().id;
    store.mark_sent(&id).await.unwrap();
    let reply = SettledReply {
        text: "a kernel".to_owned(),
        usage: None,
        finish_reason: "stop".to_owned(),
        model: "m".to_owned(),
        latency_ms: 0,
        cost_nusd: None,
        drift: false,
        reasoning: String::new(),
        http_log: String::new(),
    };
    store.settle_reply(&id, &reply).await.unwrap();
    store.close_attempt(&id, &Verdict::correct()).await.unwrap();
}

pub(super) async fn run(engine: Engine<ScriptedModel>, world: &World) -> RunEnd {
    Arc::new(engine).run(&world.run).await.unwrap()
}

#[tokio::test]
async fn all_are_measured_then_claimed_the_heaviest_first_and_the_first_claim_is_told_once() {
    for lanes in [1, 2] {
        let script = Arc::new(Script::new(lanes));
        let (world, mut engine) = world(0, &script).await;
        let heard = listen(&mut engine);
        assert_eq!(run(engine, &world).await, DONE);
        let begun = script.begun();
        use Work::{Accept, Measure};
        let wanted = [Measure(1), Measure(2), Measure(0), Accept(1), Accept(2), Accept(0)];
        let mut sorted = begun.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [Measure(0), Measure(1), Measure(2), Accept(0), Accept(1), Accept(2)]);
        if lanes == 1 {
            assert_eq!(begun, wanted);
            assert_eq!(*heard.first_claims.lock().unwrap(), ["claim-1 at gelu"]);
        }
        assert_eq!(heard.first_claims.lock().unwrap().len(), 1, "{lanes}");
        assert_eq!(script.most.load(Ordering::SeqCst), lanes);
        assert_eq!(world.server.charged_calls(), 0, "a claim costs no tokens");
        let again = self::engine(&world, world.store().await, 0, &script);
        assert_eq!(run(again, &world).await, DONE);
        assert_eq!(script.begun().len(), 6, "what was looked at is not looked at again");
    }
}

#[tokio::test]
async fn without_claims_all_are_measured_and_without_cards_nothing_is() {
    let script = Arc::new(Script::new(1));
    let (world, mut engine) = world(0, &script).await;
    engine.claims.accepts = false;
    assert_eq!(run(engine, &world).await, DONE);
    assert!(script.begun().iter().all(|work| matches!(work, Work::Measure(_))));
    assert_eq!(script.begun().len(), 3);
    let mut engine = self::engine(&world, world.store().await, 0, &script);
    engine.claims = Claims::default();
    assert_eq!(run(engine, &world).await, DONE);
    assert_eq!(script.begun().len(), 3);
}

/// A question needs a minute before the search ends; half of 200 seconds is set aside.
#[tokio::test]
async fn the_search_ends_early_enough_and_nothing_begins_that_the_end_would_cut() {
    for (seconds, looks_at, asked, accepts) in
        [(100, true, false, 0), (100, false, true, 0), (145, true, true, 3), (4_000, true, true, 3)]
    {
        let script = Arc::new(Script::new(1));
        let (world, mut engine) = world(1, &script).await;
        if !looks_at {
            engine.claims = Claims::default();
        }
        engine.budget.deadline_us = Some(engine.store.now_us() + seconds * SECOND_US);
        let end = run(engine, &world).await;
        let wanted = if asked { DONE } else { RunEnd::Finished(StopReason::TimeSpent) };
        assert_eq!(end, wanted, "{seconds} {looks_at}");
        assert_eq!(world.server.charged_calls() > 0, asked, "{seconds} {looks_at}");
        let begun = script.begun();
        let count = |of: fn(&Work) -> bool| begun.iter().filter(|work| of(work)).count();
        let measured = count(|work| matches!(work, Work::Measure(_)));
        assert_eq!(measured, if looks_at { 3 } else { 0 }, "{seconds} {looks_at}");
        assert_eq!(count(|work| matches!(work, Work::Accept(_))), accepts, "{seconds} {looks_at}");
    }
}

/// A paused task keeps the run searching until a look at its kernel has it go on.
#[tokio::test]
async fn kernels_are_looked_at_while_somebody_searches() {
    let script = Arc::new(Script::new(1));
    let (world, engine) = world(1, &script).await;
    let (store, run_id, task) = (world.store().await, world.run.clone(), world.task.hash.clone());
    store.tell(&run_id, Some(&task), &Said::Pause, "ada").await.unwrap();
    let driven = tokio::spawn(async move { Arc::new(engine).run(&run_id).await });
    while script.begun().len() < 6 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(!driven.is_finished());
    store.tell(&world.run, Some(&task), &Said::Resume, "ada").await.unwrap();
    assert_eq!(driven.await.unwrap().unwrap(), DONE);
    assert_eq!(world.server.charged_calls(), 3);
}

#[tokio::test]
async fn a_paused_run_begins_no_look_until_it_goes_on() {
    let script = Arc::new(Script::new(1));
    let (world, engine) = world(0, &script).await;
    let (store, run_id) = (world.store().await, world.run.clone());
    store.tell(&run_id, None, &Said::Pause, "ada").await.unwrap();
    let driven = tokio::spawn(async move { Arc::new(engine).run(&run_id).await });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!driven.is_finished() && script.begun().is_empty());
    store.tell(&world.run, None, &Said::Resume, "ada").await.unwrap();
    assert_eq!(driven.await.unwrap().unwrap(), DONE);
    assert_eq!(script.begun().len(), 6);
}

/// The end of the looks at best kernels does not hide why the run ended.
#[tokio::test]
async fn a_run_whose_tasks_a_person_stopped_ends_as_that() {
    let script = Arc::new(Script::new(1));
    let (world, engine) = world(0, &script).await;
    let store = world.store().await;
    for task in &world.tasks {
        store.tell(&world.run, Some(&task.hash), &Said::Stop, "ada").await.unwrap();
    }
    assert_eq!(run(engine, &world).await, RunEnd::Finished(StopReason::TasksStopped));
}

/// A person stops the run while a claim is made, by a signal or by the record; it goes on later.
#[tokio::test]
async fn whoever_stops_the_run_stops_the_look_in_hand_and_a_resumed_run_goes_on_with_it() {
    for by_signal in [true, false] {
        let stopped = Arc::new(Script::acting(1, |work, pace: Pace| {
            Box::pin(async move {
                if matches!(work, Work::Measure(_)) {
                    return Ok(Done::Quietly);
                }
                pace.interrupt.first_request().await;
                Ok(Done::Left("round 3".to_owned()))
            })
        }));
        let (world, engine) = world(0, &stopped).await;
        let (interrupt, run_id) = (engine.claims.interrupt.clone(), world.run.clone());
        let store = world.store().await;
        let driven = tokio::spawn(async move { Arc::new(engine).run(&run_id).await });
        while stopped.begun().len() < 4 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        if by_signal {
            interrupt.request();
        } else {
            store.tell(&world.run, None, &Said::Stop, "ada").await.unwrap();
        }
        assert_eq!(driven.await.unwrap().unwrap(), RunEnd::Interrupted, "{by_signal}");
        assert_eq!(store.run(&world.run).await.unwrap().state, RunState::Stopped);
        assert_eq!(stopped.begun().len(), 4, "nothing begins after it");
        store.tell(&world.run, None, &Said::Resume, "ada").await.unwrap();

        let script = Arc::new(Script::new(1));
        *script.ended.lock().unwrap() = stopped.ended.lock().unwrap().clone();
        let engine = self::engine(&world, store, 0, &script);
        assert_eq!(run(engine, &world).await, DONE);
        assert_eq!(script.begun(), [1, 2, 0].map(Work::Accept), "{by_signal}");
    }
}

#[tokio::test]
async fn a_look_that_breaks_is_told_not_repeated_and_ends_no_run() {
    let script = Arc::new(Script::acting(2, |work, _| {
        Box::pin(async move {
            match work {
                Work::Measure(1) => Err("the card fell off the bus".to_owned()),
                Work::Accept(2) => Ok(Done::Without("slower".to_owned())),
                Work::Measure(_) | Work::Accept(_) => Ok(Done::Quietly),
            }
        })
    }));
    let (world, mut engine) = world(0, &script).await;
    let heard = listen(&mut engine);
    assert_eq!(run(engine, &world).await, DONE);
    assert_eq!(script.begun().len(), 6);
    let mut ended = heard.ended.lock().unwrap().clone();
    ended.sort_unstable();
    let failed: Vec<_> = ended.iter().filter(|(_, fine)| !fine).map(|(work, _)| *work).collect();
    assert_eq!(failed, [Work::Measure(1), Work::Accept(2)]);
    assert!(heard.first_claims.lock().unwrap().is_empty());
}
