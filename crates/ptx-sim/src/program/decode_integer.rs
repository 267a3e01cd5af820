//! Integer arithmetic and bit operations; float forms of shared roots go on to `decode_float`.

use super::builder::{Decoded, Reject, malformed};
use super::decode::{Ctx, alu};
use super::decode_float;
use super::ir::{Alu, AluOp, Carry, CarryKind, Class, Op, Slot, flag};
use super::modifiers::{Kind, Modifiers, Ty};

/// Roots that have integer and float forms.
pub(super) fn arithmetic(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    let ty = modifiers.take_type()?;
    if !ty.is_integer() {
        return decode_float::arithmetic(ctx, root, modifiers, ty);
    }
    if ty.bits < 16 || ty.bits > 64 {
        return Err(Reject::Unsupported);
    }
    let carry_out = modifiers.take("cc");
    let carry_in = matches!(root, "addc" | "subc" | "madc");
    if carry_in || carry_out {
        return carry(ctx, root, modifiers, ty, [carry_in, carry_out]);
    }
    match root {
        "mul" | "mad" => multiply(ctx, root == "mad", modifiers, ty),
        "mul24" | "mad24" => multiply24(ctx, root, modifiers, ty),
        _ => simple(ctx, root, modifiers, ty),
    }
}

fn simple(ctx: &mut Ctx<'_, '_, '_>, root: &str, modifiers: Modifiers<'_>, ty: Ty) -> Decoded<()> {
    modifiers.finish()?;
    let long = ty.bits == 64;
    let op = integer_op(root, ty.is_signed(), long).ok_or(Reject::Unsupported)?;
    let sources = match root {
        "neg" | "abs" | "not" | "brev" => 1,
        "sad" => 3,
        _ => 2,
    };
    emit_integer(ctx, op, ty, sources)
}

/// Operation of a root by signedness and bank.
fn integer_op(root: &str, signed: bool, long: bool) -> Option<AluOp> {
    use AluOp::*;
    let table = match root {
        "add" => [AddW, AddW, AddL, AddL],
        "sub" => [SubW, SubW, SubL, SubL],
        "div" => [DivUW, DivSW, DivUL, DivSL],
        "rem" => [RemUW, RemSW, RemUL, RemSL],
        "min" => [MinUW, MinSW, MinUL, MinSL],
        "max" => [MaxUW, MaxSW, MaxUL, MaxSL],
        "neg" => [NegW, NegW, NegL, NegL],
        "abs" => [AbsW, AbsW, AbsL, AbsL],
        "sad" if !long => [SadUW, SadSW, SadUW, SadSW],
        "and" => [AndW, AndW, AndL, AndL],
        "or" => [OrW, OrW, OrL, OrL],
        "xor" => [XorW, XorW, XorL, XorL],
        "not" => [NotW, NotW, NotL, NotL],
        "mullo" => [MulLoW, MulLoW, MulLoL, MulLoL],
        "mulhi" => [MulHiUW, MulHiSW, MulHiUL, MulHiSL],
        "madlo" => [MadLoW, MadLoW, MadLoL, MadLoL],
        "madhi" => [MadHiUW, MadHiSW, MadHiUL, MadHiSL],
        "brev" => [BrevW, BrevW, BrevL, BrevL],
        _ => return None,
    };
    Some(table[usize::from(signed) + 2 * usize::from(long)])
}

/// Emits an operation whose operands all have the instruction's type.
fn emit_integer(ctx: &mut Ctx<'_, '_, '_>, op: AluOp, ty: Ty, sources: usize) -> Decoded<()> {
    let mut slots = [0; 3];
    for (index, slot) in slots.iter_mut().enumerate().take(sources) {
        *slot = value(ctx, index + 1, ty.bits)?;
    }
    let d = destination(ctx, 0, ty.bits)?;
    let [a, b, c] = slots;
    ctx.alu(Alu { op, flags: ty.integer_flags(), d, a, b, c, e: 0 }, Class::Integer);
    Ok(())
}

/// A source slot of the bank that the width asks for.
pub(super) fn value(ctx: &mut Ctx<'_, '_, '_>, index: usize, bits: u32) -> Decoded<Slot> {
    let operand = ctx.operand(index)?;
    if bits == 64 { ctx.builder.long(operand) } else { ctx.builder.word(operand, bits) }
}

/// A destination slot of the bank that the width asks for.
pub(super) fn destination(ctx: &mut Ctx<'_, '_, '_>, index: usize, bits: u32) -> Decoded<Slot> {
    let operand = ctx.operand(index)?;
    if bits == 64 {
        ctx.builder.long_destination(operand)
    } else {
        ctx.builder.word_destination(operand)
    }
}

