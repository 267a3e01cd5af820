//! The module of a device: its kernels, what they take, and their launches.
//!
//! Start at [`LoadedModule::new`].
#![allow(unsafe_code, reason = "launches kernels whose arguments are checked here")]

use std::collections::HashMap;
use std::rc::Rc;

use super::driver::{CallError, Code, Function, Geometry, Module, Primary, Stream};
use super::legality::{self, EntryFacts, Limits};
use crate::execute::{Image, KernelLaunch};

/// A module and the kernels that were asked for.
#[derive(Debug)]
pub(super) struct LoadedModule {
    entries: HashMap<String, Entry>,
}

/// One kernel.
#[derive(Debug)]
pub(super) struct Entry {
    function: Function,
    facts: EntryFacts,
}

impl LoadedModule {
    /// Loads a CUBIN and finds the kernels.
    pub(super) fn new(
        primary: &Rc<Primary>,
        image: &Image<'_>,
        names: &[&str],
    ) -> Result<Self, LoadError> {
        let module = Module::load(primary, image.cubin)?;
        let mut entries = HashMap::new();
        for name in names {
            let function = module.function(name)?;
            let facts = EntryFacts {
                parameters: parameters(&function, image.ptx, name)?,
                threads_max: function.threads_max()?,
                static_shared: function.static_shared()?,
                required_cluster: function.required_cluster().unwrap_or([0; 3]),
            };
            entries.insert((*name).to_owned(), Entry { function, facts });
        }
        Ok(Self { entries })
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }
}

/// Why a module was not loaded.
pub(super) enum LoadError {
    Call(CallError),
    NoParameters,
}

impl From<CallError> for LoadError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// Sizes of the parameters, from the driver or, where it cannot tell, from the PTX.
fn parameters(function: &Function, ptx: &str, name: &str) -> Result<Vec<u64>, LoadError> {
    if let Some(sizes) = function.parameters()? {
        return Ok(sizes);
    }
    let module = ptx_sim::syntax::parse(ptx).map_err(|_| LoadError::NoParameters)?;
    let entries = ptx_sim::facts::ModuleFacts::of(&module).entries;
    let entry = entries.iter().find(|entry| entry.name == name).ok_or(LoadError::NoParameters)?;
    Ok(entry.params.iter().map(|param| u64::from(param.bytes)).collect())
}

impl Entry {
    /// Why the launch is not legal, as a sentence.
    pub(super) fn refusal(&self, limits: &Limits, launch: &KernelLaunch<'_>) -> Option<String> {
        legality::refusal(limits, &self.facts, launch)
    }

    /// Sets what the function needs and queues a launch that was not refused.
    pub(super) fn start(
        &self,
        stream: &Stream,
        launch: &KernelLaunch<'_>,
    ) -> Result<(), CallError> {
        self.fit_arguments(launch)?;
        if launch.shared_bytes > 0 {
            self.function.allow_shared(launch.shared_bytes)?;
        }
        if legality::has_wide_cluster(launch) {
            self.function.allow_wide_clusters()?;
        }
        let geometry = Geometry {
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            cooperative: launch.cooperative,
            pdl: launch.pdl,
        };
        let args: Vec<&[u8]> = launch.args.iter().map(Vec::as_slice).collect();
        // SAFETY: number and sizes of the arguments were compared with the entry's parameters.
        unsafe { self.function.launch(stream, &geometry, &args) }
    }

    fn fit_arguments(&self, launch: &KernelLaunch<'_>) -> Result<(), CallError> {
        let sizes = launch.args.iter().map(|arg| arg.len() as u64);
        if sizes.eq(self.facts.parameters.iter().copied()) {
            return Ok(());
        }
        Err(CallError { call: "arguments", code: Code::CUDA_ERROR_INVALID_VALUE })
    }
}
