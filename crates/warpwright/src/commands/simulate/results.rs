//! What a simulation tells a person: the end with its source line, findings, outputs, counts.

mod counts;

use judge::{Build, Cause, SimulatedOutput, SimulationReport};
use pipeline::build::{Diagnostic, Severity};
use pipeline::device_facts::DeviceFacts;
use pipeline::launch::{ResolvedPlan, ResolvedStep};
use pipeline::report::FindingSeverity;
use pipeline::verdict::{Reason, Verdict};
use sandbox::wire::{Noted, Place, RunEnd};
use serde_json::json;

use super::contents::Shaped;
use crate::limits::PRINTED_ELEMENTS_MAX;
use crate::outcome::{Exit, Outcome};
use crate::terminal;

/// Elements that `--print` shows when no count is given.
pub(super) const VALUES_SHOWN: u64 = 8;
/// The name under which the compiler sees every source.
const COMPILED_NAME: &str = "kernel.cu";
/// Relative difference up to which a float that depends on the order is taken for rounding.
const ROUNDING_MAX: f64 = 1e-3;

/// Prints results of one source.
pub(super) struct Printer<'a> {
    file: &'a str,
    lines: Vec<&'a str>,
}

/// What was found, in words.
#[derive(Debug, Default)]
struct Found {
    errors: Vec<String>,
    warnings: Vec<String>,
    /// True when the kernel executed an atomic operation.
    has_atomics: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(file: &'a str, source: &'a str) -> Self {
        Self { file, lines: source.lines().collect() }
    }

    /// Our name of the source replaced by the person's.
    fn named(&self, text: &str) -> String {
        terminal::plain(&text.replace(COMPILED_NAME, self.file))
    }

    /// The compiler's messages with their source lines.
    pub(super) fn diagnostics(&self, build: &Build) {
        for found in &build.diagnostics {
            terminal::line(&self.diagnostic(found));
            for line in found.excerpt.lines() {
                terminal::line(&format!("    {}", self.named(line)));
            }
        }
    }

    fn diagnostic(&self, found: &Diagnostic) -> String {
        let word = match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let line = found.line.map_or_else(String::new, |line| format!(":{line}"));
        match found.file.is_empty() {
            true => self.named(&format!("{word}: {}", found.message)),
            false => self.named(&format!("{word}: {}{line}: {}", found.file, found.message)),
        }
    }

    /// The end of a source that did not compile.
    pub(super) fn not_compiled(&self, build: &Build, verdict: &Verdict) -> Outcome {
        let exit = match verdict.reason {
            Some(Reason::Unsupported) => Exit::NotAvailable,
            _ => Exit::DidNotPass,
        };
        let reason = self.named(&format!("it did not compile: {}", verdict.detail));
        terminal::line(&format!("\nEnded: {reason}"));
        if self.lines.iter().any(|line| is_host_code(line)) {
            terminal::line(
                "The file seems to hold host code (main, <<<>>>, cudaMalloc). Only device code is \
                 compiled here: put the host code between #ifndef __CUDACC_RTC__ and #endif.",
            );
        }
        Outcome::ended(exit, reason).with("build", build_json(build))
    }

    /// What runs where.
    pub(super) fn launches(&self, build: &Build, plan: &ResolvedPlan, device: &DeviceFacts) {
        terminal::line(&format!("On the simulated {} ({}):", device.model, device.arch));
        for step in plan.prepare.iter().chain(&plan.steps) {
            let ResolvedStep::Kernel(launch) = step else { continue };
            let entry = build.facts.as_ref().and_then(|facts| facts.entry_of(&launch.kernel));
            let resources = entry.map_or_else(String::new, |entry| {
                format!(
                    "; {} registers, {} bytes spilled, {} bytes of static shared memory",
                    entry.registers, entry.spill_bytes, entry.static_shared_bytes
                )
            });
            terminal::line(&format!(
                "  {} <<<{}, {}, {}>>>{resources}",
                launch.kernel,
                extents(launch.grid),
                extents(launch.block),
                launch.shared_bytes
            ));
        }
    }

    /// The end, what was printed and found, the outputs; gives the outcome.
    pub(super) fn report(
        &self,
        report: &SimulationReport,
        shaped: &[Shaped],
        plan: &ResolvedPlan,
    ) -> Outcome {
        let (words, message) = end_words(&report.end);
        if !report.printed.is_empty() {
            terminal::line("\nPrinted:");
            for line in report.printed.lines() {
                terminal::line(&format!("  {}", terminal::plain(line)));
            }
        }
        terminal::line(&format!("\nEnded: {words}{}", self.named(message)));
        if report.only_in_second_run {
            terminal::line(
                "  only in the second run: with other garbage in outputs, workspaces and shared \
                 memory, and with warps and blocks in the opposite order",
            );
        }
        match (&report.end, &report.place) {
            (_, None) => {}
            // Nothing ran: the instruction has a place in the source and none in the grid.
            (RunEnd::Unsupported(_), Some(place)) => {
                self.excerpt(place).iter().for_each(|line| terminal::line(line));
            }
            (_, Some(place)) => self.place(place, shaped),
        }
        if let Some(advice) = advice(&report.end, report.place.as_ref(), plan) {
            terminal::line(&format!("  {advice}"));
        }
        let counted = report.counters.as_ref();
        let has_atomics = counted.is_some_and(|counts| counts.atomics > 0.0);
        let mut found = Found { has_atomics, ..Found::default() };
        for noted in &report.findings {
            self.finding(noted, shaped, &mut found);
        }
        for output in &report.outputs {
            print_output(output, &mut found);
        }
        let reason = self.named(&format!("{words}{message}"));
        outcome(&report.end, reason, found)
    }

