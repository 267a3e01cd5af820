//! What the target of an operator means on a run's device: a speed-up over the strongest baseline
//! that a survey has timed, as the time of a call at which a kernel is fast enough.
//!
//! A single window each, without a claim: it says when a search may rest, and nothing else. Without
//! a baseline's time, as on the simulator, a target ends nothing.

use pipeline::report::microseconds;
use store::{RunRow, Store};

use crate::settings::RunSettings;

/// A target that a time can be held against.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    /// How many times as fast as the baseline.
    target: f64,
    baseline: String,
    baseline_ns: f64,
}

/// The target of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Goal(Goal),
    /// There is no time of a baseline.
    Untimed(f64),
}

impl Goal {
    /// Time of a call at which a kernel reaches it, in nanoseconds.
    pub(crate) fn ns(&self) -> f64 {
        self.baseline_ns / self.target
    }
}

impl Target {
    pub(crate) fn goal_ns(&self) -> Option<f64> {
        match self {
            Self::Goal(goal) => Some(goal.ns()),
            Self::Untimed(_) => None,
        }
    }

    /// The target in words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Goal(goal) => format!(
                "target {} x, {} µs where {} takes {} µs",
                goal.target,
                microseconds(goal.ns()),
                goal.baseline,
                microseconds(goal.baseline_ns)
            ),
            Self::Untimed(target) => {
                format!("target {target} x, which ends nothing: no baseline is timed here")
            }
        }
    }
}

/// The targets of a run's operators, in their order.
pub(crate) async fn of_run(
    store: &Store,
    run: &RunRow,
    settings: &RunSettings,
) -> anyhow::Result<Vec<Option<Target>>> {
    let device = store.device_model(&run.device_id).await?;
    let mut targets = Vec::new();
    for (operator, task) in settings.operators.iter().zip(&run.tasks) {
        let Some(target) = operator.target else {
            targets.push(None);
            continue;
        };
        let (judge_hash, toolchain_id) = (&run.judge_hash, &run.toolchain_id);
        let times = store.survey_times(&task.hash, &device, judge_hash, toolchain_id).await?;
        targets.push(Some(of_times(target, times)));
    }
    Ok(targets)
}

fn of_times(target: f64, times: Vec<(String, f64)>) -> Target {
    let strongest = times.into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
    match strongest {
        Some((baseline, baseline_ns)) => Target::Goal(Goal { target, baseline, baseline_ns }),
        None => Target::Untimed(target),
    }
}

/// What a person must know of targets that end nothing, when a run begins.
pub(crate) fn remarks(targets: &[Option<Target>], run: &RunRow, simulated: bool) -> Vec<String> {
    let untimed = |(target, task): (&Option<Target>, &store::RunTask)| match target {
        Some(Target::Untimed(_)) => Some(match simulated {
            true => format!(
                "the target of `{}` ends nothing here: it is a measured speed-up, and the \
                 simulator measures no time",
                task.name
            ),
            false => format!(
                "the target of `{0}` ends nothing: it is a speed-up over the strongest baseline, \
                 and this ledger has no time of one for this device; `warpwright survey {0}` \
                 takes them",
                task.name
            ),
        }),
        Some(Target::Goal(_)) | None => None,
    };
    targets.iter().zip(&run.tasks).filter_map(untimed).collect()
}

#[cfg(test)]
mod tests {
    use super::{Target, of_times};

    #[test]
    fn a_target_is_over_the_strongest_baseline_that_is_timed() {
        let times = vec![("eager".to_owned(), 30_000.0), ("compile".to_owned(), 12_000.0)];
        let target = of_times(1.5, times);
        assert_eq!(target.goal_ns(), Some(8_000.0));
        let words = target.describe();
        assert!(words.contains("target 1.5 x") && words.contains("compile takes 12"), "{words}");
        let none = of_times(1.5, Vec::new());
        assert_eq!((none.goal_ns(), &none), (None, &Target::Untimed(1.5)));
        assert!(none.describe().contains("ends nothing"));
    }
}
