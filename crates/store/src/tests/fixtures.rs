//! A ledger with a run, and an attempt brought to any state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pipeline::attempt::{Mode, State};
use pipeline::build::{BuildFacts, Diagnostic, EntryFacts, Severity};
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::next_step::Ask;
use pipeline::prompt::{Message, MessageRole, Prompt};
use pipeline::report::{Counters, Estimate, Report, Score, Stage};
use pipeline::transcript::Usage;
use pipeline::verdict::Verdict;

use crate::{
    AttemptId, AttemptRow, CallTarget, NewBuild, NewCandidate, NewJudgement, NewRun, NewTask,
    Reservation, Result, RunId, RunKind, SettledReply, Store,
};

pub(super) const TARGET: CallTarget<'_> =
    CallTarget { provider: "replay", model: "recorded", price_json: "\"Free\"" };
pub(super) const SETTINGS: &str = "{\"attempts\":5}";
pub(super) const RESERVED: Reservation = Reservation { tokens: 1_000, nusd: 500 };

pub(super) struct Ledger {
    folder: tempfile::TempDir,
    pub(super) store: Store,
    pub(super) run: RunId,
}

impl Ledger {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("sub/ledger.db")).await.unwrap();
        let run = start_run(&store).await;
        Self { folder, store, run }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.store.path().to_owned()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) async fn another(&self) -> Store {
        Store::open(self.store.path()).await.unwrap()
    }

    /// Opens attempt `seq`.
    pub(super) async fn open(&self, seq: u32) -> AttemptRow {
        open(&self.store, &self.run, &ask(seq)).await.unwrap()
    }

    /// Opens attempt `seq` and brings it to `state`.
    pub(super) async fn bring(&self, seq: u32, state: State) -> AttemptId {
        let id = self.open(seq).await.id;
        for step in State::ALL.into_iter().filter(|step| *step <= state) {
            if step != State::Asked {
                advance(&self.store, &id, step).await.unwrap();
            }
        }
        id
    }

    /// Runs raw SQL, as someone with the file could.
    pub(super) async fn sql(&self, text: &str) -> std::result::Result<(), sqlx::Error> {
        let query = sqlx::AssertSqlSafe(text.to_owned());
        sqlx::raw_sql(query).execute(self.store.writer_pool()).await.map(drop)
    }

    /// Kinds of the run's events, oldest first.
    pub(super) async fn event_kinds(&self) -> Vec<String> {
        let query = "SELECT kind FROM event WHERE run_id = $1 ORDER BY seq";
        let kinds = sqlx::query_scalar(query).bind(self.run.as_str());
        kinds.fetch_all(self.store.writer_pool()).await.unwrap()
    }

    pub(super) async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(self.store.writer_pool()).await.unwrap()
    }
}

pub(super) fn files() -> BTreeMap<String, Vec<u8>> {
    let text = |text: &str| text.as_bytes().to_vec();
    BTreeMap::from([
        ("task.toml".to_owned(), text("name = \"sum\"\n")),
        ("reference.cu".to_owned(), text("__global__ void reference() {}\n")),
        ("README.md".to_owned(), vec![0xff, 0x00]),
    ])
}

pub(super) fn task_hash() -> Digest {
    Digest::of_bytes(b"task")
}

pub(super) async fn start_run(store: &Store) -> RunId {
    try_start_run(store).await.unwrap()
}

pub(super) async fn try_start_run(store: &Store) -> Result<RunId> {
    start_run_with(store, "nvrtc").await
}

pub(super) async fn start_run_with(store: &Store, toolchain_id: &str) -> Result<RunId> {
    let (hash, files, device) = (task_hash(), files(), DeviceFacts::simulated_h200());
    let new = NewRun {
        kind: RunKind::Auto,
        settings_json: SETTINGS,
        secret_seeds_json: "[424242]",
        judge_hash: "judge",
        toolchain_id,
        prompts_hash: "prompts",
        tasks: &[NewTask { hash: &hash, name: "sum", files: &files }],
        device: &device,
        gpus: &[],
    };
    store.start_run(&new).await
}

pub(super) fn ask(seq: u32) -> Ask {
    let mode = if seq == 1 { Mode::First } else { Mode::Optimise };
    Ask { seq, mode, parent: seq.checked_sub(1).filter(|seq| *seq > 0), subset_notice: seq == 2 }
}

