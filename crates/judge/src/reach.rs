//! What a child can reach, and what confining it costs: found out with real children.

use std::net::{TcpListener, UdpSocket};
use std::time::Instant;

use pipeline::confinement::Confinement;
use pipeline::timing::median;
use sandbox::wire::{ProbeReport, ProbeRequest, ReachTargets};
use sandbox::{CancelFlag, ChildKind, ConfinementSet};

use crate::children::Call;
use crate::gpu::reported;
use crate::limits::PROBE_LIMITS;
use crate::{Judge, JudgeError};

/// What a confined child could do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// What held it.
    pub confinement: Confinement,
    /// What was tried, and what stopped it; `None` where nothing did.
    pub attempts: Vec<(String, Option<String>)>,
}

impl Reached {
    /// What worked that must not.
    #[must_use]
    pub fn open(&self) -> Vec<&str> {
        let open = self.attempts.iter().filter(|(_, stopped)| stopped.is_none());
        open.map(|(what, _)| what.as_str()).collect()
    }
}

/// Medians of the wall time of a child that does next to nothing, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfinementCost {
    /// Held by nothing but its process.
    pub bare_ms: f64,
    /// Held by all that there is.
    pub full_ms: f64,
}

impl Judge {
    /// Has a child that is held as one of a kind try to reach what it must not; on a card, where
    /// this judge has cards and the kind uses them.
    ///
    /// # Errors
    /// No card to be had, or breakage.
    pub fn reach(&self, kind: ChildKind, cancel: &CancelFlag) -> Result<Reached, JudgeError> {
        let lease = match kind {
            ChildKind::Build | ChildKind::Verify => None,
            ChildKind::Reference
            | ChildKind::Candidate
            | ChildKind::Baseline
            | ChildKind::Probe => self.lease(cancel)?,
        };
        let environment = lease.as_ref().map_or_else(Vec::new, |lease| lease.environment());
        let with_gpu = lease.is_some();
        let set = self.config.confinement.of_child(kind, with_gpu, &environment);
        let reached = self.reach_with(set, with_gpu, &environment, cancel)?;
        self.note_confinement(Some(reached.confinement.clone()));
        Ok(reached)
    }

    /// What confining a child without a card costs: children that are held by all and by nothing,
    /// in turn.
    ///
    /// # Errors
    /// Breakage.
    pub fn confinement_cost(
        &self,
        rounds: u32,
        cancel: &CancelFlag,
    ) -> Result<ConfinementCost, JudgeError> {
        let full = self.config.confinement.of_child(ChildKind::Candidate, false, &[]);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds.max(1) {
            for (set, times) in [ConfinementSet::of_nothing(), full.clone()].iter().zip(&mut times)
            {
                let started = Instant::now();
                self.reach_with(set.clone(), false, &[], cancel)?;
                times.push(1e3 * started.elapsed().as_secs_f64());
            }
        }
        let [bare, full] = times.map(|times| median(times).unwrap_or(f64::NAN));
        Ok(ConfinementCost { bare_ms: bare, full_ms: full })
    }

    /// Has a child under any set try it.
    pub(crate) fn reach_with(
        &self,
        set: ConfinementSet,
        with_context: bool,
        environment: &[(String, String)],
        cancel: &CancelFlag,
    ) -> Result<Reached, JudgeError> {
        // Without a loopback interface here, there is nothing to be reached over it.
        let tcp = TcpListener::bind("127.0.0.1:0").ok();
        let udp = UdpSocket::bind("127.0.0.1:0").ok();
        let request = ProbeRequest::Reach(ReachTargets {
            process: std::process::id(),
            home: std::env::var("HOME").ok(),
            tcp_port: tcp.as_ref().and_then(|tcp| Some(tcp.local_addr().ok()?.port())),
            udp_port: udp.as_ref().and_then(|udp| Some(udp.local_addr().ok()?.port())),
            with_context,
        });
        let call = Call {
            program: &self.config.program,
            watched_by: &[],
            kind: ChildKind::Probe,
            limits: &PROBE_LIMITS,
            environment,
            confinement: set,
        };
        let performed = call.perform(&request, &[], cancel)?;
        let child = "probe";
        let unconfined = || JudgeError::Child { child, why: "nothing held it".to_owned() };
        match (reported(performed.end)?, performed.confinement) {
            (ProbeReport::Reached(attempts), Some(confinement)) => {
                Ok(Reached { confinement, attempts })
            }
            (ProbeReport::Reached(_), None) => Err(unconfined()),
            _ => Err(JudgeError::Child { child, why: "it answered otherwise".to_owned() }),
        }
    }
}
