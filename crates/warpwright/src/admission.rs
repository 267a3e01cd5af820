//! Whether a task may be judged by: proven here, kept in the ledger, asked for before a run and
//! before a claim.

use judge::{CancelFlag, Evaluation, Judge, JudgeError, RunSeed, judge_hash};
use pipeline::admission::{Admission, AdmissionTier, MutantOutcome, MutantReport, WrongReport};
use pipeline::digest::Digest;
use pipeline::reply::candidate_of_parts;
use pipeline::task::{Task, WrongKernel};
use pipeline::verdict::Verdict;
use store::{AdmissionKey, NewTask, Store};

use crate::wiring::LoadedTask;
use crate::{terminal, wiring};

/// Who is told how it goes, line by line.
pub(crate) type Say<'a> = &'a dyn Fn(&str);

/// Tries everything that a task must tell from right, and says how it went.
pub(crate) fn prove(
    judge: &Judge,
    task: &Task,
    seed: &RunSeed,
    say: Say<'_>,
) -> anyhow::Result<Admission> {
    let cancel = CancelFlag::default();
    let golden = judge.check_golden(task, &cancel)?;
    let deviations = golden.deviations.len() as u64;
    let agree = golden.compared - deviations;
    say(&format!("  golden case: {agree} of {} values agree", golden.compared));
    if let Some(first) = golden.deviations.first() {
        say(&format!(
            "    `{}` at {}: the reference gives {}, golden.json says {}",
            first.output, first.index, first.reference, first.golden
        ));
    }
    let wrong = task.wrong.iter().map(|wrong| try_wrong(judge, task, wrong, (seed, say), &cancel));
    let wrong = wrong.collect::<anyhow::Result<_>>()?;
    let (mutants, silent) = judge.try_mutants(task, seed, &cancel)?;
    mutants.iter().for_each(|mutant| tell_mutant(mutant, say));
    if !silent.is_empty() {
        let places = silent.join("; ");
        say(&format!("  nothing is told where the reference overflows: {places}"));
    }
    let broken_relations = judge.broken_relations(task, seed, &cancel)?;
    let admission = Admission { deviations, wrong, mutants, silent, broken_relations };
    for line in admission.refusals().iter().chain(&admission.weaknesses()) {
        say(&format!("  {line}"));
    }
    Ok(admission)
}

