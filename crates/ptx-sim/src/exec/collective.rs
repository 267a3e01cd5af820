//! Instructions that lanes execute together, and the arrival at block barriers.
//!
//! A group whose member mask names lanes that are elsewhere is parked until they come.

use super::engine::{Engine, Fault, Place, lane_names};
use super::frame::{FULL, Frame, LANES, Longs, lanes};
use super::matrix;
use super::memory::Private;
use super::step::BlockView;
use super::warp::{Group, State, Warp};
use crate::program::ir::{
    Barrier, BarrierReduction, Collective, Op, ReduxMode, ShuffleMode, Slot, VoteMode,
};
use crate::report::{FindingKind, TrapKind};

/// Named barriers of a block.
const BARRIERS: u32 = 16;

/// Executes a collective for a group. False: lanes were parked and the groups have changed.
pub(super) fn run(
    engine: &mut Engine<'_>,
    warp: &mut Warp,
    index: usize,
    frame: &mut Frame,
    block: &mut BlockView<'_>,
    op: &(Collective, Slot),
    place: Place,
) -> Result<bool, Fault> {
    let group = warp.groups[index];
    let masks = *frame.word(op.1);
    let mut left = group.mask;
    let (mut ready, mut parked) = (0, Vec::new());
    // Lanes with different member masks form separate collectives.
    while left != 0 {
        let member = masks[left.trailing_zeros() as usize];
        let same = lanes(left).filter(|l| masks[*l] == member).fold(0, |set, l| set | 1 << l);
        left &= !same;
        if same & !member != 0 {
            let message = format!(
                "{} executed a collective whose member mask {member:#010x} does not name them",
                lane_names(same & !member)
            );
            return Err(Fault::new(TrapKind::Collective, message, same & !member));
        }
        if member & warp.live() & !same == 0 {
            note_exited(engine, warp, member, same, place);
            let mut private = Private { shared: block.shared, local: &mut warp.local };
            perform(engine, frame, &mut private, &op.0, same, place)?;
            ready |= same;
        } else {
            parked.push((member, same));
        }
    }
    if parked.is_empty() {
        return Ok(true);
    }
    warp.groups.swap_remove(index);
    if ready != 0 {
        warp.groups.push(Group { pc: place.pc + 1, mask: ready, ..group });
    }
    for (member, mask) in parked {
        let state = State::AtSync(member);
        warp.groups.push(Group { pc: place.pc, mask, state, ..group });
    }
    Ok(false)
}

fn note_exited(engine: &mut Engine<'_>, warp: &Warp, member: u32, same: u32, place: Place) {
    let gone = member & warp.exited;
    if gone != 0 {
        engine.note(FindingKind::MaskNamesExitedLanes, place, same, None, || {
            format!("member mask {member:#010x} names {}, which have exited", lane_names(gone))
        });
    }
}

/// Wakes parked groups whose lanes have all come. Only called when nothing else can run.
pub(super) fn retry_parked(engine: &mut Engine<'_>, warp: &mut Warp) -> bool {
    let live = warp.live();
    let mut woken = false;
    for index in 0..warp.groups.len() {
        let group = warp.groups[index];
        let State::AtSync(member) = group.state else { continue };
        if member & live & !group.mask == 0 {
            warp.groups[index].state = State::Run;
            woken = true;
        } else if is_warp_sync(engine, warp, group) {
            woken |= release_warp_sync(engine, warp, member);
        }
    }
    woken
}

fn is_warp_sync(engine: &Engine<'_>, warp: &Warp, group: Group) -> bool {
    let frame = warp.frames.get(group.frame).and_then(Option::as_ref);
    let function = frame.and_then(|f| engine.program.functions.get(f.function as usize));
    let inst = function.and_then(|f| f.code.get(group.pc as usize));
    inst.is_some_and(
        |i| matches!(&i.op, Op::Collective(op) if matches!(op.0, Collective::WarpSync)),
    )
}

