//! From a command line or a plan to launches that fit the kernels.

use std::collections::BTreeMap;

use judge::Build;
use pipeline::build::{BuildFacts, EntryFacts, ParamKind};
use pipeline::dtype::Dtype;
use pipeline::gate::{Integers, check_arguments, check_values};
use pipeline::launch::ResolvedPlan;
use pipeline::plan::Plan;
use pipeline::plan::single::SingleLaunch;
use pipeline::scope::Scope;
use pipeline::task::signature::{Buffer, BufferUse, Signature};
use pipeline::task::spec::Precision;

use super::arguments::{Declared, Direction, Given, float, split_commas};
use super::listing::{Listed, listed, of_entry};
use super::{Ready, Session};
use crate::outcome::bad_input;

/// Every class: nothing is compared here, so any is admitted.
const CLASSES: [Precision; 7] = [
    Precision::Exact,
    Precision::Fp32,
    Precision::Tf32,
    Precision::Fp16,
    Precision::Bf16,
    Precision::Fp8,
    Precision::Int8,
];

/// The names that a plan may use: what the flags declare.
pub(super) fn signature(declared: &Declared) -> Signature {
    let buffers = declared.buffers().map(|(name, spec)| {
        let use_ = match spec.direction {
            Direction::In => BufferUse::Input,
            Direction::Out | Direction::InOut => BufferUse::Output,
        };
        let (dtype, shape) = spec.form.clone().unwrap_or((Dtype::U8, Vec::new()));
        (name.to_owned(), Buffer { use_, dtype, shape, is_weight: use_ == BufferUse::Input })
    });
    let buffers: BTreeMap<_, _> = buffers.collect();
    let scalars = declared.arguments.iter().filter_map(|argument| match argument.given {
        Given::Float(value) => Some((argument.name.clone(), (Dtype::F64, value))),
        Given::Integer(_) | Given::Buffer(_) => None,
    });
    Signature {
        family: None,
        dims: declared.integers.keys().cloned().collect(),
        may_overwrite: buffers.keys().cloned().collect(),
        scalars: scalars.collect(),
        classes: CLASSES.to_vec(),
        buffers,
    }
}

impl Session {
    /// The launches of a plan.
    pub(super) fn fit_plan(&self, build: Build, plan: &Plan) -> anyhow::Result<Ready> {
        let mut tunables = plan.default_tunables();
        tunables.extend(self.declared.defines.clone());
        let signature = signature(&self.declared);
        let facts = facts(&build)?;
        let resolved = self.resolve(facts, plan, &signature, &tunables)?;
        Ok(Ready { build, plan: resolved, in_place: plan.in_place.clone() })
    }

    /// The one launch that the flags say.
    pub(super) fn fit_command_line(&self, mut build: Build) -> anyhow::Result<Ready> {
        let facts = facts(&build)?;
        let kernel = self.chosen(facts)?;
        let entry = kernel.entry;
        let (Some(grid), Some(block)) = (&self.args.grid, &self.args.block) else {
            return Err(bad_input(format!(
                "--grid and --block say how many blocks of how many threads to launch; {}",
                self.fitting(&kernel)
            )));
        };
        let declared = self.typed(entry);
        self.check_count(&kernel)?;
        let launch = SingleLaunch {
            kernel: kernel.name.clone(),
            grid: split_commas(grid),
            block: split_commas(block),
            cluster: self.args.cluster.as_deref().map(split_commas),
            shared_bytes: self.args.shared_bytes.clone().unwrap_or_else(|| "0".to_owned()),
            cooperative: self.args.cooperative,
            args: declared.arguments.iter().map(|argument| argument.name.clone()).collect(),
        };
        let signature = signature(&declared);
        let plan = Plan::of_launch(launch, &signature).map_err(bad_input)?;
        let names = vec![(kernel.name.clone(), entry.name.clone())];
        let named = BuildFacts { lowered_names: names, ..facts.clone() };
        let resolved = self.resolve(&named, &plan, &signature, &BTreeMap::new());
        let plan =
            resolved.map_err(|error| bad_input(format!("{error}\n{}", self.fitting(&kernel))))?;
        build.facts = Some(named);
        Ok(Ready { build, plan, in_place: Vec::new() })
    }

