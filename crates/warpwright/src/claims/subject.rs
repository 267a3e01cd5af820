//! What is measured: a candidate with its task, built here.

use std::collections::BTreeMap;

use anyhow::Context;
use judge::{Build, Judge, judge_hash};
use pipeline::candidate::{Candidate, build_id, eval_key};
use pipeline::digest::Digest;
use pipeline::reply::candidate_of_parts;
use pipeline::task::Task;
use store::{AttemptRow, BuildRow, Store};

use crate::claims::blocking;
use crate::outcome::bad_input;
use crate::wiring;

/// A candidate that can be run on this machine's cards.
pub(crate) struct Subject {
    pub(crate) task: Task,
    pub(crate) candidate: Candidate,
    pub(crate) tunables: BTreeMap<String, i64>,
    pub(crate) build: Build,
    pub(crate) eval_key: Digest,
}

impl Subject {
    /// The candidate of an attempt, built again where its build is not for this machine.
    pub(crate) async fn of_attempt(
        store: &Store,
        judge: &Judge,
        attempt: &AttemptRow,
    ) -> anyhow::Result<Self> {
        let files = store.task_files(&attempt.task_hash).await?;
        let task = wiring::parse_task(files)?.task;
        let lacks = || bad_input(format!("attempt {} has no kernel", attempt.ask.seq));
        let row = attempt.candidate.as_ref().ok_or_else(lacks)?;
        let candidate = candidate_of_parts(&row.source, &row.plan_text, &task.signature())
            .map_err(|malformed| bad_input(malformed.to_string()))?;
        let tunables = row.tunables.clone();
        let stored = attempt.build.as_ref().and_then(restored);
        Self::built(judge, task, candidate, tunables, stored)
    }

    /// A candidate with the build that is stored, if it is the one that this machine would make.
    pub(crate) fn built(
        judge: &Judge,
        task: Task,
        candidate: Candidate,
        tunables: BTreeMap<String, i64>,
        stored: Option<Build>,
    ) -> anyhow::Result<Self> {
        let config = judge.config();
        let names = candidate.plan.kernel_names();
        let (arch, toolchain) = (&config.device.arch, &config.toolchain_id);
        let here = build_id(&candidate.source, &tunables, &names, arch, toolchain);
        let build = match stored.filter(|build| build.id == here) {
            Some(build) => build,
            None => blocking(|cancel| judge.build(&task, &candidate, &tunables, cancel))?,
        };
        if let Some(verdict) = &build.verdict {
            return Err(bad_input(format!(
                "it does not build here: {verdict}: {}",
                verdict.detail
            )));
        }
        let facts = build.facts.as_ref().context("a build without facts")?;
        let key = eval_key(
            &facts.ptx_hash,
            &candidate.plan.verdict_hash(&tunables),
            &task.hash,
            &config.device.model,
            judge_hash().as_str(),
        );
        Ok(Self { task, candidate, tunables, build, eval_key: key })
    }

    /// Hash of the normalised PTX.
    pub(crate) fn ptx_hash(&self) -> &str {
        self.build.facts.as_ref().map_or("", |facts| &facts.ptx_hash)
    }
}

/// A compile as it came from the judge; `None` when it lacks what it must have to run.
fn restored(built: &BuildRow) -> Option<Build> {
    Some(Build {
        id: built.id.clone(),
        facts: built.facts.clone(),
        diagnostics: built.diagnostics.clone(),
        log: built.log.clone(),
        ptx: built.ptx.clone()?,
        cubin: built.cubin.clone()?,
        verdict: built.verdict.clone(),
        held: built.held.clone(),
    })
}
