//! A plan at one shape: every expression evaluated, every extent checked.
//!
//! The resolved form is what a child receives: sizes in bytes, grids as numbers, arguments as
//! buffer names or values. Errors here are `PLAN` at a public shape and `SHAPE` at a hidden one.

use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::expression::Expression;
use crate::limits::WORKSPACE_BYTES_MAX;
use crate::plan::form::{Initial, Lifetime, OutOfBounds, Swizzle};
use crate::plan::{Arg, KernelStep, Plan, Step, TensorMap};
use crate::scope::Scope;
use crate::task::signature::Signature;

/// A plan with numbers instead of expressions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedPlan {
    pub workspaces: Vec<ResolvedWorkspace>,
    pub tensor_maps: Vec<ResolvedTensorMap>,
    /// `prepare` steps first, then the steps of a call.
    pub prepare: Vec<ResolvedStep>,
    pub steps: Vec<ResolvedStep>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedWorkspace {
    pub name: String,
    pub bytes: u64,
    pub init: Initial,
    pub lifetime: Lifetime,
}

/// A TMA descriptor to encode; dims innermost first, strides in bytes of dims 1 and up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedTensorMap {
    pub name: String,
    pub tensor: String,
    pub dtype: Dtype,
    pub dims: Vec<u64>,
    pub strides: Vec<u64>,
    pub box_dims: Vec<u32>,
    pub swizzle: Swizzle,
    pub oob: OutOfBounds,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ResolvedStep {
    Memset { buffer: String, byte: u8 },
    Kernel(Launch),
}

/// One kernel launch in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The name expression; the build maps it to the entry's name.
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared_bytes: u32,
    pub cooperative: bool,
    pub pdl: bool,
    pub args: Vec<Value>,
}

/// An argument; how wide it is passed is decided by the kernel's parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Value {
    Buffer(String),
    TensorMap(String),
    /// A float scalar as the bits of an f64, so that it survives JSON whatever it is.
    Float(u64),
    Integer(i64),
}

/// Why a plan cannot run at a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error("{place}: {why}")]
    Expression { place: String, why: String },
    #[error("{place}: `{text}` is {value}; it must be in {low}..={high}")]
    Range { place: String, text: String, value: i64, low: i64, high: i64 },
    #[error("{place}: a block of {threads} threads; at most 1024 are possible")]
    BlockThreads { place: String, threads: u64 },
    #[error("the workspaces need {bytes} bytes; at most {WORKSPACE_BYTES_MAX} are given")]
    WorkspaceBytes { bytes: u64 },
    #[error("the shape is outside the plan's domain: `{condition}` is false")]
    Domain { condition: String },
    #[error("the constraint `{condition}` is false for these tunables")]
    Constraint { condition: String },
}

impl Plan {
    /// Evaluates the plan at one shape, one choice of tunables and one device (all in `scope`).
    ///
    /// # Errors
    /// The first expression without an acceptable value, with its place.
    pub fn resolve(
        &self,
        scope: &Scope,
        signature: &Signature,
    ) -> Result<ResolvedPlan, LaunchError> {
        self.check_conditions(scope)?;
        let workspaces = self.resolve_workspaces(scope)?;
        let resolve = |what: &str, steps: &[Step]| {
            let numbered = steps.iter().enumerate();
            numbered
                .map(|(i, step)| resolve_step(&format!("{what} {}", i + 1), step, scope, signature))
                .collect::<Result<Vec<_>, _>>()
        };
        let maps = self.tensor_maps.iter();
        let tensor_maps = maps.map(|map| self.resolve_map(map, scope, signature));
        Ok(ResolvedPlan {
            workspaces,
            tensor_maps: tensor_maps.collect::<Result<_, _>>()?,
            prepare: resolve("prepare", &self.prepare)?,
            steps: resolve("step", &self.steps)?,
        })
    }

    fn check_conditions(&self, scope: &Scope) -> Result<(), LaunchError> {
        for condition in &self.domain {
            if !truth("domain", condition, scope)? {
                return Err(LaunchError::Domain { condition: condition.text().to_owned() });
            }
        }
        for condition in &self.constraints {
            if !truth("constraints", condition, scope)? {
                return Err(LaunchError::Constraint { condition: condition.text().to_owned() });
            }
        }
        Ok(())
    }

    fn resolve_map(
        &self,
        map: &TensorMap,
        scope: &Scope,
        signature: &Signature,
    ) -> Result<ResolvedTensorMap, LaunchError> {
        let place = |what: &str| format!("tensor_map `{}`, {what}", map.name);
        let workspace = self.workspaces.iter().find(|workspace| workspace.name == map.tensor);
        let dtype = workspace
            .map(|workspace| workspace.dtype)
            .or_else(|| signature.buffers.get(&map.tensor).map(|buffer| buffer.dtype));
        let boxes = extents(&place("box"), &map.box_, scope, 256)?;
        Ok(ResolvedTensorMap {
            name: map.name.clone(),
            tensor: map.tensor.clone(),
            dtype: dtype.unwrap_or(Dtype::U8),
            dims: extents(&place("dims"), &map.dims, scope, 1 << 32)?,
            strides: extents(&place("strides"), &map.strides, scope, (1 << 40) - 1)?,
            box_dims: boxes.into_iter().map(|extent| extent as u32).collect(),
            swizzle: map.swizzle,
            oob: map.oob,
        })
    }

