//! The clock of an acceptance, held against NVIDIA's profiler.
//!
//! The profiler waits for each launch, so its window has no gate. It keeps its privileges, so that
//! window never runs beside secrets: its contents are drawn from a seed that everybody knows, and
//! nobody compares its outputs. Start at [`Judge::profiler_clock`].

use std::path::Path;

use pipeline::acceptance::{Entry, Found, Subject, Timed, WindowRecord};
use pipeline::build::BuildFacts;
use pipeline::launch::{ResolvedPlan, ResolvedStep};
use pipeline::limits::{MESSAGE_BYTES_MAX, SHORT_TIME_NS, capped};
use pipeline::report::microseconds;
use pipeline::task::spec::Case;
use pipeline::timing::median;
use sandbox::{CancelFlag, ConfinementSet};

use crate::compared::Bulk;
use crate::evaluate::Evaluation;
use crate::headline::{Headline, WindowKind};
use crate::limits::{
    LAUNCH_GAP_NS, PROFILED_CALLS, PROFILED_CALLS_MIN, PROFILED_LAUNCHES_MAX, PROFILER_TOLERANCE,
};
use crate::reference::image_memfds;
use crate::tools::find_tool;
use crate::{Judge, JudgeError, RunSeed};

/// What is read of the profiler.
const METRIC: &str = "gpu__time_duration.sum";
/// No secret: a tool, with what it watches, may see what is drawn from it.
pub(crate) const KNOWN_SEED: RunSeed = RunSeed([0x6e; 32]);

/// What the windows of an acceptance say of the candidate on a case.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Accepted {
    median_ns: f64,
    /// True where the card was held back for all of it, by its power cap for example.
    held_back: bool,
}

/// The profiler's command line before the program's own: kernels by their names in the module.
#[must_use]
pub fn profiler_words(ncu: &Path, kernels: &[String]) -> Vec<String> {
    let regex = format!("regex:^({})$", kernels.join("|"));
    let words = ["--clock-control", "none", "--cache-control", "none", "--csv"];
    let rest = ["--print-units", "base", "--metrics", METRIC, "--kernel-name-base", "mangled"];
    let all = words.into_iter().chain(rest).chain(["-k", &regex]).map(str::to_owned);
    [ncu.display().to_string()].into_iter().chain(all).collect()
}

/// The metric of each launch in order, in nanoseconds, from the profiler's page of details in base
/// units; none where it could not tell one of them.
#[must_use]
pub fn profiler_times(text: &str) -> Vec<f64> {
    let mut lines = text.lines().skip_while(|line| !line.contains("\"Metric Name\""));
    let names = lines.next().map(fields).unwrap_or_default();
    let column = |wanted: &str| names.iter().position(|name| name == wanted);
    let columns = (column("Metric Name"), column("Metric Unit"), column("Metric Value"));
    let (Some(name), Some(unit), Some(value)) = columns else { return Vec::new() };
    let time = |line: &str| {
        let fields = fields(line);
        let is_time = fields.get(name)? == METRIC && fields.get(unit)? == "ns";
        let number = || fields.get(value)?.replace(',', "").parse().ok();
        is_time.then(|| number().filter(|ns: &f64| ns.is_finite() && *ns > 0.0))
    };
    lines.filter_map(time).collect::<Option<_>>().unwrap_or_default()
}

/// Fields of a line of CSV in double quotes.
fn fields(line: &str) -> Vec<String> {
    let line = line.trim();
    let inner = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(line);
    inner.split("\",\"").map(str::to_owned).collect()
}

