//! What is known about a compiled candidate, found by the build child from PTX and compiler log.

use serde::{Deserialize, Serialize};

/// Facts of one build. Present only when the compile succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildFacts {
    /// Every entry of the module.
    pub entries: Vec<EntryFacts>,
    /// Name expression of the plan → name of the entry.
    pub lowered_names: Vec<(String, String)>,
    /// Functions that the module calls but does not define.
    pub externs: Vec<String>,
    /// Bytes of module-scope variables.
    pub static_bytes: u64,
    pub special_registers: Vec<SpecialRegister>,
    /// Operand types of matrix instructions, as in the opcode.
    pub mma_types: Vec<String>,
    pub cache_hints: Vec<String>,
    /// Hash of the PTX without comments, `.loc` and `.file`.
    pub ptx_hash: String,
    pub cubin_hash: String,
}

/// One kernel of the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryFacts {
    pub name: String,
    pub params: Vec<ParamFacts>,
    pub registers: u32,
    pub spill_bytes: u32,
    pub static_shared_bytes: u32,
    /// From `__launch_bounds__`, where given.
    pub max_threads: Option<u32>,
}

/// One kernel parameter, as the PTX declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParamFacts {
    /// Width in bytes.
    pub width: u32,
    pub kind: ParamKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamKind {
    /// `.u`, `.s` or `.b` of 1 to 8 bytes.
    Integer,
    Float,
    /// A struct by value with its alignment in bytes.
    Bytes {
        align: u32,
    },
}

/// A special register that is read, and in which function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecialRegister {
    pub name: String,
    pub origin: String,
}

/// A message of the compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnostic {
    pub severity: Severity,
    pub file: String,
    /// 1-based; `None` where the compiler names no line.
    pub line: Option<u32>,
    pub message: String,
    /// The source line, where the compiler shows it.
    pub excerpt: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Note,
}

impl ParamFacts {
    /// The parameter in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.kind {
            ParamKind::Integer if self.width == 8 => "a pointer or a 64-bit integer".to_owned(),
            ParamKind::Integer => format!("a {}-bit integer", 8 * self.width),
            ParamKind::Float => format!("a {}-bit float", 8 * self.width),
            ParamKind::Bytes { align } => {
                format!("a struct of {} bytes aligned to {align}", self.width)
            }
        }
    }
}

impl BuildFacts {
    /// The entry that a name expression of the plan means.
    #[must_use]
    pub fn entry_of(&self, kernel: &str) -> Option<&EntryFacts> {
        let (_, lowered) =
            self.lowered_names.iter().find(|(expression, _)| expression == kernel)?;
        self.entries.iter().find(|entry| entry.name == *lowered)
    }
}