    fn resolve_workspaces(&self, scope: &Scope) -> Result<Vec<ResolvedWorkspace>, LaunchError> {
        let mut total = 0u64;
        let mut resolved = Vec::with_capacity(self.workspaces.len());
        for workspace in &self.workspaces {
            let place = format!("workspace `{}`, len", workspace.name);
            let len = ranged(&place, &workspace.len, scope, 1, i64::MAX)?;
            let bytes = workspace_bytes(workspace.dtype, len as u64);
            total = total.saturating_add(bytes);
            if total > WORKSPACE_BYTES_MAX {
                return Err(LaunchError::WorkspaceBytes { bytes: total });
            }
            resolved.push(ResolvedWorkspace {
                name: workspace.name.clone(),
                bytes,
                init: workspace.init,
                lifetime: workspace.lifetime,
            });
        }
        Ok(resolved)
    }
}

fn extents(
    place: &str,
    expressions: &[Expression],
    scope: &Scope,
    high: i64,
) -> Result<Vec<u64>, LaunchError> {
    let value = |expression| ranged(place, expression, scope, 1, high).map(|value| value as u64);
    expressions.iter().map(value).collect()
}

fn workspace_bytes(dtype: Dtype, len: u64) -> u64 {
    len.saturating_mul(dtype.bits()).div_ceil(8)
}

fn resolve_step(
    place: &str,
    step: &Step,
    scope: &Scope,
    signature: &Signature,
) -> Result<ResolvedStep, LaunchError> {
    match step {
        Step::Memset { buffer, byte } => {
            Ok(ResolvedStep::Memset { buffer: buffer.clone(), byte: *byte })
        }
        Step::Kernel(kernel) => {
            let place = format!("{place} (`{}`)", kernel.kernel);
            Ok(ResolvedStep::Kernel(resolve_kernel(&place, kernel, scope, signature)?))
        }
    }
}

fn resolve_kernel(
    place: &str,
    kernel: &KernelStep,
    scope: &Scope,
    signature: &Signature,
) -> Result<Launch, LaunchError> {
    let block = triple(&format!("{place}, block"), &kernel.block, scope, [1024, 1024, 64])?;
    let threads = block.iter().map(|extent| u64::from(*extent)).product();
    if threads > 1024 {
        return Err(LaunchError::BlockThreads { place: place.to_owned(), threads });
    }
    let shared_place = format!("{place}, shared_bytes");
    let args = kernel.args.iter().enumerate();
    Ok(Launch {
        kernel: kernel.kernel.clone(),
        grid: triple(
            &format!("{place}, grid"),
            &kernel.grid,
            scope,
            [i32::MAX.into(), 65_535, 65_535],
        )?,
        block,
        cluster: triple(&format!("{place}, cluster"), &kernel.cluster, scope, [16, 16, 16])?,
        shared_bytes: ranged(&shared_place, &kernel.shared_bytes, scope, 0, 1 << 20)? as u32,
        cooperative: kernel.cooperative,
        pdl: kernel.pdl,
        args: args
            .map(|(i, arg)| {
                resolve_arg(&format!("{place}, argument {}", i + 1), arg, scope, signature)
            })
            .collect::<Result<_, _>>()?,
    })
}

fn resolve_arg(
    place: &str,
    arg: &Arg,
    scope: &Scope,
    signature: &Signature,
) -> Result<Value, LaunchError> {
    match arg {
        Arg::Buffer(name) => Ok(Value::Buffer(name.clone())),
        Arg::TensorMap(name) => Ok(Value::TensorMap(name.clone())),
        Arg::Scalar(name) => {
            let value = signature.scalars.get(name).map_or(0.0, |(_, value)| *value);
            Ok(Value::Float(value.to_bits()))
        }
        Arg::Integer(expression) => {
            ranged(place, expression, scope, i64::MIN, i64::MAX).map(Value::Integer)
        }
    }
}

fn triple(
    place: &str,
    axes: &[Expression; 3],
    scope: &Scope,
    high: [i64; 3],
) -> Result<[u32; 3], LaunchError> {
    let axis = |i: usize| ranged(place, &axes[i], scope, 1, high[i]).map(|value| value as u32);
    Ok([axis(0)?, axis(1)?, axis(2)?])
}

fn ranged(
    place: &str,
    expression: &Expression,
    scope: &Scope,
    low: i64,
    high: i64,
) -> Result<i64, LaunchError> {
    let failed = |why: String| LaunchError::Expression { place: place.to_owned(), why };
    let value = expression.integer(scope).map_err(|error| failed(error.to_string()))?;
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    let text = expression.text().to_owned();
    Err(LaunchError::Range { place: place.to_owned(), text, value, low, high })
}

fn truth(place: &str, expression: &Expression, scope: &Scope) -> Result<bool, LaunchError> {
    expression.boolean(scope).map_err(|error| LaunchError::Expression {
        place: place.to_owned(),
        why: error.to_string(),
    })
}
