//! The memfds of a request, each taken once and mapped as its use allows.

use std::collections::BTreeMap;

use sandbox::inside::Inside;
use sandbox::wire::Slice;
use sandbox::{Map, MapMut};

use crate::RunnerError;

/// Read-only maps by index.
pub(crate) struct Maps(BTreeMap<u32, Map>);

impl Maps {
    /// Maps the memfds that `slices` name.
    pub(crate) fn read(
        inside: &Inside,
        slices: impl Iterator<Item = Slice>,
    ) -> Result<Self, RunnerError> {
        let mut maps = BTreeMap::new();
        for slice in slices {
            if let std::collections::btree_map::Entry::Vacant(entry) = maps.entry(slice.bulk) {
                entry.insert(inside.bulk(slice.bulk as usize)?.map()?);
            }
        }
        Ok(Self(maps))
    }

    /// The bytes of a slice.
    pub(crate) fn get(&self, slice: Slice) -> Result<&[u8], RunnerError> {
        let map = self.0.get(&slice.bulk);
        map.and_then(|map| map.get(range(slice)?)).ok_or_else(|| outside(slice))
    }
}

/// Memfds that this child writes, mapped, by index.
#[derive(Default)]
pub(crate) struct Rooms(BTreeMap<u32, MapMut>);

impl Rooms {
    /// Writes `bytes` at the start of a slice.
    pub(crate) fn write(
        &mut self,
        inside: &Inside,
        slice: Slice,
        bytes: &[u8],
    ) -> Result<(), RunnerError> {
        let written = Slice { bytes: bytes.len() as u64, ..slice };
        if written.bytes > slice.bytes {
            return Err(outside(slice));
        }
        self.room(inside, written)?.copy_from_slice(bytes);
        Ok(())
    }

    /// The bytes of a slice, for writing: a device copies its output to where the parent reads it.
    pub(crate) fn room(&mut self, inside: &Inside, slice: Slice) -> Result<&mut [u8], RunnerError> {
        let map = match self.0.entry(slice.bulk) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(inside.bulk(slice.bulk as usize)?.map_mut()?)
            }
        };
        let range = range(slice).ok_or_else(|| outside(slice))?;
        map.prepare(range.clone())?;
        map.get_mut(range).ok_or_else(|| outside(slice))
    }
}

fn range(slice: Slice) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(slice.offset).ok()?;
    Some(start..start.checked_add(usize::try_from(slice.bytes).ok()?)?)
}

fn outside(slice: Slice) -> RunnerError {
    RunnerError::Request(format!("the slice {slice:?} is outside its memfd"))
}