    fn place(&self, place: &Place, shaped: &[Shaped]) {
        for line in self.excerpt(place) {
            terminal::line(&line);
        }
        let mut words = Vec::new();
        if let (Some(buffer), Some(offset)) = (&place.buffer, place.offset)
            && let Some(shaped) = shaped.iter().find(|shaped| shaped.tensor.name == *buffer)
        {
            let width = (shaped.tensor.dtype.bits() / 8).max(1) as i64;
            words.push(format!(
                "element {} of `{buffer}`, which has {}",
                offset.div_euclid(width),
                shaped.tensor.elements
            ));
        }
        words.push(format!("block {}, thread {}", extents(place.block), extents(place.thread)));
        if !place.instruction.is_empty() {
            words.push(format!("PTX `{}`", place.instruction));
        }
        terminal::line(&format!("  {}", terminal::plain(&words.join("; "))));
    }

    /// The source line, by way of the calls into which it was inlined if it is in a header.
    fn excerpt(&self, place: &Place) -> Vec<String> {
        let own = place.source.iter().chain(&place.inlined_at);
        let own = own.filter(|(file, _)| file == COMPILED_NAME);
        let shown = own.filter_map(|(_, number)| {
            let line = self.lines.get((*number as usize).checked_sub(1)?)?;
            Some(format!("  {number:>5} | {}", terminal::plain(line.trim_end())))
        });
        shown.collect()
    }

    fn finding(&self, noted: &Noted, shaped: &[Shaped], found: &mut Found) {
        let finding = &noted.finding;
        let severity = if noted.past_end { FindingSeverity::Error } else { finding.severity };
        let times =
            if finding.count > 1 { format!(" ({} times)", finding.count) } else { "".into() };
        let text = self.named(&format!("{}{times}", finding.message));
        let word = match severity {
            FindingSeverity::Info => "note",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Error => "error",
        };
        terminal::line(&format!("{word}: {text}"));
        if let Some(place) = &noted.place {
            self.place(place, shaped);
        }
        match severity {
            FindingSeverity::Info => {}
            FindingSeverity::Warning => found.warnings.push(text),
            FindingSeverity::Error => found.errors.push(text),
        }
    }

    /// The first elements of a buffer.
    pub(super) fn values(&self, output: &SimulatedOutput, count: u64) {
        let shown = count.min(output.elements).min(PRINTED_ELEMENTS_MAX);
        let values = (0..shown).map(|index| {
            let bits = output.dtype.element_bits(&output.bytes, index as usize).unwrap_or(0);
            match output.dtype.is_float() {
                true => float_text(output.dtype.decode(bits)),
                false => output.dtype.decode(bits).to_string(),
            }
        });
        let values: Vec<_> = values.collect();
        terminal::line(&format!("\n{}[:{shown}] = {}", output.name, values.join(" ")));
    }

    /// Says why a buffer is not shown.
    pub(super) fn no_values(&self, name: &str) {
        terminal::line(&format!("\n{name} is not shown: the runs did not complete"));
    }

    /// The table of counts.
    pub(super) fn counts(&self, report: &SimulationReport) {
        let counters = report.counters.as_ref().filter(|counts| counts.warp_instructions > 0.0);
        let Some(counters) = counters else { return };
        terminal::line("\nCounts of the first run (these are counts, never times):");
        for line in counts::table(counters) {
            terminal::line(&format!("  {line}"));
        }
    }

    /// The last line.
    pub(super) fn ending(&self, outcome: &Outcome) {
        let reason = terminal::plain(&outcome.reason);
        terminal::line(&match outcome.exit {
            Exit::Done => "\nClean: nothing wrong was found on these inputs.".to_owned(),
            Exit::NotAvailable => format!("\nNot checked: {reason}"),
            _ => format!("\nNot clean: {reason}"),
        });
    }
}

/// What a build gave, for the closing JSON.
pub(super) fn build_json(build: &Build) -> serde_json::Value {
    let entries = build.facts.as_ref().map(|facts| &facts.entries);
    json!({ "entries": entries, "diagnostics": build.diagnostics })
}

