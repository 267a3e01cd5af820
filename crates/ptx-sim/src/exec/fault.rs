//! Slow paths of address checks: which lane is wrong, how, and in which buffer.

use super::engine::{AccessPlace, Engine, Fault, Place};
use super::frame::{LANES, Longs, lanes};
use crate::machine::address::{Buffer, GlobalMemory, NULL_PAGE};
use crate::report::{FindingKind, TrapKind};

fn verb(is_store: bool) -> &'static str {
    if is_store { "write" } else { "read" }
}

/// An address that no buffer is tagged with.
pub(super) fn unallocated(address: u64, lane_set: u32, size: u64, is_store: bool) -> Fault {
    let what =
        if address < NULL_PAGE { "through a null pointer" } else { "at an unallocated address" };
    Fault {
        kind: TrapKind::Unallocated,
        message: format!("{} of {size} bytes {what} ({address:#x})", verb(is_store)),
        lanes: lane_set,
        access: Some(AccessPlace { address, buffer: None, offset: None, size: size as u32 }),
    }
}

/// Judges suspect lanes one by one. Padding reads come back as a finding.
pub(super) fn check_global(
    memory: &GlobalMemory,
    addresses: &Longs,
    suspects: u32,
    size: u64,
    is_store: bool,
) -> Result<Option<(AccessPlace, u32)>, Fault> {
    let mut padding: Option<(AccessPlace, u32)> = None;
    for lane in lanes(suspects) {
        let address = addresses[lane];
        let Some(buffer) = memory.buffer(address) else {
            return Err(unallocated(address, 1 << lane, size, is_store));
        };
        let offset = address.wrapping_sub(buffer.base) as i64;
        let access = AccessPlace {
            address,
            buffer: Some(buffer.name.clone()),
            offset: Some(offset),
            size: size as u32,
        };
        match judge(buffer, offset, size, is_store) {
            None => {}
            Some(TrapKind::PaddingWrite) if !is_store => {
                padding.get_or_insert((access, 0)).1 |= 1 << lane;
            }
            Some(kind) => {
                let same = same_fault(memory, addresses, suspects, size, is_store, kind);
                let message = describe(buffer, offset, size, is_store, kind);
                return Err(Fault { kind, message, lanes: same, access: Some(access) });
            }
        }
    }
    Ok(padding)
}

/// All suspect lanes with that kind of fault.
fn same_fault(
    memory: &GlobalMemory,
    addresses: &Longs,
    suspects: u32,
    size: u64,
    is_store: bool,
    kind: TrapKind,
) -> u32 {
    lanes(suspects)
        .filter(|lane| {
            memory.buffer(addresses[*lane]).is_some_and(|buffer| {
                let offset = addresses[*lane].wrapping_sub(buffer.base) as i64;
                judge(buffer, offset, size, is_store) == Some(kind)
            })
        })
        .fold(0, |set, lane| set | 1 << lane)
}

/// What is wrong with one access, if anything. Reads of the padding come out as `PaddingWrite`.
fn judge(buffer: &Buffer, offset: i64, size: u64, is_store: bool) -> Option<TrapKind> {
    if offset < 0 || offset as u64 + size > buffer.padded {
        return Some(TrapKind::OutOfBounds);
    }
    if !(offset as u64).is_multiple_of(size) {
        return Some(TrapKind::Misaligned);
    }
    if is_store && !buffer.kind.is_writable() {
        return Some(TrapKind::ReadOnlyWrite);
    }
    (offset as u64 + size > buffer.bytes).then_some(TrapKind::PaddingWrite)
}

fn describe(buffer: &Buffer, offset: i64, size: u64, is_store: bool, kind: TrapKind) -> String {
    let (verb, name, bytes) = (verb(is_store), &buffer.name, buffer.bytes);
    let reach = match offset {
        o if o < 0 => format!("{} bytes before the start", o.unsigned_abs()),
        o if o as u64 >= bytes => format!("{} bytes past the end", o as u64 - bytes),
        o => format!("at byte {o}"),
    };
    match kind {
        TrapKind::Misaligned => format!(
            "{verb} of {size} bytes at byte {offset} of `{name}` is not aligned to {size} bytes"
        ),
        TrapKind::ReadOnlyWrite => {
            format!("write of {size} bytes at byte {offset} of read-only buffer `{name}`")
        }
        _ => format!("{verb} of {size} bytes {reach} of `{name}` ({bytes} bytes)"),
    }
}

