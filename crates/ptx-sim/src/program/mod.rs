//! From a module to decoded kernels: everything that is not supported is found here.
//!
//! `builder` keeps names and slots, `decode` and its siblings know the opcodes, `layout` orders
//! the blocks, `function` puts one function together. The result is described in `ir`.

mod builder;
mod decode;
mod decode_async;
mod decode_control;
mod decode_convert;
mod decode_float;
mod decode_integer;
mod decode_matrix;
mod decode_memory;
mod decode_warp;
mod decode_wmma;
mod function;
pub(crate) mod ir;
mod ir_alu;
pub(crate) mod ir_matrix;
mod ir_warp;
mod layout;
mod literals;
mod modifiers;
mod render;
mod symbols;

use crate::limits::PARAM_BYTES_MAX;
use std::collections::HashMap;
use std::sync::Arc;

use crate::report::Location;
use crate::syntax::{Function, FunctionKind, Module};
use ir::{EntryParam, Kernel, ProgramData, align_up};
use symbols::Symbols;

/// Decoded kernels, ready to launch. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) data: Arc<ProgramData>,
}

/// Why a kernel cannot be simulated. [`DecodeError::Unsupported`] does not say that the kernel is
/// wrong; it is a third verdict beside pass and fail.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// An instruction, operand or directive that the simulator lacks.
    #[error("kernel `{kernel}` uses `{instruction}` (ptx line {ptx_line}), which is not simulated")]
    Unsupported {
        /// The instruction as text.
        instruction: String,
        /// One-based line of the PTX text.
        ptx_line: u32,
        /// CUDA source position, if known.
        source_location: Option<Location>,
        /// The requested entry.
        kernel: String,
    },
    /// Text that parses but cannot be meant, such as an undeclared register.
    #[error("kernel `{kernel}`, ptx line {ptx_line}: {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
        /// One-based line of the PTX text.
        ptx_line: u32,
        /// The requested entry.
        kernel: String,
    },
    /// The module has no entry of that name.
    #[error("the module has no entry `{entry}`")]
    NoEntry {
        /// Name asked for.
        entry: String,
    },
}

impl Program {
    /// Decodes the named entries and the functions they call.
    ///
    /// # Errors
    /// The first thing that keeps one of the entries from being simulated.
    pub fn decode(module: &Module, entries: &[&str]) -> Result<Program, DecodeError> {
        let mut symbols = Symbols::of(module).map_err(|(reason, ptx_line)| {
            let kernel = entries.first().copied().unwrap_or_default().to_owned();
            DecodeError::Malformed { reason, ptx_line, kernel }
        })?;
        let mut data = ProgramData {
            files: module.files.iter().map(|f| (f.index, f.path.clone())).collect(),
            ..ProgramData::default()
        };
        let mut decoded: HashMap<u32, u32> = HashMap::new();
        for entry in entries {
            let function = entry_function(module, entry)?;
            let root = decode_reachable(module, function, &mut symbols, &mut data, &mut decoded)?;
            let kernel = kernel(&data, module, function, root, &symbols);
            if kernel.param_bytes > PARAM_BYTES_MAX {
                return Err(DecodeError::Malformed {
                    reason: format!("parameters of more than {PARAM_BYTES_MAX} bytes"),
                    ptx_line: module.functions.get(function as usize).map_or(0, |f| f.line),
                    kernel: kernel.name,
                });
            }
            data.kernels.push(kernel);
        }
        data.variables = symbols.variables;
        data.shared = symbols.shared;
        Ok(Program { data: Arc::new(data) })
    }

    /// Names of the decoded entries.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.data.kernels.iter().map(|k| k.name.as_str())
    }

    /// Static shared memory of a decoded entry, in bytes.
    pub fn static_shared_bytes(&self, entry: &str) -> Option<u32> {
        self.data.kernels.iter().find(|k| k.name == entry).map(|k| k.static_shared)
    }
}

