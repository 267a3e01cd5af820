//! The values that names in an expression stand for.

use std::collections::BTreeMap;

use crate::device_facts::DeviceFacts;

/// Integer values by name: dimensions, tunables and device facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(BTreeMap<String, i64>);

impl Scope {
    /// A scope of the given dimensions only.
    #[must_use]
    pub fn of_dims(dims: &BTreeMap<String, i64>) -> Self {
        Self(dims.clone())
    }

    /// Adds more names; a later value replaces an earlier one.
    #[must_use]
    pub fn with(mut self, values: &BTreeMap<String, i64>) -> Self {
        self.0.extend(values.iter().map(|(name, value)| (name.clone(), *value)));
        self
    }

    /// Adds the facts of a device.
    #[must_use]
    pub fn with_device(mut self, facts: &DeviceFacts) -> Self {
        self.0.extend(facts.named().map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// The names with their values.
    #[must_use]
    pub fn values(&self) -> &BTreeMap<String, i64> {
        &self.0
    }
}