fn is_host_code(line: &str) -> bool {
    ["<<<", "int main(", "cudaMalloc", "cudaMemcpy"].iter().any(|part| line.contains(part))
}

fn extents([x, y, z]: [u32; 3]) -> String {
    format!("({x},{y},{z})")
}

/// A float as short as it can be read back in its own precision.
fn float_text(value: f64) -> String {
    if value == f64::from(value as f32) { format!("{}", value as f32) } else { value.to_string() }
}

fn end_words(end: &RunEnd) -> (&'static str, &str) {
    match end {
        RunEnd::Completed => ("completed, twice", ""),
        RunEnd::Refused(why) => ("the launch was refused: ", why),
        RunEnd::Unsupported(what) => ("the simulator lacks something: ", what),
        RunEnd::OutOfBounds(message) => ("OUT OF BOUNDS: ", message),
        RunEnd::ReadOnlyWrite(message) => ("WRITE TO AN INPUT: ", message),
        RunEnd::Hang(message) => ("HANG: ", message),
        RunEnd::Crash(message) => ("FAULT: ", message),
    }
}

fn advice(end: &RunEnd, place: Option<&Place>, plan: &ResolvedPlan) -> Option<String> {
    match end {
        RunEnd::ReadOnlyWrite(_) => {
            let buffer = place.and_then(|place| place.buffer.as_deref()).unwrap_or("the buffer");
            Some(format!("declare {buffer} as inout: or out: if the kernel is meant to write it"))
        }
        RunEnd::Hang(_) => {
            let steps = plan.steps.len();
            let rest = if steps > 1 { "the launches" } else { "the launch" };
            Some(format!("--budget and --deadline allow more; fewer blocks make {rest} shorter"))
        }
        RunEnd::Completed | RunEnd::Refused(_) | RunEnd::Unsupported(_) => None,
        RunEnd::OutOfBounds(_) | RunEnd::Crash(_) => None,
    }
}

fn outcome(end: &RunEnd, reason: String, found: Found) -> Outcome {
    let outcome = match end {
        RunEnd::Completed if found.errors.is_empty() => Outcome::done(),
        RunEnd::Completed => Outcome::ended(Exit::DidNotPass, found.errors.join("; ")),
        RunEnd::Unsupported(_) => Outcome::ended(Exit::NotAvailable, reason),
        RunEnd::Refused(_) | RunEnd::OutOfBounds(_) | RunEnd::ReadOnlyWrite(_) => {
            Outcome::ended(Exit::DidNotPass, reason)
        }
        RunEnd::Hang(_) | RunEnd::Crash(_) => Outcome::ended(Exit::DidNotPass, reason),
    };
    outcome.with("errors", found.errors).with("warnings", found.warnings)
}

/// One output: a line when all is well, else what is not.
fn print_output(output: &SimulatedOutput, found: &mut Found) {
    let (errors, warnings) = (found.errors.len(), found.warnings.len());
    let name = format!("`{}`", output.name);
    let of = output.elements;
    if output.never_written > 0 {
        found.errors.push(format!(
            "{name}: {} of {of} elements are never written, first {} (declare it inout: if that \
             is meant)",
            output.never_written,
            listed(&output.first_never_written)
        ));
    }
    if let Some(differences) = &output.differences {
        let first = differences.first.first().map_or_else(String::new, |first| {
            let [a, b] = first.values.map(float_text);
            format!(", {}[{}] is {a} or {b}", output.name, first.index)
        });
        let what = format!("{name}: {} of {of} elements depend on ", differences.count);
        // Without an atomic, results that lean on the order are a race, however close they are.
        let rounding = found.has_atomics
            && differences.cause == Cause::Order
            && differences.largest_relative <= ROUNDING_MAX;
        let cause = match differences.cause {
            Cause::Garbage => "what memory held before the kernel wrote it",
            Cause::Order => "the order in which warps and blocks run",
            Cause::Unknown => "the order of warps and blocks, or on what memory held before",
        };
        if rounding {
            found.warnings.push(format!(
                "{what}{cause}{first}: by at most {:.1e} of their size, as atomics on floats do",
                differences.largest_relative
            ));
        } else {
            found.errors.push(format!("{what}{cause}{first}"));
        }
    }
    if output.nan + output.infinite > 0 {
        found.warnings.push(format!(
            "{name}: {} of {of} elements are NaN, {} infinite",
            output.nan, output.infinite
        ));
    }
    let lines = found.errors[errors..].iter().map(|text| ("error", text));
    let lines = lines.chain(found.warnings[warnings..].iter().map(|text| ("warning", text)));
    lines.for_each(|(word, text)| terminal::line(&format!("{word}: {text}")));
    if found.errors.len() == errors && found.warnings.len() == warnings {
        terminal::line(&format!("{name}: {of} elements, finite, the same in both runs"));
    }
}

fn listed(indices: &[u64]) -> String {
    indices.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
