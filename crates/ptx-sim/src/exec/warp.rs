//! One warp: its frames, and its lanes in convergence groups.
//!
//! Lanes that stand at the same instruction of the same frame form one group. The group with the
//! lowest program counter runs first (deepest call first); the code is laid out so that this
//! reconverges. A group that keeps polling is put aside for a turn, so that lock holders advance.

use super::async_copy::AsyncCopies;
use super::engine::Engine;
use super::frame::{FULL, Frame, LANES, lanes};
use crate::machine::address::LOCAL_WINDOW;
use crate::program::ir::{Constant, Special};

/// What a group is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Run,
    /// Waits for the other lanes of a collective with this member mask.
    AtSync(u32),
    /// Waits at a block barrier: id and threads expected, 0 for the whole block.
    AtBarrier(u32, u32),
}

/// Lanes that run together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) frame: usize,
    pub(super) depth: u32,
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) state: State,
    /// Backward branches since the group was last rescheduled.
    pub(super) back_edges: u32,
    /// Whether it has read memory in the manner of a polling loop.
    pub(super) polls: bool,
    /// Put aside until another group has had a turn.
    pub(super) yielded: bool,
}

/// A warp.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) index: u32,
    /// Lanes that hold a thread.
    pub(super) members: u32,
    pub(super) exited: u32,
    /// Frames by index; the one that runs is taken out meanwhile.
    pub(super) frames: Vec<Option<Box<Frame>>>,
    /// Bytes of registers and parameters in all frames.
    pub(super) frame_bytes: usize,
    /// Indices that can be used again.
    free: Vec<usize>,
    pub(super) groups: Vec<Group>,
    /// Local memory of each lane.
    pub(super) local: Vec<Vec<u8>>,
    pub(super) copies: AsyncCopies,
}

impl Warp {
    /// A warp at the start of the kernel.
    pub(super) fn new(engine: &Engine<'_>, block: u64, index: u32) -> Warp {
        let threads = engine.plan.threads_per_block - index * 32;
        let members = if threads >= 32 { FULL } else { (1 << threads) - 1 };
        let mut warp = Warp {
            index,
            members,
            exited: 0,
            frames: Vec::new(),
            frame_bytes: 0,
            free: Vec::new(),
            groups: Vec::new(),
            local: vec![Vec::new(); LANES],
            copies: AsyncCopies::default(),
        };
        let function = engine.plan.kernel.function;
        let frame = warp.push_frame(engine, block, function, members, None);
        warp.groups.push(Group {
            frame,
            depth: 0,
            pc: 0,
            mask: members,
            state: State::Run,
            back_edges: 0,
            polls: false,
            yielded: false,
        });
        warp
    }

    /// Lanes that still run.
    pub(super) fn live(&self) -> u32 {
        self.members & !self.exited
    }

    pub(super) fn is_done(&self) -> bool {
        self.groups.is_empty()
    }

    /// Makes a frame for some lanes; gives its index.
    pub(super) fn push_frame(
        &mut self,
        engine: &Engine<'_>,
        block: u64,
        function: u32,
        mask: u32,
        caller: Option<(&Frame, usize, u32)>,
    ) -> usize {
        let code = &engine.program.functions[function as usize];
        let (depth, local_base) = caller.map_or((0, 0), |(p, _, _)| {
            let above = engine.program.functions[p.function as usize].local_bytes;
            (p.depth + 1, p.local_base + above)
        });
        let caller = caller.map(|(_, index, pc)| (index, pc));
        let mut frame = Box::new(Frame {
            function,
            words: vec![[0; LANES]; code.words as usize],
            longs: vec![[0; LANES]; code.longs as usize],
            preds: vec![0; code.preds as usize],
            params: vec![0; code.param_bytes as usize * LANES],
            param_stride: code.param_bytes,
            carry: 0,
            lanes: mask,
            caller,
            depth,
            local_base,
        });
        for (slot, constant) in &code.word_constants {
            let value = constant_value(engine, self.index, block, &frame, *constant);
            frame.words[usize::from(*slot)] = value.map(|v| v as u32);
        }
        for (slot, constant) in &code.long_constants {
            frame.longs[usize::from(*slot)] =
                constant_value(engine, self.index, block, &frame, *constant);
        }
        for (slot, value) in &code.pred_constants {
            frame.preds[usize::from(*slot)] = if *value { FULL } else { 0 };
        }
        self.frame_bytes += frame.bytes();
        let local_end = (local_base + code.local_bytes) as usize;
        for lane in lanes(mask) {
            if self.local[lane].len() < local_end {
                self.local[lane].resize(local_end, 0xff);
            }
        }
        self.store_frame(frame)
    }

    fn store_frame(&mut self, frame: Box<Frame>) -> usize {
        let index = self.free.pop().unwrap_or(self.frames.len());
        match self.frames.get_mut(index) {
            Some(place) => *place = Some(frame),
            None => self.frames.push(Some(frame)),
        }
        index
    }

