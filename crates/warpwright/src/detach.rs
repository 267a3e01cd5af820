//! A run in the background: the same program again in a session of its own, which says once it has
//! begun. Its standard input is the line back to whoever started it, its output a log.
//!
//! Start at [`start`] for whoever starts it, at [`enter`] for the run itself.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::Context;
use rustix::process::setsid;
use serde_json::{Value, json};
use store::RunId;
use tokio::signal::unix::{SignalKind, signal};

use crate::limits::{BEGUN_LINE_BYTES_MAX, LOG_BYTES_MAX, LOG_SHOWN_BYTES_MAX};
use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::{environment, terminal};

const DETACH: &str = "--detach";
const BACKGROUND: &str = "--background";
/// Ends of a log's name: while the run has not begun, and of the one before a new one was begun.
const LOG: &str = "log";
const OLDER: &str = "1";

/// The log of this process, where it is a background run.
static OWN_LOG: OnceLock<Mutex<PathBuf>> = OnceLock::new();

/// Starts this command again in the background, and returns once its run has begun or it ended.
pub(crate) fn start(places: &Places) -> anyhow::Result<Outcome> {
    let log = beside(&places.ledger, &format!("starting-{}", std::process::id()));
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
    }
    let output = open_log(&log)?;
    let (ours, theirs) = UnixStream::pair().context("a line to the run")?;
    let program = std::env::current_exe().context("where this program is")?;
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != DETACH);
    let mut child = Command::new(program)
        .args(arguments)
        .arg(BACKGROUND)
        .arg(&log)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(output))
        .spawn()
        .context("starting the run")?;
    let mut line = String::new();
    // Without a line it has ended: then nobody else holds the other end.
    let _ = BufReader::new(ours.take(BEGUN_LINE_BYTES_MAX)).read_line(&mut line);
    if let Ok(begun) = serde_json::from_str::<Value>(&line) {
        return Ok(told(&begun, child.id()));
    }
    let status = child.wait().context("waiting for the run that did not begin")?;
    let said = std::fs::read(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LOG_SHOWN_BYTES_MAX)..]);
    let lines = said.lines().filter(|line| !line.starts_with('{'));
    lines.for_each(terminal::note);
    let error = said.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let exit = code.and_then(Exit::of_code).unwrap_or(Exit::OurError);
    let reason = error.map_or_else(|| format!("the run ended with {status}"), str::to_owned);
    Ok(Outcome::ended(exit, reason))
}

fn told(begun: &Value, pid: u32) -> Outcome {
    let text = |name: &str| begun[name].as_str().unwrap_or_default().to_owned();
    let (run, log, program) = (text("run"), text("log"), environment::program_name());
    terminal::line(&format!("Run:    {run}"));
    terminal::line(&format!(
        "Process {pid} goes on in the background, whatever becomes of this one."
    ));
    terminal::line(&format!("Log:    {log}\n"));
    terminal::line("Next:");
    for (command, what) in [
        (format!("status --follow {run}"), "each attempt as it ends"),
        (format!("tell {run} --pause"), "also --hint, --weight, --add"),
        (format!("stop {run}"), "after the step in hand"),
    ] {
        terminal::line(&format!("  {program} {command:<55} {what}"));
    }
    Outcome::done().with("run", run).with("pid", pid).with("log", log)
}

/// Makes this process a background run with this log: a session of its own, where no terminal's
/// end reaches it.
pub(crate) fn enter(log: &Path) -> anyhow::Result<()> {
    // A process that leads a session already is one of its own.
    let _ = setsid();
    // From now on a hang-up is only noted.
    drop(signal(SignalKind::hangup()).context("listening for a hang-up")?);
    OWN_LOG.get_or_init(|| Mutex::new(log.to_owned()));
    Ok(())
}

/// True in a background run.
pub(crate) fn is_background() -> bool {
    OWN_LOG.get().is_some()
}

/// Says to whoever started this process that the run has begun, and gives the log its name.
pub(crate) fn begun(ledger: &Path, run: &RunId) -> anyhow::Result<()> {
    let Some(own) = OWN_LOG.get() else { return Ok(()) };
    let log = beside(ledger, run.as_str());
    {
        let mut path = locked(own);
        if log.exists() {
            std::fs::rename(&log, older(&log)).context("putting the older log aside")?;
        }
        std::fs::rename(&*path, &log).with_context(|| format!("log {}", log.display()))?;
        path.clone_from(&log);
    }
    let line = format!("{}\n", json!({ "run": run.as_str(), "log": log.display().to_string() }));
    rustix::io::write(rustix::stdio::stdin(), line.as_bytes())
        .context("whoever started this run is gone; `resume` begins it")?;
    let nothing = File::open("/dev/null").context("no /dev/null")?;
    rustix::stdio::dup2_stdin(&nothing).context("closing the line to whoever started this run")
}

/// Begins a new log where the one of this process is full.
pub(crate) fn rotate_if_full() {
    let Some(own) = OWN_LOG.get() else { return };
    let path = locked(own);
    let full = std::fs::metadata(&*path).is_ok_and(|found| found.len() >= LOG_BYTES_MAX);
    if !full || std::fs::rename(&*path, older(&path)).is_err() {
        return;
    }
    // Where no new one can be made, the older one goes on.
    if let Ok(log) = open_log(&path) {
        let _ = rustix::stdio::dup2_stdout(&log).and(rustix::stdio::dup2_stderr(&log));
        let _ = writeln!(&log, "(what was before is in {})", older(&path).display());
    }
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).open(path);
    opened.with_context(|| format!("log {}", path.display()))
}

/// `LEDGER.NAME.log`, absolute.
fn beside(ledger: &Path, name: &str) -> PathBuf {
    let real = std::path::absolute(ledger).unwrap_or_else(|_| ledger.to_owned());
    let mut path = real.into_os_string();
    path.push(format!(".{name}.{LOG}"));
    PathBuf::from(path)
}

fn older(log: &Path) -> PathBuf {
    let mut path = log.to_owned().into_os_string();
    path.push(format!(".{OLDER}"));
    PathBuf::from(path)
}

fn locked(log: &Mutex<PathBuf>) -> MutexGuard<'_, PathBuf> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
