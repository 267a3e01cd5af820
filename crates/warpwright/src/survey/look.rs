//! What is found of one operator: whether its task tells right from wrong, how fast the baselines
//! are, and how fast anything could be. Everything is kept in the ledger, so that the next survey
//! measures only what is new.

use judge::{CancelFlag, Judge, JudgeError, RunSeed, judge_hash};
use pipeline::admission::{Admission, AdmissionTier};
use pipeline::baseline::{BaselineId, BaselineKind};
use pipeline::hardware::HardwareSheet;
use pipeline::survey::{Found, Times, Weight, floor_ns};
use pipeline::timing::Spread;
use store::{NewTask, Store, SurveyKey};

use crate::survey::list::Listed;
use crate::wiring::LoadedTask;
use crate::{admission, terminal, wiring};

/// What was found, and how much of it only now.
pub(crate) struct Looked {
    pub(crate) found: Found,
    /// `None` where the task was not checked.
    pub(crate) tier: Option<AdmissionTier>,
    pub(crate) admitted_now: bool,
    /// Baselines that were timed now; others were known.
    pub(crate) timed_now: usize,
}

/// Who looks.
pub(crate) struct Eyes<'a> {
    pub(crate) store: &'a Store,
    /// On the simulator, for admissions.
    pub(crate) simulator: &'a Judge,
    /// On one card; or why there is none.
    pub(crate) gpu: &'a Result<Card, String>,
}

/// The card that times.
pub(crate) struct Card {
    pub(crate) judge: Judge,
    pub(crate) sheet: HardwareSheet,
    /// Versions of PyTorch and what belongs to it; empty where it is not there.
    pub(crate) framework: String,
}

impl Card {
    /// The first card of a judge, and the framework that it finds.
    pub(crate) fn of(judge: Judge) -> anyhow::Result<Self> {
        let sheet = judge.config().gpus.as_ref().and_then(|gpus| gpus.sheets.first());
        let sheet = sheet.ok_or_else(|| anyhow::anyhow!("a judge without a card"))?.clone();
        let versions = tokio::task::block_in_place(|| judge.python_versions(&CancelFlag::new()));
        let framework = match versions {
            Ok(versions) => store::framework(&versions.into_iter().collect::<Vec<_>>()),
            Err(JudgeError::NotAvailable(why)) => {
                terminal::note(&format!("baselines of PyTorch are not available here: {why}"));
                String::new()
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { judge, sheet, framework })
    }
}

impl Eyes<'_> {
    /// Looks at one operator.
    ///
    /// # Errors
    /// Breakage that the other operators would meet too.
    pub(crate) async fn look(&self, listed: &Listed) -> anyhow::Result<Looked> {
        let unread = |why: String| Looked {
            found: Found {
                weight: listed.weight,
                admission: Err(why),
                times: Times::NotAvailable("the task does not read".to_owned()),
            },
            tier: None,
            admitted_now: false,
            timed_now: 0,
        };
        let loaded = match &listed.loaded {
            Ok((loaded, _)) => loaded,
            Err(why) => return Ok(unread(why.clone())),
        };
        let (admission, admitted_now) = match self.admit(loaded).await? {
            Ok(admitted) => admitted,
            Err(why) => return Ok(unread(why)),
        };
        let tier = admission.tier();
        let refused = tier == AdmissionTier::Refused;
        let (times, timed_now) = match self.gpu {
            Err(why) => (Times::NotAvailable(why.clone()), 0),
            // What nothing can be judged by needs no time.
            Ok(_) if refused => (Times::NotAvailable("the task is refused".to_owned()), 0),
            Ok(card) => self.times(card, loaded).await?,
        };
        let weaknesses = admission.weaknesses();
        let admission = if refused { Err(admission.refusals().join("; ")) } else { Ok(weaknesses) };
        let found = Found { weight: listed.weight, admission, times };
        Ok(Looked { found, tier: Some(tier), admitted_now, timed_now })
    }

    /// What a task shows of itself, from the ledger or now; the inner error says why it cannot be
    /// checked.
    async fn admit(
        &self,
        loaded: &LoadedTask,
    ) -> anyhow::Result<Result<(Admission, bool), String>> {
        let (task, toolchain_id) = (&loaded.task, &self.simulator.config().toolchain_id);
        if let Some(known) = admission::known(self.store, task, toolchain_id).await? {
            return Ok(Ok((known, false)));
        }
        terminal::note(&format!("checking {}, once", task.spec.name));
        let seed = wiring::fresh_seed()?;
        let quiet = |_: &str| {};
        let proven =
            tokio::task::block_in_place(|| admission::prove(self.simulator, task, &seed, &quiet));
        let proven = match proven {
            Ok(proven) => proven,
            Err(error) => {
                return match error.downcast::<JudgeError>()? {
                    // Its own files are at fault, not this machine.
                    error @ (JudgeError::Reference { .. } | JudgeError::Refused(_)) => {
                        Ok(Err(error.to_string()))
                    }
                    other => Err(other.into()),
                };
            }
        };
        admission::keep(self.store, toolchain_id, loaded, &proven).await?;
        Ok(Ok((proven, true)))
    }