fn multiply(
    ctx: &mut Ctx<'_, '_, '_>,
    add: bool,
    mut modifiers: Modifiers<'_>,
    ty: Ty,
) -> Decoded<()> {
    let part = modifiers.take_any(&["lo", "hi", "wide"]).ok_or(Reject::Unsupported)?;
    modifiers.finish()?;
    let sources = if add { 3 } else { 2 };
    match (part, ty.bits) {
        ("lo", _) => {
            let root = if add { "madlo" } else { "mullo" };
            let op = integer_op(root, false, ty.bits == 64).ok_or(Reject::Unsupported)?;
            emit_integer(ctx, op, ty, sources)
        }
        ("hi", 16) if !add => emit_integer(ctx, AluOp::MulHi16, ty, 2),
        ("hi", 32 | 64) => {
            let root = if add { "madhi" } else { "mulhi" };
            let op = integer_op(root, ty.is_signed(), ty.bits == 64).ok_or(Reject::Unsupported)?;
            emit_integer(ctx, op, ty, sources)
        }
        ("wide", 32) => {
            let op = match (add, ty.is_signed()) {
                (false, false) => AluOp::MulWideU,
                (false, true) => AluOp::MulWideS,
                (true, false) => AluOp::MadWideU,
                (true, true) => AluOp::MadWideS,
            };
            let (a, b) = (value(ctx, 1, 32)?, value(ctx, 2, 32)?);
            let c = if add { value(ctx, 3, 64)? } else { 0 };
            let d = destination(ctx, 0, 64)?;
            ctx.alu(Alu { op, flags: 0, d, a, b, c, e: 0 }, Class::Integer);
            Ok(())
        }
        ("wide", 16) => wide16(ctx, add, ty),
        _ => Err(Reject::Unsupported),
    }
}

/// 16-bit factors, 32-bit result.
fn wide16(ctx: &mut Ctx<'_, '_, '_>, add: bool, ty: Ty) -> Decoded<()> {
    let flags = if ty.is_signed() { flag::SEXT16 } else { 0 };
    let (a, b) = (value(ctx, 1, 16)?, value(ctx, 2, 16)?);
    let d = destination(ctx, 0, 32)?;
    if !add {
        ctx.alu(Alu { op: AluOp::MulLoW, flags, d, a, b, c: 0, e: 0 }, Class::Integer);
        return Ok(());
    }
    let product = ctx.builder.new_word();
    ctx.alu(Alu { op: AluOp::MulLoW, flags, d: product, a, b, c: 0, e: 0 }, Class::Inserted);
    let c = value(ctx, 3, 32)?;
    ctx.alu(Alu { op: AluOp::AddW, flags: 0, d, a: product, b: c, c: 0, e: 0 }, Class::Integer);
    Ok(())
}

fn multiply24(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
    ty: Ty,
) -> Decoded<()> {
    let part = modifiers.take_any(&["lo", "hi"]).ok_or(Reject::Unsupported)?;
    modifiers.finish()?;
    let op = match (part, ty.is_signed()) {
        ("lo", true) => AluOp::Mul24LoS,
        ("lo", false) => AluOp::Mul24LoU,
        (_, true) => AluOp::Mul24HiS,
        (_, false) => AluOp::Mul24HiU,
    };
    let (a, b) = (value(ctx, 1, 32)?, value(ctx, 2, 32)?);
    let d = destination(ctx, 0, 32)?;
    if root == "mul24" {
        ctx.alu(Alu { op, flags: 0, d, a, b, c: 0, e: 0 }, Class::Integer);
        return Ok(());
    }
    let product = ctx.builder.new_word();
    ctx.alu(Alu { op, flags: 0, d: product, a, b, c: 0, e: 0 }, Class::Inserted);
    let c = value(ctx, 3, 32)?;
    ctx.alu(Alu { op: AluOp::AddW, flags: 0, d, a: product, b: c, c: 0, e: 0 }, Class::Integer);
    Ok(())
}

fn carry(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
    ty: Ty,
    [carry_in, carry_out]: [bool; 2],
) -> Decoded<()> {
    let kind = match root {
        "add" | "addc" => CarryKind::Add,
        "sub" | "subc" => CarryKind::Sub,
        "mad" | "madc" => match modifiers.take_any(&["lo", "hi"]) {
            Some("lo") => CarryKind::MadLo,
            Some(_) => CarryKind::MadHi,
            None => return Err(Reject::Unsupported),
        },
        _ => return Err(Reject::Unsupported),
    };
    modifiers.finish()?;
    if ty.bits < 32 {
        return Err(Reject::Unsupported);
    }
    let is_mad = matches!(kind, CarryKind::MadLo | CarryKind::MadHi);
    let (a, b) = (value(ctx, 1, ty.bits)?, value(ctx, 2, ty.bits)?);
    let c = if is_mad { value(ctx, 3, ty.bits)? } else { 0 };
    let d = destination(ctx, 0, ty.bits)?;
    let wide = ty.bits == 64;
    let signed = ty.is_signed();
    let carry = Carry { kind, wide, signed, carry_in, carry_out, d, a, b, c };
    ctx.emit(Op::Carry(Box::new(carry)), Class::Integer);
    Ok(())
}

