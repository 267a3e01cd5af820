//! What a person sees while a run goes on: a line for each closed attempt and, on a terminal, live
//! lines below them.
//!
//! Live lines are drawn by a thread of their own, so that a run never waits for a terminal. What
//! they say is in [`crate::live`].

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::{Done, Progress};
use pipeline::attempt::State;
use pipeline::closing::Work;
use pipeline::notice::Notice;

use crate::commands::drive::attempt_line;
use crate::limits::LIVE_TICK_MS;
use crate::live::{Fact, Live};
use crate::notify::Notifier;
use crate::settings::RunSettings;
use crate::{runtime, terminal};

/// Live lines on the terminal until this is dropped.
pub(crate) struct Watch {
    sender: Sender<Told>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is told.
enum Told {
    Fact(Fact),
    /// A line that stays.
    Line(String),
    End,
}

impl Watch {
    /// Begins to draw.
    ///
    /// # Errors
    /// No thread is left.
    pub(crate) fn begin(live: Live) -> anyhow::Result<Self> {
        let (sender, told) = channel();
        let thread = runtime::spawn("draws the live lines", move || draw(live, &told))?;
        Ok(Self { sender, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.sender.send(Told::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn draw(mut live: Live, told: &Receiver<Told>) {
    let begun = Instant::now();
    let now_ms = || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    loop {
        match told.recv_timeout(Duration::from_millis(LIVE_TICK_MS)) {
            Ok(Told::Fact(fact)) => live.take(&fact, now_ms()),
            Ok(Told::Line(line)) => terminal::line(&line),
            Ok(Told::End) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        terminal::set_live(live.lines(terminal::size(), now_ms()));
    }
    terminal::set_live(Vec::new());
}

/// An observer that prints, or has the thread of `watch` print; with several tasks, each line
/// names its own.
pub(crate) fn printer(
    settings: &RunSettings,
    watch: Option<&Watch>,
) -> impl Fn(Progress<'_>) + Send + Sync + 'static {
    let many = settings.operators.len() > 1;
    let sender = watch.map(|watch| watch.sender.clone());
    move |progress| {
        let line = plain_line(&progress, many);
        let Some(sender) = &sender else {
            line.iter().for_each(|line| terminal::line(line));
            return;
        };
        let told = line.map(Told::Line).into_iter().chain(Fact::of(&progress).map(Told::Fact));
        told.for_each(|told| _ = sender.send(told));
    }
}

/// An observer that prints, and tells a program of what people want to hear who do not look.
pub(crate) fn observer(
    settings: &RunSettings,
    watch: Option<&Watch>,
    notifier: Option<Arc<Notifier>>,
) -> impl Fn(Progress<'_>) + Send + Sync + 'static {
    let print = printer(settings, watch);
    move |progress| {
        if let (Progress::Notice { notice }, Some(notifier)) = (progress, &notifier) {
            notifier.tell(notice);
        }
        print(progress);
    }
}

/// That a look at a best kernel begins, where that is to be said.
fn begun_in_words(work: Work, cost_ms: i64) -> Option<String> {
    match work {
        Work::Measure(_) => None,
        Work::Accept(_) => Some(format!(
            "goes through the full protocol behind a claim, about {} s",
            cost_ms / 1_000
        )),
    }
}

/// What a look at a best kernel came to, where that is to be said.
fn look_in_words(work: Work, done: &Done) -> Option<String> {
    Some(match (work, done) {
        (_, Done::Quietly) => return None,
        (_, Done::Claimed { claim, says }) => format!("claim {claim}: {says}"),
        (Work::Measure(_), Done::Without(why) | Done::Noisy(why) | Done::Left(why)) => {
            format!("was not measured beside a baseline: {why}")
        }
        (Work::Accept(_), Done::Without(why) | Done::Noisy(why)) => format!("no claim: {why}"),
        (Work::Accept(_), Done::Left(left)) => {
            format!("its acceptance was stopped: {left}; `resume` or `accept` goes on with it")
        }
    })
}

/// The line that stays, if there is one.
fn plain_line(progress: &Progress<'_>, many: bool) -> Option<String> {
    let prefix = |task: &str| if many { format!("{task} ") } else { String::new() };
    let line = match *progress {
        Progress::Reached { task, attempt } if attempt.state == State::Closed => {
            format!("{}{}", prefix(task), attempt_line(attempt))
        }
        Progress::Reached { .. } | Progress::Booked { .. } | Progress::Elsewhere { .. } => {
            return None;
        }
        Progress::Retrying { task, seq, why, wait_ms } => {
            let seconds = wait_ms as f64 / 1e3;
            format!("{}#{seq} asking again in {seconds:.1} s: {why}", prefix(task))
        }
        Progress::Resting { model, why, wait_ms: Some(wait_ms) } => {
            let seconds = wait_ms as f64 / 1e3;
            format!("{model} is not asked for {seconds:.0} s: {why}")
        }
        Progress::Resting { model, why, wait_ms: None } => {
            format!("{model} is not asked any more in this run: {why}")
        }
        Progress::Back { model } => format!("{model} answers again"),
        Progress::SearchEnded { task, end } => {
            format!("{}search ended: {}", prefix(task), end.describe())
        }
        Progress::Paused { why: Some(why) } => format!("paused: {why}"),
        Progress::Paused { why: None } => "going on".to_owned(),
        // Shares of caps stand in the live lines and in `status`.
        Progress::Notice { notice: Notice::CapShare { .. } } => return None,
        // Said above, with more about it.
        Progress::Notice { notice: Notice::BreakerOpen { .. } | Notice::BreakerClosed { .. } } => {
            return None;
        }
        Progress::Notice { notice } => notice.describe(),
        Progress::Looking { task, seq, work, cost_ms } => {
            format!("{}#{seq} {}", prefix(task), begun_in_words(work, cost_ms)?)
        }
        Progress::LookEnded { task, seq, work, done } => {
            format!("{}#{seq} {}", prefix(task), look_in_words(work, done)?)
        }
        Progress::Unlooked { why } => format!("the best kernels cannot be looked at: {why}"),
        Progress::Unnoted { why } => {
            terminal::note(&format!("the run broke, and the ledger could not note it: {why}"));
            return None;
        }
    };
    Some(terminal::one_line(&line))
}
