//! compute-sanitizer over the candidate's own child, where the machine has it.
//!
//! One small public case with inputs that are no secret, outputs not compared: only what the tool
//! says counts. The child is started by a process of the tool's, with its libraries, threads and
//! descriptors: see [`sandbox::WATCHED`].

use std::path::Path;

use pipeline::acceptance::Found;
use pipeline::inputs::{Distribution, MasterSeed};
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use pipeline::memory;
use pipeline::verdict::Reason;
use sandbox::wire::{RunEnd, RunReport};
use sandbox::{CancelFlag, ConfinementSet};

use crate::children::ChildEnd;
use crate::compared::Bulk;
use crate::decide::words;
use crate::evaluate::Evaluation;
use crate::headline::Headline;
use crate::profiler::KNOWN_SEED;
use crate::reference::image_memfds;
use crate::tools::find_tool;
use crate::{Judge, JudgeError};

/// The exit code that the tool is told to end with when it found something.
const FOUND: &str = "86";
/// Findings that are printed; all are counted.
const PRINTED: &str = "8";

/// One of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    Memcheck,
    Synccheck,
    Racecheck,
}

impl Sanitizer {
    pub const ALL: [Sanitizer; 3] =
        [Sanitizer::Memcheck, Sanitizer::Synccheck, Sanitizer::Racecheck];

    /// Its name on compute-sanitizer's command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sanitizer::Memcheck => "memcheck",
            Sanitizer::Synccheck => "synccheck",
            Sanitizer::Racecheck => "racecheck",
        }
    }

    fn reason(self) -> Reason {
        match self {
            Sanitizer::Memcheck => Reason::Guard,
            Sanitizer::Synccheck | Sanitizer::Racecheck => Reason::Nondet,
        }
    }
}

/// What came of a run under a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Sanitized {
    pub found: Found,
    /// The end of what the tool and the child wrote.
    pub said: String,
}

impl Sanitized {
    fn not_available(why: &str) -> Self {
        Self { found: Found::NotAvailable { why: why.to_owned() }, said: String::new() }
    }
}

impl Judge {
    /// Runs a candidate under one of the tools, at the smallest public case.
    ///
    /// # Errors
    /// No GPU, or breakage; a tool that does not work is [`Found::NotAvailable`].
    pub fn sanitized(
        &self,
        evaluation: &Evaluation<'_>,
        tool: Sanitizer,
        cancel: &CancelFlag,
    ) -> Result<Sanitized, JudgeError> {
        let Some(sanitizer) = find_tool("compute-sanitizer") else {
            return Ok(Sanitized::not_available("there is no compute-sanitizer"));
        };
        let Some(facts) = &evaluation.build.facts else {
            return Ok(Sanitized::not_available("it was not built"));
        };
        let spec = &evaluation.task.spec;
        let public = spec.cases.iter().filter(|case| self.runs_here(case));
        let mut plans = public.filter_map(|case| {
            let plan = self.plan_at(evaluation, facts, case).ok()?;
            Some((pipeline::hidden::tensor_bytes(spec, &case.dims)?, case, plan))
        });
        let Some((_, case, plan)) = plans.by_ref().min_by_key(|(bytes, _, _)| *bytes) else {
            return Ok(Sanitized::not_available("no public case runs here"));
        };
        let secret = MasterSeed(KNOWN_SEED.0).derive("sanitizer");
        let mut runs = self.case_runs(case, &plan, &[Distribution::D1], &secret);
        runs.specs.truncate(1);
        let trials = self.prepare_trials(evaluation, runs.specs, cancel)?;
        let image = image_memfds(evaluation.build)?;
        let mut bulk = Bulk(image.iter().collect());
        let request = self.run_request(evaluation, facts, &trials, &Headline::Left, &mut bulk);
        let tool_words = command_line(&sanitizer, tool);
        let watched = (ConfinementSet::of_sanitizer(), &*tool_words);
        let (end, said) = self.perform_watched(request, &bulk.0, watched, cancel)?;
        let shape = memory::words(&case.dims);
        Ok(Sanitized { found: found(end, &said, tool.reason(), &shape), said })
    }
}

