//! The table of opcodes: which function decodes which root.

use super::builder::{Builder, Decoded, Reject, malformed};
use super::ir::{Alu, AluOp, Class, Op, Slot};
use super::modifiers::Modifiers;
use super::{
    decode_async, decode_control, decode_convert, decode_float, decode_integer, decode_matrix,
    decode_memory, decode_warp, decode_wmma,
};
use crate::syntax::{Instruction, Module, Operand};

/// One instruction while it is decoded.
pub(super) struct Ctx<'b, 'm, 'i> {
    pub(super) builder: &'b mut Builder<'m>,
    pub(super) module: &'i Module,
    pub(super) instruction: &'i Instruction,
    pub(super) guard: Option<(Slot, bool)>,
}

impl<'i> Ctx<'_, '_, 'i> {
    /// The n-th operand.
    pub(super) fn operand(&self, index: usize) -> Decoded<&'i Operand> {
        let operand = self.instruction.operands.get(index);
        operand.map_or_else(|| malformed(format!("operand {} is missing", index + 1)), Ok)
    }

    pub(super) fn count(&self) -> usize {
        self.instruction.operands.len()
    }

    pub(super) fn emit(&mut self, op: Op, class: Class) {
        self.builder.emit(op, class, self.guard);
    }

    pub(super) fn alu(&mut self, alu: Alu, class: Class) {
        self.emit(Op::Alu(alu), class);
    }
}

/// An operation whose unused slots are zero.
pub(super) fn alu(op: AluOp, flags: u16, d: Slot, a: Slot) -> Alu {
    Alu { op, flags, d, a, b: 0, c: 0, e: 0 }
}

/// Decodes one instruction and emits what it becomes.
pub(super) fn instruction(
    builder: &mut Builder<'_>,
    module: &Module,
    instruction: &Instruction,
) -> Decoded<()> {
    let guard = match &instruction.guard {
        None => None,
        Some(guard) => {
            let (slot, _) = builder.pred(&Operand::Name(guard.register.clone()))?;
            Some((slot, guard.negated))
        }
    };
    let (root, modifiers) = Modifiers::of(&instruction.op);
    let mut ctx = Ctx { builder, module, instruction, guard };
    if root == "bra" {
        return decode_control::branch(&mut ctx, modifiers);
    }
    if ctx.guard.is_some() && moves_control(root) {
        return guarded_control(&mut ctx, root, modifiers);
    }
    dispatch(&mut ctx, root, modifiers)
}

/// Roots whose guard becomes a branch around them.
fn moves_control(root: &str) -> bool {
    matches!(
        root,
        "ret"
            | "exit"
            | "trap"
            | "brkpt"
            | "call"
            | "bar"
            | "barrier"
            | "shfl"
            | "vote"
            | "match"
            | "redux"
            | "elect"
            | "activemask"
            | "mma"
            | "wmma"
            | "ldmatrix"
            | "stmatrix"
            | "movmatrix"
    )
}

fn guarded_control(ctx: &mut Ctx<'_, '_, '_>, root: &str, modifiers: Modifiers<'_>) -> Decoded<()> {
    let label = ctx.builder.fresh_label();
    if let Some((slot, negated)) = ctx.guard.take() {
        ctx.builder.emit(Op::Branch(label), Class::Inserted, Some((slot, !negated)));
    }
    dispatch(ctx, root, modifiers)?;
    ctx.builder.place_label(label);
    Ok(())
}

fn dispatch(ctx: &mut Ctx<'_, '_, '_>, root: &str, modifiers: Modifiers<'_>) -> Decoded<()> {
    match root {
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "min" | "max" | "neg" | "abs"
        | "addc" | "subc" | "madc" | "mul24" | "mad24" | "sad" => {
            decode_integer::arithmetic(ctx, root, modifiers)
        }
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe"
        | "bfi" | "popc" | "clz" | "brev" | "bfind" | "bmsk" | "szext" | "fns" | "dp4a"
        | "dp2a" | "vabsdiff4" => decode_integer::bits(ctx, root, modifiers),
        "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
        | "testp" => decode_float::function(ctx, root, modifiers),
        "setp" | "set" => decode_convert::compare(ctx, root, modifiers),
        "selp" => decode_convert::select(ctx, modifiers),
        "cvt" => decode_convert::convert(ctx, modifiers),
        "mov" => decode_convert::move_value(ctx, modifiers),
        "cvta" | "isspacep" => decode_memory::address_space(ctx, root, modifiers),
        "ld" | "ldu" => decode_memory::load(ctx, modifiers),
        "st" => decode_memory::store(ctx, modifiers),
        "atom" | "red" => decode_memory::atomic(ctx, root, modifiers),
        "shfl" | "vote" | "match" | "redux" | "elect" | "activemask" => {
            decode_warp::collective(ctx, root, modifiers)
        }
        "cp" => decode_async::copy(ctx, modifiers),
        "mma" | "ldmatrix" | "stmatrix" | "movmatrix" => {
            decode_matrix::matrix(ctx, root, modifiers)
        }
        "wmma" => decode_wmma::wmma(ctx, modifiers),
        "bar" | "barrier" => decode_warp::barrier(ctx, modifiers),
        "ret" | "exit" | "trap" | "brkpt" | "call" => {
            decode_control::transfer(ctx, root, modifiers)
        }
        "membar" | "fence" | "prefetch" | "prefetchu" | "nanosleep" | "createpolicy"
        | "applypriority" | "pmevent" | "griddepcontrol" => decode_control::hint(ctx, root),
        _ => Err(Reject::Unsupported),
    }
}
