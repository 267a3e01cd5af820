//! Executes checked launches: blocks one after the other, in parallel, or co-operatively.
//!
//! `step` is the interpreter loop of one warp, `alu` the lane loops, `memory` loads and stores,
//! `async_copy` copies that arrive later; `collective`, `matrix` and `block` what needs several
//! lanes or warps.

mod alu;
mod async_copy;
mod atomic;
mod block;
mod carry;
mod collective;
mod compare;
mod engine;
mod fault;
mod frame;
mod gather;
mod lanes;
mod matrix;
mod memory;
mod operands;
mod print;
mod space;
mod step;
mod traffic;
mod warp;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use crate::limits::PRINTED_BYTES_MAX;
use crate::machine::address::GlobalMemory;
use crate::machine::checks::Plan;
use crate::program::ir::ProgramData;
use crate::report::{Counters, Finding, LaunchReport, Outcome, Trap, TrapKind};
use block::{Block, Round};
use engine::{Engine, FindingKey};

/// Blocks that one parallel job runs in order.
const BLOCKS_PER_JOB: u64 = 16;

/// Rounds that a new block gets before another one starts.
const FRESH_ROUNDS: u32 = 64;

/// The report of a launch that was not legal.
pub(crate) fn refused(reason: String, budget: u64) -> LaunchReport {
    LaunchReport {
        outcome: Outcome::Refused(reason),
        counters: Counters::default(),
        findings: Vec::new(),
        printed: String::new(),
        warp_instructions_left: budget,
    }
}

/// Runs a checked launch.
pub(crate) fn run(program: &ProgramData, memory: &GlobalMemory, plan: &Plan<'_>) -> LaunchReport {
    if plan.kernel.communicates {
        return run_together(program, memory, plan);
    }
    if plan.workers > 1 && plan.blocks.len() > 1 {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(plan.workers).build();
        if let Ok(pool) = pool {
            return pool.install(|| run_parallel(program, memory, plan));
        }
    }
    let mut engine = Engine::new(program, memory, plan, plan.budget);
    let end = run_range(&mut engine, 0..plan.blocks.len());
    report(engine, end)
}

/// Runs blocks one after the other.
fn run_range(engine: &mut Engine<'_>, blocks: std::ops::Range<u64>) -> Result<(), Box<Trap>> {
    let last = engine.plan.blocks.len().saturating_sub(1);
    for n in blocks {
        let n = if engine.plan.reversed { last - n } else { n };
        let mut block = Block::new(engine, engine.plan.blocks.get(n));
        while block.round(engine)? == Round::More {}
        engine.counters.blocks += 1;
    }
    Ok(())
}

/// Runs blocks that talk to each other: as many at once as the chip could hold, in turns.
fn run_together(program: &ProgramData, memory: &GlobalMemory, plan: &Plan<'_>) -> LaunchReport {
    let mut engine = Engine::new(program, memory, plan, plan.budget);
    let count = plan.blocks.len();
    // Blocks that cannot all be resident may wait for earlier ones, as a chip starts them in order.
    let backwards = plan.reversed && count <= plan.resident;
    let mut waiting = (0..count).map(|n| if backwards { count - 1 - n } else { n });
    let mut resident: Vec<Block> = Vec::new();
    let mut end = Ok(());
    'rounds: loop {
        while (resident.len() as u64) < plan.resident
            && let Some(n) = waiting.next()
        {
            // A fresh block runs on for a while: most end without waiting for another.
            let mut block = Block::new(&engine, plan.blocks.get(n));
            match run_rounds(&mut block, &mut engine, FRESH_ROUNDS) {
                Ok(Round::More) => resident.push(block),
                Ok(Round::Done) => engine.counters.blocks += 1,
                Err(trap) => {
                    end = Err(trap);
                    break 'rounds;
                }
            }
        }
        if resident.is_empty() {
            break;
        }
        let mut at = 0;
        while at < resident.len() {
            match resident[at].round(&mut engine) {
                Ok(Round::More) => at += 1,
                Ok(Round::Done) => {
                    engine.counters.blocks += 1;
                    resident.remove(at);
                }
                Err(trap) => {
                    end = Err(trap);
                    break 'rounds;
                }
            }
        }
    }
    report(engine, end)
}

/// Gives a block some rounds, fewer if it ends.
fn run_rounds(block: &mut Block, engine: &mut Engine<'_>, rounds: u32) -> Result<Round, Box<Trap>> {
    for _ in 0..rounds {
        if block.round(engine)? == Round::Done {
            return Ok(Round::Done);
        }
    }
    Ok(Round::More)
}

/// One parallel job's result.
type JobResult = (Counters, Vec<(FindingKey, Finding)>, String, Result<(), Box<Trap>>);

/// Runs independent blocks on several threads; the report does not depend on their timing, except
/// for the place where a budget ran out.
fn run_parallel(program: &ProgramData, memory: &GlobalMemory, plan: &Plan<'_>) -> LaunchReport {
    let jobs = plan.blocks.len().div_ceil(BLOCKS_PER_JOB);
    let first_trap = AtomicU64::new(u64::MAX);
    let used = AtomicU64::new(0);
    let results: Vec<JobResult> = (0..jobs)
        .into_par_iter()
        .map(|job| {
            if job > first_trap.load(Relaxed) {
                return (Counters::default(), Vec::new(), String::new(), Ok(()));
            }
            let start = job * BLOCKS_PER_JOB;
            let blocks = start..(start + BLOCKS_PER_JOB).min(plan.blocks.len());
            let budget = plan.budget.saturating_sub(used.load(Relaxed));
            let mut engine = Engine::new(program, memory, plan, budget);
            let end = run_range(&mut engine, blocks);
            used.fetch_add(budget - engine.budget, Relaxed);
            if end.is_err() {
                first_trap.fetch_min(job, Relaxed);
            }
            (engine.counters, engine.findings, engine.printed, end)
        })
        .collect();
    let spent = used.load(Relaxed);
    let mut total = Engine::new(program, memory, plan, plan.budget.saturating_sub(spent));
    let mut end = Ok(());
    for (counters, findings, printed, job_end) in results {
        total.counters.add(&counters);
        let room = PRINTED_BYTES_MAX.saturating_sub(total.printed.len());
        total.printed.push_str(&printed[..printed.floor_char_boundary(room)]);
        merge_findings(&mut total.findings, findings);
        end = job_end;
        if end.is_err() {
            break;
        }
    }
    if end.is_ok() && spent > plan.budget {
        end = Err(Box::new(budget_trap(plan)));
    }
    report(total, end)
}

fn merge_findings(into: &mut Vec<(FindingKey, Finding)>, more: Vec<(FindingKey, Finding)>) {
    for (key, finding) in more {
        match into.iter_mut().find(|(k, _)| *k == key) {
            Some((_, known)) => known.count += finding.count,
            None => into.push((key, finding)),
        }
    }
}

fn budget_trap(plan: &Plan<'_>) -> Trap {
    let site = crate::report::Site { kernel: plan.kernel.name.clone(), ..Default::default() };
    Trap {
        kind: TrapKind::Budget,
        message: format!("the blocks used more than {} warp instructions together", plan.budget),
        site,
    }
}

fn report(engine: Engine<'_>, end: Result<(), Box<Trap>>) -> LaunchReport {
    LaunchReport {
        outcome: match end {
            Ok(()) => Outcome::Completed,
            Err(trap) => Outcome::Trapped(*trap),
        },
        counters: engine.counters,
        findings: engine.findings.into_iter().map(|(_, finding)| finding).collect(),
        printed: engine.printed,
        warp_instructions_left: engine.budget,
    }
}
