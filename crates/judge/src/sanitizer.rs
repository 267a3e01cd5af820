//! compute-sanitizer over the candidate's own child, where the machine has it.
//!
//! One small public case, outputs not compared: only what the tool says counts.

use std::path::{Path, PathBuf};

use pipeline::acceptance::Found;
use pipeline::inputs::{Distribution, MasterSeed};
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use pipeline::verdict::Reason;
use sandbox::wire::RunReport;
use sandbox::{CancelFlag, ChildKind};

use crate::children::{Call, ChildEnd};
use crate::compared::Bulk;
use crate::evaluate::Evaluation;
use crate::headline::Headline;
use crate::limits::SANITIZER_LIMITS;
use crate::reference::{Whose, image_memfds};
use crate::{Judge, JudgeError};

/// The exit code that the tool is told to end with when it found something.
const FOUND: &str = "86";

impl Judge {
    /// Runs the candidate under one of the tools.
    pub(crate) fn sanitized(
        &self,
        evaluation: &Evaluation<'_>,
        tool: &str,
        reason: Reason,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let Some(sanitizer) = find_tool("compute-sanitizer") else {
            return Ok(Found::NotAvailable { why: "there is no compute-sanitizer".to_owned() });
        };
        let Some(facts) = &evaluation.build.facts else { return Ok(Found::Clean) };
        let spec = &evaluation.task.spec;
        let public = spec.cases.iter().filter(|case| self.runs_here(case));
        let mut plans = public.filter_map(|case| {
            let plan = self.plan_at(evaluation, facts, case).ok()?;
            Some((pipeline::hidden::tensor_bytes(spec, &case.dims)?, case, plan))
        });
        let Some((_, case, plan)) = plans.by_ref().min_by_key(|(bytes, _, _)| *bytes) else {
            return Ok(Found::NotAvailable { why: "no public case runs here".to_owned() });
        };
        let secret = MasterSeed(evaluation.seed.0).derive("sanitizer");
        let mut runs = self.case_runs(case, &plan, &[Distribution::D1], &secret);
        runs.specs.truncate(1);
        let trials = self.prepare_trials(evaluation, runs.specs, cancel)?;
        let image = image_memfds(evaluation.build)?;
        let mut bulk = Bulk(image.iter().collect());
        let mut request = self.run_request(evaluation, facts, &trials, &Headline::Left, &mut bulk);
        let lease = self.lease(cancel)?;
        let lease = lease.ok_or_else(|| JudgeError::NotAvailable("no GPU".to_owned()))?;
        request.device = self.device_choice(Some(&lease), Whose::Reference);
        let words = ["--tool", tool, "--error-exitcode", FOUND, "--log-file", "/dev/stderr"];
        let mut watched_by = vec![sanitizer.display().to_string()];
        watched_by.extend(words.map(str::to_owned));
        let environment = lease.environment();
        let call = Call {
            program: &self.config.program,
            watched_by: &watched_by,
            kind: ChildKind::Candidate,
            limits: &SANITIZER_LIMITS,
            environment: &environment,
        };
        let (end, said) = call.perform_told::<_, RunReport>(&request, &bulk.0, cancel)?;
        if !matches!(end, ChildEnd::Reported(_)) {
            self.check_health(&lease, cancel)?;
        }
        Ok(found(end, &said, reason))
    }
}

/// The tool's own count decides; without one it did not come to its end.
fn found(end: ChildEnd<RunReport>, said: &str, reason: Reason) -> Found {
    let summary = said.lines().find(|line| line.contains("SUMMARY:"));
    let how = match end {
        ChildEnd::Reported(_) => "it ended".to_owned(),
        ChildEnd::TimedOut => "it was not done in time".to_owned(),
        ChildEnd::Crashed(why) | ChildEnd::Broken(why) | ChildEnd::Killed(why) => why,
    };
    let Some(summary) = summary else {
        let why = capped(&format!("compute-sanitizer gave no summary: {how}"), MESSAGE_BYTES_MAX);
        return Found::NotAvailable { why };
    };
    if is_clean(summary) {
        return Found::Clean;
    }
    let first = said.lines().find(|line| line.contains("Invalid") || line.contains("Error"));
    let detail = format!("{} ({})", first.unwrap_or("").trim(), summary.trim());
    Found::Fails { reason, detail: capped(&detail, MESSAGE_BYTES_MAX) }
}

fn is_clean(summary: &str) -> bool {
    summary.contains(" 0 errors") || summary.contains(" 0 hazards")
}

/// A tool of the CUDA toolkit: on the path, or where the toolkit is installed by default.
fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    let mut found = folders.map(|folder| folder.join(name));
    found.find(|path: &PathBuf| Path::is_file(path))
}

#[cfg(test)]
mod tests {
    use pipeline::acceptance::Found;
    use pipeline::verdict::Reason;

    use super::found;
    use crate::children::ChildEnd;

    #[test]
    fn only_the_tools_own_count_is_believed() {
        let crashed = || ChildEnd::Crashed("exit code 86".to_owned());
        let bad = "========= Invalid __global__ read of size 4 bytes\n\
                   ========= ERROR SUMMARY: 3 errors\n";
        for (said, expected) in [
            ("========= ERROR SUMMARY: 0 errors\n", "clean"),
            ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", "clean"),
            (bad, "fails"),
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
