//! Identities of a plan: what makes two plans run alike, and what makes them judged alike.

use std::collections::BTreeMap;

use super::{Plan, PlanError, rule};
use crate::digest::Digest;

/// Canonical texts, made once: equal for plans that differ in layout only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Identity {
    /// Everything that a verdict can depend on.
    whole: String,
    /// Everything that a run can depend on.
    launch: String,
}

impl Plan {
    /// The canonical JSON form: equal for plans that differ in layout only.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.identity.whole
    }

    /// Identity of what runs: steps, workspaces, maps, where they apply and what they may write.
    #[must_use]
    pub fn launch_hash(&self, tunables: &BTreeMap<String, i64>) -> Digest {
        hash_with_tunables("launch", &self.identity.launch, tunables)
    }

    /// Identity of what is judged: the launch, and everything that the plan declares about it.
    #[must_use]
    pub fn verdict_hash(&self, tunables: &BTreeMap<String, i64>) -> Digest {
        hash_with_tunables("plan", &self.identity.whole, tunables)
    }

    pub(super) fn identified(mut self) -> Result<Self, PlanError> {
        let failed = |error: serde_json::Error| rule("plan", error.to_string());
        let launch = (
            (&self.steps, &self.prepare, &self.workspaces, &self.tensor_maps),
            (&self.domain, &self.constraints, &self.in_place),
        );
        let launch = serde_json::to_string(&launch).map_err(failed)?;
        let whole = serde_json::to_string(&self).map_err(failed)?;
        self.identity = Identity { whole, launch };
        Ok(self)
    }
}

fn hash_with_tunables(domain: &str, text: &str, tunables: &BTreeMap<String, i64>) -> Digest {
    let values: Vec<String> =
        tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let parts: Vec<&[u8]> =
        std::iter::once(text).chain(values.iter().map(String::as_str)).map(str::as_bytes).collect();
    Digest::of_parts(domain, &parts)
}