/// Logic, shifts, fields and counts.
pub(super) fn bits(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    match root {
        "shf" => return funnel(ctx, modifiers),
        "dp4a" | "dp2a" => return dot_product(ctx, root, modifiers),
        "vabsdiff4" => return absolute_difference(ctx, modifiers),
        _ => {}
    }
    let ty = modifiers.take_type()?;
    match root {
        "and" | "or" | "xor" | "not" | "brev" => logic(ctx, root, modifiers, ty),
        "shl" | "shr" => shift(ctx, root, modifiers, ty),
        "popc" | "clz" | "bfind" => count(ctx, root, modifiers, ty),
        "bfe" | "bfi" => field(ctx, root, modifiers, ty),
        "lop3" => {
            modifiers.finish()?;
            let table = immediate(ctx, 4)?;
            ternary(ctx, AluOp::Lop3, 0, (table & 0xff) as u16)
        }
        "prmt" => {
            const MODES: [&str; 6] = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"];
            let mode = modifiers.take_any(&MODES);
            let mode = mode.and_then(|m| MODES.iter().position(|k| *k == m)).map_or(0, |m| m + 1);
            modifiers.finish()?;
            ternary(ctx, AluOp::Prmt, 0, mode as u16)
        }
        "bmsk" | "szext" => {
            let wrap = modifiers.take_any(&["clamp", "wrap"]) == Some("wrap");
            modifiers.finish()?;
            let op = if root == "bmsk" { AluOp::Bmsk } else { AluOp::Szext };
            let (a, b) = (value(ctx, 1, 32)?, value(ctx, 2, 32)?);
            let d = destination(ctx, 0, 32)?;
            let e = u16::from(wrap) | u16::from(ty.is_signed()) << 1;
            ctx.alu(Alu { op, flags: 0, d, a, b, c: 0, e }, Class::Integer);
            Ok(())
        }
        "fns" => {
            modifiers.finish()?;
            ternary(ctx, AluOp::Fns, 0, 0)
        }
        _ => Err(Reject::Unsupported),
    }
}

fn immediate(ctx: &Ctx<'_, '_, '_>, index: usize) -> Decoded<i128> {
    use crate::syntax::{Immediate, Operand};
    match ctx.operand(index)? {
        Operand::Number(Immediate::Int(value)) => Ok(*value),
        _ => malformed("expected an integer literal"),
    }
}

fn ternary(ctx: &mut Ctx<'_, '_, '_>, op: AluOp, flags: u16, e: u16) -> Decoded<()> {
    let (a, b, c) = (value(ctx, 1, 32)?, value(ctx, 2, 32)?, value(ctx, 3, 32)?);
    let d = destination(ctx, 0, 32)?;
    ctx.alu(Alu { op, flags, d, a, b, c, e }, Class::Integer);
    Ok(())
}

fn logic(ctx: &mut Ctx<'_, '_, '_>, root: &str, modifiers: Modifiers<'_>, ty: Ty) -> Decoded<()> {
    if ty.kind != Kind::Pred {
        return simple(ctx, root, modifiers, Ty { kind: Kind::Bits, ..ty });
    }
    modifiers.finish()?;
    let op = match root {
        "and" => AluOp::AndP,
        "or" => AluOp::OrP,
        "xor" => AluOp::XorP,
        _ => AluOp::NotP,
    };
    let d = pred_destination(ctx, 0)?;
    let operand = ctx.operand(1)?;
    let (a, negated_a) = ctx.builder.pred(operand)?;
    let (b, negated_b) = if root == "not" {
        (0, false)
    } else {
        let operand = ctx.operand(2)?;
        ctx.builder.pred(operand)?
    };
    let e = u16::from(negated_a) | u16::from(negated_b) << 1;
    ctx.alu(Alu { op, flags: 0, d, a, b, c: 0, e }, Class::Integer);
    Ok(())
}

/// A predicate destination.
pub(super) fn pred_destination(ctx: &mut Ctx<'_, '_, '_>, index: usize) -> Decoded<Slot> {
    use super::ir::Reg;
    let operand = ctx.operand(index)?;
    match ctx.builder.any(operand)? {
        Reg::Pred(slot) => Ok(slot),
        Reg::Sink => Ok(ctx.builder.new_pred()),
        Reg::Word { .. } | Reg::Long(_) => malformed("expected a predicate destination"),
    }
}

