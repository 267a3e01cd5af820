//! The module of a device: its kernels, what they take, and their launches.
//!
//! Start at [`LoadedModule::new`].

use std::collections::HashMap;
use std::rc::Rc;

use super::driver::{CallError, Function, Geometry, Module, Primary, Stream};
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
    ) -> Result<Self, CallError> {
        let module = Module::load(primary, image.cubin)?;
        let mut entries = HashMap::new();
        for name in names {
            let function = module.function(name, || told_parameters(image.ptx, name))?;
            let facts = EntryFacts {
                parameters: function.parameters().to_vec(),
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

/// Sizes of a kernel's parameters in bytes as its PTX has them.
fn told_parameters(ptx: &str, name: &str) -> Option<Vec<u64>> {
    let module = ptx_sim::syntax::parse(ptx).ok()?;
    let entries = ptx_sim::facts::ModuleFacts::of(&module).entries;
    let entry = entries.into_iter().find(|entry| entry.name == name)?;
    Some(entry.params.iter().map(|param| u64::from(param.bytes)).collect())
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
        self.function.launch(stream, &geometry, launch.args)
    }
}