/// `bar.warp.sync` may be reached at different places: what counts is the union.
fn release_warp_sync(engine: &mut Engine<'_>, warp: &mut Warp, member: u32) -> bool {
    let waits = |engine: &Engine<'_>, warp: &Warp, index: usize| {
        let group = warp.groups[index];
        group.state == State::AtSync(member) && is_warp_sync(engine, warp, group)
    };
    let waiting: Vec<usize> = (0..warp.groups.len()).filter(|i| waits(engine, warp, *i)).collect();
    let union = waiting.iter().fold(0, |set, i| set | warp.groups[*i].mask);
    if member & warp.live() & !union != 0 {
        return false;
    }
    for index in waiting {
        let group = &mut warp.groups[index];
        group.pc += 1;
        group.state = State::Run;
        engine.counters.warp_instructions += 1;
        engine.counters.lane_instructions += u64::from(group.mask.count_ones());
    }
    true
}

/// Executes for lanes that are all here, memory included.
fn perform(
    engine: &mut Engine<'_>,
    frame: &mut Frame,
    private: &mut Private<'_>,
    op: &Collective,
    active: u32,
    place: Place,
) -> Result<(), Fault> {
    match op {
        Collective::Access(access) => engine.access_matrices(frame, private.shared, access),
        Collective::FragmentAccess(access) => engine.access_fragment(frame, private, access, place),
        other => {
            execute(engine, frame, other, active, place);
            Ok(())
        }
    }
}

/// Executes what touches registers alone.
fn execute(engine: &mut Engine<'_>, frame: &mut Frame, op: &Collective, active: u32, place: Place) {
    match *op {
        Collective::WarpSync | Collective::Access(_) | Collective::FragmentAccess(_) => {}
        Collective::Mma(ref op) => matrix::multiply(frame, op),
        Collective::Transpose { d, a } => matrix::transpose(frame, d, a),
        Collective::Shuffle { mode, d, p, a, b, c } => {
            let missing = shuffle(frame, mode, [d, a, b, c], p, active);
            if missing != 0 {
                engine.note(FindingKind::ShuffleFromInactiveLane, place, missing, None, || {
                    format!("{} shuffled from a lane that takes no part", lane_names(missing))
                });
            }
        }
        Collective::Vote { mode, d, p, negated } => {
            let votes = (frame.pred(p) ^ if negated { FULL } else { 0 }) & active;
            frame.set_any(d, &[vote(mode, votes, active); LANES], active);
        }
        Collective::MatchAny { d, a } => {
            let values = frame.any(a);
            let mut sets = [0; LANES];
            for lane in lanes(active) {
                sets[lane] = equal_lanes(&values, active, values[lane]);
            }
            frame.set_word(d, &sets, active);
        }
        Collective::MatchAll { d, p, a } => {
            let values = frame.any(a);
            let first = values[active.trailing_zeros() as usize];
            let all = equal_lanes(&values, active, first) == active;
            frame.set_word(d, &[if all { active } else { 0 }; LANES], active);
            if let Some(p) = p {
                frame.set_pred(p, if all { FULL } else { 0 }, active);
            }
        }
        Collective::Redux { mode, d, a } => {
            let values = *frame.word(a);
            let total = lanes(active).map(|l| values[l]).reduce(|x, y| reduce(mode, x, y));
            frame.set_word(d, &[total.unwrap_or(0); LANES], active);
        }
        Collective::Elect { d, p } => {
            let leader = active.trailing_zeros();
            frame.set_any(d, &[u64::from(leader); LANES], active);
            frame.set_pred(p, 1 << leader, active);
        }
    }
}

fn vote(mode: VoteMode, votes: u32, active: u32) -> u64 {
    match mode {
        VoteMode::All => u64::from(votes == active),
        VoteMode::Any => u64::from(votes != 0),
        VoteMode::Uni => u64::from(votes == active || votes == 0),
        VoteMode::Ballot => u64::from(votes),
    }
}

fn equal_lanes(values: &Longs, active: u32, value: u64) -> u32 {
    lanes(active).filter(|l| values[*l] == value).fold(0, |set, l| set | 1 << l)
}

