//! compute-sanitizer over the candidate's own child, where the machine has it.
//!
//! One small public case, outputs not compared: only what the tool says counts. The child is
//! started by a process of the tool's, with its libraries, threads and descriptors: see
//! [`sandbox::WATCHED`].

use std::path::Path;

use pipeline::acceptance::Found;
use pipeline::inputs::{Distribution, MasterSeed};
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use pipeline::verdict::Reason;
use sandbox::CancelFlag;
use sandbox::wire::RunReport;

use crate::children::ChildEnd;
use crate::compared::Bulk;
use crate::evaluate::Evaluation;
use crate::headline::Headline;
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
        let secret = MasterSeed(evaluation.seed.0).derive("sanitizer");
        let mut runs = self.case_runs(case, &plan, &[Distribution::D1], &secret);
        runs.specs.truncate(1);
        let trials = self.prepare_trials(evaluation, runs.specs, cancel)?;
        let image = image_memfds(evaluation.build)?;
        let mut bulk = Bulk(image.iter().collect());
        let request = self.run_request(evaluation, facts, &trials, &Headline::Left, &mut bulk);
        let words = command_line(&sanitizer, tool);
        let (end, said) = self.perform_watched(request, &bulk.0, &words, cancel)?;
        Ok(Sanitized { found: found(end, &said, tool.reason()), said })
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

/// The tool's own count decides, of each process; without one it did not come to its end.
fn found(end: ChildEnd<RunReport>, said: &str, reason: Reason) -> Found {
    let mut summaries = said.lines().filter(|line| line.contains("SUMMARY:"));
    let last = summaries.clone().next_back();
    let summary = summaries.find(|summary| !is_clean(summary)).or(last);
    let how = match end {
        ChildEnd::Reported(_) => "it ended".to_owned(),
        ChildEnd::TimedOut => "it was not done in time".to_owned(),
        ChildEnd::Crashed(why) | ChildEnd::Broken(why) | ChildEnd::Killed(why) => why,
    };
    let Some(summary) = summary else {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = format!("compute-sanitizer gave no summary: {how}: {said}");
        let why = capped(&why, MESSAGE_BYTES_MAX);
        return Found::NotAvailable { why };
    };
    if is_clean(summary) {
        return Found::Clean;
    }
    let named = ["Invalid", "Error", "rror detected", "ace reported", "hazard detected"];
    let first = said.lines().find(|line| named.iter().any(|name| line.contains(name)));
    let detail = format!("{} ({})", first.unwrap_or("").trim(), summary.trim());
    Found::Fails { reason, detail: capped(&detail, MESSAGE_BYTES_MAX) }
}

fn is_clean(summary: &str) -> bool {
    summary.contains(" 0 errors") || summary.contains(" 0 hazards")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pipeline::acceptance::Found;
    use pipeline::verdict::Reason;

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

    #[test]
    fn only_the_tools_own_count_is_believed() {
        let crashed = || ChildEnd::Crashed("exit code 86".to_owned());
        let bad = "========= Invalid __global__ read of size 4 bytes\n\
                   ========= ERROR SUMMARY: 3 errors\n";
        let two = format!("{bad}========= ERROR SUMMARY: 0 errors\n");
        for (said, expected) in [
            ("========= ERROR SUMMARY: 0 errors\n", "clean"),
            ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", "clean"),
            (bad, "fails"),
            (&*two, "fails"),
            ("========= ERROR SUMMARY: 10 errors\n========= Invalid", "fails"),
            ("========= Invalid\nRACECHECK SUMMARY: 1 hazard displayed (1 error)", "fails"),
            ("nothing of the kind", "not available"),
        ] {
            let word = match found(crashed(), said, Reason::Guard) {
                Found::Clean => "clean",
                Found::Fails { reason, detail } => {
                    assert!(reason == Reason::Guard && detail.contains("Invalid"), "{detail}");
                    "fails"
                }
                Found::NotAvailable { .. } => "not available",
                Found::Audits { .. } | Found::Notes { .. } => "something else",
            };
            assert_eq!(word, expected, "{said}");
        }
    }
}
