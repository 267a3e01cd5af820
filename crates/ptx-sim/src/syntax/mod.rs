//! PTX text as a tree: modules, functions, statements, operands.
//!
//! Knows the grammar and nothing of what instructions mean: every opcode is text with modifiers.
//! Reads all that NVRTC 13.0 emits. Start at [`parse`]; `parser` holds the module level, `body`
//! what stands between the braces of a function.

mod body;
mod cursor;
mod lexer;
mod parser;

use crate::limits::{NESTING_MAX, REGISTERS_MAX, TEXT_BYTES_MAX};
use std::sync::Arc;

pub use parser::parse;

/// Why a text is not PTX that we can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ptx line {line}: expected {expected}, found {found}")]
pub struct ParseError {
    /// One-based line of the text.
    pub line: u32,
    /// What would have been legal here.
    pub expected: String,
    /// What stands there, cut to a few dozen characters.
    pub found: String,
}

/// A whole translation unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Module {
    /// `.version`, as (major, minor).
    pub version: (u32, u32),
    /// `.target` words, e.g. `sm_90a`.
    pub target: Vec<String>,
    /// `.address_size` in bits; 64 in all that NVRTC emits.
    pub address_size: u32,
    /// `.file` entries by index.
    pub files: Vec<SourceFile>,
    /// Module-scope `.global`, `.const` and `.shared` variables.
    pub variables: Vec<Variable>,
    /// Entries, functions and extern declarations, in text order.
    pub functions: Vec<Function>,
}

impl Module {
    /// The defined function or entry of that name; a definition wins over a declaration.
    pub fn function(&self, name: &str) -> Option<&Function> {
        let mut named = self.functions.iter().filter(|f| f.name == name);
        named.clone().find(|f| f.body.is_some()).or_else(|| named.next())
    }

    /// The path of a `.file` index.
    pub fn file(&self, index: u32) -> Option<&str> {
        self.files.iter().find(|f| f.index == index).map(|f| f.path.as_str())
    }
}

/// One `.file` directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The number that `.loc` uses.
    pub index: u32,
    /// The path as NVRTC wrote it.
    pub path: String,
}

/// Storage types of PTX, as written in declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// Predicate.
    Pred,
    /// Untyped bits of that many bytes (1, 2, 4, 8, 16).
    Bits(u8),
    /// Unsigned integer of that many bytes.
    Unsigned(u8),
    /// Signed integer of that many bytes.
    Signed(u8),
    /// Float of that many bytes (2, 4, 8).
    Float(u8),
    /// Packed or alternative forms (`f16x2`, `bf16`, ...) of that many bytes.
    Other(u8),
    /// Opaque texture, sampler and surface references.
    Opaque,
}

impl ScalarType {
    /// Size in bytes; 1 for a predicate, 8 for an opaque reference.
    pub fn bytes(self) -> u32 {
        match self {
            ScalarType::Pred => 1,
            ScalarType::Bits(n)
            | ScalarType::Unsigned(n)
            | ScalarType::Signed(n)
            | ScalarType::Float(n)
            | ScalarType::Other(n) => u32::from(n),
            ScalarType::Opaque => 8,
        }
    }
}

/// State spaces in which a variable can be declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.global`
    Global,
    /// `.const`
    Const,
    /// `.shared`
    Shared,
    /// `.local`
    Local,
    /// `.param`, of a function or inside a call sequence.
    Param,
}

/// Linkage words before a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Linkage {
    /// None given.
    #[default]
    Internal,
    /// `.visible`
    Visible,
    /// `.extern`
    Extern,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// A variable or parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Name as written; `_` for unnamed prototype parameters.
    pub name: String,
    /// State space.
    pub space: Space,
    /// Linkage words.
    pub linkage: Linkage,
    /// Element type.
    pub ty: ScalarType,
    /// Alignment in bytes: given, or that of the type.
    pub align: u32,
    /// Elements of an array, vector width included; `None` for a scalar. 0: `name[]`.
    pub elements: Option<u64>,
    /// Initial values in order, one entry per element.
    pub init: Vec<Init>,
    /// One-based line.
    pub line: u32,
}

impl Variable {
    /// Size in bytes; 0 for an unsized array.
    pub fn bytes(&self) -> u64 {
        u64::from(self.ty.bytes()).saturating_mul(self.elements.unwrap_or(1))
    }
}

/// One initial value.
#[derive(Debug, Clone, PartialEq)]
pub enum Init {
    /// A number, in two's complement or as float bits of the written width.
    Number(Immediate),
    /// The address of a symbol plus a byte offset; generic if wrapped in `generic()`.
    Address {
        /// The symbol.
        symbol: String,
        /// Byte offset.
        offset: i64,
        /// Whether `generic()` was written around it.
        generic: bool,
    },
}

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// A kernel.
    Entry,
    /// A device function.
    Func,
}

