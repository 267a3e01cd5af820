//! Single, double and half arithmetic.

use super::builder::{Decoded, Reject};
use super::decode::{Ctx, alu};
use super::decode_integer::{destination, pred_destination, value};
use super::ir::{Alu, AluOp, Class, Rounding, flag};
use super::modifiers::{Kind, Modifiers, Ty};

/// Float forms of add, sub, mul, fma, mad, div, min, max, neg, abs.
pub(super) fn arithmetic(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
    ty: Ty,
) -> Decoded<()> {
    if ty.kind == Kind::Pred {
        return Err(Reject::Unsupported);
    }
    let rounding = modifiers.take_rounding();
    let mut flags = modifiers.take_float_flags() | rounding.bits();
    if modifiers.take("NaN") {
        flags |= flag::NAN;
    }
    if modifiers.take("relu") {
        flags |= flag::RELU;
    }
    modifiers.take("noftz");
    // The full-range quotient is within its two ulps when it is the rounded one.
    modifiers.take("full");
    let approximate = modifiers.take("approx");
    modifiers.finish()?;
    let root = if root == "mad" { "fma" } else { root };
    if ty.is_half() && flags & flag::FTZ != 0 {
        // Half arithmetic does not flush here; running it would be silently wrong.
        return Err(Reject::Unsupported);
    }
    let (op, class) = if ty.is_half() {
        flags |= ty.half_flags();
        half_op(root, ty)?
    } else if ty.bits == 64 {
        double_op(root, rounding)?
    } else {
        single_op(root, rounding, approximate, flags)?
    };
    if root == "fma" && flags & flag::RELU != 0 && !ty.is_half() {
        return Err(Reject::Unsupported);
    }
    emit(ctx, root, op, flags, ty, class)
}

fn emit(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    op: AluOp,
    flags: u16,
    ty: Ty,
    class: Class,
) -> Decoded<()> {
    let a = value(ctx, 1, ty.bits)?;
    let d = destination(ctx, 0, ty.bits)?;
    let sources = match root {
        "neg" | "abs" => 1,
        "fma" => 3,
        _ => 2,
    };
    let b = if sources > 1 { value(ctx, 2, ty.bits)? } else { 0 };
    let c = if sources > 2 { value(ctx, 3, ty.bits)? } else { 0 };
    // Three-input min and max of newer targets: two steps.
    if sources == 2 && matches!(root, "min" | "max") && ctx.count() == 4 {
        let third = value(ctx, 3, ty.bits)?;
        let first = if ty.bits == 64 { ctx.builder.new_long() } else { ctx.builder.new_word() };
        ctx.alu(Alu { op, flags, d: first, a, b, c: 0, e: 0 }, class);
        ctx.alu(Alu { op, flags, d, a: first, b: third, c: 0, e: 0 }, Class::Inserted);
        return Ok(());
    }
    ctx.alu(Alu { op, flags, d, a, b, c, e: 0 }, class);
    Ok(())
}

fn single_op(
    root: &str,
    rounding: Rounding,
    approximate: bool,
    flags: u16,
) -> Decoded<(AluOp, Class)> {
    let directed = rounding != Rounding::Nearest;
    let nan = flags & flag::NAN != 0;
    Ok(match root {
        "add" => (if directed { AluOp::AddFR } else { AluOp::AddF }, Class::Fp32(1)),
        "sub" => (if directed { AluOp::SubFR } else { AluOp::SubF }, Class::Fp32(1)),
        "mul" => (if directed { AluOp::MulFR } else { AluOp::MulF }, Class::Fp32(1)),
        "fma" => (if directed { AluOp::FmaFR } else { AluOp::FmaF }, Class::Fp32(2)),
        "div" if approximate => (AluOp::DivFApprox, Class::Fp32(1)),
        "div" => (if directed { AluOp::DivFR } else { AluOp::DivF }, Class::Fp32(1)),
        "min" => (if nan { AluOp::MinFNan } else { AluOp::MinF }, Class::Fp32(1)),
        "max" => (if nan { AluOp::MaxFNan } else { AluOp::MaxF }, Class::Fp32(1)),
        "neg" => (AluOp::NegF, Class::Move),
        "abs" => (AluOp::AbsF, Class::Move),
        _ => return Err(Reject::Unsupported),
    })
}

