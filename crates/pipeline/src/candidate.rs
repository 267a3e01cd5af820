//! A candidate: CUDA source and the plan that launches it, with their identities.

use std::collections::BTreeMap;

use crate::digest::Digest;
use crate::plan::Plan;

/// What a reply contains.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// CUDA source with `\n` line ends and one newline at the end.
    pub source: String,
    /// The plan as it was written.
    pub plan_text: String,
    pub plan: Plan,
}

/// One choice of values for the tunables of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub candidate_id: Digest,
    pub tunables: BTreeMap<String, i64>,
}

impl Candidate {
    /// Normalises the source and binds it to its checked plan.
    #[must_use]
    pub fn new(source: &str, plan_text: &str, plan: Plan) -> Self {
        let mut source = source.replace("\r\n", "\n");
        source.truncate(source.trim_end().len());
        source.push('\n');
        Self { source, plan_text: plan_text.to_owned(), plan }
    }

    /// Identity: equal for candidates that differ only in line ends and plan layout.
    #[must_use]
    pub fn id(&self) -> Digest {
        Digest::of_parts("candidate", &[self.source.as_bytes(), self.plan.canonical().as_bytes()])
    }

    /// The variant with the default value of every tunable.
    #[must_use]
    pub fn default_variant(&self) -> Variant {
        Variant { candidate_id: self.id(), tunables: self.plan.default_tunables() }
    }
}

/// Identity of a compile: everything that the output depends on.
#[must_use]
pub fn build_id(
    source: &str,
    tunables: &BTreeMap<String, i64>,
    kernel_names: &[String],
    arch: &str,
    toolchain: &str,
) -> Digest {
    let hash = |domain: &str, items: Vec<String>| {
        Digest::of_parts(domain, &items.iter().map(String::as_bytes).collect::<Vec<_>>())
    };
    let defines = tunables.iter().map(|(name, value)| format!("{name}={value}"));
    let defines = hash("defines", defines.collect());
    let names = hash("names", kernel_names.to_vec());
    let texts = [source, names.as_str(), defines.as_str(), arch, toolchain];
    Digest::of_parts("build", &texts.map(str::as_bytes))
}

/// Identity of an evaluation: equal keys return the stored verdict and draw no new inputs.
#[must_use]
pub fn eval_key(
    ptx_hash: &str,
    verdict_hash: &Digest,
    task_hash: &Digest,
    device_model: &str,
    judge_hash: &str,
) -> Digest {
    let parts = [
        ptx_hash.as_bytes(),
        verdict_hash.as_str().as_bytes(),
        task_hash.as_str().as_bytes(),
        device_model.as_bytes(),
        judge_hash.as_bytes(),
    ];
    Digest::of_parts("evaluation", &parts)
}

/// Identity under which hangs and faults are remembered for ever, whatever judge saw them. The task
/// is part of it: its shapes decide whether a launch stays inside its buffers.
#[must_use]
pub fn danger_key(ptx_hash: &str, launch_hash: &Digest, task_hash: &Digest, arch: &str) -> Digest {
    let texts = [ptx_hash, launch_hash.as_str(), task_hash.as_str(), arch];
    Digest::of_parts("danger", &texts.map(str::as_bytes))
}
