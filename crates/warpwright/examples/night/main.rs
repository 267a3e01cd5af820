//! What a long night costs this program itself, each figure against its bound.
//!
//! `lease`: the real loop with real builds, a scripted model of 20 s latency with 16 calls open and
//! jobs that hold a card's lease for 1 s, in real time. `ledger`: the real loop at 200 tasks on a
//! ledger that has 100,000 attempts, a quarter of them through every state. Replies have 12 kB.
//! Start at [`main`]; `cargo xtask bench night [SECONDS [ATTEMPTS TASKS]]`.

mod lease;
mod ledger;
mod model;
mod world;

use std::process::ExitCode;
use std::time::Duration;

/// Ticks a second in `/proc`, the same on every x86-64 and ARM.
const TICKS_PER_S: u64 = 100;
/// Times and shares that must hold.
const LEASE_BUSY_MIN: f64 = 0.95;
const OVERHEAD_MAX_MS: f64 = 5.0;
const WRITE_MAX_MS: f64 = 5.0;
const STATUS_MAX_MS: f64 = 200.0;
const MEMORY_MAX_MB: f64 = 500.0;

/// A line on standard output.
macro_rules! say {
    ($($words:tt)*) => {
        {
            let line = format!($($words)*);
            std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{line}\n"))?
        }
    };
}
pub(crate) use say;

/// Figures with their bounds.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    missed: u32,
}

impl Figures {
    /// A figure that must stay below `bound`.
    pub(crate) fn below(&mut self, what: &str, found: f64, bound: f64) -> std::io::Result<()> {
        self.note(what, found, ("below", bound), found < bound)
    }

    /// A figure that must reach `bound`.
    pub(crate) fn from(&mut self, what: &str, found: f64, bound: f64) -> std::io::Result<()> {
        self.note(what, found, ("at least", bound), found >= bound)
    }

    fn note(
        &mut self,
        what: &str,
        found: f64,
        (word, bound): (&str, f64),
        holds: bool,
    ) -> std::io::Result<()> {
        let mark = if holds { "" } else { "  MISSED" };
        say!("{what:<58} {found:>9.3}  ({word} {bound}){mark}");
        self.missed += u32::from(!holds);
        Ok(())
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(sandbox::CHILD_COMMAND) {
        sandbox::inside::serve(&arguments.next().unwrap_or_default(), runner::run_child);
    }
    if first.as_deref() == Some(sandbox::CONFINED_COMMAND) {
        sandbox::launch();
    }
    let mut numbers = first.into_iter().chain(arguments).map(|word| word.parse::<u32>());
    let seconds = numbers.next().unwrap_or(Ok(200))?;
    let attempts = numbers.next().unwrap_or(Ok(100_000))?;
    let tasks = numbers.next().unwrap_or(Ok(200))?;
    let mut figures = Figures::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        say!("load of the machine at the beginning {}", load());
        lease::measure(Duration::from_secs(seconds.into()), &mut figures).await?;
        ledger::measure(attempts, tasks, &mut figures).await?;
        say!("load of the machine at the end {}", load());
        anyhow::Ok(())
    })?;
    say!("{} figures missed their bound", figures.missed);
    Ok(if figures.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What others do on this machine, as the kernel averages it over 1, 5 and 15 minutes.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let of = text.split(' ').take(3).collect::<Vec<_>>().join(" ");
    format!("{of}, of {cores} processors")
}

/// Processor time of this process, without that of its children.
pub(crate) fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may hold anything, the 12th and 13th: ticks in user and kernel mode.
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(1_000 * ticks / TICKS_PER_S)
}

/// The time within which so many of 100 are.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
