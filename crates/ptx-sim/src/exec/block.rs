//! One block: its warps in turn, its barriers, and what to say when nothing can run.

use super::collective::{votes, write_reduction};
use super::engine::{Engine, Fault, Place, lane_names};
use super::step::{BlockView, Stop};
use super::warp::{State, Warp};
use crate::program::ir::{Barrier, Op};
use crate::report::{FindingKind, Trap, TrapKind};

/// A block in execution.
#[derive(Debug)]
pub(super) struct Block {
    index: u64,
    shared: Vec<u8>,
    warps: Vec<Warp>,
    arrivals: [u32; 16],
}

/// What a round over the warps of a block came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    /// Some warp can go on.
    More,
    /// All threads have exited.
    Done,
}

impl Block {
    pub(super) fn new(engine: &Engine<'_>, index: u64) -> Block {
        let warps = engine.plan.threads_per_block.div_ceil(32);
        Block {
            index,
            shared: vec![engine.plan.shared_poison; engine.plan.shared_bytes as usize],
            warps: (0..warps).map(|warp| Warp::new(engine, index, warp)).collect(),
            arrivals: [0; 16],
        }
    }

    /// Gives every warp a turn and opens barriers that are complete.
    pub(super) fn round(&mut self, engine: &mut Engine<'_>) -> Result<Round, Box<Trap>> {
        let Block { index, shared, warps, arrivals } = self;
        let (mut moved, mut done) = (false, true);
        let count = warps.len();
        for at in 0..count {
            let at = if engine.plan.reversed { count - 1 - at } else { at };
            let warp = &mut warps[at];
            if warp.is_done() {
                continue;
            }
            let mut view = BlockView { index: *index, shared, arrivals };
            match engine.run_warp(&mut view, warp) {
                Ok(Stop::Blocked) => done = false,
                Ok(Stop::Turn) => (moved, done) = (true, false),
                Ok(Stop::Done) => moved = true,
                Err((fault, place)) => return Err(Box::new(engine.trap(fault, place))),
            }
        }
        if done {
            return Ok(Round::Done);
        }
        if self.open_barriers(engine) || moved {
            return Ok(Round::More);
        }
        Err(Box::new(self.stuck(engine)))
    }

    /// Opens every barrier that all its threads have reached.
    fn open_barriers(&mut self, engine: &mut Engine<'_>) -> bool {
        let mut waiting: Vec<(u32, u32)> = Vec::new();
        for group in self.warps.iter().flat_map(|w| &w.groups) {
            if let State::AtBarrier(id, count) = group.state
                && !waiting.iter().any(|(i, _)| *i == id)
            {
                waiting.push((id, count));
            }
        }
        let complete: Vec<(u32, u32)> =
            waiting.into_iter().filter(|(id, count)| self.is_complete(*id, *count)).collect();
        for (id, count) in &complete {
            self.open(engine, *id, *count);
        }
        !complete.is_empty()
    }

    /// A warp has arrived when all its live lanes wait at the barrier.
    fn has_arrived(warp: &Warp, id: u32) -> bool {
        let at = |g: &&super::warp::Group| matches!(g.state, State::AtBarrier(i, _) if i == id);
        let here = warp.groups.iter().filter(at).fold(0, |set, g| set | g.mask);
        here != 0 && here == warp.live()
    }

    fn is_complete(&self, id: u32, count: u32) -> bool {
        let arrived = self.warps.iter().filter(|w| Block::has_arrived(w, id)).count() as u32 * 32
            + self.arrivals[id as usize];
        let all = self.warps.len() as u32 * 32;
        let exited = self.warps.iter().filter(|w| w.is_done()).count() as u32 * 32;
        if count == 0 || count.checked_next_multiple_of(32).is_none_or(|whole| whole >= all) {
            // The whole block: threads that have exited count as arrived.
            arrived + exited >= all
        } else {
            arrived >= count
        }
    }