    /// Ends threads: takes them out of the calling frames.
    pub(super) fn exit_lanes(&mut self, caller: Option<(usize, u32)>, mask: u32) {
        self.exited |= mask;
        let mut at = caller;
        while let Some((index, _)) = at {
            let Some(place) = self.frames.get_mut(index) else { return };
            let Some(frame) = place else { return };
            at = frame.caller;
            frame.retire(mask);
            if frame.lanes == 0 {
                self.frame_bytes -= frame.bytes();
                *place = None;
                self.free.push(index);
            }
        }
    }

    /// Puts a frame back that was taken out to run, unless its last lane has left it.
    pub(super) fn restore(&mut self, index: usize, frame: Box<Frame>) {
        match self.frames.get_mut(index) {
            Some(place) if frame.lanes != 0 => *place = Some(frame),
            _ => {
                self.frame_bytes -= frame.bytes();
                self.free.push(index);
            }
        }
    }

    /// Joins runnable groups that stand at the same place, and those that wait together.
    pub(super) fn merge(&mut self) {
        if self.groups.len() < 2 {
            return;
        }
        let mut at = 0;
        while at < self.groups.len() {
            let group = self.groups[at];
            let twin =
                self.groups.iter().take(at).position(|g| {
                    g.frame == group.frame && g.pc == group.pc && g.state == group.state
                });
            match twin {
                Some(twin) => {
                    let into = &mut self.groups[twin];
                    into.mask |= group.mask;
                    into.yielded &= group.yielded;
                    self.groups.swap_remove(at);
                }
                None => at += 1,
            }
        }
    }

    /// The group to run next.
    pub(super) fn pick(&mut self) -> Option<usize> {
        let best = |groups: &[Group], yielded: bool| {
            groups
                .iter()
                .enumerate()
                .filter(|(_, g)| g.state == State::Run && g.yielded == yielded)
                .min_by_key(|(_, g)| (u32::MAX - g.depth, g.pc))
                .map(|(index, _)| index)
        };
        if let Some(index) = best(&self.groups, false) {
            return Some(index);
        }
        self.groups.iter_mut().for_each(|g| g.yielded = false);
        best(&self.groups, false)
    }
}

/// The value of a constant slot in each lane.
fn constant_value(
    engine: &Engine<'_>,
    warp: u32,
    block: u64,
    frame: &Frame,
    constant: Constant,
) -> [u64; LANES] {
    let plan = engine.plan;
    let value = match constant {
        Constant::Value(value) => value,
        Constant::Variable(index, offset) => {
            let address = plan.variable_addresses.get(index as usize).copied().unwrap_or(0);
            address.wrapping_add_signed(offset)
        }
        Constant::Shared(index, offset) => {
            let start = plan.kernel.shared_offsets.iter().find(|(i, _)| *i == index);
            start.map_or(0, |(_, start)| u64::from(*start)).wrapping_add_signed(offset)
        }
        Constant::Local(offset) => u64::from(frame.local_base).wrapping_add_signed(offset),
        Constant::Special(special) => return special_value(engine, warp, block, special),
    };
    debug_assert!(value < LOCAL_WINDOW || !matches!(constant, Constant::Shared(..)));
    [value; LANES]
}

fn special_value(engine: &Engine<'_>, warp: u32, block: u64, special: Special) -> [u64; LANES] {
    let plan = engine.plan;
    let [bx, by, _] = plan.block;
    let [gx, gy, _] = plan.grid.map(u64::from);
    let axis = |list: [u32; 3], axis: u8| list.get(usize::from(axis)).copied().unwrap_or(0);
    let uniform = |value: u32| [u64::from(value); LANES];
    let by_lane = |f: fn(u32) -> u32| std::array::from_fn(|l| u64::from(f(l as u32)));
    match special {
        Special::Tid(which) => std::array::from_fn(|lane| {
            let thread = warp * 32 + lane as u32;
            u64::from(axis([thread % bx, thread / bx % by, thread / bx / by], which))
        }),
        Special::Ntid(which) => uniform(axis(plan.block, which)),
        Special::Ctaid(which) => {
            let coordinates = [block % gx, block / gx % gy, block / gx / gy];
            [coordinates.get(usize::from(which)).copied().unwrap_or(0); LANES]
        }
        Special::Nctaid(which) => uniform(axis(plan.grid, which)),
        Special::LaneId => by_lane(|l| l),
        Special::WarpId => uniform(warp),
        Special::WarpCount => uniform(plan.threads_per_block.div_ceil(32)),
        Special::SmId => [block % u64::from(plan.sm_count.max(1)); LANES],
        Special::SmCount => uniform(plan.sm_count),
        Special::GridId => uniform(1),
        Special::LanemaskEq => by_lane(|l| 1 << l),
        Special::LanemaskLt => by_lane(|l| (1 << l) - 1),
        Special::LanemaskLe => by_lane(|l| u32::MAX >> (31 - l)),
        Special::LanemaskGt => by_lane(|l| !(u32::MAX >> (31 - l))),
        Special::LanemaskGe => by_lane(|l| u32::MAX << l),
        Special::DynamicShared => uniform(plan.dynamic_shared),
        Special::TotalShared => uniform(plan.shared_bytes),
    }
}
