//! What a case needs of the memory of device and host, and what gives way where that is too much.
//!
//! Arithmetic only: sizes come in and a decision comes out, before anything is allocated. What does
//! not fit gives way in a fixed order, the rungs of [`Rung`]. Start at [`fit`].

#[cfg(test)]
mod tests;
mod window;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::hidden::Dims;
use crate::launch::ResolvedPlan;
use crate::task::signature::reference_outputs;
use crate::task::spec::{SpecError, TaskSpec};

/// Device and host memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub device: u64,
    pub host: u64,
}

impl Memory {
    /// True when this much is there.
    #[must_use]
    pub fn fits(self, free: Self) -> bool {
        self.device <= free.device && self.host <= free.host
    }
}

/// Bytes of the tensors of one case, each rounded up as a device makes room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseBytes {
    pub inputs: u64,
    pub outputs: u64,
    /// What the reference writes: 8 bytes for each element of an output, and 8 for its bound.
    pub expected: u64,
    /// Workspaces of one buffer set, prepared ones included.
    pub workspaces: u64,
    /// Those of the reference.
    pub reference_workspaces: u64,
    /// The largest single input or output, as it is.
    pub largest: u64,
}

impl CaseBytes {
    /// The tensors of a task at a shape; each takes a multiple of `grain` bytes.
    ///
    /// # Errors
    /// A shape at which a tensor has no size.
    pub fn of(spec: &TaskSpec, dims: &Dims, grain: u64) -> Result<Self, SpecError> {
        let mut bytes = Self::default();
        for input in &spec.inputs {
            let own = TaskSpec::tensor_bytes(input.dtype, &input.shape, dims)?;
            bytes.largest = bytes.largest.max(own);
            bytes.inputs = bytes.inputs.saturating_add(rounded(own, grain));
        }
        for output in &spec.outputs {
            let own = TaskSpec::tensor_bytes(output.dtype, &output.shape, dims)?;
            bytes.largest = bytes.largest.max(own);
            bytes.outputs = bytes.outputs.saturating_add(rounded(own, grain));
        }
        for (_, dtype, shape) in reference_outputs(spec) {
            let own = TaskSpec::tensor_bytes(dtype, &shape, dims)?;
            bytes.expected = bytes.expected.saturating_add(rounded(own, grain));
        }
        Ok(bytes)
    }

    /// The same with the workspaces of a candidate's plan.
    #[must_use]
    pub fn with_plan(self, plan: &ResolvedPlan, grain: u64) -> Self {
        Self { workspaces: scratch(plan, grain), ..self }
    }

    /// The same with the workspaces of the reference's plan.
    #[must_use]
    pub fn with_reference(self, plan: &ResolvedPlan, grain: u64) -> Self {
        Self { reference_workspaces: scratch(plan, grain), ..self }
    }
}

fn scratch(plan: &ResolvedPlan, grain: u64) -> u64 {
    let own = plan.workspaces.iter().map(|workspace| rounded(workspace.bytes, grain));
    own.fold(0, u64::saturating_add)
}

fn rounded(bytes: u64, grain: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(grain.max(1)).unwrap_or(u64::MAX)
}

/// What is to be done at a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Contents that differ, each with inputs and expected values of its own.
    pub contents: u64,
    /// Outputs that the host holds at once: one for each run, or one for each slot of a window.
    pub kept_outputs: u64,
    /// What all of these may take together, in bytes.
    pub kept_bytes_max: u64,
    /// Expected values that the host holds at once where they come in tiles, in bytes.
    pub tile_bytes: u64,
    /// `None` for runs that are not timed.
    pub window: Option<WindowWanted>,
}

/// What timing takes besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowWanted {
    /// Buffer sets, each with all tensors and workspaces; at least 2.
    pub sets: u32,
    /// What flushes the cache, in bytes.
    pub flush_bytes: u64,
}