    fn open(&mut self, engine: &mut Engine<'_>, id: u32, count: u32) {
        let here: Vec<usize> =
            (0..self.warps.len()).filter(|w| Block::has_arrived(&self.warps[*w], id)).collect();
        let (mut yes, mut all) = (0, 0);
        for warp in here.iter().map(|w| &self.warps[*w]) {
            for group in &warp.groups {
                if let Some((op, frame)) = barrier_of(engine, warp, group) {
                    yes += votes(op, frame, group.mask).count_ones();
                    all += group.mask.count_ones();
                }
            }
        }
        for index in here {
            self.note_divergence(engine, index);
            let warp = &mut self.warps[index];
            for group in &mut warp.groups {
                let program = engine.program;
                if let Some(Some(frame)) = warp.frames.get_mut(group.frame)
                    && let Some(code) = program.functions.get(frame.function as usize)
                    && let Some(Op::Barrier(op)) = code.code.get(group.pc as usize).map(|i| &i.op)
                {
                    write_reduction(op, frame, group.mask, yes, all);
                }
                group.state = State::Run;
                group.pc += 1;
            }
        }
        let arrivals = &mut self.arrivals[id as usize];
        *arrivals = if count == 0 { 0 } else { arrivals.saturating_sub(count) };
    }

    fn note_divergence(&self, engine: &mut Engine<'_>, warp: usize) {
        let warp = &self.warps[warp];
        let [first, .., last] = warp.groups[..] else { return };
        if let (Some(place), Some(other)) =
            (place_of(self.index, warp, &first), place_of(self.index, warp, &last))
        {
            let line = engine.program.location(other.function, other.pc);
            let there = line.map_or_else(|| "another place".to_owned(), |l| l.to_string());
            engine.note(FindingKind::DivergentBarrier, place, first.mask, None, || {
                format!("lanes of one warp met a block barrier here and at {there}")
            });
        }
    }

    /// The trap of a block in which nothing can run.
    fn stuck(&self, engine: &Engine<'_>) -> Trap {
        let mut lines = Vec::new();
        let mut first: Option<(TrapKind, Place, u32)> = None;
        for warp in &self.warps {
            for group in &warp.groups {
                let Some(place) = place_of(self.index, warp, group) else { continue };
                let at = engine.program.location(place.function, place.pc);
                let at = at.map_or_else(|| format!("pc {}", place.pc), |l| l.to_string());
                let (kind, wait) = match group.state {
                    State::AtSync(mask) => {
                        let absent = mask & warp.live() & !group.mask;
                        let names = lane_names(absent);
                        (TrapKind::Collective, format!("a collective that also names {names}"))
                    }
                    State::AtBarrier(id, _) => (TrapKind::Deadlock, format!("barrier {id}")),
                    State::Run => (TrapKind::Deadlock, "nothing".to_owned()),
                };
                if lines.len() < 8 {
                    let who = lane_names(group.mask);
                    lines.push(format!("warp {} {who} wait for {wait} at {at}", warp.index));
                }
                let sooner = first.is_none_or(|(k, _, _)| {
                    k == TrapKind::Deadlock && kind == TrapKind::Collective
                });
                if sooner {
                    first = Some((kind, place, group.mask));
                }
            }
        }
        let place = Place { block: self.index, warp: 0, function: 0, pc: 0 };
        let (kind, place, mask) = first.unwrap_or((TrapKind::Deadlock, place, 0));
        let exited = self.warps.iter().filter(|w| w.is_done()).count();
        let message = format!(
            "no warp can go on: {}; {exited} of {} warps have exited;",
            lines.join("; "),
            self.warps.len()
        );
        engine.trap(Fault::new(kind, message, mask), place)
    }
}

fn place_of(block: u64, warp: &Warp, group: &super::warp::Group) -> Option<Place> {
    let frame = warp.frames.get(group.frame)?.as_ref()?;
    Some(Place { block, warp: warp.index, function: frame.function, pc: group.pc })
}

fn barrier_of<'w>(
    engine: &Engine<'w>,
    warp: &'w Warp,
    group: &super::warp::Group,
) -> Option<(&'w Barrier, &'w super::frame::Frame)> {
    let frame = warp.frames.get(group.frame)?.as_ref()?;
    let function = engine.program.functions.get(frame.function as usize)?;
    match &function.code.get(group.pc as usize)?.op {
        Op::Barrier(op) => Some((op, frame)),
        _ => None,
    }
}