    async fn times(&self, card: &Card, loaded: &LoadedTask) -> anyhow::Result<(Times, usize)> {
        let cancel = CancelFlag::new();
        let task = &loaded.task;
        let baselines = tokio::task::block_in_place(|| card.judge.survey_baselines(task, &cancel))?;
        let seed = wiring::fresh_seed()?;
        let time = |baseline: &BaselineId| {
            terminal::note(&format!("timing {baseline} for {}, once", task.spec.name));
            time_now(&card.judge, loaded, baseline, &seed)
        };
        let key = PartKey {
            device_model: &card.sheet.facts.model,
            driver: &card.sheet.driver,
            framework: &card.framework,
            toolchain_id: &card.judge.config().toolchain_id,
        };
        let timed = timed(self.store, loaded, key, &baselines, &time).await?;
        let floor_ns = floor_ns(&card.sheet, &task.spec);
        let Timed { baselines, missing, now } = timed;
        Ok((Times::Taken { baselines, missing, floor_ns }, now))
    }
}

fn time_now(
    judge: &Judge,
    loaded: &LoadedTask,
    baseline: &BaselineId,
    seed: &RunSeed,
) -> anyhow::Result<Result<Spread, String>> {
    let cancel = CancelFlag::new();
    let found =
        tokio::task::block_in_place(|| judge.survey_time(&loaded.task, baseline, seed, &cancel));
    Ok(found?)
}

/// What of a key is the same for all baselines of a card.
#[derive(Clone, Copy)]
pub(super) struct PartKey<'a> {
    pub(super) device_model: &'a str,
    pub(super) driver: &'a str,
    pub(super) framework: &'a str,
    pub(super) toolchain_id: &'a str,
}

/// Times of a task's baselines in nanoseconds, reasons of those without, and how many are new.
#[derive(Debug, PartialEq)]
pub(super) struct Timed {
    pub(super) baselines: Vec<(BaselineId, f64)>,
    pub(super) missing: Vec<String>,
    pub(super) now: usize,
}

/// The times of baselines, from the ledger where it has them. One without a time is tried again by
/// the next survey.
pub(super) async fn timed(
    store: &Store,
    loaded: &LoadedTask,
    part: PartKey<'_>,
    baselines: &[BaselineId],
    time: &dyn Fn(&BaselineId) -> anyhow::Result<Result<Spread, String>>,
) -> anyhow::Result<Timed> {
    let judge_hash = judge_hash();
    let mut all = Timed { baselines: Vec::new(), missing: Vec::new(), now: 0 };
    for baseline in baselines {
        let key = SurveyKey {
            task: &loaded.task.hash,
            baseline,
            device_model: part.device_model,
            driver: part.driver,
            framework: if is_native(baseline) { "" } else { part.framework },
            judge_hash: judge_hash.as_str(),
            toolchain_id: part.toolchain_id,
        };
        let spread = match store.survey_time(&key).await? {
            Some(known) => known,
            None => match time(baseline)? {
                Ok(spread) => {
                    let task = NewTask::of(&loaded.task, &loaded.files);
                    store.put_survey_time(&task, &key, &spread).await?;
                    all.now += 1;
                    spread
                }
                Err(why) => {
                    all.missing.push(format!("{baseline}: {why}"));
                    continue;
                }
            },
        };
        all.baselines.push((baseline.clone(), spread.median_ns));
    }
    Ok(all)
}

/// True where no framework has a part in it, whatever its version.
fn is_native(baseline: &BaselineId) -> bool {
    match baseline.kind {
        BaselineKind::Vendor | BaselineKind::Naive => true,
        BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => false,
        BaselineKind::Custom(_) => false,
    }
}

/// How an operator's weight is written: as it was given, or as calls times the time.
pub(crate) fn weight_in_words(weight: Weight, ns: Option<f64>) -> Option<(f64, String)> {
    match (weight, ns) {
        (Weight::Share(share), _) => Some((share, String::new())),
        (Weight::Calls(calls), Some(ns)) => {
            let us = pipeline::report::microseconds(ns);
            Some((calls * ns / 1e3, format!("{calls} calls x {us} µs")))
        }
        (Weight::Calls(_), None) => None,
    }
}