/// The words before the child's own.
fn command_line(sanitizer: &Path, tool: Sanitizer) -> Vec<String> {
    let words = [
        ["--tool", tool.name()],
        // The child is not always the first process that the tool starts.
        ["--target-processes", "all"],
        ["--error-exitcode", FOUND],
        ["--print-limit", PRINTED],
        ["--log-file", "/dev/stderr"],
    ];
    // Calls of ours that the driver refuses are no fault of the kernel.
    let of_memcheck: &[&str] = match tool {
        Sanitizer::Memcheck => &["--report-api-errors", "no"],
        Sanitizer::Synccheck | Sanitizer::Racecheck => &[],
    };
    let words = words.iter().flatten().chain(of_memcheck).map(|word| (*word).to_owned());
    [sanitizer.display().to_string()].into_iter().chain(words).collect()
}

/// The tool's own count decides, of each process. It says something only of what ran to its end.
fn found(end: ChildEnd<RunReport>, said: &str, reason: Reason, shape: &str) -> Found {
    let summaries = said.lines().filter(|line| line.contains("SUMMARY:"));
    let summary = summaries.max_by_key(|summary| (!is_clean(summary), !is_warning(summary)));
    let ended = all_completed(end);
    let Some(summary) = summary else {
        let how = ended.err().unwrap_or_else(|| "it ended".to_owned());
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = format!("compute-sanitizer gave no summary at {shape}: {how}: {said}");
        return Found::NotAvailable { why: capped(&why, MESSAGE_BYTES_MAX) };
    };
    if is_clean(summary) {
        return match ended {
            Ok(()) => Found::Clean,
            Err(how) => {
                let why =
                    format!("under compute-sanitizer the kernel did not run at {shape}: {how}");
                Found::NotAvailable { why: capped(&why, MESSAGE_BYTES_MAX) }
            }
        };
    }
    let named = ["Invalid", "Error", "rror detected", "ace reported", "hazard detected"];
    let first = said.lines().find(|line| named.iter().any(|name| line.contains(name)));
    let detail = format!("{} ({}) at {shape}", first.unwrap_or("").trim(), summary.trim());
    let detail = capped(&detail, MESSAGE_BYTES_MAX);
    match is_warning(summary) {
        true => Found::Audits { detail },
        false => Found::Fails { reason, detail },
    }
}

/// Why not everything that was asked for ran to its end.
fn all_completed(end: ChildEnd<RunReport>) -> Result<(), String> {
    let report = match end {
        ChildEnd::Reported(report) => report,
        ChildEnd::TimedOut(_) => return Err("it was not done in time".to_owned()),
        ChildEnd::Crashed(why) | ChildEnd::Broken(why) | ChildEnd::Killed(why) => return Err(why),
    };
    if report.runs.is_empty() {
        return Err("nothing was run".to_owned());
    }
    let failed = report.runs.iter().find(|run| run.end != RunEnd::Completed);
    failed.map_or(Ok(()), |run| Err(words(&run.end)))
}

/// True for hazards that the tool itself does not count as errors.
fn is_warning(summary: &str) -> bool {
    counts(summary).any(|(_, what)| what == "warning")
        && counts(summary).all(|(count, what)| count == 0 || what != "error")
}

/// True where the tool counted something, and nothing that it counted is there.
fn is_clean(summary: &str) -> bool {
    counts(summary).next().is_some() && counts(summary).all(|(count, _)| count == 0)
}

