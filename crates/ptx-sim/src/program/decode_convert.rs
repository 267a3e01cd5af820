//! Moves, selections, comparisons and conversions.

use super::builder::{Decoded, Reject, malformed};
use super::decode::{Ctx, alu};
use super::decode_integer::{destination, value};
use super::ir::{
    Alu, AluOp, BoolOp, Class, ClockKind, Compare, CompareResult, Convert, Number, Op, Pairing,
    Reg, Rounding, SetCompare, Slot,
};
use super::modifiers::{Kind, Modifiers, Ty};
use crate::syntax::Operand;

/// `mov`: copies, packing, unpacking, clocks.
pub(super) fn move_value(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let ty = modifiers.take_type()?;
    modifiers.finish()?;
    match (ctx.operand(0)?, ctx.operand(1)?) {
        (Operand::Vector(parts), source) => unpack(ctx, ty, parts, source),
        (_, Operand::Vector(parts)) => pack(ctx, ty, parts),
        (_, Operand::Name(name)) if clock(name).is_some() => {
            let d = ctx.operand(0)?;
            let d = ctx.builder.any(d)?;
            if let Some(kind) = clock(name) {
                ctx.emit(Op::Clock(kind, d), Class::Move);
            }
            Ok(())
        }
        (to, from) if ty.kind == Kind::Pred => {
            let (a, negated) = ctx.builder.pred(from)?;
            let Reg::Pred(d) = ctx.builder.any(to)? else {
                return malformed("expected a predicate destination");
            };
            let op = if negated { AluOp::NotP } else { AluOp::MovP };
            ctx.alu(alu(op, 0, d, a), Class::Move);
            Ok(())
        }
        _ => copy(ctx, ty),
    }
}

fn copy(ctx: &mut Ctx<'_, '_, '_>, ty: Ty) -> Decoded<()> {
    if ty.bits == 128 || ty.bits == 8 {
        return Err(Reject::Unsupported);
    }
    let a = value(ctx, 1, ty.bits)?;
    let d = destination(ctx, 0, ty.bits)?;
    let op = if ty.bits == 64 { AluOp::MovL } else { AluOp::MovW };
    ctx.alu(alu(op, 0, d, a), Class::Move);
    Ok(())
}

fn clock(name: &str) -> Option<ClockKind> {
    match name {
        "%clock" | "%globaltimer_lo" => Some(ClockKind::Low),
        "%clock64" | "%globaltimer" => Some(ClockKind::Full),
        "%clock_hi" | "%globaltimer_hi" => Some(ClockKind::High),
        _ => None,
    }
}

fn pack(ctx: &mut Ctx<'_, '_, '_>, ty: Ty, parts: &[Operand]) -> Decoded<()> {
    match (ty.bits, parts) {
        (64, [low, high]) => {
            let (a, b) = (ctx.builder.word(low, 32)?, ctx.builder.word(high, 32)?);
            let d = destination(ctx, 0, 64)?;
            ctx.alu(Alu { b, ..alu(AluOp::PackL, 0, d, a) }, Class::Move);
        }
        (32, [low, high]) => {
            let (a, b) = (ctx.builder.word(low, 16)?, ctx.builder.word(high, 16)?);
            let d = destination(ctx, 0, 32)?;
            ctx.alu(Alu { b, ..alu(AluOp::PackW, 0, d, a) }, Class::Move);
        }
        (64, [w0, w1, w2, w3]) => {
            let mut halves = [0; 2];
            for (half, pair) in halves.iter_mut().zip([[w0, w1], [w2, w3]]) {
                let (a, b) = (ctx.builder.word(pair[0], 16)?, ctx.builder.word(pair[1], 16)?);
                *half = ctx.builder.new_word();
                ctx.alu(Alu { b, ..alu(AluOp::PackW, 0, *half, a) }, Class::Inserted);
            }
            let d = destination(ctx, 0, 64)?;
            ctx.alu(Alu { b: halves[1], ..alu(AluOp::PackL, 0, d, halves[0]) }, Class::Move);
        }
        _ => return Err(Reject::Unsupported),
    }
    Ok(())
}