/// What gives way. Each rung keeps what those before it gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Nothing.
    Everything,
    /// Expected values are never whole on the host: computed and compared in tiles.
    ReferenceInTiles,
    /// The contents of a window stay on the host: each refill copies from there.
    MastersOnHost,
    /// Two buffer sets, whatever the cache's size.
    TwoSets,
    /// The shape itself: the largest dimension is halved until it fits.
    SmallerShape,
}

impl Rung {
    /// Every rung, from the top.
    pub const ALL: [Self; 5] = [
        Self::Everything,
        Self::ReferenceInTiles,
        Self::MastersOnHost,
        Self::TwoSets,
        Self::SmallerShape,
    ];
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everything => "everything at once",
            Self::ReferenceInTiles => "the reference in tiles",
            Self::MastersOnHost => "the masters on the host",
            Self::TwoSets => "two buffer sets",
            Self::SmallerShape => "a smaller shape",
        })
    }
}

impl Wanted {
    /// What this takes at most at one moment. Reference and candidate run one after the other.
    #[must_use]
    pub fn need(&self, bytes: &CaseBytes, rung: Rung) -> Memory {
        let tensors = bytes.inputs.saturating_add(bytes.outputs).saturating_add(bytes.workspaces);
        let expected = match rung {
            Rung::Everything => self.contents.saturating_mul(bytes.expected),
            Rung::ReferenceInTiles | Rung::MastersOnHost => self.tile_bytes.min(bytes.expected),
            Rung::TwoSets | Rung::SmallerShape => self.tile_bytes.min(bytes.expected),
        };
        let contents = self.contents.saturating_mul(bytes.inputs);
        let kept = self.kept_outputs.saturating_mul(bytes.outputs);
        let candidate = match &self.window {
            None => tensors,
            Some(window) => {
                let sets = if rung < Rung::TwoSets { u64::from(window.sets.max(2)) } else { 2 };
                let masters = if rung < Rung::MastersOnHost { contents } else { 0 };
                let all = sets.saturating_mul(tensors).saturating_add(masters);
                all.saturating_add(window.flush_bytes)
            }
        };
        let reference = bytes.inputs.saturating_add(bytes.expected);
        Memory {
            device: candidate.max(reference.saturating_add(bytes.reference_workspaces)),
            host: contents.saturating_add(expected).saturating_add(kept),
        }
    }

    /// How many outputs may be kept where that is bounded; fewer than the contents are too few.
    fn keeps(&self, bytes: &CaseBytes) -> bool {
        self.contents.saturating_mul(bytes.outputs) <= self.kept_bytes_max
    }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    pub rung: Rung,
    /// The shape: as asked for, unless the rung is the last one.
    pub dims: Dims,
    /// Bytes of the largest input or output there.
    pub largest: u64,
    pub need: Memory,
    pub free: Memory,
    /// What was too much one rung higher; empty on the first one.
    pub why: String,
}

impl Fitted {
    /// True where expected values come in tiles, and are never whole on the host.
    #[must_use]
    pub fn is_in_tiles(&self) -> bool {
        self.rung >= Rung::ReferenceInTiles
    }

    /// The same shape with what a plan and a window want besides: a lower rung where that takes
    /// one, but never another shape, which would favour who wants much. `None` where it does not
    /// fit.
    #[must_use]
    pub fn refitted(&self, wanted: &Wanted, bytes: &CaseBytes) -> Option<Self> {
        let mut why = self.why.clone();
        for rung in Rung::ALL.into_iter().filter(|rung| *rung >= self.rung) {
            if rung == Rung::SmallerShape && self.rung != rung {
                return None;
            }
            match shortage(wanted, bytes, rung, self.free) {
                None => return Some(fitted(rung, &self.dims, wanted, bytes, self.free, why)),
                Some(short) => why = short,
            }
        }
        None
    }

