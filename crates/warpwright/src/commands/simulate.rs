//! `simulate`: any kernel on the simulator, without a task and without a ledger.
//!
//! The command line becomes a plan like a model's; compile and run happen in the judge's children.

mod arguments;
mod contents;
mod launch;
mod listing;
mod npy;
mod results;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use device::nvrtc::{KernelDeclaration, kernel_declarations};
use judge::{Build, CancelFlag, Content, Judge, Simulation, SimulationReport};
use pipeline::device_facts::DeviceFacts;
use pipeline::launch::ResolvedPlan;
use pipeline::limits::{PLAN_BYTES_MAX, SOURCE_BYTES_MAX};
use pipeline::plan::Plan;
use pipeline::plan::single::check_kernel;

use crate::cli::SimulateArgs;
use crate::outcome::{Outcome, bad_input};
use crate::settings::Places;
use crate::wiring::{self, read_text};
use arguments::{Declared, Direction};
use contents::Shaped;
use results::Printer;

/// What is to be simulated.
struct Session {
    args: SimulateArgs,
    source: String,
    /// The file as the person wrote it.
    file: String,
    declarations: Vec<KernelDeclaration>,
    device: DeviceFacts,
    declared: Declared,
    judge: Judge,
}

/// A launch that fits its kernel.
struct Ready {
    build: Build,
    plan: ResolvedPlan,
    /// Inputs that the plan overwrites.
    in_place: Vec<String>,
}

/// Compiles, launches and reports.
pub(crate) async fn perform(places: &Places, args: SimulateArgs) -> anyhow::Result<Outcome> {
    let source = read_text(&args.source, SOURCE_BYTES_MAX as u64)?;
    if source.contains('\0') {
        return Err(bad_input(format!("{} holds a NUL byte", args.source.display())));
    }
    if let Some(kernel) = &args.kernel {
        check_kernel(kernel).map_err(bad_input)?;
    }
    let device = device_facts(&args.sm)?;
    let declared = Declared::read(&args.arg, &args.dim, &args.define, &device)?;
    check_results(&args, &declared)?;
    let toolchain = wiring::toolchain(places)?;
    let session = Session {
        judge: wiring::judge_for(&toolchain, device.clone(), None)?,
        declarations: kernel_declarations(&source),
        file: args.source.display().to_string(),
        args,
        source,
        device,
        declared,
    };
    tokio::task::spawn_blocking(move || session.perform()).await?
}

impl Session {
    fn perform(self) -> anyhow::Result<Outcome> {
        let printer = Printer::new(&self.file, &self.source);
        let (build, plan) = match self.planned()? {
            Some((plan, defines)) => (self.compile(&defines, &plan.kernel_names())?, Some(plan)),
            None => {
                let names: Vec<_> = self.args.kernel.clone().into_iter().collect();
                (self.compile(&self.declared.defines, &names)?, None)
            }
        };
        printer.diagnostics(&build);
        if let Some(verdict) = &build.verdict {
            return Ok(printer.not_compiled(&build, verdict));
        }
        let ready = match plan {
            Some(plan) => self.fit_plan(build, &plan)?,
            None => self.fit_command_line(build)?,
        };
        let shaped = contents::tensors(&self.declared, &self.device, self.args.seed)?;
        printer.launches(&ready.build, &ready.plan, &self.device);
        let report = self.simulate(&ready, &shaped)?;
        let outcome = printer.report(&report, &shaped, &ready.plan);
        self.print_values(&printer, &report)?;
        self.write_files(&printer, &report, &shaped)?;
        printer.counts(&report);
        printer.ending(&outcome);
        let json = serde_json::to_value(&report)?;
        Ok(outcome.with("simulation", json).with("build", results::build_json(&ready.build)))
    }

    /// The plan of `--plan`, with the macros that it compiles under.
    fn planned(&self) -> anyhow::Result<Option<(Plan, BTreeMap<String, i64>)>> {
        let Some(path) = &self.args.plan else { return Ok(None) };
        let text = read_text(path, PLAN_BYTES_MAX as u64)?;
        let signature = launch::signature(&self.declared);
        let plan = Plan::parse(&text, &signature)
            .map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
        let mut defines = plan.default_tunables();
        defines.extend(self.declared.defines.clone());
        Ok(Some((plan, defines)))
    }

    fn compile(&self, defines: &BTreeMap<String, i64>, names: &[String]) -> anyhow::Result<Build> {
        Ok(self.judge.compile(&self.source, defines, names, &CancelFlag::default())?)
    }

    fn simulate(&self, ready: &Ready, shaped: &[Shaped]) -> anyhow::Result<SimulationReport> {
        let mut tensors: Vec<_> = shaped.iter().map(|shaped| shaped.tensor.clone()).collect();
        for tensor in tensors.iter_mut().filter(|tensor| ready.in_place.contains(&tensor.name)) {
            if let Content::Input(values) = &mut tensor.content {
                tensor.content = Content::Updated(std::mem::take(values));
            }
        }
        let simulation = Simulation {
            build: &ready.build,
            plan: &ready.plan,
            tensors: &tensors,
            launch_budget: self.args.budget,
            deadline: Duration::from_secs(self.args.deadline),
        };
        Ok(self.judge.simulate(&simulation, &CancelFlag::default())?)
    }