fn reduce(mode: ReduxMode, x: u32, y: u32) -> u32 {
    match mode {
        ReduxMode::Add => x.wrapping_add(y),
        ReduxMode::MinS => (x as i32).min(y as i32) as u32,
        ReduxMode::MaxS => (x as i32).max(y as i32) as u32,
        ReduxMode::MinU => x.min(y),
        ReduxMode::MaxU => x.max(y),
        ReduxMode::And => x & y,
        ReduxMode::Or => x | y,
        ReduxMode::Xor => x ^ y,
    }
}

/// Where a lane reads from, and whether that is in range.
pub(super) fn shuffle_source(mode: ShuffleMode, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let segment = c >> 8 & 0x1f;
    let (b, clamp) = (b & 0x1f, c & 0x1f);
    let most = lane & segment | clamp & !segment;
    let (source, in_range) = match mode {
        ShuffleMode::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= most as i32),
        ShuffleMode::Down => (lane + b, lane + b <= most),
        ShuffleMode::Bfly => (lane ^ b, lane ^ b <= most),
        ShuffleMode::Idx => {
            let source = lane & segment | b & !segment;
            (source, source <= most)
        }
    };
    if in_range { (source & 31, true) } else { (lane, false) }
}

/// What a shuffle gives where its source lane takes no part: a NaN, and a large integer.
const UNDEFINED: u32 = u32::MAX;

/// Lanes whose source takes no part come back.
fn shuffle(
    frame: &mut Frame,
    mode: ShuffleMode,
    [d, a, b, c]: [Slot; 4],
    p: Option<Slot>,
    active: u32,
) -> u32 {
    let (values, b, c) = (*frame.word(a), *frame.word(b), *frame.word(c));
    let (mut out, mut in_range, mut missing) = ([0; LANES], 0, 0);
    for lane in lanes(active) {
        let (source, ok) = shuffle_source(mode, lane as u32, b[lane], c[lane]);
        let takes_part = active >> source & 1 == 1;
        // What such a lane would give is undefined: no value that a kernel could rely on.
        out[lane] = if takes_part { values[source as usize] } else { UNDEFINED };
        in_range |= u32::from(ok) << lane;
        missing |= u32::from(!takes_part) << lane;
    }
    frame.set_word(d, &out, active);
    if let Some(p) = p {
        frame.set_pred(p, in_range, active);
    }
    missing
}

/// A group reaches a block barrier. False: it waits now.
pub(super) fn arrive(
    block: &mut BlockView<'_>,
    warp: &mut Warp,
    index: usize,
    frame: &Frame,
    op: &Barrier,
    pc: u32,
) -> Result<bool, Fault> {
    let live = warp.live();
    let group = &mut warp.groups[index];
    let first = group.mask.trailing_zeros() as usize % LANES;
    let id = frame.word(op.id)[first];
    if id >= BARRIERS {
        let message = format!("barrier {id} does not exist; there are {BARRIERS}");
        return Err(Fault::new(TrapKind::Deadlock, message, group.mask));
    }
    let count = op.count.map_or(0, |slot| frame.word(slot)[first]);
    if op.arrive {
        let threads = if group.mask == live { 32 } else { group.mask.count_ones() };
        block.arrivals[id as usize] += threads;
        return Ok(true);
    }
    group.state = State::AtBarrier(id, count);
    group.pc = pc;
    Ok(false)
}

/// What a waiting group contributes to a reduction: lanes that vote yes.
pub(super) fn votes(op: &Barrier, frame: &Frame, mask: u32) -> u32 {
    let Some((slot, negated)) = op.source else { return 0 };
    (frame.pred(slot) ^ if negated { FULL } else { 0 }) & mask
}

/// Writes the result of a reduction: yes votes out of all threads.
pub(super) fn write_reduction(op: &Barrier, frame: &mut Frame, mask: u32, yes: u32, all: u32) {
    let truth = |value: bool| if value { FULL } else { 0 };
    match op.reduction {
        None => {}
        Some(BarrierReduction::Popc(d)) => frame.set_word(d, &[yes; LANES], mask),
        Some(BarrierReduction::And(d)) => frame.set_pred(d, truth(yes == all), mask),
        Some(BarrierReduction::Or(d)) => frame.set_pred(d, truth(yes != 0), mask),
    }
}
