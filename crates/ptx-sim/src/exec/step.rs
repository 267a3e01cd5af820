//! The interpreter loop: runs one group of a warp until something else has to be decided.

use super::engine::{Engine, Fault, Place};
use super::frame::{FULL, Frame, LANES, lanes};
use super::memory::Private;
use super::print::LaneMemory;
use super::space::classify;
use super::warp::{Group, State, Warp};
use super::{carry, collective};
use crate::limits::{BUSY_EDGES_MAX, DEPTH_MAX, FRAME_BYTES_MAX, LOCAL_BYTES_MAX, POLL_EDGES_MAX};
use crate::machine::address::WINDOW_BYTES;
use crate::numeric::convert::convert;
use crate::program::ir::{
    Call, Callee, Class, ClockKind, Convert, Inst, MemorySpace, Op, Pairing, Reg,
};
use crate::report::TrapKind;

/// Instructions of one turn of a warp.
const QUANTUM: u32 = 4096;
/// Instructions of one turn of a group while another is put aside.
const SLICE: u32 = 256;

/// Why a warp stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// All lanes wait.
    Blocked,
    /// Its turn is over.
    Turn,
    /// All lanes have exited.
    Done,
}

/// What the loop does after an instruction.
enum Next {
    /// On to this program counter.
    Go(u32),
    /// The group was changed; look at all groups again.
    Reschedule,
    /// End the warp's turn; continue here.
    EndTurn(u32),
}

/// The block that a warp belongs to, as far as its instructions see it.
#[derive(Debug)]
pub(super) struct BlockView<'b> {
    pub(super) index: u64,
    pub(super) shared: &'b mut [u8],
    /// Threads that arrived at each barrier without waiting.
    pub(super) arrivals: &'b mut [u32; 16],
}