fn try_wrong(
    judge: &Judge,
    task: &Task,
    wrong: &WrongKernel,
    (seed, say): (&RunSeed, Say<'_>),
    cancel: &CancelFlag,
) -> anyhow::Result<WrongReport> {
    let expected = format!("{}/{}", wrong.expect.kind.name(), wrong.expect.reason.code());
    let verdict = verdict_of(judge, task, wrong, seed, cancel)?;
    let case = wrong.expect.case.as_ref().map(|case| format!("case `{case}`"));
    let at = case.as_ref().map(|case| format!(" at {case}")).unwrap_or_default();
    let as_expected =
        verdict.to_string() == expected && case.is_none_or(|case| verdict.detail.contains(&case));
    let mark = if as_expected { "rejected" } else { "NOT AS EXPECTED" };
    say(&format!("  wrong/{}: {mark}: {verdict} {}", wrong.name, verdict.detail));
    let expected = format!("{expected}{at}");
    if !as_expected {
        say(&format!("    wrong/{}.toml expects {expected}", wrong.name));
    }
    Ok(WrongReport { name: wrong.name.clone(), verdict, expected, as_expected })
}

fn verdict_of(
    judge: &Judge,
    task: &Task,
    wrong: &WrongKernel,
    seed: &RunSeed,
    cancel: &CancelFlag,
) -> anyhow::Result<Verdict> {
    let candidate = match candidate_of_parts(&wrong.source, &wrong.plan, &task.signature()) {
        Ok(candidate) => candidate,
        Err(malformed) => return Ok(malformed.verdict()),
    };
    let tunables = &candidate.plan.default_tunables();
    let build = &judge.build(task, &candidate, tunables, cancel)?;
    if let Some(verdict) = &build.verdict {
        return Ok(verdict.clone());
    }
    let candidate = &candidate;
    let evaluation = Evaluation { task, candidate, tunables, build, seed, index: 0 };
    Ok(judge.evaluate(&evaluation, cancel)?.verdict)
}

fn tell_mutant(mutant: &MutantReport, say: Say<'_>) {
    let word = match mutant.outcome {
        MutantOutcome::Killed => "told apart",
        MutantOutcome::Equivalent => "equivalent",
        MutantOutcome::Admitted => "of a class that is admitted",
        MutantOutcome::Survived => "SURVIVES",
    };
    let ratio = match mutant.ratio {
        f64::MAX => "infinitely many".to_owned(),
        ratio if ratio >= 1e6 => format!("{ratio:.1e}"),
        ratio => format!("{ratio:.1}"),
    };
    let place =
        if mutant.place.is_empty() { String::new() } else { format!(" ({})", mutant.place) };
    say(&format!("  mutant {}: {word}, {ratio} tolerances{place}", mutant.name));
    if mutant.outcome == MutantOutcome::Equivalent && mutant.name.starts_with("reference mutant ") {
        say("    it is the reference, bit for bit: does reference.cu look at this WW_MUTANT?");
    }
}

/// Keeps what was found of a task, for the runs and claims that are judged by it.
pub(crate) async fn keep(
    store: &Store,
    toolchain_id: &str,
    loaded: &LoadedTask,
    admission: &Admission,
) -> anyhow::Result<()> {
    let key = key(&loaded.task, toolchain_id);
    let task = NewTask::of(&loaded.task, &loaded.files);
    Ok(store.put_admission(&task, &key, admission).await?)
}

/// Why nothing may be judged by a task that was refused, with the way out; `None` for others, and
/// for those that nobody checked.
pub(crate) async fn refusal(
    store: &Store,
    task: &Task,
    toolchain_id: &str,
) -> anyhow::Result<Option<String>> {
    let found = known(store, task, toolchain_id).await?;
    Ok(found.filter(|it| it.tier() == AdmissionTier::Refused).map(|it| refused(task, &it)))
}

/// What is known of a task in this ledger; `None` where nobody checked it.
pub(crate) async fn known(
    store: &Store,
    task: &Task,
    toolchain_id: &str,
) -> anyhow::Result<Option<Admission>> {
    Ok(store.admission(&key(task, toolchain_id)).await?)
}

/// True where somebody has checked a task, so that a claim need not wait for it.
pub(crate) async fn is_checked(
    store: &Store,
    task: &Digest,
    toolchain_id: &str,
) -> anyhow::Result<bool> {
    let key = AdmissionKey { task, judge_hash: judge_hash(), toolchain_id };
    Ok(store.admission(&key).await?.is_some())
}

/// What a task leaves open, for the claims that are judged by it: from the ledger, or proven now,
/// on the simulator.
///
/// # Errors
/// [`JudgeError::Refused`] for a task that nothing can be judged by.
pub(crate) async fn weaknesses(
    store: &Store,
    judge: &Judge,
    loaded: &LoadedTask,
) -> anyhow::Result<Vec<String>> {
    let (task, toolchain_id) = (&loaded.task, &judge.config().toolchain_id);
    let admission = match known(store, task, toolchain_id).await? {
        Some(admission) => admission,
        None => {
            terminal::line("checking the task, once");
            let (simulator, seed) = (judge.simulated(), wiring::fresh_seed()?);
            let proven =
                tokio::task::block_in_place(|| prove(&simulator, task, &seed, &terminal::line))?;
            keep(store, toolchain_id, loaded, &proven).await?;
            proven
        }
    };
    match admission.tier() {
        AdmissionTier::Refused => Err(JudgeError::Refused(refused(task, &admission)).into()),
        AdmissionTier::Proven | AdmissionTier::Weak => Ok(admission.weaknesses()),
    }
}

fn refused(task: &Task, admission: &Admission) -> String {
    format!(
        "the task `{}` is refused, since nothing can be told by it: {}; mend its files until `task \
         check` says proven, or weak",
        task.spec.name,
        admission.refusals().join("; ")
    )
}

fn key<'a>(task: &'a Task, toolchain_id: &'a str) -> AdmissionKey<'a> {
    AdmissionKey { task: &task.hash, judge_hash: judge_hash(), toolchain_id }
}
