//! What one worker carries through a launch: program, memory, counters, findings, budget.
//!
//! Faults are raised deep inside with what they know; `trap` adds the place.

use super::frame::lanes;
use super::lanes::LaneLoops;
use crate::limits::FINDINGS_MAX;
use crate::machine::address::GlobalMemory;
use crate::machine::checks::Plan;
use crate::program::ir::{Class, ProgramData};
use crate::report::{Counters, Finding, FindingKind, Site, Trap, TrapKind};

/// A fault before its place in the program is known.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: TrapKind,
    pub(super) message: String,
    pub(super) lanes: u32,
    pub(super) access: Option<AccessPlace>,
}

/// The memory that a fault or finding concerns.
#[derive(Debug, Clone)]
pub(super) struct AccessPlace {
    pub(super) address: u64,
    pub(super) buffer: Option<String>,
    pub(super) offset: Option<i64>,
    pub(super) size: u32,
}

impl Fault {
    pub(super) fn new(kind: TrapKind, message: impl Into<String>, lanes: u32) -> Fault {
        Fault { kind, message: message.into(), lanes, access: None }
    }
}

/// Where a warp stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) block: u64,
    pub(super) warp: u32,
    pub(super) function: u32,
    pub(super) pc: u32,
}

/// State of one worker.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    pub(super) program: &'a ProgramData,
    pub(super) memory: &'a GlobalMemory,
    pub(super) plan: &'a Plan<'a>,
    pub(super) loops: LaneLoops,
    pub(super) counters: Counters,
    pub(super) findings: Vec<(FindingKey, Finding)>,
    pub(super) printed: String,
    /// Warp instructions left.
    pub(super) budget: u64,
}

/// What makes two findings the same.
pub(super) type FindingKey = (FindingKind, u32, u32);

impl<'a> Engine<'a> {
    pub(super) fn new(
        program: &'a ProgramData,
        memory: &'a GlobalMemory,
        plan: &'a Plan<'a>,
        budget: u64,
    ) -> Engine<'a> {
        Engine {
            program,
            memory,
            plan,
            loops: LaneLoops::detect(),
            counters: Counters::default(),
            findings: Vec::new(),
            printed: String::new(),
            budget,
        }
    }

    /// Counts one issued instruction with its active lanes.
    #[inline(always)]
    pub(super) fn count(&mut self, class: Class, active: u32) {
        let n = u64::from(active.count_ones());
        let counters = &mut self.counters;
        match class {
            Class::Inserted => return,
            Class::Move | Class::Memory => {}
            Class::Integer => counters.integer_ops += n,
            Class::Fp32(flops) => counters.fp32_flops += n * u64::from(flops),
            Class::Fp64(flops) => counters.fp64_flops += n * u64::from(flops),
            Class::Fp16(flops) => counters.fp16_flops += n * u64::from(flops),
            Class::Tensor(flops) => counters.tensor_flops += n * u64::from(flops),
            Class::Special => counters.special_ops += n,
            Class::Control => counters.control_ops += n,
        }
        counters.warp_instructions += 1;
        counters.lane_instructions += n;
    }

    fn site(&self, place: Place, lane_set: u32, access: Option<&AccessPlace>) -> Site {
        let function = self.program.functions.get(place.function as usize);
        let origin = function.and_then(|f| f.origins.get(place.pc as usize));
        Site {
            kernel: self.plan.kernel.name.clone(),
            source: self.program.location(place.function, place.pc),
            ptx_line: origin.map_or(0, |o| o.line),
            ptx_text: origin.map_or_else(String::new, |o| o.text.to_string()),
            block: place.block,
            warp: place.warp,
            lanes: lane_set,
            address: access.map(|a| a.address),
            buffer: access.and_then(|a| a.buffer.clone()),
            offset: access.and_then(|a| a.offset),
            size: access.map_or(0, |a| a.size),
        }
    }

    /// Adds its place to a fault.
    pub(super) fn trap(&self, fault: Fault, place: Place) -> Trap {
        let site = self.site(place, fault.lanes, fault.access.as_ref());
        let message = format!("{}{}", fault.message, where_clause(&site));
        Trap { kind: fault.kind, message, site }
    }

    /// Notes a finding, or counts one more occurrence of it.
    pub(super) fn note(
        &mut self,
        kind: FindingKind,
        place: Place,
        lane_set: u32,
        access: Option<&AccessPlace>,
        message: impl FnOnce() -> String,
    ) {
        let key = (kind, place.function, place.pc);
        if let Some((_, finding)) = self.findings.iter_mut().find(|(k, _)| *k == key) {
            finding.count += 1;
        } else if self.findings.len() < FINDINGS_MAX {
            let site = self.site(place, lane_set, access);
            let message = format!("{}{}", message(), where_clause(&site));
            self.findings.push((key, Finding { kind, message, site, count: 1 }));
        }
    }
}

/// ` (block 3, warp 1, lanes 0-31) at file:line`
fn where_clause(site: &Site) -> String {
    let place = match &site.source {
        Some(location) => format!("{location}"),
        None => format!("ptx line {}", site.ptx_line),
    };
    format!(" at {place} (block {}, warp {}, {})", site.block, site.warp, lane_names(site.lanes))
}

/// `lane 3`, `lanes 0-7, 9`
pub(super) fn lane_names(mask: u32) -> String {
    let list: Vec<usize> = lanes(mask).collect();
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(first) = list.get(at) {
        let run = list.iter().skip(at).enumerate().take_while(|(i, l)| **l == first + i).count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        at += run;
    }
    format!("{} {}", if list.len() == 1 { "lane" } else { "lanes" }, parts.join(", "))
}