fn unpack(ctx: &mut Ctx<'_, '_, '_>, ty: Ty, parts: &[Operand], source: &Operand) -> Decoded<()> {
    let width = match (ty.bits, parts.len()) {
        (64, 2) => 32,
        (64, 4) | (32, 2) => 16,
        _ => return Err(Reject::Unsupported),
    };
    let long = ty.bits == 64;
    let a = if long { ctx.builder.long(source)? } else { ctx.builder.word(source, 32)? };
    let op = if long { AluOp::ExtractL } else { AluOp::ExtractW };
    let mut class = Class::Move;
    for (index, part) in parts.iter().enumerate() {
        if matches!(part, Operand::Name(name) if &**name == "_") {
            continue;
        }
        let d = ctx.builder.word_destination(part)?;
        // Shift in the low byte, width in the high one.
        let e = (index as u16 * width) | width << 8;
        ctx.alu(Alu { e, ..alu(op, 0, d, a) }, class);
        class = Class::Inserted;
    }
    Ok(())
}

/// `selp d, a, b, p`
pub(super) fn select(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let ty = modifiers.take_type()?;
    modifiers.finish()?;
    let (mut a, mut b) = (value(ctx, 1, ty.bits)?, value(ctx, 2, ty.bits)?);
    let operand = ctx.operand(3)?;
    let (c, negated) = ctx.builder.pred(operand)?;
    if negated {
        std::mem::swap(&mut a, &mut b);
    }
    let d = destination(ctx, 0, ty.bits)?;
    let op = if ty.bits == 64 { AluOp::SelL } else { AluOp::SelW };
    ctx.alu(Alu { b, c, ..alu(op, 0, d, a) }, Class::Move);
    Ok(())
}

/// `setp` and `set`
pub(super) fn compare(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    let ty = modifiers.take_type()?;
    let result_type = if root == "set" { Some(modifiers.take_type()?) } else { None };
    let ftz = modifiers.take("ftz");
    if ftz && ty.is_half() {
        return Err(Reject::Unsupported);
    }
    let join = match modifiers.take_any(&["and", "or", "xor"]) {
        Some("and") => Some(BoolOp::And),
        Some("or") => Some(BoolOp::Or),
        Some(_) => Some(BoolOp::Xor),
        None => None,
    };
    let compare = take_compare(&mut modifiers)?;
    modifiers.finish()?;
    let bits = if ty.packed { 32 } else { ty.bits };
    if !(16..=64).contains(&bits) {
        return Err(Reject::Unsupported);
    }
    let (a, b) = (value(ctx, 1, bits)?, value(ctx, 2, bits)?);
    let combine = match join {
        None => None,
        Some(op) => {
            let operand = ctx.operand(3)?;
            let (slot, negated) = ctx.builder.pred(operand)?;
            Some((op, slot, negated))
        }
    };
    let result = match result_type {
        None => predicate_result(ctx)?,
        Some(ty) => word_result(ctx, ty)?,
    };
    let number = ty.number()?;
    let packed = ty.packed;
    let op = SetCompare { compare, number, ftz, packed, a, b, combine, result };
    ctx.emit(Op::Compare(Box::new(op)), Class::Integer);
    Ok(())
}

fn predicate_result(ctx: &mut Ctx<'_, '_, '_>) -> Decoded<CompareResult> {
    let (first, second) = match ctx.operand(0)? {
        Operand::Pair(a, b) => (ctx.builder.any(a)?, ctx.builder.any(b)?),
        operand => (ctx.builder.any(operand)?, Reg::Sink),
    };
    for reg in [first, second] {
        if !matches!(reg, Reg::Pred(_) | Reg::Sink) {
            return malformed("expected predicate destinations");
        }
    }
    Ok(CompareResult::Predicate(first, second))
}