fn entry_function(module: &Module, entry: &str) -> Result<u32, DecodeError> {
    let is_entry =
        |f: &Function| f.name == entry && f.kind == FunctionKind::Entry && f.body.is_some();
    match module.functions.iter().position(is_entry) {
        Some(index) => Ok(index as u32),
        None => Err(DecodeError::NoEntry { entry: entry.to_owned() }),
    }
}

/// Decodes a function and all it calls; gives its index in the program.
fn decode_reachable(
    module: &Module,
    root: u32,
    symbols: &mut Symbols,
    data: &mut ProgramData,
    decoded: &mut HashMap<u32, u32>,
) -> Result<u32, DecodeError> {
    let kernel = module.functions.get(root as usize).map_or("", |f| &f.name);
    let mut work = vec![root];
    // `calls` and `Callee` hold module indices until the loop below translates them.
    let first_new = data.functions.len();
    while let Some(index) = work.pop() {
        if decoded.contains_key(&index) {
            continue;
        }
        let code = function::decode(module, index, symbols, kernel)?;
        decoded.insert(index, data.functions.len() as u32);
        work.extend(&code.calls);
        data.functions.push(code);
    }
    for code in data.functions.iter_mut().skip(first_new) {
        function::translate_calls(code, decoded);
    }
    Ok(decoded.get(&root).copied().unwrap_or(0))
}

/// Lays out parameters and shared memory of an entry.
fn kernel(
    data: &ProgramData,
    module: &Module,
    function: u32,
    root: u32,
    symbols: &Symbols,
) -> Kernel {
    let source = &module.functions[function as usize];
    let mut reachable = vec![root];
    let mut at = 0;
    while let Some(index) = reachable.get(at).copied() {
        at += 1;
        for callee in &data.functions[index as usize].calls {
            if !reachable.contains(callee) {
                reachable.push(*callee);
            }
        }
    }
    let functions = || reachable.iter().map(|f| &data.functions[*f as usize]);
    let mut used: Vec<u32> = functions().flat_map(|f| f.shared.iter().copied()).collect();
    used.sort_unstable();
    used.dedup();
    let (shared_offsets, static_shared, dynamic_align) = layout_shared(&used, symbols);
    let (params, param_bytes) = layout_params(source);
    Kernel {
        name: source.name.clone(),
        function: root,
        params,
        param_bytes,
        shared_offsets,
        static_shared,
        dynamic_align,
        maxntid: source.directives.maxntid,
        reqntid: source.directives.reqntid,
        communicates: functions().any(|f| f.communicates),
    }
}

/// Offsets of the shared variables; unsized ones all start where the sized ones end.
fn layout_shared(used: &[u32], symbols: &Symbols) -> (Vec<(u32, u32)>, u32, u32) {
    let variable = |index: &u32| &symbols.shared[*index as usize];
    let mut offsets = Vec::new();
    let mut end = 0_u32;
    for index in used.iter().filter(|i| variable(i).bytes > 0) {
        end = align_up(end, variable(index).align);
        offsets.push((*index, end));
        end = end.saturating_add(variable(index).bytes);
    }
    let unsized_ones = || used.iter().filter(|i| variable(i).bytes == 0);
    let align = unsized_ones().map(|i| variable(i).align).max().unwrap_or(1).max(16);
    let start = align_up(end, align);
    offsets.extend(unsized_ones().map(|index| (*index, start)));
    (offsets, end, align)
}

fn layout_params(source: &Function) -> (Vec<EntryParam>, u32) {
    let mut end = 0_u32;
    let mut params = Vec::new();
    for variable in &source.params {
        let bytes = variable.bytes().min(1 << 16) as u32;
        let offset = align_up(end, variable.align.clamp(1, 128));
        params.push(EntryParam { name: variable.name.clone(), offset, bytes });
        end = offset.saturating_add(bytes);
    }
    (params, end)
}
