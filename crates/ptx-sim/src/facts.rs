//! What the text of a module shows without running it. Pure functions over the syntax.
//!
//! Start at [`ModuleFacts::of`].

use std::collections::BTreeSet;

use crate::syntax::{
    Function, FunctionKind, Instruction, Linkage, Module, Operand, ScalarType, Scope, Space,
    Statement, Variable,
};

/// Facts about one module, in text order; sets are sorted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModuleFacts {
    /// Kernels.
    pub entries: Vec<EntryFacts>,
    /// Functions declared but not defined, such as `vprintf`.
    pub extern_functions: Vec<String>,
    /// Bytes of `.global` variables, module scope and function scope.
    pub global_static_bytes: u64,
    /// Bytes of `.const` variables.
    pub const_static_bytes: u64,
    /// (special register, function that reads it).
    pub special_registers: BTreeSet<(String, String)>,
    /// Operand-type strings of tensor-core instructions, e.g. `mma f32.f16.f16.f32`.
    pub mma_types: BTreeSet<String>,
    /// Cache hints: modifiers and instructions such as `L1::evict_last`, `createpolicy`.
    pub cache_hints: BTreeSet<String>,
    /// All opcodes with modifiers.
    pub opcodes: BTreeSet<String>,
}

/// One kernel's signature.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryFacts {
    /// Name, mangled unless `extern "C"`.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<ParamFacts>,
    /// `.maxntid`
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`
    pub reqntid: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub cluster: Option<[u32; 3]>,
    /// Bytes of static shared memory declared in its body.
    pub static_shared_bytes: u64,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamFacts {
    /// Name.
    pub name: String,
    /// Alignment in bytes.
    pub align: u32,
    /// Type.
    pub kind: ParamKind,
    /// Size in bytes.
    pub bytes: u32,
}

/// Type of a parameter. NVRTC writes pointers as `U64` and signed integers mostly as unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParamKind {
    /// Unsigned 8 bits.
    U8,
    /// Signed 8 bits.
    S8,
    /// Unsigned 16 bits.
    U16,
    /// Signed 16 bits.
    S16,
    /// Unsigned 32 bits.
    U32,
    /// Signed 32 bits.
    S32,
    /// Unsigned 64 bits.
    U64,
    /// Signed 64 bits.
    S64,
    /// Untyped 8 bits.
    B8,
    /// Untyped 16 bits.
    B16,
    /// Untyped 32 bits.
    B32,
    /// Untyped 64 bits.
    B64,
    /// Single.
    F32,
    /// Double.
    F64,
    /// A struct of that many bytes, or another type.
    Bytes(u32),
}

impl ParamKind {
    fn of(variable: &Variable) -> ParamKind {
        let bytes = u32::try_from(variable.bytes()).unwrap_or(u32::MAX);
        if variable.elements.is_some() {
            return ParamKind::Bytes(bytes);
        }
        match variable.ty {
            ScalarType::Unsigned(1) => ParamKind::U8,
            ScalarType::Signed(1) => ParamKind::S8,
            ScalarType::Unsigned(2) => ParamKind::U16,
            ScalarType::Signed(2) => ParamKind::S16,
            ScalarType::Unsigned(4) => ParamKind::U32,
            ScalarType::Signed(4) => ParamKind::S32,
            ScalarType::Unsigned(8) => ParamKind::U64,
            ScalarType::Signed(8) => ParamKind::S64,
            ScalarType::Bits(1) => ParamKind::B8,
            ScalarType::Bits(2) => ParamKind::B16,
            ScalarType::Bits(4) => ParamKind::B32,
            ScalarType::Bits(8) => ParamKind::B64,
            ScalarType::Float(4) => ParamKind::F32,
            ScalarType::Float(8) => ParamKind::F64,
            _ => ParamKind::Bytes(bytes),
        }
    }
}

impl ModuleFacts {
    /// Collects the facts.
    pub fn of(module: &Module) -> ModuleFacts {
        let mut facts = ModuleFacts::default();
        module.variables.iter().for_each(|v| facts.count_static(v));
        for function in &module.functions {
            let declared = function.body.is_none() || function.linkage == Linkage::Extern;
            if declared && module.function(&function.name).is_none_or(|f| f.body.is_none()) {
                facts.extern_functions.push(function.name.clone());
            }
            if function.kind == FunctionKind::Entry {
                facts.entries.push(entry_facts(function));
            }
            if let Some(body) = &function.body {
                facts.walk(&function.name, body);
            }
        }
        facts
    }

    fn count_static(&mut self, variable: &Variable) {
        match variable.space {
            Space::Global => self.global_static_bytes += variable.bytes(),
            Space::Const => self.const_static_bytes += variable.bytes(),
            Space::Shared | Space::Local | Space::Param => {}
        }
    }

    fn walk(&mut self, function: &str, scope: &Scope) {
        for statement in &scope.statements {
            match statement {
                Statement::Instruction(instruction) => self.instruction(function, instruction),
                Statement::Scope(inner) => self.walk(function, inner),
                Statement::Variable(variable) => self.count_static(variable),
                Statement::Registers(_)
                | Statement::Label(_)
                | Statement::Prototype(_)
                | Statement::Targets { .. }
                | Statement::Pragma(_) => {}
            }
        }
    }

    fn instruction(&mut self, function: &str, instruction: &Instruction) {
        if !self.opcodes.contains(&*instruction.op) {
            self.opcodes.insert(instruction.op.to_string());
        }
        if let Some(types) = mma_types(instruction) {
            self.mma_types.insert(types);
        }
        self.cache_hints.extend(cache_hints(instruction));
        instruction.operands.iter().for_each(|o| self.operand(function, o));
    }

    fn operand(&mut self, function: &str, operand: &Operand) {
        match operand {
            Operand::Name(name) | Operand::Not(name) | Operand::Offset(name, _) => {
                if is_special_register(name) {
                    self.special_registers.insert((name.to_string(), function.to_owned()));
                }
            }
            Operand::Vector(list) | Operand::List(list) => {
                list.iter().for_each(|o| self.operand(function, o));
            }
            Operand::Pair(a, b) => {
                self.operand(function, a);
                self.operand(function, b);
            }
            Operand::Address { base, more, .. } => {
                self.operand(function, base);
                more.iter().for_each(|o| self.operand(function, o));
            }
            Operand::Number(_) => {}
        }
    }
}

/// Whether a name is one of PTX's predefined registers.
pub fn is_special_register(name: &str) -> bool {
    const ROOTS: [&str; 22] = [
        "%tid",
        "%ntid",
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%ctaid",
        "%nctaid",
        "%smid",
        "%nsmid",
        "%gridid",
        "%clock",
        "%clock_hi",
        "%clock64",
        "%globaltimer",
        "%globaltimer_lo",
        "%globaltimer_hi",
        "%total_smem_size",
        "%aggr_smem_size",
        "%dynamic_smem_size",
        "%current_graph_exec",
        "%is_explicit_cluster",
        "%clusterid",
    ];
    const FAMILIES: [&str; 6] =
        ["%lanemask_", "%cluster_", "%nclusterid", "%envreg", "%pm", "%reserved_smem"];
    let root = name.split('.').next().unwrap_or_default();
    ROOTS.contains(&root) || FAMILIES.iter().any(|f| root.starts_with(f))
}

fn entry_facts(function: &Function) -> EntryFacts {
    let param = |v: &Variable| ParamFacts {
        name: v.name.clone(),
        align: v.align,
        kind: ParamKind::of(v),
        bytes: u32::try_from(v.bytes()).unwrap_or(u32::MAX),
    };
    EntryFacts {
        name: function.name.clone(),
        params: function.params.iter().map(param).collect(),
        maxntid: function.directives.maxntid,
        reqntid: function.directives.reqntid,
        cluster: function.directives.cluster,
        static_shared_bytes: function.body.as_ref().map_or(0, shared_bytes),
    }
}

fn shared_bytes(scope: &Scope) -> u64 {
    scope.statements.iter().fold(0, |sum, statement| match statement {
        Statement::Variable(v) if v.space == Space::Shared => sum + v.bytes(),
        Statement::Scope(inner) => sum + shared_bytes(inner),
        _ => sum,
    })
}

/// Root and operand types of `mma`, `wmma.mma`, `wgmma.mma_async` and `tcgen05.mma`.
fn mma_types(instruction: &Instruction) -> Option<String> {
    const ROOTS: [&str; 5] = ["mma", "mma.sp", "wmma", "wgmma", "tcgen05"];
    let root = instruction.root().split("::").next().unwrap_or_default();
    if !ROOTS.contains(&root) || !instruction.op.contains("mma") {
        return None;
    }
    let is_mma = root == "mma" || instruction.modifiers().any(|m| m.starts_with("mma"));
    let is_type = |m: &&str| {
        m.strip_prefix(['f', 's', 'u', 'b', 'e', 't', 'k'])
            .is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit() || c == 'f'))
    };
    let types: Vec<&str> = instruction.modifiers().filter(is_type).collect();
    is_mma.then(|| format!("{root} {}", types.join(".")))
}

/// Modifiers and roots that steer caches.
fn cache_hints(instruction: &Instruction) -> Vec<String> {
    const ROOTS: [&str; 4] = ["createpolicy", "discard", "applypriority", "prefetch"];
    let mut hints: Vec<String> = instruction
        .modifiers()
        .filter(|m| m.starts_with("L1::") || m.starts_with("L2::"))
        .map(str::to_owned)
        .collect();
    if ROOTS.contains(&instruction.root()) {
        hints.push(instruction.root().to_owned());
    }
    hints
}

/// The text without comments, `.loc`, `.file` and blank lines, with runs of blanks as one: equal
/// for builds that differ only in debug information and layout. A line is dropped only if the
/// directive is all of it: whatever else stands there is part of the program.
pub fn normalised_text(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    for line in strip_comments(ptx).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || is_debug_line(&words) {
            continue;
        }
        out.push_str(&words.join(" "));
        out.push('\n');
    }
    out
}

/// `.loc F L C[, function_name S, inlined_at F L C]` or `.file N "path"`, and nothing more.
fn is_debug_line(words: &[&str]) -> bool {
    let number = |word: &&str| word.trim_end_matches(',').parse::<u32>().is_ok();
    match words {
        [".loc", a, b, c] => [a, b, c].into_iter().all(number),
        [".loc", a, b, c, "function_name", name, "inlined_at", d, e, f] => {
            let label = name.trim_end_matches(',').chars();
            let plain = |c: char| c.is_ascii_alphanumeric() || "$_+".contains(c);
            [a, b, c, d, e, f].into_iter().all(number) && label.clone().all(plain)
        }
        [".file", index, path @ ..] => {
            let path = path.join(" ");
            number(index)
                && path.starts_with('"')
                && path.ends_with('"')
                && path.matches('"').count() == 2
        }
        _ => false,
    }
}

/// Replaces comments by a blank, leaving strings alone.
fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/']) {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let (kept, len) = if tail.starts_with("//") {
            ("", tail.find('\n').unwrap_or(tail.len()))
        } else if let Some(inner) = tail.strip_prefix("/*") {
            (" ", inner.find("*/").map_or(tail.len(), |end| end + 4))
        } else if let Some(inner) = tail.strip_prefix('"') {
            let end = inner.find(['"', '\n']).map_or(tail.len(), |end| end + 2);
            (&tail[..end], end)
        } else {
            ("/", 1)
        };
        out.push_str(kept);
        rest = &tail[len..];
    }
    out.push_str(rest);
    out
}
