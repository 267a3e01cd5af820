//! The host side of an evaluation: orders the children and decides the verdict.
//!
//! [`Judge::build`] compiles and applies the static gate; [`Judge::evaluate`] runs the public cases
//! and has the outputs compared in a process where the candidate never was. A bad kernel is a
//! verdict; [`JudgeError`] means that the machine, the task's reference or this program is broken.

mod accept;
mod admission;
mod baseline;
mod baselines;
mod big;
mod build;
mod calibrate;
mod case_cache;
mod cases;
pub mod catalogue;
mod checks;
mod children;
mod compared;
mod confinement;
mod decide;
mod error;
mod evaluate;
mod evaluator;
mod gpu;
mod hardware;
mod headline;
mod hidden;
mod in_tiles;
mod input_digest;
mod lengths;
mod limits;
mod memory;
mod on_card;
mod policy;
mod profiler;
mod promote;
mod reach;
mod reference;
mod relations;
mod sanitizer;
mod simulate;
mod survey;
mod timers;
mod tools;
mod trials;
mod windows;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub use accept::Acceptance;
pub use baseline::timed::{BaselineCall, BaselineTimes};
pub use baseline::{BaselineConfig, PythonVersions};
pub use build::Build;
pub use calibrate::Calibrated;
pub use confinement::ConfinementConfig;
pub use error::JudgeError;
pub use evaluate::{Evaluation, Judgement};
pub use evaluator::{Evaluator, Job, JobPoll, JobStage, JobTicket};
pub use gpu::{GpuConfig, free_card};
pub use hardware::{Probing, find_gpus};
pub use input_digest::input_digest;
pub use memory::MemoryCaps;
use pipeline::confinement::Confinement;
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::inputs::{GENERATOR_VERSION, MasterSeed};
pub use policy::JudgePolicy;
pub use profiler::{profiler_times, profiler_words};
pub use reach::{ConfinementCost, Reached};
pub use reference::{GoldenDeviation, GoldenReport};
pub use sandbox::CancelFlag;
use sandbox::Memfd;
pub use sanitizer::{Sanitized, Sanitizer};
pub use simulate::outputs::{Cause, Difference, Differences, SimulatedOutput};
pub use simulate::{Content, Simulation, SimulationReport, Tensor};
pub use tools::find_tool;
pub use windows::Paired;

/// How long the kernels of one run of a candidate may take on a GPU, in milliseconds.
pub const LAUNCH_DEADLINE_MS: u64 = 10_000;

/// What a judge is made of.
#[derive(Clone, Debug)]
pub struct JudgeConfig {
    /// The executable that serves as the children: this program itself.
    pub program: PathBuf,
    /// The device crate's toolchain as JSON; opaque here, read by the build child.
    pub toolchain: serde_json::Value,
    /// Identity of that toolchain.
    pub toolchain_id: String,
    /// What candidates are built for: one model, simulated or real.
    pub device: DeviceFacts,
    /// The cards that run them; `None` for the simulator.
    pub gpus: Option<GpuConfig>,
    pub policy: JudgePolicy,
    /// How baselines of Python are found.
    pub baselines: BaselineConfig,
    /// How children are confined.
    pub confinement: ConfinementConfig,
}

/// Evaluates candidates. Thread-safe; keeps inputs and expected outputs in sealed memory only.
#[derive(Debug)]
pub struct Judge {
    config: JudgeConfig,
    cases: Arc<case_cache::CaseCache>,
    references: Arc<Mutex<reference::ReferenceBuilds>>,
    /// Jobs handed over and not judged yet.
    jobs: Mutex<BTreeMap<JobTicket, Arc<Job>>>,
    pool: Arc<gpu::GpuPool>,
    memory: Arc<memory::KnownMemory>,
    /// The compiled harness, once it is needed.
    harness: Arc<Mutex<Option<Arc<Memfd>>>>,
    /// PyTorch, once it is needed.
    baselines: Arc<Mutex<Option<Arc<baseline::Server>>>>,
    /// What held the children so far, by the name of the set.
    held: Arc<Mutex<BTreeMap<String, Confinement>>>,
}

/// The secret from which a run draws all inputs of its public cases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RunSeed(pub [u8; 32]);

impl fmt::Debug for RunSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunSeed(secret)")
    }
}

impl RunSeed {
    /// The master seed of a case for the evaluation with this index: one of a pool of four, which
    /// is renewed every 64 evaluations.
    #[must_use]
    pub fn master(&self, case: &str, evaluation_index: u64) -> MasterSeed {
        let epoch = evaluation_index / limits::POOL_EVALUATIONS;
        let slot = evaluation_index % limits::POOL_MASTERS;
        MasterSeed(self.0).derive(&format!("public/{case}/{epoch}/{slot}"))
    }
}

impl Judge {
    /// A judge with empty caches.
    #[must_use]
    pub fn new(config: JudgeConfig) -> Self {
        let count = config.gpus.as_ref().map_or(0, |gpus| gpus.sheets.len());
        let cache_bytes = match &config.gpus {
            Some(gpus) => gpus.case_cache_bytes_max,
            None => limits::CASE_CACHE_BYTES_MAX,
        };
        Self {
            config,
            pool: Arc::new(gpu::GpuPool::new(count)),
            memory: Arc::default(),
            harness: Arc::default(),
            baselines: Arc::default(),
            cases: Arc::new(case_cache::CaseCache::new(cache_bytes, case_cache::entries_max())),
            references: Arc::default(),
            held: Arc::default(),
            jobs: Mutex::default(),
        }
    }

    /// A judge like this one that runs everything on the simulator.
    #[must_use]
    pub fn simulated(&self) -> Self {
        Self::new(JudgeConfig { gpus: None, ..self.config.clone() })
    }

    /// Identity of this judge: [`judge_hash`], unless some defence is off.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.memory_hash(self.config.policy.hash(judge_hash()))
    }

    /// What the judge was made of.
    #[must_use]
    pub fn config(&self) -> &JudgeConfig {
        &self.config
    }
}

/// Identity of the judge: a hash over the sources of everything that decides, the simulator and the
/// compiler's headers included. When it changes, every cached verdict becomes void.
#[must_use]
pub fn judge_hash() -> Digest {
    let generator = GENERATOR_VERSION.to_le_bytes();
    Digest::of_parts("judge", &[env!("WARPWRIGHT_JUDGE_HASH").as_bytes(), &generator])
}

#[cfg(test)]
mod tests {
    use super::RunSeed;

    #[test]
    fn masters_form_a_pool_of_four_renewed_every_64_evaluations() {
        let seed = RunSeed([3; 32]);
        let master = |index| seed.master("ragged", index).0;
        assert_eq!(master(0), master(4));
        assert_eq!(master(1), master(61));
        assert_ne!(master(0), master(1));
        assert_ne!(master(0), master(64));
        assert_ne!(master(0), seed.master("tiny", 0).0);
    }
}
