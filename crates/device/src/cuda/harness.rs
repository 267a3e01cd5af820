//! The harness module: its source, its entries, and launches of them.
//!
//! The source is compiled like any other and comes here as a CUBIN. Start at [`Harness::load`].

use std::rc::Rc;

use super::driver::{CallError, Function, Geometry, Module, Primary, Stream};
use crate::execute::DeviceError;

/// The harness in CUDA C++; compile it for the GPU's architecture.
pub const HARNESS_SOURCE: &str = include_str!("harness.cu");

/// Entries of [`HARNESS_SOURCE`].
pub const HARNESS_ENTRIES: [&str; 10] = [
    "ww_empty", "ww_write", "ww_read", "ww_copy", "ww_hash", "ww_scan", "ww_fma", "ww_spin",
    "ww_scrub", "ww_gate",
];

/// Sizes of the parameters of each entry in bytes.
const PARAMETERS: [&[u64]; 10] = [
    &[],
    &[8, 8, 4],
    &[8, 8, 4, 4, 8],
    &[8, 8, 8],
    &[8, 8, 8, 8, 8],
    &[8, 8, 4, 8],
    &[8, 4, 4, 4],
    &[8, 8, 4, 4],
    &[4, 4, 8],
    &[8, 8, 8, 8, 8],
];

/// An entry, in the order of [`HARNESS_ENTRIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Empty,
    Write,
    Read,
    Copy,
    Hash,
    Scan,
    Fma,
    Spin,
    Scrub,
    Gate,
}

/// One argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    Long(u64),
    Word(u32),
    Float(f32),
}

impl Arg {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Long(value) => value.to_le_bytes().to_vec(),
            Self::Word(value) => value.to_le_bytes().to_vec(),
            Self::Float(value) => value.to_le_bytes().to_vec(),
        }
    }
}

/// The loaded harness.
#[derive(Debug)]
pub(super) struct Harness {
    functions: Vec<Function>,
}

impl Harness {
    /// Loads the compiled harness.
    ///
    /// # Errors
    /// A module that is not the harness, or not for this GPU.
    pub(super) fn load(primary: &Rc<Primary>, cubin: &[u8]) -> Result<Harness, DeviceError> {
        let module = Module::load(primary, cubin)?;
        let mut functions = Vec::new();
        for (name, parameters) in HARNESS_ENTRIES.iter().zip(PARAMETERS) {
            let function = module.function(name, || Some(parameters.to_vec()))?;
            if function.parameters() != parameters {
                let why = format!("`{name}` of the harness has other parameters");
                return Err(DeviceError::Module(why));
            }
            functions.push(function);
        }
        Ok(Harness { functions })
    }

    pub(super) fn function(&self, entry: Entry) -> &Function {
        &self.functions[entry as usize]
    }

    /// Queues a launch.
    pub(super) fn launch(
        &self,
        stream: &Stream,
        entry: Entry,
        geometry: &Geometry,
        args: &[Arg],
    ) -> Result<(), CallError> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.bytes()).collect();
        self.function(entry).launch(stream, geometry, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_source_agree() {
        for (name, parameters) in HARNESS_ENTRIES.iter().zip(PARAMETERS) {
            let head = format!("void {name}(");
            let at = HARNESS_SOURCE.find(&head).unwrap() + head.len();
            let list = &HARNESS_SOURCE[at..][..HARNESS_SOURCE[at..].find(')').unwrap()];
            let sizes: Vec<u64> = list
                .split(',')
                .filter(|text| !text.trim().is_empty())
                .map(|text| if text.contains('*') || text.contains("u64") { 8 } else { 4 })
                .collect();
            assert_eq!(sizes, parameters, "{name}");
        }
        assert_eq!(HARNESS_ENTRIES[Entry::Gate as usize], "ww_gate");
        assert_eq!(HARNESS_ENTRIES[Entry::Fma as usize], "ww_fma");
    }
}