    /// What is to be said beside what was `done`, such as `headline timed`; `None` where nothing
    /// gave way.
    #[must_use]
    pub fn describe(&self, done: &str) -> Option<String> {
        let why = &self.why;
        match self.rung {
            Rung::Everything => None,
            Rung::SmallerShape => {
                let dims = words(&self.dims);
                Some(format!("{done} at {dims}, smaller than asked because {why}"))
            }
            Rung::ReferenceInTiles | Rung::MastersOnHost | Rung::TwoSets => {
                Some(format!("{done} with {} because {why}", self.rung))
            }
        }
    }
}

/// `name = extent`, in the order of the names.
#[must_use]
pub fn words(dims: &Dims) -> String {
    let dims: Vec<_> = dims.iter().map(|(name, extent)| format!("{name} = {extent}")).collect();
    dims.join(", ")
}

/// The first rung on which a case fits into what is free. `bytes_at` gives its sizes at a shape,
/// `least` the smallest extent of a dimension.
///
/// # Errors
/// Why no rung fits: then the case cannot be run on this machine.
pub fn fit(
    asked: &Dims,
    wanted: &Wanted,
    free: Memory,
    least: &dyn Fn(&str) -> i64,
    bytes_at: &dyn Fn(&Dims) -> Option<CaseBytes>,
) -> Result<Fitted, String> {
    let sized = |dims: &Dims| {
        bytes_at(dims).ok_or_else(|| format!("a tensor has no size at {}", words(dims)))
    };
    let bytes = sized(asked)?;
    let mut why = String::new();
    for rung in Rung::ALL {
        if rung == Rung::SmallerShape {
            break;
        }
        match shortage(wanted, &bytes, rung, free) {
            None => return Ok(fitted(rung, asked, wanted, &bytes, free, why)),
            Some(short) => why = short,
        }
    }
    let mut dims = asked.clone();
    let rung = Rung::SmallerShape;
    while let Some(smaller) = halved(&dims, least) {
        dims = smaller;
        let bytes = sized(&dims)?;
        if shortage(wanted, &bytes, rung, free).is_none() {
            return Ok(fitted(rung, &dims, wanted, &bytes, free, why));
        }
    }
    Err(format!("no shape down to {} fits: {why}", words(&dims)))
}

fn fitted(
    rung: Rung,
    dims: &Dims,
    wanted: &Wanted,
    bytes: &CaseBytes,
    free: Memory,
    why: String,
) -> Fitted {
    let (dims, need) = (dims.clone(), wanted.need(bytes, rung));
    Fitted { rung, dims, largest: bytes.largest, need, free, why }
}

/// What is too much on a rung, in words; `None` where it fits.
fn shortage(wanted: &Wanted, bytes: &CaseBytes, rung: Rung, free: Memory) -> Option<String> {
    let need = wanted.need(bytes, rung);
    if need.device > free.device {
        let (need, free) = (need.device, free.device);
        return Some(format!(
            "with {rung} it takes {need} bytes of device memory, {free} are free"
        ));
    }
    if need.host > free.host {
        let (need, free) = (need.host, free.host);
        return Some(format!("with {rung} it takes {need} bytes of host memory, {free} are free"));
    }
    (!wanted.keeps(bytes)).then(|| {
        let (kept, most) = (bytes.outputs, wanted.kept_bytes_max);
        format!("outputs of {kept} bytes cannot be kept in {most} bytes")
    })
}

/// The shape with its largest dimension halved, among those that can be; the first of equals.
fn halved(dims: &Dims, least: &dyn Fn(&str) -> i64) -> Option<Dims> {
    let shrinks = dims.iter().filter(|(name, extent)| **extent > least(name).max(1));
    // The last of equal maxima is what `max_by_key` takes.
    let (name, extent) = shrinks.rev().max_by_key(|(_, extent)| **extent)?;
    let mut smaller = dims.clone();
    smaller.insert(name.clone(), (extent / 2).max(least(name)).max(1));
    Some(smaller)
}
