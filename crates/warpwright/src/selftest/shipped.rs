//! Kernels that come with the program, built and judged as a run would.

use std::time::Instant;

use judge::{CancelFlag, Evaluation, Judge, Judgement, RunSeed};
use pipeline::candidate::Candidate;
use pipeline::reply;
use pipeline::task::Task;
use pipeline::verdict::Verdict;

use crate::wiring;

/// A kernel that comes with the program.
pub(crate) struct Shipped {
    pub(crate) task: Task,
    pub(crate) candidate: Result<Candidate, Verdict>,
}

impl Shipped {
    pub(crate) fn new(task: &str, reply: &str) -> anyhow::Result<Self> {
        let task = wiring::load_task(task)?.task;
        let parsed = reply::candidate(reply, &task.signature());
        let candidate = parsed.map_err(|malformed| malformed.verdict());
        Ok(Self { task, candidate })
    }

    /// Gives a dimension of the headline another extent.
    pub(crate) fn resize(&mut self, dim: &str, extent: i64) {
        let cases = self.task.spec.cases.iter_mut().filter(|case| case.name == "headline");
        cases.for_each(|case| {
            case.dims.insert(dim.to_owned(), extent);
        });
    }

    /// Builds it and does something with its evaluation.
    pub(crate) fn with_evaluation<T>(
        &self,
        judge: &Judge,
        seed: &RunSeed,
        work: impl FnOnce(&Evaluation<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let candidate = self.candidate.as_ref().map_err(|verdict| anyhow::anyhow!("{verdict}"))?;
        let tunables = candidate.plan.default_tunables();
        let build = judge.build(&self.task, candidate, &tunables, &CancelFlag::default())?;
        if let Some(verdict) = &build.verdict {
            anyhow::bail!("{verdict}: {}", verdict.detail);
        }
        let (task, tunables) = (&self.task, &tunables);
        work(&Evaluation { task, candidate, tunables, build: &build, seed, index: 0 })
    }

    /// Builds and evaluates it as a run would.
    pub(crate) fn judged(
        &self,
        judge: &Judge,
        seed: &RunSeed,
        index: u64,
    ) -> anyhow::Result<Judged> {
        let cancel = CancelFlag::default();
        let candidate = match &self.candidate {
            Ok(candidate) => candidate,
            Err(verdict) => return Ok(Judged::early(verdict.clone())),
        };
        let tunables = candidate.plan.default_tunables();
        let started = Instant::now();
        let build = judge.build(&self.task, candidate, &tunables, &cancel)?;
        let build_ms = 1e3 * started.elapsed().as_secs_f64();
        if let Some(verdict) = &build.verdict {
            return Ok(Judged::early(verdict.clone()));
        }
        let evaluation = Evaluation {
            task: &self.task,
            candidate,
            tunables: &tunables,
            build: &build,
            seed,
            index,
        };
        let judgement = judge.evaluate(&evaluation, &cancel)?;
        Ok(Judged {
            verdict: judgement.verdict.clone(),
            build_ms,
            total_ms: 1e3 * started.elapsed().as_secs_f64(),
            judgement: Some(judgement),
        })
    }
}

/// What came of a shipped kernel.
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) judgement: Option<Judgement>,
    pub(crate) build_ms: f64,
    pub(crate) total_ms: f64,
}

impl Judged {
    fn early(verdict: Verdict) -> Self {
        Self { verdict, judgement: None, build_ms: 0.0, total_ms: 0.0 }
    }
}