fn word_result(ctx: &mut Ctx<'_, '_, '_>, ty: Ty) -> Decoded<CompareResult> {
    let yes = match (ty.kind, ty.bits, ty.packed) {
        (Kind::Float, 32, true) => 0x3c00_3c00,
        (Kind::Bfloat, 32, true) => 0x3f80_3f80,
        (Kind::Float, 16, _) => 0x3c00,
        (Kind::Bfloat, 16, _) => 0x3f80,
        (Kind::Float, 32, false) => 0x3f80_0000,
        (Kind::Unsigned | Kind::Signed | Kind::Bits, 32, _) => u32::MAX,
        (Kind::Unsigned | Kind::Signed | Kind::Bits, 16, _) => 0xffff,
        _ => return Err(Reject::Unsupported),
    };
    Ok(CompareResult::Word(destination(ctx, 0, 32)?, yes))
}

fn take_compare(modifiers: &mut Modifiers<'_>) -> Decoded<Compare> {
    const TABLE: [(&str, Compare); 18] = [
        ("eq", Compare::Eq),
        ("ne", Compare::Ne),
        ("lt", Compare::Lt),
        ("le", Compare::Le),
        ("gt", Compare::Gt),
        ("ge", Compare::Ge),
        ("equ", Compare::Equ),
        ("neu", Compare::Neu),
        ("ltu", Compare::Ltu),
        ("leu", Compare::Leu),
        ("gtu", Compare::Gtu),
        ("geu", Compare::Geu),
        ("num", Compare::Num),
        ("nan", Compare::Nan),
        ("lo", Compare::Lt),
        ("ls", Compare::Le),
        ("hi", Compare::Gt),
        ("hs", Compare::Ge),
    ];
    let found = TABLE.iter().find(|(name, _)| modifiers.left.contains(name));
    let (name, compare) = found.ok_or(Reject::Unsupported)?;
    modifiers.take(name);
    Ok(*compare)
}

/// `cvt`
pub(super) fn convert(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    if let Some(rest) = ctx.instruction.op.strip_suffix(".tf32.f32") {
        return convert_tf32(ctx, rest);
    }
    if modifiers.left.iter().any(|name| fp8_pair(name).is_some()) {
        return convert_fp8(ctx, modifiers);
    }
    let from = modifiers.take_type()?;
    let to = modifiers.take_type()?;
    let integer_rounding = modifiers.take_any(&["rni", "rzi", "rmi", "rpi"]);
    let rounding = match integer_rounding {
        Some("rni") => Rounding::Nearest,
        Some("rzi") => Rounding::Zero,
        Some("rmi") => Rounding::Down,
        Some(_) => Rounding::Up,
        None => modifiers.take_rounding(),
    };
    let ftz = modifiers.take("ftz");
    let sat = modifiers.take("sat");
    let relu = modifiers.take("relu");
    modifiers.finish()?;
    let (from_number, to_number) = (from.number()?, to.number()?);
    if simple_convert(ctx, from_number, to_number, sat || rounding != Rounding::Nearest)? {
        return Ok(());
    }
    if to.packed && ctx.count() != 3 {
        return Err(Reject::Unsupported);
    }
    let operand = ctx.operand(1)?;
    let a = ctx.builder.source(operand, from.bits)?;
    let pairing = if to.packed { Pairing::Sources(value(ctx, 2, 32)?) } else { Pairing::One };
    let operand = ctx.operand(0)?;
    let d = ctx.builder.any(operand)?;
    let convert = Convert {
        from: from_number,
        to: to_number,
        rounding,
        away: false,
        integral: integer_rounding.is_some(),
        ftz,
        sat,
        relu,
        d,
        a,
        pairing,
    };
    ctx.emit(Op::Convert(Box::new(convert)), Class::Integer);
    Ok(())
}