/// Notes reads behind the end of a buffer that stay inside its padding.
pub(super) fn note_padding(
    engine: &mut Engine<'_>,
    place: Place,
    lane_set: u32,
    access: &AccessPlace,
) {
    let name = access.buffer.clone().unwrap_or_default();
    let (size, offset) = (access.size, access.offset.unwrap_or(0));
    engine.note(FindingKind::PaddingRead, place, lane_set, Some(access), || {
        format!(
            "read of {size} bytes at byte {offset}, past the end of `{name}` but inside its padding"
        )
    });
}

/// A bad offset into shared memory.
pub(super) fn shared(
    engine: &Engine<'_>,
    addresses: &Longs,
    bad: u32,
    bytes: u64,
    size: u64,
    is_store: bool,
) -> Fault {
    let name = |offset: u64| {
        let kernel = engine.plan.kernel;
        let inside = kernel.shared_offsets.iter().filter(|(_, start)| u64::from(*start) <= offset);
        let nearest = inside.max_by_key(|(_, start)| *start);
        nearest
            .and_then(|(index, start)| {
                let variable = engine.program.shared.get(*index as usize)?;
                Some((variable.name.clone(), i64::from(*start)))
            })
            .unwrap_or_else(|| ("shared memory".to_owned(), 0))
    };
    bounded(addresses, bad, bytes, size, is_store, name, "shared memory")
}

/// A fault in a memory that starts at 0.
fn bounded(
    addresses: &Longs,
    bad: u32,
    bytes: u64,
    size: u64,
    is_store: bool,
    name: impl Fn(u64) -> (String, i64),
    what: &str,
) -> Fault {
    let address = addresses[bad.trailing_zeros() as usize % LANES];
    let out = address.checked_add(size).is_none_or(|end| end > bytes);
    let (buffer, start) = name(address);
    let verb = verb(is_store);
    let (kind, message) = if out {
        let message = format!(
            "{verb} of {size} bytes at byte {address} of {what} ({bytes} bytes), \
             nearest variable `{buffer}`"
        );
        (TrapKind::OutOfBounds, message)
    } else {
        let message = format!(
            "{verb} of {size} bytes at byte {address} of {what} is not aligned to {size} bytes"
        );
        (TrapKind::Misaligned, message)
    };
    let offset = Some((address as i64).wrapping_sub(start));
    let access = AccessPlace { address, buffer: Some(buffer), offset, size: size as u32 };
    Fault { kind, message, lanes: bad, access: Some(access) }
}

/// Checks addresses of local memory.
pub(super) fn check_local(
    local: &[Vec<u8>],
    addresses: &Longs,
    active: u32,
    size: u64,
    is_store: bool,
) -> Result<(), Fault> {
    for lane in lanes(active) {
        let bytes = local.get(lane).map_or(0, Vec::len) as u64;
        let out = addresses[lane].checked_add(size).is_none_or(|end| end > bytes);
        if out || !addresses[lane].is_multiple_of(size) {
            let name = |_| ("local memory".to_owned(), 0);
            return Err(bounded(addresses, 1 << lane, bytes, size, is_store, name, "local memory"));
        }
    }
    Ok(())
}

/// Checks addresses of parameter memory.
pub(super) fn check_param(
    addresses: &Longs,
    active: u32,
    bytes: u64,
    size: u64,
) -> Result<(), Fault> {
    for lane in lanes(active) {
        let out = addresses[lane].checked_add(size).is_none_or(|end| end > bytes);
        if out {
            let name = |_| ("parameters".to_owned(), 0);
            return Err(bounded(addresses, 1 << lane, bytes, size, false, name, "the parameters"));
        }
    }
    Ok(())
}

/// A store into the parameters of the entry.
pub(super) fn param_write(addresses: &Longs, active: u32, size: u64) -> Fault {
    let address = addresses[active.trailing_zeros() as usize % LANES];
    Fault {
        kind: TrapKind::ReadOnlyWrite,
        message: format!("write of {size} bytes into the kernel's parameters"),
        lanes: active,
        access: Some(AccessPlace {
            address,
            buffer: Some("parameters".to_owned()),
            offset: Some(address as i64),
            size: size as u32,
        }),
    }
}
