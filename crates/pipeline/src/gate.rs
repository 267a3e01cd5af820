//! The static gate: what build facts and plan alone forbid.
//!
//! No rule looks at source text or names that the model chose; only at what the compiler emitted.

use crate::build::{BuildFacts, EntryFacts, ParamFacts, ParamKind};
use crate::launch::{ResolvedPlan, ResolvedStep, Value};
use crate::limits::STATIC_BYTES_MAX;
use crate::plan::{Arg, KernelStep, Plan};
use crate::task::Task;
use crate::verdict::{Reason, Verdict};

/// One finding of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: Reason,
    /// One sentence: what was found and what to do instead.
    pub message: String,
}

impl Rejection {
    /// The verdict that this is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::failed(self.reason, self.message.clone())
    }
}

/// Everything that forbids running this build under this plan; empty when nothing does.
///
/// The plan's arguments are checked first, since those are mended without touching the kernel.
#[must_use]
pub fn gate(facts: &BuildFacts, plan: &Plan, task: &Task) -> Vec<Rejection> {
    let scalars: Vec<_> = task.spec.scalars.iter().map(|scalar| scalar.name.as_str()).collect();
    let mut found = check_arguments(facts, plan, &scalars);
    check_module(facts, plan, &mut found);
    found
}

/// What of a plan's arguments does not fit the kernels' parameters: count, kind and width.
/// `scalars` are the float scalars that there are, for hints.
#[must_use]
pub fn check_arguments(facts: &BuildFacts, plan: &Plan, scalars: &[&str]) -> Vec<Rejection> {
    let mut found = Vec::new();
    for (index, kernel) in plan.kernels().enumerate() {
        match facts.entry_of(&kernel.kernel) {
            Some(entry) => check_step(index, kernel, entry, scalars, &mut found),
            None => found.push(plan_rejection(format!(
                "no kernel `{}`; the module has {}",
                kernel.kernel,
                entry_names(facts)
            ))),
        }
    }
    found
}

/// Integers that a parameter of fewer than 8 bytes may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// From 0 to the largest signed value of the width: right whatever the kernel declares.
    NonNegative,
    /// From the smallest signed to the largest unsigned value of the width.
    Any,
}

/// Checks the integer values of a resolved plan against the widths of the parameters.
///
/// # Errors
/// The first value that does not fit, with kernel and position.
pub fn check_values(
    facts: &BuildFacts,
    plan: &ResolvedPlan,
    integers: Integers,
) -> Result<(), String> {
    for step in plan.prepare.iter().chain(&plan.steps) {
        let ResolvedStep::Kernel(launch) = step else { continue };
        let Some(entry) = facts.entry_of(&launch.kernel) else { continue };
        for (i, (value, param)) in launch.args.iter().zip(&entry.params).enumerate() {
            check_value(value, param, integers)
                .map_err(|why| format!("kernel `{}`, argument {}: {why}", launch.kernel, i + 1))?;
        }
        let threads = launch.block.into_iter().fold(1, u32::saturating_mul);
        if let Some(most) = entry.max_threads.filter(|most| threads > *most) {
            return Err(format!(
                "kernel `{}`: a block of {threads} threads, but its launch bounds allow {most}",
                launch.kernel
            ));
        }
    }
    Ok(())
}

fn check_step(
    index: usize,
    kernel: &KernelStep,
    entry: &EntryFacts,
    scalars: &[&str],
    found: &mut Vec<Rejection>,
) {
    let place = format!("kernel step {} (`{}`)", index + 1, kernel.kernel);
    if kernel.args.len() != entry.params.len() {
        found.push(plan_rejection(format!(
            "{place}: the kernel has {} parameters, the plan gives {} arguments",
            entry.params.len(),
            kernel.args.len()
        )));
        return;
    }
    for (i, (arg, param)) in kernel.args.iter().zip(&entry.params).enumerate() {
        if let Some(why) = mismatch(arg, param, scalars) {
            found.push(plan_rejection(format!("{place}, argument {}: {why}", i + 1)));
        }
    }
}