fn convert_tf32(ctx: &mut Ctx<'_, '_, '_>, head: &str) -> Decoded<()> {
    let (_, mut modifiers) = Modifiers::of(head);
    let away = modifiers.take("rna");
    let rounding = modifiers.take_rounding();
    let relu = modifiers.take("relu");
    modifiers.finish()?;
    let a = Reg::Word { slot: value(ctx, 1, 32)?, narrow: false };
    let operand = ctx.operand(0)?;
    let d = ctx.builder.any(operand)?;
    let convert = Convert {
        from: Number::F32,
        to: Number::Tf32,
        rounding,
        away,
        integral: false,
        ftz: false,
        sat: false,
        relu,
        d,
        a,
        pairing: Pairing::One,
    };
    ctx.emit(Op::Convert(Box::new(convert)), Class::Integer);
    Ok(())
}

fn fp8_pair(name: &str) -> Option<Number> {
    match name {
        "e4m3x2" => Some(Number::E4m3),
        "e5m2x2" => Some(Number::E5m2),
        _ => None,
    }
}

/// Pairs of 8-bit floats, from two singles or from or to a pair of halves.
fn convert_fp8(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let (rn, satfinite) = (modifiers.take("rn"), modifiers.take("satfinite"));
    let relu = modifiers.take("relu");
    let [to, from] = modifiers.left[..] else { return Err(Reject::Unsupported) };
    let (from, to, narrows) = match (fp8_pair(to), fp8_pair(from), to, from) {
        (Some(to), None, _, "f32") => (Number::F32, to, true),
        (Some(to), None, _, "f16x2") => (Number::F16, to, true),
        (None, Some(from), "f16x2", _) => (from, Number::F16, false),
        _ => return Err(Reject::Unsupported),
    };
    if !rn || satfinite != narrows {
        return Err(Reject::Unsupported);
    }
    let two = from == Number::F32;
    let pairing = if two { Pairing::Sources(value(ctx, 2, 32)?) } else { Pairing::Packed };
    let bits = if narrows { 32 } else { 16 };
    let a = Reg::Word { slot: value(ctx, 1, bits)?, narrow: false };
    let operand = ctx.operand(0)?;
    let d = ctx.builder.any(operand)?;
    let convert = Convert {
        from,
        to,
        rounding: Rounding::Nearest,
        away: false,
        integral: false,
        ftz: false,
        sat: false,
        relu,
        d,
        a,
        pairing,
    };
    ctx.emit(Op::Convert(Box::new(convert)), Class::Integer);
    Ok(())
}

/// The conversions that kernels are full of, as plain lane loops.
fn simple_convert(
    ctx: &mut Ctx<'_, '_, '_>,
    from: Number,
    to: Number,
    special: bool,
) -> Decoded<bool> {
    if special {
        return Ok(false);
    }
    let operand = ctx.operand(1)?;
    let a = ctx.builder.source(operand, from.bits())?;
    let operand = ctx.operand(0)?;
    let d = ctx.builder.any(operand)?;
    let (op, d, a): (AluOp, Slot, Slot) = match (from, to, d, a) {
        (Number::S32, Number::S64 | Number::U64, Reg::Long(d), Reg::Word { slot, .. }) => {
            (AluOp::SignExtend, d, slot)
        }
        (Number::U32, Number::S64 | Number::U64, Reg::Long(d), Reg::Word { slot, .. }) => {
            (AluOp::ZeroExtend, d, slot)
        }
        (
            Number::S64 | Number::U64,
            Number::S32 | Number::U32,
            Reg::Word { slot: d, narrow: false },
            Reg::Long(a),
        ) => (AluOp::Truncate, d, a),
        (Number::S32, Number::F32, Reg::Word { slot: d, .. }, Reg::Word { slot, .. }) => {
            (AluOp::S32ToF, d, slot)
        }
        (Number::U32, Number::F32, Reg::Word { slot: d, .. }, Reg::Word { slot, .. }) => {
            (AluOp::U32ToF, d, slot)
        }
        _ => return Ok(false),
    };
    ctx.alu(alu(op, 0, d, a), Class::Integer);
    Ok(true)
}
