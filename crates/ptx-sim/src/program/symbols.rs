//! Module-level symbols of the functions that are decoded: variables, shared arrays, functions.

use crate::limits::VARIABLE_BYTES_MAX;
use std::collections::HashMap;

use super::ir::{ModuleVariable, SharedVariable};
use crate::syntax::{Immediate, Init, Module, Space, Variable};

/// What a module-level name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol {
    /// Index of a `.global` or `.const` variable.
    Variable(u32),
    /// Index of a `.shared` variable.
    Shared(u32),
    /// Index into the module's functions.
    Function(u32),
}

/// All symbols met so far.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    names: HashMap<String, Symbol>,
    pub(super) variables: Vec<ModuleVariable>,
    pub(super) shared: Vec<SharedVariable>,
}

impl Symbols {
    /// The module-scope symbols.
    pub(super) fn of(module: &Module) -> Result<Symbols, (String, u32)> {
        let mut symbols = Symbols::default();
        for (index, function) in module.functions.iter().enumerate() {
            symbols.names.insert(function.name.clone(), Symbol::Function(index as u32));
        }
        for variable in &module.variables {
            if let Some(symbol) = symbols.declare(variable)? {
                symbols.names.insert(variable.name.clone(), symbol);
            }
        }
        for variable in &module.variables {
            symbols.initialise(variable)?;
        }
        Ok(symbols)
    }

    pub(super) fn get(&self, name: &str) -> Option<Symbol> {
        self.names.get(name).copied()
    }

    /// Makes room for a variable; parameters and locals give `None`.
    pub(super) fn declare(&mut self, variable: &Variable) -> Result<Option<Symbol>, (String, u32)> {
        let bytes = variable.bytes();
        let name = variable.name.clone();
        if bytes > VARIABLE_BYTES_MAX {
            return Err((format!("`{name}` of {bytes} bytes is too large"), variable.line));
        }
        Ok(match variable.space {
            Space::Global | Space::Const => {
                let constant = variable.space == Space::Const;
                let image = vec![0; bytes as usize];
                self.variables.push(ModuleVariable { name, constant, image, patches: vec![] });
                Some(Symbol::Variable(self.variables.len() as u32 - 1))
            }
            Space::Shared => {
                let align = variable.align.min(1024);
                self.shared.push(SharedVariable { name, align, bytes: bytes as u32 });
                Some(Symbol::Shared(self.shared.len() as u32 - 1))
            }
            Space::Local | Space::Param => None,
        })
    }

    /// Fills in the initial values of a declared variable.
    fn initialise(&mut self, variable: &Variable) -> Result<(), (String, u32)> {
        let Some(Symbol::Variable(index)) = self.get(&variable.name) else { return Ok(()) };
        let width = variable.ty.bytes() as usize;
        for (element, init) in variable.init.iter().enumerate() {
            let start = element * width;
            let patch = match init {
                Init::Number(number) => {
                    let value = number_bytes(*number, width);
                    let target = self.variables.get_mut(index as usize);
                    let room = target.and_then(|v| v.image.get_mut(start..start + width));
                    match (room, value.get(..width)) {
                        (Some(room), Some(value)) => room.copy_from_slice(value),
                        _ => {
                            let name = &variable.name;
                            let reason = format!("`{name}` has more initial values than elements");
                            return Err((reason, variable.line));
                        }
                    }
                    continue;
                }
                Init::Address { symbol, offset, generic: _ } => match self.get(symbol) {
                    Some(Symbol::Variable(target)) => {
                        (start as u32, width.min(8) as u8, target, *offset)
                    }
                    // Function pointers and shared addresses: only an indirect use would matter.
                    _ => continue,
                },
            };
            if let Some(target) = self.variables.get_mut(index as usize) {
                target.patches.push(patch);
            }
        }
        Ok(())
    }
}

/// Little-endian bytes of an initial value.
fn number_bytes(number: Immediate, width: usize) -> [u8; 16] {
    let value = match number {
        Immediate::Int(value) => value as u128,
        Immediate::F32(bits) if width == 8 => u128::from(f64::from(f32::from_bits(bits)).to_bits()),
        Immediate::F32(bits) => u128::from(bits),
        Immediate::F64(bits) if width == 4 => u128::from((f64::from_bits(bits) as f32).to_bits()),
        Immediate::F64(bits) => u128::from(bits),
    };
    value.to_le_bytes()
}