impl Engine<'_> {
    /// Runs a warp for a turn. A fault comes with its place.
    pub(super) fn run_warp(
        &mut self,
        block: &mut BlockView<'_>,
        warp: &mut Warp,
    ) -> Result<Stop, (Fault, Place)> {
        let mut turn = QUANTUM;
        loop {
            warp.merge();
            if warp.is_done() {
                return Ok(Stop::Done);
            }
            let Some(index) = warp.pick() else {
                if collective::retry_parked(self, warp) {
                    continue;
                }
                return Ok(Stop::Blocked);
            };
            if turn == 0 {
                return Ok(Stop::Turn);
            }
            let others_wait = warp.groups.iter().any(|g| g.yielded);
            let slice = if others_wait { turn.min(SLICE) } else { turn };
            let (used, end_turn) = self.run_group(block, warp, index, slice)?;
            turn -= used;
            if others_wait {
                warp.groups.iter_mut().for_each(|g| g.yielded = false);
            }
            if end_turn {
                return Ok(if warp.is_done() { Stop::Done } else { Stop::Turn });
            }
        }
    }

    /// Runs a group; gives the instructions used and whether the warp should stop.
    fn run_group(
        &mut self,
        block: &mut BlockView<'_>,
        warp: &mut Warp,
        index: usize,
        slice: u32,
    ) -> Result<(u32, bool), (Fault, Place)> {
        let Group { frame: frame_index, mut pc, mask, .. } = warp.groups[index];
        let Some(mut frame) = warp.frames.get_mut(frame_index).and_then(Option::take) else {
            warp.groups.swap_remove(index);
            return Ok((0, false));
        };
        let others = warp.groups.iter().enumerate().filter(|(i, g)| {
            *i != index && g.frame == frame_index && g.state == State::Run && g.pc > pc
        });
        let limit = others.map(|(_, g)| g.pc).min().unwrap_or(u32::MAX);
        let function = frame.function;
        let program = self.program;
        let code = &program.functions[function as usize].code;
        let mut left = slice;
        let mut end_turn = false;
        while left > 0 && pc < limit {
            left -= 1;
            let place = Place { block: block.index, warp: warp.index, function, pc };
            let result = match code.get(pc as usize) {
                None => Err(Fault::new(TrapKind::TrapInstruction, "ran past the code", mask)),
                Some(_) if self.budget == 0 => {
                    Err(Fault::new(TrapKind::Budget, "the instruction budget ran out", mask))
                }
                Some(inst) => {
                    self.budget -= 1;
                    self.step(block, warp, index, &mut frame, inst, place, mask)
                }
            };
            match result {
                Ok(Next::Go(next)) => pc = next,
                Ok(Next::Reschedule) => {
                    warp.restore(frame_index, frame);
                    return Ok((slice - left, false));
                }
                Ok(Next::EndTurn(next)) => {
                    pc = next;
                    end_turn = true;
                    break;
                }
                Err(fault) => return Err((fault, place)),
            }
        }
        warp.groups[index].pc = pc;
        warp.restore(frame_index, frame);
        Ok((slice - left, end_turn))
    }

    /// Executes one instruction.
    #[expect(clippy::too_many_arguments, reason = "the state of the loop, kept in locals")]
    #[inline(always)]
    fn step(
        &mut self,
        block: &mut BlockView<'_>,
        warp: &mut Warp,
        index: usize,
        frame: &mut Frame,
        inst: &Inst,
        place: Place,
        mask: u32,
    ) -> Result<Next, Fault> {
        let pc = place.pc;
        let active = match inst.guard {
            None => mask,
            Some((slot, negated)) => mask & (frame.pred(slot) ^ if negated { FULL } else { 0 }),
        };
        if let Op::Branch(target) = inst.op {
            self.count(inst.class, mask);
            return Ok(self.branch(warp, index, inst, target, place, [mask, active]));
        }
        if active == 0 {
            self.count(inst.class, 0);
            return Ok(Next::Go(pc + 1));
        }
        match &inst.op {
            Op::Alu(op) => self.loops.alu(frame, op, active),
            Op::Compare(op) => self.loops.compare(frame, op, active),
            Op::Load(op) => {
                warp.groups[index].polls |= op.polls;
                let mut private = Private { shared: block.shared, local: &mut warp.local };
                self.load(frame, &mut private, op, active, place)?;
            }
            Op::Store(op) => {
                let mut private = Private { shared: block.shared, local: &mut warp.local };
                self.store(frame, &mut private, op, active)?;
            }
            _ => return self.rare(block, warp, index, frame, inst, place, active),
        }
        self.count(inst.class, active);
        Ok(Next::Go(pc + 1))
    }

    /// Everything that is not arithmetic, a branch, a load or a store.
    #[expect(clippy::too_many_arguments, reason = "the state of the loop, kept in locals")]
    #[inline(never)]
    fn rare(
        &mut self,
        block: &mut BlockView<'_>,
        warp: &mut Warp,
        index: usize,
        frame: &mut Frame,
        inst: &Inst,
        place: Place,
        active: u32,
    ) -> Result<Next, Fault> {
        match &inst.op {
            Op::Collective(op) => {
                return match collective::run(self, warp, index, frame, block, op, place)? {
                    true => {
                        self.count(inst.class, active);
                        Ok(Next::Go(place.pc + 1))
                    }
                    false => Ok(Next::Reschedule),
                };
            }
            Op::Barrier(op) => {
                self.count(inst.class, active);
                self.counters.barriers += 1;
                return Ok(match collective::arrive(block, warp, index, frame, op, place.pc)? {
                    true => Next::Go(place.pc + 1),
                    false => Next::Reschedule,
                });
            }
            Op::AsyncCopy(op) => {
                self.count(inst.class, active);
                let copies = &mut warp.copies;
                self.copy_later(frame, block.shared, copies, op, active, place)?;
                return Ok(Next::Go(place.pc + 1));
            }
            _ => self.count(inst.class, active),
        }
        match &inst.op {
            Op::Call(call) => return self.call(block, warp, index, frame, call, place, active),
            Op::Return => {
                self.leave(warp, index, frame, active);
                return Ok(Next::Reschedule);
            }
            Op::Exit => {
                warp.groups.swap_remove(index);
                frame.retire(active);
                warp.exit_lanes(frame.caller, active);
                return Ok(Next::Reschedule);
            }
            Op::Trap => {
                return Err(Fault::new(TrapKind::TrapInstruction, "trap was executed", active));
            }
            Op::Yield => {
                let group = &mut warp.groups[index];
                group.pc = place.pc + 1;
                group.yielded = true;
                let alone = warp.groups.len() == 1;
                return Ok(if alone { Next::EndTurn(place.pc + 1) } else { Next::Reschedule });
            }
            _ => self.data(block, warp, index, frame, &inst.op, active)?,
        }
        Ok(Next::Go(place.pc + 1))
    }

    /// Conversions, atomics, address spaces: what only changes registers and memory.
    fn data(
        &mut self,
        block: &mut BlockView<'_>,
        warp: &mut Warp,
        index: usize,
        frame: &mut Frame,
        op: &Op,
        active: u32,
    ) -> Result<(), Fault> {
        match op {
            Op::Convert(op) => run_convert(frame, op, active),
            Op::Carry(op) => carry::execute(frame, op, active),
            Op::Atomic(op) => {
                warp.groups[index].polls = true;
                let mut private = Private { shared: block.shared, local: &mut warp.local };
                self.atomic(frame, &mut private, op, active)?;
            }
            Op::AsyncCommit => warp.copies.commit(active),
            Op::AsyncWait(newest) => {
                warp.copies.wait(self.memory, block.shared, *newest, active);
            }
            Op::Activemask(d) => frame.set_word(*d, &[active; LANES], active),
            Op::Clock(kind, d) => {
                let now = self.counters.warp_instructions;
                let value = match kind {
                    ClockKind::Low => now & 0xffff_ffff,
                    ClockKind::Full => now,
                    ClockKind::High => now >> 32,
                };
                warp.groups[index].polls = true;
                frame.set_any(*d, &[value; LANES], active);
            }
            Op::ToGeneric { d, a, window } => {
                let value = frame.any(*a).map(|v| (v & 0xffff_ffff) + window);
                frame.set_any(*d, &value, active);
            }
            Op::FromGeneric { d, a, window } => {
                let value = frame.any(*a).map(|v| v.wrapping_sub(*window));
                frame.set_any(*d, &value, active);
            }
            Op::IsSpace { d, a, space } => {
                let value = frame.any(*a);
                let bits = lanes(active)
                    .fold(0, |bits, lane| bits | u32::from(is_space(value[lane], *space)) << lane);
                frame.set_pred(*d, bits, active);
            }
            Op::Nothing
            | Op::AsyncCopy(_)
            | Op::Alu(_)
            | Op::Compare(_)
            | Op::Load(_)
            | Op::Store(_)
            | Op::Branch(_)
            | Op::Call(_)
            | Op::Return
            | Op::Exit
            | Op::Trap
            | Op::Yield
            | Op::Collective(_)
            | Op::Barrier(_) => {}
        }
        Ok(())
    }

    /// Follows a branch; splits the group if its lanes disagree.
    #[inline(always)]
    fn branch(
        &mut self,
        warp: &mut Warp,
        index: usize,
        inst: &Inst,
        target: u32,
        place: Place,
        [mask, taken]: [u32; 2],
    ) -> Next {
        let pc = place.pc;
        let counted = inst.class != Class::Inserted && inst.guard.is_some();
        self.counters.branches += u64::from(counted);
        if taken == 0 {
            return Next::Go(pc + 1);
        }
        if taken == mask {
            return if target <= pc {
                self.back_edge(warp, index, target)
            } else {
                Next::Go(target)
            };
        }
        self.counters.divergent_branches += u64::from(counted);
        let group = &mut warp.groups[index];
        let mut other = *group;
        group.pc = pc + 1;
        group.mask = mask & !taken;
        other.pc = target;
        other.mask = taken;
        warp.groups.push(other);
        Next::Reschedule
    }

    /// Counts a backward branch; a group that polls gives others a turn.
    fn back_edge(&mut self, warp: &mut Warp, index: usize, target: u32) -> Next {
        let alone = warp.groups.len() == 1;
        let group = &mut warp.groups[index];
        group.back_edges += 1;
        let most = if group.polls { POLL_EDGES_MAX } else { BUSY_EDGES_MAX };
        if group.back_edges < most {
            return Next::Go(target);
        }
        group.back_edges = 0;
        group.polls = false;
        group.pc = target;
        group.yielded = true;
        if alone { Next::EndTurn(target) } else { Next::Reschedule }
    }

    #[expect(clippy::too_many_arguments, reason = "the state of the loop, kept in locals")]
    fn call(
        &mut self,
        block: &BlockView<'_>,
        warp: &mut Warp,
        index: usize,
        frame: &Frame,
        call: &Call,
        place: Place,
        active: u32,
    ) -> Result<Next, Fault> {
        let callee = match call.callee {
            Callee::Function(callee) => callee,
            Callee::Print => {
                let memory = LaneMemory { shared: block.shared, local: &warp.local };
                self.print(memory, frame, call, place, active);
                return Ok(Next::Go(place.pc + 1));
            }
            Callee::AssertFail => {
                let memory = LaneMemory { shared: block.shared, local: &warp.local };
                let message = self.assertion(memory, frame, call, active);
                return Err(Fault::new(TrapKind::Assertion, message, active));
            }
        };
        let local =
            self.program.functions.get(frame.function as usize).map_or(0, |f| f.local_bytes);
        let next_local = self.program.functions.get(callee as usize).map_or(0, |f| f.local_bytes);
        let local_bytes = frame.local_base + local + next_local;
        let frames_full = warp.frame_bytes > FRAME_BYTES_MAX;
        if frame.depth >= DEPTH_MAX || local_bytes > LOCAL_BYTES_MAX || frames_full {
            let message = format!("{} nested calls exceed the stack", frame.depth);
            return Err(Fault::new(TrapKind::StackOverflow, message, active));
        }
        let group = warp.groups[index];
        let caller = Some((frame, group.frame, place.pc + 1));
        let new = warp.push_frame(self, block.index, callee, active, caller);
        if let Some(Some(callee_frame)) = warp.frames.get_mut(new) {
            for (from, to, bytes) in &call.arguments {
                copy_params(frame, callee_frame, [*from, *to, *bytes], active);
            }
        }
        let group = &mut warp.groups[index];
        group.frame = new;
        group.depth += 1;
        group.pc = 0;
        Ok(Next::Reschedule)
    }

    /// Returns from a function; from the kernel itself, that ends the threads.
    fn leave(&mut self, warp: &mut Warp, index: usize, frame: &mut Frame, active: u32) {
        frame.retire(active);
        let Some((caller, pc)) = frame.caller else {
            warp.exited |= active;
            warp.groups.swap_remove(index);
            return;
        };
        let call = warp.frames.get(caller).and_then(|f| {
            let function = f.as_ref()?.function as usize;
            match &self.program.functions.get(function)?.code.get(pc as usize - 1)?.op {
                Op::Call(call) => Some(call),
                _ => None,
            }
        });
        if let (Some(call), Some(Some(caller_frame))) = (call, warp.frames.get_mut(caller)) {
            for (from, to, bytes) in &call.results {
                copy_params(frame, caller_frame, [*from, *to, *bytes], active);
            }
        }
        let group = &mut warp.groups[index];
        group.frame = caller;
        group.depth -= 1;
        group.pc = pc;
    }
}

fn copy_params(from: &Frame, to: &mut Frame, [start, target, bytes]: [u32; 3], active: u32) {
    for lane in lanes(active) {
        let source = lane * from.param_stride as usize + start as usize;
        let place = lane * to.param_stride as usize + target as usize;
        let source = from.params.get(source..source + bytes as usize);
        let place = to.params.get_mut(place..place + bytes as usize);
        if let (Some(source), Some(place)) = (source, place) {
            place.copy_from_slice(source);
        }
    }
}

fn run_convert(frame: &mut Frame, op: &Convert, active: u32) {
    let a = frame.any(op.a);
    let low = match op.pairing {
        Pairing::Sources(slot) => frame.any(Reg::Word { slot, narrow: false }),
        Pairing::One | Pairing::Packed => [0; LANES],
    };
    let mut value = [0; LANES];
    for lane in lanes(active) {
        value[lane] = convert(op, a[lane], low[lane]);
    }
    frame.set_any(op.d, &value, active);
}

fn is_space(address: u64, space: MemorySpace) -> bool {
    match space {
        // Constant variables have tagged addresses like global ones.
        MemorySpace::Global => classify(address).0 == MemorySpace::Global && address > WINDOW_BYTES,
        other => classify(address).0 == other,
    }
}