/// An entry or a device function; without a body a declaration.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Name.
    pub name: String,
    /// Kernel or function.
    pub kind: FunctionKind,
    /// Linkage words.
    pub linkage: Linkage,
    /// Return parameters.
    pub returns: Vec<Variable>,
    /// Parameters.
    pub params: Vec<Variable>,
    /// Launch bounds and the like.
    pub directives: Directives,
    /// The statements.
    pub body: Option<Scope>,
    /// All distinct `.loc` positions; instructions refer to them by index.
    pub locations: Vec<SourceLocation>,
    /// One-based line.
    pub line: u32,
}

/// Performance directives of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// `.maxntid`, missing dimensions 1.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`, missing dimensions 1.
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm`
    pub minnctapersm: Option<u32>,
    /// `.maxnreg`
    pub maxnreg: Option<u32>,
    /// `.reqnctapercluster`
    pub cluster: Option<[u32; 3]>,
    /// `.explicitcluster`
    pub explicit_cluster: bool,
    /// All other words, e.g. `noreturn`.
    pub other: Vec<String>,
}

/// A position of the CUDA source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// `.file` index.
    pub file: u32,
    /// One-based line.
    pub line: u32,
    /// One-based column; 0 if unknown.
    pub column: u32,
    /// Where the function was inlined: (file, line, column).
    pub inlined_at: Option<(u32, u32, u32)>,
}

/// The statements between two braces, with their own registers and labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope {
    /// In text order.
    pub statements: Vec<Statement>,
}

/// One statement of a function.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `.reg`
    Registers(Registers),
    /// `.shared`, `.local`, `.param`, `.global`, `.const` inside a body.
    Variable(Variable),
    /// `name:`
    Label(String),
    /// An instruction.
    Instruction(Instruction),
    /// `{ ... }`
    Scope(Scope),
    /// `name: .callprototype (returns) _ (params);`
    Prototype(Prototype),
    /// `name: .branchtargets a, b;` or `.calltargets`.
    Targets {
        /// Label.
        name: String,
        /// Labels or functions.
        targets: Vec<String>,
    },
    /// `.pragma "text";`
    Pragma(String),
}

/// One `.reg` declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers {
    /// Type.
    pub ty: ScalarType,
    /// Names; with `Some(n)` the family `name0 .. name{n-1}`.
    pub names: Vec<(String, Option<u32>)>,
}

/// A call prototype for indirect calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Prototype {
    /// Label.
    pub name: String,
    /// Return parameters.
    pub returns: Vec<Variable>,
    /// Parameters.
    pub params: Vec<Variable>,
}

/// A guard `@p` or `@!p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register.
    pub register: Arc<str>,
    /// Whether `!` was written.
    pub negated: bool,
}

/// An instruction as text with structure.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// Guard.
    pub guard: Option<Guard>,
    /// Opcode with all modifiers, e.g. `ld.global.nc.v4.f32`.
    pub op: Arc<str>,
    /// Operands.
    pub operands: Vec<Operand>,
    /// Index into [`Function::locations`].
    pub location: Option<u32>,
    /// One-based line of the PTX text.
    pub line: u32,
}

impl Instruction {
    /// The opcode without modifiers.
    pub fn root(&self) -> &str {
        self.op.split('.').next().unwrap_or_default()
    }

    /// The modifiers after the root, in order.
    pub fn modifiers(&self) -> impl Iterator<Item = &str> + Clone {
        self.op.split('.').skip(1)
    }
}

/// A literal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Immediate {
    /// An integer in two's complement.
    Int(i128),
    /// Bits of a single, `0f3F800000`.
    F32(u32),
    /// Bits of a double, `0d3FF0000000000000` or `1.0`.
    F64(u64),
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A register, special register (`%tid.x`), symbol, label or the sink `_`.
    Name(Arc<str>),
    /// `!p`
    Not(Arc<str>),
    /// A symbol plus a byte offset.
    Offset(Arc<str>, i64),
    /// A number.
    Number(Immediate),
    /// `{a, b, ...}`
    Vector(Vec<Operand>),
    /// `a|b`
    Pair(Box<Operand>, Box<Operand>),
    /// `[base + offset]`, with further parts for tensor forms.
    Address {
        /// A name or a number.
        base: Box<Operand>,
        /// Byte offset.
        offset: i64,
        /// What follows the base after a comma inside the brackets.
        more: Vec<Operand>,
    },
    /// `(a, b)` of a call.
    List(Vec<Operand>),
}
