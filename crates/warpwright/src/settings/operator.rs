//! One task of a run, from what a person wrote about it.

use pipeline::task::spec::Precision;
use serde::{Deserialize, Serialize};

use crate::limits::WEIGHT_MAX;
use crate::outcome::bad_input;
use crate::settings::price::nano_dollars;
use crate::settings::run_file::OperatorSection;
use crate::wiring::LoadedTask;

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperatorSetting {
    /// As it was named.
    pub(crate) task: String,
    /// Share of the whole program's time, for reports.
    pub(crate) weight: f64,
    /// Precision classes that are admitted, of those that the task admits; empty for all.
    pub(crate) classes: Vec<Precision>,
    /// Measured speed-up over the strongest baseline at which the search of this task ends.
    pub(crate) target: Option<f64>,
    /// At most so many attempts at this task; `None` for as many as the run may make.
    pub(crate) attempts_max: Option<u32>,
    /// Nano-dollars that it may use before others; steers, and caps nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allotted_nusd: Option<i64>,
}

impl OperatorSetting {
    pub(super) fn named(task: &str) -> Self {
        let task = task.to_owned();
        Self {
            task,
            weight: 1.0,
            classes: Vec::new(),
            target: None,
            attempts_max: None,
            allotted_nusd: None,
        }
    }
}

/// An operator of a run, held against its task.
pub(crate) fn operator(
    section: &OperatorSection,
    loaded: &LoadedTask,
) -> anyhow::Result<OperatorSetting> {
    let failed = |why: String| bad_input(format!("operator `{}`: {why}", section.task));
    let admitted = &loaded.task.spec.classes;
    if section.classes.as_ref().is_some_and(Vec::is_empty) {
        return Err(failed("`classes = []` admits nothing: name some, or leave it out".to_owned()));
    }
    let mut classes = Vec::new();
    for name in section.classes.iter().flatten() {
        match admitted.iter().find(|class| class.name() == name) {
            Some(class) => classes.push(*class),
            None => {
                let names: Vec<_> = admitted.iter().map(|class| class.name()).collect();
                return Err(failed(format!(
                    "class `{name}`: its task admits {}",
                    names.join(", ")
                )));
            }
        }
    }
    if section.attempts == Some(0) {
        return Err(failed(
            "`attempts = 0`: write 1 or more, or leave the operator out".to_owned(),
        ));
    }
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let weight = section.weight.unwrap_or(1.0);
    if !positive(weight) || !section.target.is_none_or(positive) {
        return Err(failed("`weight` and `target` are numbers above 0".to_owned()));
    }
    if weight > WEIGHT_MAX {
        return Err(failed(format!("`weight = {weight}`: write at most {WEIGHT_MAX}")));
    }
    let allotted_nusd = section.dollars.map(|it| nano_dollars("dollars", it)).transpose();
    Ok(OperatorSetting {
        task: section.task.clone(),
        weight,
        classes,
        target: section.target,
        attempts_max: section.attempts,
        allotted_nusd: allotted_nusd.map_err(failed)?,
    })
}

/// How many attempts the operators may make together by limits of their own; `None` where one of
/// them has none.
pub(crate) fn attempts_of_all(operators: &[OperatorSetting]) -> Option<u64> {
    operators.iter().map(|it| it.attempts_max.map(u64::from)).sum()
}

/// Raises the operators' own limits in proportion where together they allow fewer than `attempts`;
/// true where that was so.
pub(crate) fn grow(operators: &mut [OperatorSetting], attempts: u32) -> bool {
    let Some(together) = attempts_of_all(operators) else { return false };
    if together >= u64::from(attempts) {
        return false;
    }
    for limit in operators.iter_mut().filter_map(|it| it.attempts_max.as_mut()) {
        let grown = u64::from(*limit).saturating_mul(attempts.into()).div_ceil(together.max(1));
        *limit = u32::try_from(grown).unwrap_or(u32::MAX);
    }
    true
}
