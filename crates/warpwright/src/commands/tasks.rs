//! `task check`: a task proves itself before anybody spends a token on it.

use judge::{CancelFlag, Evaluation, Judge, MutantOutcome, MutantReport, RunSeed};
use pipeline::reply::candidate_of_parts;
use pipeline::task::{Task, WrongKernel};

use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::{embedded, terminal, wiring};

/// What a task showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Everything wrong is told from right.
    Proven,
    /// Some mutant would pass, or nothing wrong was tried.
    Weak,
    /// The reference or a wrong kernel does not do what it must.
    Refused,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Weak => "weak",
            Self::Refused => "refused",
        }
    }
}

/// Checks tasks, all built-in ones when none is named.
pub(crate) async fn check(places: &Places, names: &[String]) -> anyhow::Result<Outcome> {
    let names = if names.is_empty() { embedded::task_names() } else { names.to_vec() };
    let toolchain = wiring::toolchain(places)?;
    let mut worst = Tier::Proven;
    for name in names {
        let loaded = wiring::load_task(&name)?;
        let judge = wiring::judge(places, &places.device, &toolchain)?;
        let seed = wiring::fresh_seed()?;
        let checked =
            tokio::task::spawn_blocking(move || check_task(&judge, &loaded.task, &seed)).await?;
        let tier = checked?;
        terminal::line(&format!("{name}: {}\n", tier.name()));
        worst = worst.max(tier);
    }
    Ok(match worst {
        Tier::Proven => Outcome::done(),
        Tier::Weak | Tier::Refused => {
            Outcome::ended(Exit::DidNotPass, format!("a task is {}", worst.name()))
        }
    })
}

fn check_task(judge: &Judge, task: &Task, seed: &RunSeed) -> anyhow::Result<Tier> {
    let cancel = CancelFlag::default();
    let mut tier = Tier::Proven;
    let golden = judge.check_golden(task, &cancel)?;
    let agree = golden.compared - golden.deviations.len() as u64;
    terminal::line(&format!("  golden case: {agree} of {} values agree", golden.compared));
    if let Some(first) = golden.deviations.first() {
        tier = Tier::Refused;
        terminal::line(&format!(
            "    `{}` at {}: the reference gives {}, golden.json says {}",
            first.output, first.index, first.reference, first.golden
        ));
    }
    for wrong in &task.wrong {
        tier = tier.max(check_wrong(judge, task, wrong, seed, &cancel)?);
    }
    let mutants = judge.try_mutants(task, seed, &cancel)?;
    for mutant in &mutants {
        tier = tier.max(print_mutant(mutant));
    }
    let killed = mutants.iter().any(|mutant| mutant.outcome == MutantOutcome::Killed);
    for (tried, what) in [(!task.wrong.is_empty(), "wrong kernel"), (killed, "mutant")] {
        if !tried {
            tier = tier.max(Tier::Weak);
            terminal::line(&format!("  no {what} was rejected: nothing shows what would be"));
        }
    }
    Ok(tier)
}

fn check_wrong(
    judge: &Judge,
    task: &Task,
    wrong: &WrongKernel,
    seed: &RunSeed,
    cancel: &CancelFlag,
) -> anyhow::Result<Tier> {
    let expected = format!("{}/{}", wrong.expect.kind.name(), wrong.expect.reason.code());
    let verdict = match candidate_of_parts(&wrong.source, &wrong.plan, &task.signature()) {
        Err(malformed) => malformed.verdict(),
        Ok(candidate) => {
            let tunables = candidate.plan.default_tunables();
            let build = judge.build(task, &candidate, &tunables, cancel)?;
            match &build.verdict {
                Some(verdict) => verdict.clone(),
                None => {
                    let evaluation = Evaluation {
                        task,
                        candidate: &candidate,
                        tunables: &tunables,
                        build: &build,
                        seed,
                        index: 0,
                    };
                    judge.evaluate(&evaluation, cancel)?.verdict
                }
            }
        }
    };
    let case = wrong.expect.case.as_ref().map(|case| format!("case `{case}`"));
    let right =
        verdict.to_string() == expected && case.is_none_or(|case| verdict.detail.contains(&case));
    let mark = if right { "rejected" } else { "NOT AS EXPECTED" };
    terminal::line(&format!("  wrong/{}: {mark}: {verdict} {}", wrong.name, verdict.detail));
    Ok(if right { Tier::Proven } else { Tier::Refused })
}

fn print_mutant(mutant: &MutantReport) -> Tier {
    let (word, tier) = match mutant.outcome {
        MutantOutcome::Killed => ("told apart", Tier::Proven),
        MutantOutcome::Equivalent => ("equivalent", Tier::Proven),
        MutantOutcome::Survived => ("SURVIVES", Tier::Weak),
    };
    let ratio =
        if mutant.ratio == f64::MAX { "inf".to_owned() } else { format!("{:.1}", mutant.ratio) };
    let place =
        if mutant.place.is_empty() { String::new() } else { format!(" ({})", mutant.place) };
    terminal::line(&format!("  mutant {}: {word}, {ratio} tolerances{place}", mutant.name));
    tier
}