fn shift(ctx: &mut Ctx<'_, '_, '_>, root: &str, modifiers: Modifiers<'_>, ty: Ty) -> Decoded<()> {
    modifiers.finish()?;
    let op = match (root, ty.bits == 64, ty.is_signed()) {
        ("shl", false, _) => AluOp::ShlW,
        ("shl", true, _) => AluOp::ShlL,
        (_, false, false) => AluOp::ShrUW,
        (_, false, true) => AluOp::ShrSW,
        (_, true, false) => AluOp::ShrUL,
        (_, true, true) => AluOp::ShrSL,
    };
    let a = value(ctx, 1, ty.bits)?;
    let b = value(ctx, 2, 32)?;
    let d = destination(ctx, 0, ty.bits)?;
    ctx.alu(Alu { op, flags: ty.integer_flags(), d, a, b, c: 0, e: 0 }, Class::Integer);
    Ok(())
}

/// Counts give a 32-bit result whatever the source.
fn count(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
    ty: Ty,
) -> Decoded<()> {
    let shift_amount = modifiers.take("shiftamt");
    modifiers.finish()?;
    let op = match (root, ty.bits, ty.is_signed()) {
        ("popc", 32, _) => AluOp::PopcW,
        ("popc", 64, _) => AluOp::PopcL,
        ("clz", 32, _) => AluOp::ClzW,
        ("clz", 64, _) => AluOp::ClzL,
        ("bfind", 32, false) => AluOp::BfindUW,
        ("bfind", 32, true) => AluOp::BfindSW,
        ("bfind", 64, false) => AluOp::BfindUL,
        ("bfind", 64, true) => AluOp::BfindSL,
        _ => return Err(Reject::Unsupported),
    };
    let a = value(ctx, 1, ty.bits)?;
    let d = destination(ctx, 0, 32)?;
    let e = u16::from(shift_amount);
    ctx.alu(Alu { e, ..alu(op, 0, d, a) }, Class::Integer);
    Ok(())
}

fn field(ctx: &mut Ctx<'_, '_, '_>, root: &str, modifiers: Modifiers<'_>, ty: Ty) -> Decoded<()> {
    modifiers.finish()?;
    let long = ty.bits == 64;
    let a = value(ctx, 1, ty.bits)?;
    let d = destination(ctx, 0, ty.bits)?;
    let slots = if root == "bfe" {
        let op = match (long, ty.is_signed()) {
            (false, false) => AluOp::BfeUW,
            (false, true) => AluOp::BfeSW,
            (true, false) => AluOp::BfeUL,
            (true, true) => AluOp::BfeSL,
        };
        let (b, c) = (value(ctx, 2, 32)?, value(ctx, 3, 32)?);
        Alu { b, c, ..alu(op, 0, d, a) }
    } else {
        let op = if long { AluOp::BfiL } else { AluOp::BfiW };
        let b = value(ctx, 2, ty.bits)?;
        let (c, e) = (value(ctx, 3, 32)?, value(ctx, 4, 32)?);
        Alu { op, flags: 0, d, a, b, c, e }
    };
    ctx.alu(slots, Class::Integer);
    Ok(())
}

fn funnel(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let left = modifiers.take_any(&["l", "r"]).ok_or(Reject::Unsupported)? == "l";
    let clamp = modifiers.take_any(&["clamp", "wrap"]).ok_or(Reject::Unsupported)? == "clamp";
    modifiers.take_type()?;
    modifiers.finish()?;
    let op = match (left, clamp) {
        (true, false) => AluOp::ShfL,
        (false, false) => AluOp::ShfR,
        (true, true) => AluOp::ShfLClamp,
        (false, true) => AluOp::ShfRClamp,
    };
    ternary(ctx, op, 0, 0)
}

fn dot_product(ctx: &mut Ctx<'_, '_, '_>, root: &str, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let high = modifiers.take_any(&["lo", "hi"]) == Some("hi");
    let b_type = modifiers.take_type()?;
    let a_type = modifiers.take_type()?;
    modifiers.finish()?;
    let e =
        u16::from(a_type.is_signed()) | u16::from(b_type.is_signed()) << 1 | u16::from(high) << 2;
    let op = if root == "dp4a" { AluOp::Dp4a } else { AluOp::Dp2a };
    ternary(ctx, op, 0, e)
}

fn absolute_difference(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let add = modifiers.take("add");
    let signed = [modifiers.take_type()?, modifiers.take_type()?, modifiers.take_type()?]
        .iter()
        .any(|t| t.is_signed());
    modifiers.finish()?;
    if signed {
        return Err(Reject::Unsupported);
    }
    ternary(ctx, AluOp::VabsDiff4, 0, u16::from(add))
}