pub(super) fn prompt(ask: &Ask) -> Prompt {
    let message = |role, content: String| Message { role, content };
    Prompt {
        mode: ask.mode,
        messages: vec![
            message(MessageRole::System, "write a kernel\n".repeat(1_000)),
            message(MessageRole::User, format!("attempt {}", ask.seq)),
        ],
    }
}

pub(super) async fn open(store: &Store, run: &RunId, ask: &Ask) -> Result<AttemptRow> {
    store.open_attempt(run, &task_hash(), ask, &prompt(ask), RESERVED, TARGET).await
}

pub(super) fn reply(text: &str) -> SettledReply {
    SettledReply {
        text: text.to_owned(),
        usage: Some(Usage::of(70, 30)),
        finish_reason: "stop".to_owned(),
        model: "recorded-1".to_owned(),
        latency_ms: 1_234,
        cost_nusd: Some(321),
        reasoning: "thought".to_owned(),
        http_log: String::new(),
        drift: true,
    }
}

pub(super) fn facts() -> BuildFacts {
    BuildFacts {
        entries: vec![EntryFacts {
            name: "_Z1kv".to_owned(),
            params: Vec::new(),
            registers: 32,
            spill_bytes: 0,
            static_shared_bytes: 1_024,
            max_threads: Some(256),
        }],
        lowered_names: vec![("k".to_owned(), "_Z1kv".to_owned())],
        externs: Vec::new(),
        static_bytes: 0,
        special_registers: Vec::new(),
        mma_types: Vec::new(),
        cache_hints: Vec::new(),
        ptx_hash: "ptx".to_owned(),
        cubin_hash: "cubin".to_owned(),
    }
}

pub(super) fn diagnostic(message: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        file: "candidate.cu".to_owned(),
        line: Some(3),
        message: message.to_owned(),
        excerpt: "int x;".to_owned(),
    }
}

pub(super) fn report(load_sectors: f64) -> Report {
    let counters = Counters { load_sectors, ..Counters::default() };
    let device = DeviceFacts::simulated_h200();
    Report {
        stage: Stage::Search,
        device: device.model.clone(),
        kernels: facts().entries,
        cases: Vec::new(),
        notes: Vec::new(),
        gpu: None,
        promotion: None,
        ended: None,
        confinement: None,
        held: Vec::new(),
        score: Score::Estimated(Estimate::new(&counters, &device, [1, 2])),
    }
}

pub(super) const SOURCE: &str = "__global__ void k() {}\n";

/// Takes the step that leads to `state`.
pub(super) async fn advance(store: &Store, id: &AttemptId, state: State) -> Result<()> {
    match state {
        State::Asked => store.reopen_call(id, RESERVED, TARGET).await.map(drop),
        State::Sent => store.mark_sent(id).await,
        State::Replied => store.settle_reply(id, &reply("the reply")).await,
        State::Parsed => {
            let tunables = BTreeMap::from([("tile".to_owned(), 64)]);
            let (id_of, plan_text) = (Digest::of_bytes(SOURCE.as_bytes()), "plan = 1\n");
            let new = NewCandidate { id: &id_of, source: SOURCE, plan_text, tunables: &tunables };
            store.record_parsed(id, &new).await
        }
        State::Built => {
            let (build_id, facts) = (Digest::of_bytes(b"build"), facts());
            let new = NewBuild {
                id: &build_id,
                facts: Some(&facts),
                diagnostics: &[diagnostic("unused variable")],
                log: "1 warning\n",
                ptx: Some(b".version 8.8\n\xff"),
                cubin: Some(&[0x7f, 0x45]),
                verdict: None,
                held: None,
            };
            store.record_built(id, &new).await
        }
        State::Judged => {
            let (key, report) = (Digest::of_bytes(b"key"), report(5e8));
            let new = NewJudgement {
                stage: Stage::Search,
                eval_key: Some(&key),
                verdict: &Verdict::correct(),
                report: Some(&report),
                from_cache: false,
                danger: None,
            };
            store.record_judged(id, &new).await
        }
        State::Closed => store.close_attempt(id, &Verdict::correct()).await,
    }
}