    fn resolve(
        &self,
        facts: &BuildFacts,
        plan: &Plan,
        signature: &Signature,
        tunables: &BTreeMap<String, i64>,
    ) -> anyhow::Result<ResolvedPlan> {
        let scalars: Vec<_> = signature.scalars.keys().map(String::as_str).collect();
        if let Some(first) = check_arguments(facts, plan, &scalars).first() {
            return Err(bad_input(&first.message));
        }
        let scope =
            Scope::of_dims(&self.declared.integers).with(tunables).with_device(&self.device);
        let resolved = plan.resolve(&scope, signature).map_err(bad_input)?;
        check_values(facts, &resolved, Integers::Any).map_err(bad_input)?;
        Ok(resolved)
    }

    /// The kernel that is named, or the only one; with no launch at all, the list of kernels.
    fn chosen<'a>(&'a self, facts: &'a BuildFacts) -> anyhow::Result<Listed<'a>> {
        let asked = self.args.kernel.as_deref();
        let mut kernels = match asked.and_then(|name| facts.entry_of(name)) {
            Some(entry) => vec![of_entry(facts, entry, &self.declarations)],
            None => listed(facts, &self.declarations),
        };
        let no_launch = self.args.grid.is_none() && self.args.arg.is_empty();
        if no_launch || kernels.len() != 1 {
            return Err(bad_input(self.list(&kernels, no_launch)));
        }
        kernels.pop().ok_or_else(|| bad_input(self.list(&[], true)))
    }

    fn list(&self, kernels: &[Listed<'_>], no_launch: bool) -> String {
        let file = &self.file;
        let mut parts = vec![match (kernels.len(), no_launch) {
            (0, _) => format!("{file} defines no kernel that could be launched as it stands"),
            (1, _) => format!("say how to launch the kernel of {file}"),
            (count, true) => {
                format!("say which of the {count} kernels of {file} to launch, and how")
            }
            (count, false) => format!("{file} defines {count} kernels: name one with --kernel"),
        }];
        parts.extend(kernels.iter().map(|kernel| kernel.describe(file)));
        for kernel in &self.declarations {
            if let Some(template) = &kernel.template {
                let name = &kernel.name;
                parts.push(format!(
                    "  {name} is a template <{template}>: name an instance, as in --kernel \
                     '{name}<…>'"
                ));
            }
        }
        parts.join("\n")
    }

    /// The parameters of a kernel and a command line that fits them.
    fn fitting(&self, kernel: &Listed<'_>) -> String {
        format!("the kernel, and a command line that fits:\n{}", kernel.describe(&self.file))
    }

    fn check_count(&self, kernel: &Listed<'_>) -> anyhow::Result<()> {
        let (params, given) = (&kernel.entry.params, self.declared.arguments.len());
        if params.len() != given {
            return Err(bad_input(format!(
                "kernel `{}` takes {} parameters, but {given} --arg are given; {}",
                kernel.name,
                params.len(),
                self.fitting(kernel)
            )));
        }
        for (index, argument) in self.declared.arguments.iter().enumerate() {
            if let (Some(written), Given::Integer(text)) = (kernel.pointer(index), &argument.given)
            {
                return Err(bad_input(format!(
                    "argument {} of `{}` is `{written}`, a buffer, but {}={text} is an integer; {}",
                    index + 1,
                    kernel.name,
                    argument.name,
                    self.fitting(kernel)
                )));
            }
        }
        let by_value =
            params.iter().position(|param| matches!(param.kind, ParamKind::Bytes { .. }));
        by_value.map_or(Ok(()), |index| {
            Err(bad_input(format!(
                "parameter {} of `{}` is {} by value, which a command line cannot give: let the \
                 kernel take the members one by one",
                index + 1,
                kernel.name,
                params[index].describe()
            )))
        })
    }

    /// The arguments, with integers that meet a float parameter made floats.
    fn typed(&self, entry: &EntryFacts) -> Declared {
        let mut declared = self.declared.clone();
        for (argument, param) in declared.arguments.iter_mut().zip(&entry.params) {
            if let Given::Integer(text) = &argument.given
                && param.kind == ParamKind::Float
                && let Some(value) = float(text)
            {
                argument.given = Given::Float(value);
            }
        }
        declared
    }
}

fn facts(build: &Build) -> anyhow::Result<&BuildFacts> {
    build.facts.as_ref().ok_or_else(|| anyhow::anyhow!("a build without facts was accepted"))
}