/// The numbers of a summary, each with the word behind it, in the singular.
fn counts(summary: &str) -> impl Iterator<Item = (u64, &str)> {
    let words = summary.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.clone().zip(words.skip(1)).filter_map(|(count, what)| {
        let count = count.parse().ok()?;
        Some((count, what.strip_suffix('s').unwrap_or(what)))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pipeline::acceptance::Found;
    use pipeline::verdict::Reason;
    use sandbox::wire::{RunEnd, RunReport, RunResult};

    use super::{Sanitizer, command_line, found};
    use crate::children::ChildEnd;

    #[test]
    fn each_tool_has_the_words_that_it_knows() {
        for tool in Sanitizer::ALL {
            let words = command_line(Path::new("/opt/compute-sanitizer"), tool);
            assert_eq!(words[..3], ["/opt/compute-sanitizer", "--tool", tool.name()]);
            let of_memcheck = words.iter().any(|word| word == "--report-api-errors");
            assert_eq!(of_memcheck, tool == Sanitizer::Memcheck);
        }
    }

    fn reported(ends: &[RunEnd]) -> ChildEnd<RunReport> {
        let run = |end: &RunEnd| RunResult {
            end: end.clone(),
            counters: None,
            findings: Vec::new(),
            printed: String::new(),
            place: None,
        };
        let runs = ends.iter().map(run).collect();
        let cost = Vec::new();
        ChildEnd::Reported(RunReport { runs, sample: None, window: None, tiles: None, cost })
    }

    fn word(found: &Found) -> &'static str {
        match found {
            Found::Clean => "clean",
            Found::Fails { .. } => "fails",
            Found::Audits { .. } => "audits",
            Found::NotAvailable { .. } => "not available",
            Found::Notes { .. } => "notes",
        }
    }

    #[test]
    fn only_the_tools_own_count_is_believed() {
        let bad = "========= Invalid __global__ read of size 4 bytes\n\
                   ========= ERROR SUMMARY: 3 errors\n";
        let two = format!("{bad}========= ERROR SUMMARY: 0 errors\n");
        let warned = "Warning: Race reported\n\
                      RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)";
        for (said, expected) in [
            ("========= ERROR SUMMARY: 0 errors\n", "clean"),
            ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", "clean"),
            (bad, "fails"),
            (&*two, "fails"),
            ("========= ERROR SUMMARY: 10 errors\n========= Invalid", "fails"),
            ("Invalid\nRACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)", "fails"),
            // What is not displayed is counted all the same.
            ("Invalid\nRACECHECK SUMMARY: 0 hazards displayed (3 errors, 0 warnings)", "fails"),
            ("Invalid\nERROR SUMMARY: 100 errors. (92 errors not printed)", "fails"),
            (warned, "audits"),
            ("nothing of the kind", "not available"),
        ] {
            let ran = found(reported(&[RunEnd::Completed]), said, Reason::Guard, "n = 64");
            assert_eq!(word(&ran), expected, "{said}");
            // What it found before the end is found.
            let crashed = ChildEnd::Crashed("exit code 86".to_owned());
            let crashed = found(crashed, said, Reason::Guard, "n = 64");
            let expected = if expected == "clean" { "not available" } else { expected };
            assert_eq!(word(&crashed), expected, "{said}");
            if let Found::Fails { reason, detail } = &crashed {
                assert!(*reason == Reason::Guard && detail.contains("Invalid"), "{detail}");
            }
        }
    }

    #[test]
    fn nothing_that_did_not_run_is_clean() {
        let clean = "========= ERROR SUMMARY: 0 errors\n";
        let refused = || RunEnd::Refused("too many resources requested".to_owned());
        for (ends, expected) in [
            (vec![RunEnd::Completed], "clean"),
            (vec![refused()], "not available"),
            (vec![RunEnd::Completed, refused()], "not available"),
            (vec![RunEnd::Hang("no end".to_owned())], "not available"),
            (Vec::new(), "not available"),
        ] {
            let found = found(reported(&ends), clean, Reason::Guard, "n = 64");
            assert_eq!(word(&found), expected, "{ends:?}");
        }
    }
}
