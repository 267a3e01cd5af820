//! Names and slots while one function is decoded: scopes, registers, constants, labels.
//!
//! Knows nothing of opcodes; `decode` and its siblings ask here for operand slots.

use std::collections::HashMap;
use std::sync::Arc;

use super::ir::{Base, Class, Constant, Inst, MemorySpace, Op, Origin, Reg, Slot, align_up};
use super::literals::{immediate32, immediate64, special};
use super::symbols::{Symbol, Symbols};
use crate::machine::address::PARAM_WINDOW;
use crate::syntax::{Immediate, Instruction, Operand, Registers, ScalarType, Scope, Statement};

/// Why one instruction was turned down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reject {
    /// Legal or not, we cannot run it.
    Unsupported,
    /// It cannot be meant.
    Malformed(String),
}

pub(super) type Decoded<T> = Result<T, Reject>;

pub(super) fn malformed<T>(reason: impl Into<String>) -> Decoded<T> {
    Err(Reject::Malformed(reason.into()))
}

/// Code before block layout.
#[derive(Debug)]
pub(super) enum Flat {
    Label(u32),
    Code(Inst, Origin),
}

/// Constant slots of one bank.
type Constants = Vec<(Slot, Constant)>;

/// What the braces of one scope declare.
#[derive(Debug, Default)]
struct Names {
    registers: HashMap<Arc<str>, Reg>,
    families: Vec<(String, u32, ScalarType)>,
    labels: HashMap<String, u32>,
    variables: HashMap<String, Place>,
    /// Parameter bytes in use before this scope.
    param_mark: u32,
}

/// Where a body-scope variable lives.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    EntryParam(u32),
    FrameParam(u32),
    Local(u32),
    Module(Symbol),
}

/// Banks filled so far and the code emitted so far.
#[derive(Debug)]
pub(super) struct Builder<'m> {
    pub(super) symbols: &'m mut Symbols,
    scopes: Vec<Names>,
    pub(super) words: u32,
    pub(super) longs: u32,
    pub(super) preds: u32,
    word_constants: HashMap<Constant, Slot>,
    long_constants: HashMap<Constant, Slot>,
    pred_constants: HashMap<bool, Slot>,
    labels: u32,
    pub(super) flat: Vec<Flat>,
    param_bytes: u32,
    pub(super) param_bytes_max: u32,
    pub(super) local_bytes: u32,
    pub(super) shared: Vec<u32>,
    pub(super) calls: Vec<u32>,
    pub(super) communicates: bool,
    origin: Option<Origin>,
}

