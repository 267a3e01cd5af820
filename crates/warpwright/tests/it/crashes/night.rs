//! A night of 30 tasks against a scripted server that counts: what a test of kills starts, kills,
//! resumes and looks into.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use llm::conformance::{Asked, HttpScript, Play};
use pipeline::transcript::Usage;
use serde_json::{Value, json};
use store::{CallRow, CallState, Chain, RunId, Store};

use crate::program::{Program, SEED, comparable};

pub(super) const TASKS: usize = 30;
/// Nano-dollars of one answer at the price below.
pub(super) const ANSWER_NUSD: i64 = 2_000_000;
const PRICE: &str = "{ input = 1.0, output = 10.0 }";
const USAGE: Usage = Usage::of(1_000, 100);
/// How long the server thinks, so that kills meet calls in flight.
const LATENCY: Duration = Duration::from_millis(250);
/// The task whose first answer is cut off.
const CUT_OFF: usize = 2;

/// What the server charged for, by the key of the call.
type Charged = Arc<Mutex<BTreeMap<String, usize>>>;

/// A program with 30 tasks, and the server that it asks.
pub(super) struct Night {
    pub(super) program: Program,
    charged: Charged,
    /// Set, the next question is turned away.
    turns_away: Arc<AtomicBool>,
    _server: HttpScript,
    runtime: tokio::runtime::Runtime,
}

/// What of an end must not depend on kills.
#[derive(Debug, PartialEq)]
pub(super) struct EndState {
    tasks: Value,
    /// Candidate, source and plan of each attempt.
    candidates: Vec<Value>,
}

/// The ledger as a kill, or the end, left it.
pub(super) struct Seen {
    pub(super) calls: Vec<CallRow>,
    pub(super) closed: usize,
    pub(super) chain: Chain,
}

impl Night {
    pub(super) fn new() -> Self {
        let program = Program::new();
        let mut run = "run = 1\n[budget]\nattempts = 1000\n".to_owned();
        for index in 0..TASKS {
            let name = task_name(index);
            write_task(&program.path(&name), &name);
            run += &format!("[[operator]]\ntask = '{name}'\nattempts = 1\n");
        }
        std::fs::write(program.path("run.toml"), run).unwrap();
        let charged = Charged::default();
        let turns_away = Arc::<AtomicBool>::default();
        let server = serve(Arc::clone(&charged), Arc::clone(&turns_away));
        let settings = format!(
            "default_model = 'served'\n[model.served]\nkind = 'openai'\nmodel = 'm-1'\n\
             base_url = '{}'\nkey_env = 'SERVED_KEY'\nprice = {PRICE}\noutput_tokens_max = 5000\n",
            server.base_url()
        );
        std::fs::write(program.path("warpwright.toml"), settings).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { program, charged, turns_away, _server: server, runtime }
    }

    /// Has the server turn the next question away.
    pub(super) fn turn_one_away(&self) {
        self.turns_away.store(true, Ordering::SeqCst);
    }

    /// Starts the run, or goes on with it; dies at `kill_at`, if that is given.
    pub(super) fn start(&self, resume: bool, kill_at: Option<&str>) -> Child {
        let arguments: &[&str] = match resume {
            true => &["resume"],
            false => &["run", "run.toml", "--seed", SEED],
        };
        let mut command = self.program.command(env!("CARGO_BIN_EXE_warpwright"));
        command
            .args(arguments)
            .env("SERVED_KEY", "sk-of-the-test")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.envs(kill_at.map(|at| ("WARPWRIGHT_KILL_AT", at)));
        command.spawn().unwrap()
    }