fn double_op(root: &str, rounding: Rounding) -> Decoded<(AluOp, Class)> {
    let directed = rounding != Rounding::Nearest;
    Ok(match root {
        "add" => (if directed { AluOp::AddDR } else { AluOp::AddD }, Class::Fp64(1)),
        "sub" => (if directed { AluOp::SubDR } else { AluOp::SubD }, Class::Fp64(1)),
        "mul" => (if directed { AluOp::MulDR } else { AluOp::MulD }, Class::Fp64(1)),
        "fma" => (if directed { AluOp::FmaDR } else { AluOp::FmaD }, Class::Fp64(2)),
        "div" => (if directed { AluOp::DivDR } else { AluOp::DivD }, Class::Fp64(1)),
        "min" => (AluOp::MinD, Class::Fp64(1)),
        "max" => (AluOp::MaxD, Class::Fp64(1)),
        "neg" => (AluOp::NegD, Class::Move),
        "abs" => (AluOp::AbsD, Class::Move),
        _ => return Err(Reject::Unsupported),
    })
}

fn half_op(root: &str, ty: Ty) -> Decoded<(AluOp, Class)> {
    let lanes = if ty.packed { 2 } else { 1 };
    Ok(match root {
        "add" => (AluOp::AddH, Class::Fp16(lanes)),
        "sub" => (AluOp::SubH, Class::Fp16(lanes)),
        "mul" => (AluOp::MulH, Class::Fp16(lanes)),
        "fma" => (AluOp::FmaH, Class::Fp16(2 * lanes)),
        "min" => (AluOp::MinH, Class::Fp16(lanes)),
        "max" => (AluOp::MaxH, Class::Fp16(lanes)),
        "neg" => (AluOp::NegH, Class::Move),
        "abs" => (AluOp::AbsH, Class::Move),
        _ => return Err(Reject::Unsupported),
    })
}

/// Functions of one operand, copysign and testp.
pub(super) fn function(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    let ty = modifiers.take_type()?;
    match root {
        "copysign" => {
            modifiers.finish()?;
            let op = if ty.bits == 64 { AluOp::CopysignD } else { AluOp::CopysignF };
            // copysign d, a, b: the sign of a on the magnitude of b.
            let (a, b) = (value(ctx, 1, ty.bits)?, value(ctx, 2, ty.bits)?);
            let d = destination(ctx, 0, ty.bits)?;
            ctx.alu(Alu { b, ..alu(op, 0, d, a) }, Class::Move);
            return Ok(());
        }
        "testp" => return test_property(ctx, modifiers, ty),
        _ => {}
    }
    let approximate = modifiers.take("approx");
    let rounding = modifiers.take_rounding();
    let mut flags = modifiers.take_float_flags() | rounding.bits();
    modifiers.finish()?;
    if ty.is_half() {
        flags |= ty.half_flags();
    }
    let op = function_op(root, ty, approximate, rounding).ok_or(Reject::Unsupported)?;
    let a = value(ctx, 1, ty.bits)?;
    let d = destination(ctx, 0, ty.bits)?;
    ctx.alu(alu(op, flags, d, a), Class::Special);
    Ok(())
}

fn function_op(root: &str, ty: Ty, approximate: bool, rounding: Rounding) -> Option<AluOp> {
    let directed = rounding != Rounding::Nearest;
    Some(match (root, ty.bits, ty.is_half()) {
        ("ex2", _, true) => AluOp::Ex2H,
        ("tanh", _, true) => AluOp::TanhH,
        (_, _, true) => return None,
        ("rcp", 32, _) => {
            if directed {
                AluOp::RcpFR
            } else {
                AluOp::RcpF
            }
        }
        ("sqrt", 32, _) => {
            if directed {
                AluOp::SqrtFR
            } else {
                AluOp::SqrtF
            }
        }
        ("rsqrt", 32, _) => AluOp::RsqrtF,
        ("ex2", 32, _) => AluOp::Ex2F,
        ("lg2", 32, _) => AluOp::Lg2F,
        ("sin", 32, _) => AluOp::SinF,
        ("cos", 32, _) => AluOp::CosF,
        ("tanh", 32, _) => AluOp::TanhF,
        ("rcp", 64, _) if approximate => AluOp::RcpDApprox,
        ("rcp", 64, _) => {
            if directed {
                AluOp::RcpDR
            } else {
                AluOp::RcpD
            }
        }
        ("sqrt", 64, _) => {
            if directed {
                AluOp::SqrtDR
            } else {
                AluOp::SqrtD
            }
        }
        ("rsqrt", 64, _) => AluOp::RsqrtDApprox,
        _ => return None,
    })
}

fn test_property(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>, ty: Ty) -> Decoded<()> {
    const PROPERTIES: [&str; 6] =
        ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
    let property = modifiers.take_any(&PROPERTIES).ok_or(Reject::Unsupported)?;
    modifiers.finish()?;
    let e = PROPERTIES.iter().position(|p| *p == property).unwrap_or(0) as u16;
    let op = if ty.bits == 64 { AluOp::TestpD } else { AluOp::TestpF };
    let a = value(ctx, 1, ty.bits)?;
    let d = pred_destination(ctx, 0)?;
    ctx.alu(Alu { e, ..alu(op, 0, d, a) }, Class::Integer);
    Ok(())
}