    fn print_values(&self, printer: &Printer<'_>, report: &SimulationReport) -> anyhow::Result<()> {
        for text in &self.args.print {
            let (name, count) = printed(text)?;
            match report.outputs.iter().find(|output| output.name == name) {
                Some(output) => printer.values(output, count),
                None => printer.no_values(name),
            }
        }
        Ok(())
    }

    fn write_files(
        &self,
        printer: &Printer<'_>,
        report: &SimulationReport,
        shaped: &[Shaped],
    ) -> anyhow::Result<()> {
        for text in &self.args.out {
            let (name, path) = written(text)?;
            let output = report.outputs.iter().find(|output| output.name == name);
            match (output, shaped.iter().find(|shaped| shaped.tensor.name == name)) {
                (Some(output), Some(shaped)) => contents::write(&path, output, &shaped.shape)?,
                (None, _) | (_, None) => printer.no_values(name),
            }
        }
        Ok(())
    }
}

/// Refuses `--print` and `--out` of what no kernel writes, before anything runs.
fn check_results(args: &SimulateArgs, declared: &Declared) -> anyhow::Result<()> {
    let printed_names = args.print.iter().map(|text| printed(text).map(|(name, _)| name));
    let written_names = args.out.iter().map(|text| written(text).map(|(name, _)| name));
    for name in printed_names.chain(written_names) {
        let name = name?;
        let known = declared
            .buffers()
            .any(|(known, spec)| known == name && spec.direction != Direction::In);
        if !known {
            return Err(bad_input(format!(
                "`{name}` is no buffer that the kernel writes; declare it as {name}=out:f32[…]"
            )));
        }
    }
    Ok(())
}

/// `y`, `y:8` or `y[:8]`: a buffer and how much of it.
fn printed(text: &str) -> anyhow::Result<(&str, u64)> {
    let wrong = || bad_input(format!("`--print {text}`: write NAME or NAME:COUNT"));
    let text_inside = text.strip_suffix(']').map(|inside| inside.replacen("[:", ":", 1));
    match (text.split_once("[:"), text.split_once(':')) {
        (Some((name, _)), _) => {
            let count = text_inside.as_deref().and_then(|inside| inside.split_once(':'));
            let count = count.and_then(|(_, count)| count.parse().ok()).ok_or_else(wrong)?;
            Ok((name, count))
        }
        (None, Some((name, count))) => Ok((name, count.parse().map_err(|_| wrong())?)),
        (None, None) => Ok((text, results::VALUES_SHOWN)),
    }
}

/// `y=FILE`
fn written(text: &str) -> anyhow::Result<(&str, PathBuf)> {
    let parts = text.split_once('=').filter(|(_, file)| !file.is_empty());
    let (name, file) =
        parts.ok_or_else(|| bad_input(format!("`--out {text}`: write NAME=FILE")))?;
    Ok((name, Path::new(file).to_owned()))
}

/// The simulated H200 or, for another architecture, a device with that one's limits.
fn device_facts(sm: &str) -> anyhow::Result<DeviceFacts> {
    let digits = sm.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    let number: u32 = digits.parse().unwrap_or(0);
    let suffix = if number >= 90 { "a" } else { "" };
    let arch = format!("sm_{number}{suffix}");
    let limits = device::sim::limits(&arch).ok_or_else(|| {
        let known = "75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121";
        bad_input(format!("`--sm {sm}`: the simulator knows {known}"))
    })?;
    let h200 = DeviceFacts::simulated_h200();
    if arch == h200.arch {
        return Ok(h200);
    }
    Ok(DeviceFacts {
        model: format!("sim-{arch}"),
        arch,
        sm_count: limits.sm_count.into(),
        max_threads_per_block: limits.max_threads_per_block.into(),
        max_threads_per_sm: limits.max_threads_per_sm.into(),
        shared_per_block_optin: limits.shared_per_block_optin.into(),
        shared_per_sm: limits.shared_per_sm.into(),
        ..h200
    })
}

#[cfg(test)]
mod tests {
    use super::{device_facts, printed, written};

    #[test]
    fn flags_of_results_are_read() {
        for (text, name, count) in [("y", "y", 8), ("y:3", "y", 3), ("y[:12]", "y", 12)] {
            assert_eq!(printed(text).unwrap(), (name, count), "{text}");
        }
        for text in ["y:", "y:x", "y[:", "y[:2"] {
            assert!(printed(text).is_err(), "{text}");
        }
        assert!(written("y").is_err() && written("y=").is_err());
    }

    #[test]
    fn architectures_are_known_by_number_or_name() {
        for (sm, arch) in [("90", "sm_90a"), ("sm_75", "sm_75"), ("120a", "sm_120a")] {
            assert_eq!(device_facts(sm).unwrap().arch, arch);
        }
        assert!(device_facts("91").unwrap_err().to_string().contains("75, 80"));
    }
}