impl<'m> Builder<'m> {
    pub(super) fn new(symbols: &'m mut Symbols) -> Builder<'m> {
        Builder {
            symbols,
            scopes: Vec::new(),
            words: 0,
            longs: 0,
            preds: 0,
            word_constants: HashMap::new(),
            long_constants: HashMap::new(),
            pred_constants: HashMap::new(),
            labels: 0,
            flat: Vec::new(),
            param_bytes: 0,
            param_bytes_max: 0,
            local_bytes: 0,
            shared: Vec::new(),
            calls: Vec::new(),
            communicates: false,
            origin: None,
        }
    }

    /// Opens a scope and declares its labels, which may be used before they stand.
    pub(super) fn enter(&mut self, scope: &Scope) {
        let mut names = Names { param_mark: self.param_bytes, ..Names::default() };
        for statement in &scope.statements {
            if let Statement::Label(label) = statement {
                names.labels.insert(label.clone(), self.labels);
                self.labels += 1;
            }
        }
        self.scopes.push(names);
    }

    /// Closes a scope; its call parameters can be overwritten from now on.
    pub(super) fn leave(&mut self) {
        if let Some(names) = self.scopes.pop() {
            self.param_bytes = names.param_mark;
        }
    }

    /// A label that no text names.
    pub(super) fn fresh_label(&mut self) -> u32 {
        self.labels += 1;
        self.labels - 1
    }

    pub(super) fn label(&self, name: &str) -> Decoded<u32> {
        match self.scopes.iter().rev().find_map(|s| s.labels.get(name)) {
            Some(label) => Ok(*label),
            None => malformed(format!("label `{name}` is not defined")),
        }
    }

    pub(super) fn declare_registers(&mut self, registers: &Registers) {
        for (name, family) in &registers.names {
            match family {
                Some(count) => {
                    if let Some(scope) = self.scopes.last_mut() {
                        scope.families.push((name.clone(), *count, registers.ty));
                    }
                }
                None => {
                    if let Some(reg) = self.new_register(registers.ty)
                        && let Some(scope) = self.scopes.last_mut()
                    {
                        scope.registers.insert(name.as_str().into(), reg);
                    }
                }
            }
        }
    }

    pub(super) fn declare_variable(&mut self, name: &str, place: Place) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.variables.insert(name.to_owned(), place);
        }
    }

    /// Room in the frame's parameter area.
    pub(super) fn reserve_param(&mut self, bytes: u32, align: u32) -> u32 {
        let start = align_up(self.param_bytes, align.clamp(1, 128));
        self.param_bytes = start.saturating_add(bytes);
        self.param_bytes_max = self.param_bytes_max.max(self.param_bytes);
        start
    }

    /// Room in local memory.
    pub(super) fn reserve_local(&mut self, bytes: u32, align: u32) -> u32 {
        let start = align_up(self.local_bytes, align.clamp(1, 128));
        self.local_bytes = start.saturating_add(bytes);
        start
    }

    fn new_register(&mut self, ty: ScalarType) -> Option<Reg> {
        Some(match (ty, ty.bytes()) {
            (ScalarType::Pred, _) => Reg::Pred(self.new_pred()),
            (ScalarType::Opaque, _) => return None,
            (_, 8) => Reg::Long(self.new_long()),
            (_, 4) => Reg::Word { slot: self.new_word(), narrow: false },
            (_, 1 | 2) => Reg::Word { slot: self.new_word(), narrow: true },
            _ => return None,
        })
    }

    // The caps on declared registers and text keep these far below the slot limit, except for
    // constants; `FunctionCode` is refused when a count exceeds it.
    pub(super) fn new_word(&mut self) -> Slot {
        self.words += 1;
        (self.words - 1) as Slot
    }

    pub(super) fn new_long(&mut self) -> Slot {
        self.longs += 1;
        (self.longs - 1) as Slot
    }

    pub(super) fn new_pred(&mut self) -> Slot {
        self.preds += 1;
        (self.preds - 1) as Slot
    }

    /// The register of that name.
    pub(super) fn register(&mut self, name: &Arc<str>) -> Decoded<Reg> {
        if &**name == "_" {
            return Ok(Reg::Sink);
        }
        self.find_register(name)
            .map_or_else(|| malformed(format!("`{name}` is not a declared register")), Ok)
    }

    fn find_register(&mut self, name: &Arc<str>) -> Option<Reg> {
        for index in (0..self.scopes.len()).rev() {
            if let Some(reg) = self.scopes[index].registers.get(name) {
                return Some(*reg);
            }
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let number: Option<u32> = name[stem.len()..].parse().ok();
            let family = self.scopes[index]
                .families
                .iter()
                .find(|(prefix, count, _)| prefix == stem && number.is_some_and(|n| n < *count));
            if let Some((_, _, ty)) = family {
                let reg = self.new_register(*ty)?;
                self.scopes[index].registers.insert(Arc::clone(name), reg);
                return Some(reg);
            }
        }
        None
    }

    pub(super) fn place(&self, name: &str) -> Option<Place> {
        let local = self.scopes.iter().rev().find_map(|s| s.variables.get(name).copied());
        local.or_else(|| self.symbols.get(name).map(Place::Module))
    }

    pub(super) fn word_constant(&mut self, constant: Constant) -> Slot {
        if let Some(slot) = self.word_constants.get(&constant) {
            return *slot;
        }
        let slot = self.new_word();
        self.word_constants.insert(constant, slot);
        slot
    }

    pub(super) fn long_constant(&mut self, constant: Constant) -> Slot {
        if let Some(slot) = self.long_constants.get(&constant) {
            return *slot;
        }
        let slot = self.new_long();
        self.long_constants.insert(constant, slot);
        slot
    }

    pub(super) fn pred_constant(&mut self, value: bool) -> Slot {
        if let Some(slot) = self.pred_constants.get(&value) {
            return *slot;
        }
        let slot = self.new_pred();
        self.pred_constants.insert(value, slot);
        slot
    }

    /// All constants in a fixed order: words, longs, predicates.
    pub(super) fn constants(&self) -> (Constants, Constants, Vec<(Slot, bool)>) {
        let sorted = |map: &HashMap<Constant, Slot>| {
            let mut list: Vec<_> = map.iter().map(|(c, s)| (*s, *c)).collect();
            list.sort_unstable_by_key(|(slot, _)| *slot);
            list
        };
        let mut preds: Vec<_> = self.pred_constants.iter().map(|(c, s)| (*s, *c)).collect();
        preds.sort_unstable();
        (sorted(&self.word_constants), sorted(&self.long_constants), preds)
    }

    /// The address of a symbol plus an offset, as a constant.
    pub(super) fn symbol_constant(&mut self, name: &str, offset: i64) -> Decoded<Constant> {
        match self.place(name) {
            Some(Place::EntryParam(at) | Place::FrameParam(at)) => {
                Ok(Constant::Value(u64::from(at).wrapping_add_signed(offset)))
            }
            Some(Place::Local(at)) => Ok(Constant::Local(i64::from(at).wrapping_add(offset))),
            Some(Place::Module(Symbol::Variable(index))) => Ok(Constant::Variable(index, offset)),
            Some(Place::Module(Symbol::Shared(index))) => {
                self.use_shared(index);
                Ok(Constant::Shared(index, offset))
            }
            Some(Place::Module(Symbol::Function(_))) => Err(Reject::Unsupported),
            None => malformed(format!("`{name}` is not declared")),
        }
    }

    fn use_shared(&mut self, index: u32) {
        if !self.shared.contains(&index) {
            self.shared.push(index);
        }
    }

    /// A source operand of the 32-bit bank; `bits` of 16 cuts immediates.
    pub(super) fn word(&mut self, operand: &Operand, bits: u32) -> Decoded<Slot> {
        match operand {
            Operand::Name(name) => {
                if let Some(special) = special(name)? {
                    return Ok(self.word_constant(Constant::Special(special)));
                }
                match self.find_register(name) {
                    Some(Reg::Word { slot, .. }) => Ok(slot),
                    Some(_) => malformed(format!("`{name}` is not a 32-bit register")),
                    None => {
                        let constant = self.symbol_constant(name, 0)?;
                        Ok(self.word_constant(constant))
                    }
                }
            }
            Operand::Offset(name, offset) => {
                let constant = self.symbol_constant(name, *offset)?;
                Ok(self.word_constant(constant))
            }
            Operand::Number(number) => {
                let mask = if bits == 16 { 0xffff } else { 0xffff_ffff };
                Ok(self.word_constant(Constant::Value(immediate32(*number) & mask)))
            }
            _ => malformed("expected a register or number"),
        }
    }

    /// A source operand of the 64-bit bank.
    pub(super) fn long(&mut self, operand: &Operand) -> Decoded<Slot> {
        match operand {
            Operand::Name(name) => match self.find_register(name) {
                Some(Reg::Long(slot)) => Ok(slot),
                Some(_) => malformed(format!("`{name}` is not a 64-bit register")),
                None => {
                    let constant = match special(name)? {
                        Some(special) => Constant::Special(special),
                        None => self.symbol_constant(name, 0)?,
                    };
                    Ok(self.long_constant(constant))
                }
            },
            Operand::Offset(name, offset) => {
                let constant = self.symbol_constant(name, *offset)?;
                Ok(self.long_constant(constant))
            }
            Operand::Number(number) => {
                Ok(self.long_constant(Constant::Value(immediate64(*number))))
            }
            _ => malformed("expected a register or number"),
        }
    }

    /// A predicate source and whether it is negated.
    pub(super) fn pred(&mut self, operand: &Operand) -> Decoded<(Slot, bool)> {
        match operand {
            Operand::Name(name) | Operand::Not(name) => match self.register(name)? {
                Reg::Pred(slot) => Ok((slot, matches!(operand, Operand::Not(_)))),
                _ => malformed(format!("`{name}` is not a predicate")),
            },
            Operand::Number(Immediate::Int(value)) => Ok((self.pred_constant(*value != 0), false)),
            _ => malformed("expected a predicate"),
        }
    }

    /// A destination or a register source of any bank.
    pub(super) fn any(&mut self, operand: &Operand) -> Decoded<Reg> {
        match operand {
            Operand::Name(name) => self.register(name),
            _ => malformed("expected a register"),
        }
    }

    /// A source of the bank that the width asks for, constants included; wider registers are
    /// accepted as they are.
    pub(super) fn source(&mut self, operand: &Operand, bits: u32) -> Decoded<Reg> {
        if let Operand::Name(name) = operand
            && let Some(reg) = self.find_register(name)
        {
            return Ok(reg);
        }
        if bits == 64 {
            Ok(Reg::Long(self.long(operand)?))
        } else {
            Ok(Reg::Word { slot: self.word(operand, bits)?, narrow: false })
        }
    }

    pub(super) fn word_destination(&mut self, operand: &Operand) -> Decoded<Slot> {
        match self.any(operand)? {
            Reg::Word { slot, .. } => Ok(slot),
            Reg::Sink => Ok(self.new_word()),
            _ => malformed("expected a 32-bit destination"),
        }
    }

    pub(super) fn long_destination(&mut self, operand: &Operand) -> Decoded<Slot> {
        match self.any(operand)? {
            Reg::Long(slot) => Ok(slot),
            Reg::Sink => Ok(self.new_long()),
            _ => malformed("expected a 64-bit destination"),
        }
    }

    /// The base and offset of `[...]`, and the space if the name settles it.
    pub(super) fn address(
        &mut self,
        operand: &Operand,
        space: MemorySpace,
    ) -> Decoded<(Base, i64, MemorySpace)> {
        let Operand::Address { base, offset, more } = operand else {
            return malformed("expected an address in brackets");
        };
        if !more.is_empty() {
            return Err(Reject::Unsupported);
        }
        match &**base {
            Operand::Name(name) => self.named_address(name, *offset, space),
            Operand::Number(Immediate::Int(value)) => {
                let at = i64::try_from(*value).unwrap_or(0).wrapping_add(*offset);
                Ok((Base::None, at, space))
            }
            _ => malformed("expected a register or symbol as the base of an address"),
        }
    }

    fn named_address(
        &mut self,
        name: &Arc<str>,
        offset: i64,
        space: MemorySpace,
    ) -> Decoded<(Base, i64, MemorySpace)> {
        match self.find_register(name) {
            Some(Reg::Word { slot, .. }) => return Ok((Base::Word(slot), offset, space)),
            Some(Reg::Long(slot)) => return Ok((Base::Long(slot), offset, space)),
            Some(_) => return malformed(format!("`{name}` cannot be an address")),
            None => {}
        }
        match self.place(name) {
            Some(Place::EntryParam(at)) => {
                let space_found = if space == MemorySpace::Generic {
                    return Ok((
                        Base::None,
                        (PARAM_WINDOW as i64).wrapping_add(i64::from(at)).wrapping_add(offset),
                        space,
                    ));
                } else {
                    MemorySpace::EntryParam
                };
                Ok((Base::None, i64::from(at).wrapping_add(offset), space_found))
            }
            Some(Place::FrameParam(at)) => {
                Ok((Base::None, i64::from(at).wrapping_add(offset), MemorySpace::FrameParam))
            }
            Some(_) => {
                let constant = self.symbol_constant(name, 0)?;
                Ok((Base::Long(self.long_constant(constant)), offset, space))
            }
            None => malformed(format!("`{name}` is not declared")),
        }
    }

    /// Sets what following [`Builder::emit`] calls are attributed to.
    pub(super) fn set_origin(&mut self, instruction: &Instruction) {
        self.origin = Some(Origin {
            line: instruction.line,
            location: instruction.location,
            text: super::render::instruction(instruction).into(),
        });
    }

    /// Appends an instruction.
    pub(super) fn emit(&mut self, op: Op, class: Class, guard: Option<(Slot, bool)>) {
        if let Some(origin) = &self.origin {
            self.flat.push(Flat::Code(Inst { op, class, guard }, origin.clone()));
        }
    }

    pub(super) fn place_label(&mut self, label: u32) {
        self.flat.push(Flat::Label(label));
    }
}