    /// Waits for its end: exit code or signal, and what it said.
    pub(super) fn wait(child: Child) -> (std::process::ExitStatus, String) {
        let output = child.wait_with_output().unwrap();
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Reads what a resumed program says until it goes on with the run.
    pub(super) fn wait_until_it_goes_on(child: &mut Child) {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let goes_on = lines.any(|line| line.unwrap().contains("going on as the run was started"));
        assert!(goes_on, "it never went on");
        // Read on, so that it can say more.
        std::thread::spawn(move || lines.for_each(drop));
    }

    /// The keys of the calls that the server charged for.
    pub(super) fn charged(&self) -> BTreeSet<String> {
        self.charged.lock().unwrap().keys().cloned().collect()
    }

    /// The server's own count of requests that it charged for.
    pub(super) fn charged_count(&self) -> usize {
        self.charged.lock().unwrap().values().sum()
    }

    /// What a commit that was under way at the kill may leave: bytes that are no frame.
    pub(super) fn tear_log(&self, bytes: &[u8]) {
        let log = self.program.path("ledger.db-wal");
        let opened = std::fs::OpenOptions::new().append(true).open(log);
        if let Ok(mut file) = opened {
            file.write_all(bytes).unwrap();
        }
    }

    pub(super) fn look(&self) -> Seen {
        self.runtime.block_on(async {
            let store = Store::open_read_only(&self.program.ledger()).await.unwrap();
            let run = store.resolve_run("@last").await.unwrap();
            let calls = calls(&store, &run).await;
            let closed = store.run_summary(&run).await.unwrap().closed as usize;
            let chain = store.verify_chain(&run).await.unwrap();
            store.close().await;
            Seen { calls, closed, chain }
        })
    }

    pub(super) fn end_state(&self) -> EndState {
        let tasks = comparable(self.program.run_report())["tasks"].clone();
        let candidates = self.runtime.block_on(async {
            let store = Store::open_read_only(&self.program.ledger()).await.unwrap();
            let run = store.resolve_run("@last").await.unwrap();
            let mut found = Vec::new();
            for task in store.run(&run).await.unwrap().tasks {
                let attempt = store.attempt_detail(&run, &task.hash, 1).await.unwrap().attempt;
                let candidate = attempt.candidate.map(|it| (it.id, it.source, it.plan_text));
                found.push(json!([task.name, attempt.ask.mode, candidate]));
            }
            found
        });
        EndState { tasks, candidates }
    }
}

/// Every call of a run with one attempt a task.
async fn calls(store: &Store, run: &RunId) -> Vec<CallRow> {
    let mut all = Vec::new();
    for task in store.run(run).await.unwrap().tasks {
        if let Ok(detail) = store.attempt_detail(run, &task.hash, 1).await {
            all.extend(detail.calls);
        }
    }
    all
}

/// Keys of the calls in one of these states.
pub(super) fn keys(calls: &[CallRow], states: &[CallState]) -> BTreeSet<String> {
    let wanted = calls.iter().filter(|call| states.contains(&call.state));
    wanted.map(|call| call.id.to_string()).collect()
}

fn task_name(index: usize) -> String {
    format!("night_{index:02}")
}

/// A small vector addition under another name, which makes it another task.
fn write_task(folder: &Path, name: &str) {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/vector_add");
    for part in ["", "wrong", "baseline"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
        for entry in built_in.join(part).read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let to = folder.join(part).join(path.file_name().unwrap());
                std::fs::copy(&path, to).unwrap();
            }
        }
    }
    let text = std::fs::read_to_string(built_in.join("task.toml")).unwrap();
    let small = [
        ("name = \"vector_add\"", format!("name = \"{name}\"")),
        ("{ n = 65536 }", "{ n = 1024 }".to_owned()),
        ("{ n = 10007 }", "{ n = 1009 }".to_owned()),
        ("sim = { n = [1, 65536] }", "sim = { n = [1, 2048] }".to_owned()),
    ];
    let text = small.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    std::fs::write(folder.join("task.toml"), text).unwrap();
}

/// The answer to each task: right, no kernel, not compiling, wrong, and harmful ones in turn.
fn answer(index: usize) -> String {
    let replies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/replies");
    let right = std::fs::read_to_string(replies.join("vector_add.1.md")).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(right.contains(from), "{from}");
        right.replace(from, to)
    };
    match index % 5 {
        0 => right,
        1 => "I would rather not.".to_owned(),
        2 => changed("__global__", "__globule__"),
        3 => changed("a[i] + b[i]", "a[i] - b[i]"),
        _ => changed("y[i] =", "y[i + 100000000] ="),
    }
}

fn serve(charged: Charged, turns_away: Arc<AtomicBool>) -> HttpScript {
    let answers: Vec<_> = (0..TASKS).map(answer).collect();
    let asked_before = Mutex::new(BTreeMap::<usize, u32>::new());
    let respond = move |asked: &Asked| {
        let prompt = asked.prompt();
        let is_asked = |index: &usize| prompt.contains(&format!("# Task `{}`", task_name(*index)));
        let index = (0..TASKS).find(is_asked).unwrap();
        let first = {
            let mut before = asked_before.lock().unwrap();
            let count = before.entry(index).or_default();
            *count += 1;
            *count == 1
        };
        if turns_away.swap(false, Ordering::SeqCst) {
            return Play::response(429, &[("retry-after", "0")], "{}");
        }
        let key = asked.header("idempotency-key").unwrap().to_owned();
        *charged.lock().unwrap().entry(key).or_default() += 1;
        std::thread::sleep(LATENCY);
        if first && index == CUT_OFF {
            return Play::events().piece("data: {\"choi");
        }
        Play::stream(&[&answers[index]], Some(USAGE))
    };
    HttpScript::respond(respond).unwrap()
}
