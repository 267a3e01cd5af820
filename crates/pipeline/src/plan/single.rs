//! A plan of one kernel launch, put together without TOML: what a command line says.

use std::collections::BTreeMap;

use super::form::{Algorithm, PlanForm, StepForm};
use super::names::check_kernel_name;
use super::{Checker, Plan, PlanError};
use crate::task::signature::Signature;
use crate::task::spec::Precision;

/// One launch; every extent is an expression over the names of a signature.
#[derive(Clone, Debug, Default)]
pub struct SingleLaunch {
    pub kernel: String,
    pub grid: Vec<String>,
    pub block: Vec<String>,
    pub cluster: Option<Vec<String>>,
    pub shared_bytes: String,
    pub cooperative: bool,
    /// Names of buffers and scalars, or integer expressions.
    pub args: Vec<String>,
}

/// Whether a kernel may be named so in a plan.
///
/// # Errors
/// How a name is written.
pub fn check_kernel(name: &str) -> Result<(), PlanError> {
    check_kernel_name("kernel", name)
}

impl Plan {
    /// The plan that consists of this launch.
    ///
    /// # Errors
    /// As [`Plan::parse`].
    pub fn of_launch(launch: SingleLaunch, signature: &Signature) -> Result<Self, PlanError> {
        let step = StepForm {
            memset: None,
            byte: None,
            kernel: Some(launch.kernel),
            grid: Some(launch.grid),
            block: Some(launch.block),
            cluster: launch.cluster,
            shared_bytes: Some(launch.shared_bytes),
            cooperative: Some(launch.cooperative),
            pdl: None,
            args: launch.args,
        };
        let form = PlanForm {
            plan: 1,
            precision: signature.classes.first().copied().unwrap_or(Precision::Exact),
            algorithm: Algorithm::Direct,
            deterministic: true,
            in_place: Vec::new(),
            domain: Vec::new(),
            constraints: Vec::new(),
            tunables: BTreeMap::new(),
            workspaces: Vec::new(),
            tensor_maps: Vec::new(),
            prepare: Vec::new(),
            steps: vec![step],
            diagnosis: None,
        };
        Checker::new(signature, &form)?.plan(form)
    }
}
