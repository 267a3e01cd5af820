//! What the loop itself costs on a long night: attempts whose answers are there at once and need no
//! compiler, over many tasks and calls at once, in a real ledger. Prints the time of an attempt, of
//! single writes and of the looks that `status` takes, and the memory.
//!
//! `cargo xtask bench night ATTEMPTS TASKS`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::{
    Claims, Engine, Here, InFlight, Interrupt, ModelOrder, ModelUse, Models, Operator, Pools,
    Progress, Promotes,
};
use judge::{Judge, JudgeConfig, RunSeed, judge_hash};
use llm::conformance::{ScriptedModel, Server};
use pipeline::budget::Budget;
use pipeline::device_facts::DeviceFacts;
use pipeline::next_step::{SearchEnd, SearchLimits};
use pipeline::task::Task;
use pipeline::template::Templates;
use store::{NewRun, NewTask, RunId, RunKind, Store};

type Files = BTreeMap<String, Vec<u8>>;
type Failure = Box<dyn std::error::Error>;

/// A line on standard output.
macro_rules! say {
    ($($words:tt)*) => {
        writeln!(std::io::stdout(), $($words)*)?
    };
}

/// Writes that are timed one by one.
const WRITES: u32 = 1_000;
/// Looks that are timed one by one.
const LOOKS: u32 = 20;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let attempts = numbers.next().unwrap_or(Ok(10_000))?;
    let tasks = numbers.next().unwrap_or(Ok(200))?;
    let folder = tempfile::tempdir()?;
    let store = Store::open(&folder.path().join("ledger.db")).await?;
    let files = (0..tasks).map(files_of).collect::<Result<Vec<_>, _>>()?;
    let parsed = files.iter().map(Task::from_files).collect::<Result<Vec<_>, _>>()?;
    let run = start(&store, &parsed, &files).await?;
    let engine = engine(store.clone(), parsed, attempts)?;
    let begun = Instant::now();
    let end = Arc::new(engine).run(&run).await?;
    let wall = begun.elapsed();
    say!("{attempts} attempts at {tasks} tasks: {}", end.describe());
    say!("an attempt      {:>9.2} ms", wall.as_secs_f64() * 1e3 / f64::from(attempts));
    let task = store.run(&run).await?.tasks.first().map(|task| task.hash.clone());
    let task = task.ok_or("no task")?;
    let mut writes = Vec::new();
    for _ in 0..WRITES {
        let begun = Instant::now();
        store.note_search_ended(&run, &task, SearchEnd::Plateau).await?;
        writes.push(begun.elapsed());
    }
    spread("a write", writes)?;
    let mut looks = Vec::new();
    for _ in 0..LOOKS {
        let begun = Instant::now();
        store.run_summary(&run).await?;
        looks.push(begun.elapsed());
    }
    spread("a look", looks)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM unknown");
    say!("memory, at most {}", peak.trim_start_matches("VmHWM:").trim());
    Ok(())
}

fn spread(what: &str, mut times: Vec<Duration>) -> std::io::Result<()> {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    say!("{what:<15} {:>9.2} ms, 99 of 100 within {:.2} ms", ms(at(50)), ms(at(99)));
    Ok(())
}

async fn start(store: &Store, tasks: &[Task], files: &[Files]) -> Result<RunId, Failure> {
    let judge_hash = judge_hash();
    let tasks: Vec<_> =
        tasks.iter().zip(files).map(|(task, files)| NewTask::of(task, files)).collect();
    let new = NewRun {
        kind: RunKind::Auto,
        settings_json: "{}",
        secret_seeds_json: "[]",
        judge_hash: judge_hash.as_str(),
        toolchain_id: "nvrtc",
        prompts_hash: "prompts",
        tasks: &tasks,
        device: &DeviceFacts::simulated_h200(),
        gpus: &[],
    };
    Ok(store.start_run(&new).await?)
}

fn engine(store: Store, tasks: Vec<Task>, attempts: u32) -> Result<Engine<ScriptedModel>, Failure> {
    let judge = Arc::new(Judge::new(JudgeConfig {
        program: PathBuf::from("/absent"),
        toolchain: serde_json::Value::Null,
        toolchain_id: "nvrtc".to_owned(),
        device: DeviceFacts::simulated_h200(),
        gpus: None,
        policy: judge::JudgePolicy::all(),
        baselines: judge::BaselineConfig::default(),
        confinement: judge::ConfinementConfig::default(),
    }));
    let text =
        |(name, bytes): (String, Vec<u8>)| Ok::<_, Failure>((name, String::from_utf8(bytes)?));
    let prompts = read_folder("prompts", "")?.into_iter().map(text).collect::<Result<_, _>>()?;
    let limits = SearchLimits { attempts_max: attempts, plateau: None, in_flight_max: 4 };
    let operator = |task| Operator::new(Arc::new(task), Arc::default(), limits, 1.0);
    // An answer without a kernel is closed without compiler or child.
    let model = ScriptedModel::new(&Server::default(), "I would rather not.", true);
    let model_use = ModelUse { calls_at_once: 16, modes: Vec::new() };
    Ok(Engine {
        store,
        models: Models::new(vec![(model, model_use)], ModelOrder::Turns),
        evaluator: judge.clone(),
        judge,
        templates: Templates::new(prompts)?,
        operators: tasks.into_iter().map(operator).collect(),
        budget: Budget { nusd_max: Some(i64::MAX / 2), ..Budget::of_attempts(attempts) },
        promotes: Promotes::Nobody,
        seed: RunSeed([7; 32]),
        interrupt: Interrupt::default(),
        observer: Arc::new(|_: Progress<'_>| {}),
        tells_bookings: false,
        here: Here::default(),
        in_flight: InFlight::default(),
        pools: Pools::new(2, 2, 64),
        cards: agent::Cards::default(),
        claims: Claims::default(),
    })
}

/// The files of a task like `vector_add` with a name of its own.
fn files_of(index: u32) -> Result<Files, Failure> {
    let mut files = Files::new();
    for part in ["", "wrong", "baseline"] {
        files.extend(read_folder("tasks/vector_add", part)?);
    }
    let toml = files.get("task.toml").cloned().ok_or("no task.toml")?;
    let toml = String::from_utf8(toml)?.replace("\"vector_add\"", &format!("\"task_{index}\""));
    files.insert("task.toml".to_owned(), toml.into_bytes());
    Ok(files)
}

fn read_folder(root: &str, part: &str) -> Result<Files, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(root);
    let mut files = Files::new();
    let Ok(entries) = root.join(part).read_dir() else { return Ok(files) };
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            let name = path.strip_prefix(&root)?.to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(files)
}
