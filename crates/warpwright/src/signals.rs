//! Signals that ask this program to stop: Ctrl-C, SIGTERM, and a terminal that went away.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::detach;

/// The process status, where ignored signals are a hexadecimal mask, SIGHUP its lowest bit.
const STATUS: &str = "/proc/self/status";

/// Every signal that asks to stop.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where somebody had it ignored, as `nohup` does, and in the background.
    hangup: Option<Signal>,
}

impl StopSignals {
    /// Listens from now on.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let of = |kind, name| signal(kind).with_context(|| format!("listening for {name}"));
        let harmless = is_hangup_ignored() || detach::is_background();
        let hangup = if harmless { None } else { Some(of(SignalKind::hangup(), "a hang-up")?) };
        Ok(Self {
            interrupt: of(SignalKind::interrupt(), "Ctrl-C")?,
            terminate: of(SignalKind::terminate(), "SIGTERM")?,
            hangup,
        })
    }

    /// Returns when one of them comes; `None` when none can come any more.
    pub(crate) async fn next(&mut self) -> Option<()> {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            received = self.interrupt.recv() => received,
            received = self.terminate.recv() => received,
            received = hangup => received,
        }
    }
}

fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string(STATUS).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}