impl Judge {
    /// Nanoseconds of each launch of a candidate's headline by the profiler, and the launches of
    /// one call; why where there is no profiler, or where it measured nothing.
    ///
    /// # Errors
    /// No GPU, or breakage.
    pub fn profiled_launches(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Result<(Vec<f64>, usize), String>, JudgeError> {
        let (Some(case), Some(facts)) = (evaluation.task.spec.headline(), &evaluation.build.facts)
        else {
            return Ok(Err("there is no headline".to_owned()));
        };
        let Some(ncu) = find_tool("ncu") else { return Ok(Err("there is no ncu".to_owned())) };
        let Ok(plan) = self.plan_at(evaluation, facts, case) else {
            return Ok(Err("the plan does not cover the headline".to_owned()));
        };
        let kernels = match profiled_kernels(facts, &plan) {
            Ok(kernels) => kernels,
            Err(why) => return Ok(Err(why)),
        };
        let words = profiler_words(&ncu, &kernels);
        Ok(self.profiled(evaluation, case, &words, cancel)?.and_then(|said| {
            let times = profiler_times(&said);
            if !times.is_empty() {
                return Ok((times, plan.steps.len()));
            }
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(format!("ncu did not time each launch: {said}"))
        }))
    }

    /// Holds the accepted windows of the headline against the profiler's durations, once.
    pub(crate) fn profiler_clock(
        &self,
        evaluation: &Evaluation<'_>,
        entries: &[Entry],
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let not_available =
            |why: &str| Ok(Found::NotAvailable { why: capped(why, MESSAGE_BYTES_MAX) });
        let Some(case) = evaluation.task.spec.headline() else {
            return not_available("there is no headline");
        };
        let accepted = match accepted(entries, &case.name) {
            Ok(accepted) => accepted,
            Err(why) => return not_available(why),
        };
        let (times, launches) = match self.profiled_launches(evaluation, cancel)? {
            Ok(found) => found,
            Err(why) => return not_available(&why),
        };
        match per_call_ns(&times, launches) {
            Some(profiled_ns) => Ok(agreement(&accepted, profiled_ns, launches)),
            None => not_available("ncu did not time each launch"),
        }
    }

    /// Runs a window of the candidate under the profiler; gives what it said, or why there is none.
    fn profiled(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        words: &[String],
        cancel: &CancelFlag,
    ) -> Result<Result<String, String>, JudgeError> {
        let (Some(_), Some(facts)) = (&self.config.gpus, &evaluation.build.facts) else {
            return Err(JudgeError::NotAvailable("no GPU, so no times".to_owned()));
        };
        let confinement = &self.config.confinement;
        let reached = confinement.reach_of_profiler();
        if reached < confinement.level_required {
            return Ok(Err(format!(
                "confinement of level {} is required and ncu reaches {reached} at most, since root \
                 did not start it",
                confinement.level_required
            )));
        }
        let known = Evaluation { seed: &KNOWN_SEED, index: 0, ..*evaluation };
        let launches = known.candidate.plan.kernels().count().max(1) as u32;
        let calls = (PROFILED_LAUNCHES_MAX / launches).clamp(PROFILED_CALLS_MIN, PROFILED_CALLS);
        let headline = self.timed_case(&known, case, WindowKind::Profiled { calls }, cancel)?;
        if let Headline::Untimed(why) = &headline {
            return Ok(Err(why.clone()));
        }
        let image = image_memfds(known.build)?;
        let mut bulk = Bulk(image.iter().collect());
        let request = self.run_request(&known, facts, &[], &headline, &mut bulk);
        let Bulk(mut bulk) = bulk;
        bulk.extend(headline.bulk());
        // The child has no standard output; the profiler's own goes where the judge reads.
        let to_stderr = ["--log-file", "stderr"].map(str::to_owned);
        let watched_by: Vec<String> = words.iter().cloned().chain(to_stderr).collect();
        let watched = (ConfinementSet::of_profiler(), &*watched_by);
        let (_, said) = self.perform_watched(request, &bulk, watched, cancel)?;
        Ok(Ok(said))
    }
}

/// The median of the candidate's windows on a case, or why they cannot be held against anything.
fn accepted(entries: &[Entry], case: &str) -> Result<Accepted, &'static str> {
    let own = |record: &&WindowRecord| record.case == case && record.subject == Subject::Candidate;
    let windows = entries.iter().filter_map(|entry| match entry {
        Entry::Window(record) => Some(record),
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Checked { .. } | Entry::Pilot(_) => None,
    });
    let windows: Vec<&WindowRecord> =
        windows.filter(own).filter(|it| matches!(it.timed, Timed::Measured { .. })).collect();
    if windows.iter().any(|record| record.ungated) {
        return Err("the windows were ungated, so the host's delays are in their times");
    }
    let times = windows.iter().filter_map(|record| record.median_ns()).collect();
    let median_ns = median(times).ok_or("no window gave a time")?;
    Ok(Accepted { median_ns, held_back: windows.iter().any(|it| !it.steady.is_empty()) })
}

/// Names of a call's kernels in the module, or why the profiler cannot tell a call's time.
fn profiled_kernels(facts: &BuildFacts, plan: &ResolvedPlan) -> Result<Vec<String>, String> {
    let lowered = |step: &ResolvedStep| match step {
        ResolvedStep::Kernel(launch) => {
            let mut names = facts.lowered_names.iter();
            names.find(|(expression, _)| *expression == launch.kernel).map(|(_, name)| name.clone())
        }
        ResolvedStep::Memset { .. } => None,
    };
    let mut names = Vec::new();
    for step in &plan.steps {
        let name =
            lowered(step).ok_or("a step of the plan is no kernel, which ncu does not time")?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let prepared = plan.prepare.iter().filter_map(lowered).any(|name| names.contains(&name));
    if prepared {
        return Err("a kernel of the plan also prepares, and ncu cannot tell them apart".to_owned());
    }
    Ok(names)
}

/// The median duration of a call of so many launches. The first call only warms up.
fn per_call_ns(launch_ns: &[f64], launches: usize) -> Option<f64> {
    let launches = launches.max(1);
    if !launch_ns.len().is_multiple_of(launches) {
        return None;
    }
    let calls: Vec<f64> = launch_ns.chunks_exact(launches).map(|call| call.iter().sum()).collect();
    let timed = calls.get(1..)?;
    (timed.len() >= PROFILED_CALLS_MIN as usize).then(|| median(timed.to_vec())).flatten()
}

/// What both clocks say together. Between two launches of a call the stream may wait a little.
fn agreement(accepted: &Accepted, profiled_ns: f64, launches: usize) -> Found {
    let own_ns = accepted.median_ns;
    let apart = own_ns / profiled_ns - 1.0;
    let detail = format!(
        "{} µs by the windows' events, {} µs by ncu's {METRIC} ({:+.1} %)",
        microseconds(own_ns),
        microseconds(profiled_ns),
        100.0 * apart
    );
    let gaps_ns = LAUNCH_GAP_NS * (launches.max(1) - 1) as f64;
    if own_ns.min(profiled_ns) < SHORT_TIME_NS {
        return Found::Notes { detail: format!("{detail}; too short to be held against it") };
    }
    // Pauses only make the events' time longer than the kernels' durations.
    let allowed = PROFILER_TOLERANCE + if apart > 0.0 { gaps_ns / profiled_ns } else { 0.0 };
    if apart.abs() <= allowed {
        return Found::Clean;
    }
    // A launch now and then does not reach the power cap that back-to-back ones sit in.
    if accepted.held_back && apart > 0.0 {
        return Found::Notes { detail: format!("{detail}; the windows ran on a lower clock") };
    }
    Found::Audits { detail }
}

#[cfg(test)]
mod tests;