fn mismatch(arg: &Arg, param: &ParamFacts, scalars: &[&str]) -> Option<String> {
    let has = param.describe();
    match (arg, param.kind) {
        (Arg::Buffer(_), ParamKind::Integer) if param.width == 8 => None,
        (Arg::Buffer(name), _) => {
            Some(format!("the kernel takes {has}, the plan gives the pointer of `{name}`"))
        }
        (Arg::TensorMap(_), ParamKind::Bytes { align: 64 | 128 }) if param.width == 128 => None,
        (Arg::TensorMap(name), _) => {
            Some(format!("the kernel takes {has}, the plan gives the tensor map `{name}`"))
        }
        (Arg::Scalar(_), ParamKind::Float) => None,
        (Arg::Scalar(name), _) => {
            Some(format!("the kernel takes {has}, the plan gives the float scalar `{name}`"))
        }
        (Arg::Integer(_), ParamKind::Integer) => None,
        (Arg::Integer(expression), _) => Some(format!(
            "the kernel takes {has}, the plan gives the integer `{}`{}",
            expression.text(),
            scalar_hint(param, scalars)
        )),
    }
}

fn scalar_hint(param: &ParamFacts, scalars: &[&str]) -> String {
    match param.kind {
        ParamKind::Float if scalars.is_empty() => {
            "; this task has no float scalars: pass an integer and convert it".to_owned()
        }
        ParamKind::Float => format!("; float parameters take only {}", scalars.join(", ")),
        ParamKind::Integer | ParamKind::Bytes { .. } => String::new(),
    }
}

fn check_value(value: &Value, param: &ParamFacts, integers: Integers) -> Result<(), String> {
    let Value::Integer(integer) = value else { return Ok(()) };
    if param.width >= 8 {
        return Ok(());
    }
    let half = 1i64 << (8 * param.width - 1);
    let (low, most) = match integers {
        Integers::NonNegative => (0, half - 1),
        Integers::Any => (-half, 2 * half - 1),
    };
    if (low..=most).contains(integer) {
        return Ok(());
    }
    Err(format!("{integer} does not fit {}; values must be in {low}..={most}", param.describe()))
}

fn check_module(facts: &BuildFacts, plan: &Plan, found: &mut Vec<Rejection>) {
    let launched: Vec<_> =
        plan.kernels().filter_map(|kernel| facts.entry_of(&kernel.kernel)).collect();
    for entry in &facts.entries {
        if !launched.iter().any(|used| used.name == entry.name) {
            found.push(static_rejection(format!(
                "the module has the entry `{}` that no step launches; remove it",
                entry.name
            )));
        }
    }
    if !facts.externs.is_empty() {
        found.push(static_rejection(format!(
            "the module calls {}; printf, malloc, assert and device launches are not available",
            facts.externs.join(", ")
        )));
    }
    if facts.static_bytes > STATIC_BYTES_MAX {
        found.push(static_rejection(format!(
            "module variables take {} bytes; at most {STATIC_BYTES_MAX} are allowed",
            facts.static_bytes
        )));
    }
    let cooperative = plan.kernels().any(|kernel| kernel.cooperative);
    for register in &facts.special_registers {
        let forbidden =
            register.name == "%gridid" || register.name.starts_with("%envreg") && !cooperative;
        if forbidden {
            found.push(static_rejection(format!(
                "`{}` reads {}, which the result of an operator cannot depend on",
                register.origin, register.name
            )));
        }
    }
}

fn entry_names(facts: &BuildFacts) -> String {
    let names: Vec<_> = facts.entries.iter().map(|entry| format!("`{}`", entry.name)).collect();
    if names.is_empty() { "no kernels".to_owned() } else { names.join(", ") }
}

fn plan_rejection(message: String) -> Rejection {
    Rejection { reason: Reason::Plan, message }
}

fn static_rejection(message: String) -> Rejection {
    Rejection { reason: Reason::Static, message }
}

#[cfg(test)]
mod tests;
