//! Tensor-core instructions on registers, and how their operands come from shared memory.
//!
//! `wmma` is in `decode_wmma`. Not here: sparse forms, formats of less than 8 bits, and what only
//! one generation has (`mma.m8n8k4` on halves, `wgmma`, `tcgen05`).

use super::builder::{Decoded, Reject, malformed};
use super::decode::Ctx;
use super::decode_integer::{destination, value};
use super::decode_memory::elements;
use super::ir::{Class, Collective, Constant, MemorySpace, Number, Op};
use super::ir_matrix::{Fragment, MatrixAccess, Mma, Spread, packed};
use super::modifiers::Modifiers;
use crate::syntax::Operand;

/// Lanes of a warp, each of which holds an equal part of a matrix.
pub(super) const LANES: usize = 32;

/// Formats of A and B with the shapes (m, n, k) that they come in.
const SHAPES: [(&[Number], &[[usize; 3]]); 5] = [
    (&[Number::F16, Number::Bf16], &[[16, 8, 8], [16, 8, 16]]),
    (&[Number::Tf32], &[[16, 8, 4], [16, 8, 8]]),
    (&[Number::S8, Number::U8], &[[8, 8, 16], [16, 8, 16], [16, 8, 32]]),
    (&[Number::E4m3, Number::E5m2], &[[16, 8, 16], [16, 8, 32]]),
    (&[Number::F64], &[[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]]),
];

/// `mma`, `ldmatrix`, `stmatrix` and `movmatrix`
pub(super) fn matrix(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    if !(modifiers.take("sync") && modifiers.take("aligned")) {
        return Err(Reject::Unsupported);
    }
    match root {
        "mma" => multiply(ctx, modifiers),
        "movmatrix" => transpose(ctx, modifiers),
        _ => access(ctx, modifiers, root == "stmatrix"),
    }
}

/// The whole warp takes part.
pub(super) fn emit(ctx: &mut Ctx<'_, '_, '_>, collective: Collective, class: Class) {
    let mask = ctx.builder.word_constant(Constant::Value(u64::from(u32::MAX)));
    ctx.emit(Op::Collective(Box::new((collective, mask))), class);
}

pub(super) fn shape(text: &str) -> Option<[usize; 3]> {
    let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

pub(super) fn format(name: &str) -> Decoded<Number> {
    Ok(match name {
        "f16" => Number::F16,
        "bf16" => Number::Bf16,
        "tf32" => Number::Tf32,
        "f32" => Number::F32,
        "f64" => Number::F64,
        "s8" => Number::S8,
        "u8" => Number::U8,
        "s32" => Number::S32,
        "e4m3" => Number::E4m3,
        "e5m2" => Number::E5m2,
        _ => return Err(Reject::Unsupported),
    })
}

/// True where a product of A's format may be added up in this one.
pub(super) fn adds_up(a: Number, total: Number) -> bool {
    match a {
        Number::F16 | Number::E4m3 | Number::E5m2 => matches!(total, Number::F16 | Number::F32),
        Number::Bf16 | Number::Tf32 => total == Number::F32,
        Number::F64 => total == Number::F64,
        Number::S8 | Number::U8 => total == Number::S32,
        Number::U16 | Number::U32 | Number::U64 | Number::S16 | Number::S32 | Number::S64 => false,
        Number::F32 => false,
    }
}

fn multiply(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    modifiers.take("kind::f8f6f4");
    let saturates = modifiers.take("satfinite");
    // Of doubles, which round to nearest here.
    modifiers.take("rn");
    let by_rows = modifiers.take("row") && modifiers.take("col");
    let [place, d, a, b, c] = modifiers.left[..] else { return Err(Reject::Unsupported) };
    let [m, n, k] = shape(place).ok_or(Reject::Unsupported)?;
    let [d, a, b, c] = [format(d)?, format(a)?, format(b)?, format(c)?];
    let fits = |(numbers, shapes): &(&[Number], &[[usize; 3]])| {
        numbers.contains(&a) && numbers.contains(&b) && shapes.contains(&[m, n, k])
    };
    let mixes = a == b || a.bits() == 8;
    if !by_rows || !mixes || !SHAPES.iter().any(fits) || !adds_up(a, c) || !adds_up(a, d) {
        return Err(Reject::Unsupported);
    }
    let mma = Mma {
        spread: Spread::Documented,
        m,
        n,
        k,
        d: fragment(ctx, 0, d, m * n)?,
        a: fragment(ctx, 1, a, m * k)?,
        b: fragment(ctx, 2, b, k * n)?,
        c: fragment(ctx, 3, c, m * n)?,
        saturates,
    };
    let flops = 2 * m * n * k / LANES;
    emit(ctx, Collective::Mma(Box::new(mma)), Class::Tensor(flops as u16));
    Ok(())
}

/// The registers of one matrix; the first operand is written, the others may be constants.
fn fragment(
    ctx: &mut Ctx<'_, '_, '_>,
    index: usize,
    number: Number,
    count: usize,
) -> Decoded<Fragment> {
    let parts = elements(ctx.operand(index)?);
    let expected = count / LANES / packed(number);
    if parts.len() != expected {
        return malformed(format!("expected {expected} registers of a matrix"));
    }
    registers(ctx, number, parts, index == 0)
}

/// Registers of elements; only those that are read may be constants.
pub(super) fn registers(
    ctx: &mut Ctx<'_, '_, '_>,
    number: Number,
    parts: &[Operand],
    written: bool,
) -> Decoded<Fragment> {
    let bits = number.bits().max(32);
    let reg = |part: &Operand| match written {
        true => ctx.builder.any(part),
        false => ctx.builder.source(part, bits),
    };
    Ok(Fragment { number, regs: parts.iter().map(reg).collect::<Decoded<_>>()? })
}

fn transpose(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let known = ["m8n8", "trans", "b16"].iter().all(|name| modifiers.take(name));
    modifiers.finish()?;
    if !known {
        return Err(Reject::Unsupported);
    }
    let a = value(ctx, 1, 32)?;
    let d = destination(ctx, 0, 32)?;
    emit(ctx, Collective::Transpose { d, a }, Class::Move);
    Ok(())
}

fn access(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>, is_store: bool) -> Decoded<()> {
    let known = modifiers.take("m8n8") && modifiers.take("b16");
    let shared = modifiers.take_any(&["shared", "shared::cta"]).is_some();
    let transposed = modifiers.take("trans");
    let count = match modifiers.take_any(&["x1", "x2", "x4"]) {
        Some("x1") => 1,
        Some("x2") => 2,
        Some(_) => 4,
        None => return Err(Reject::Unsupported),
    };
    modifiers.finish()?;
    if !known || !shared {
        return Err(Reject::Unsupported);
    }
    let (at, held) = if is_store { (0, 1) } else { (1, 0) };
    let parts = elements(ctx.operand(held)?);
    if parts.len() != count {
        return malformed(format!("expected {count} registers of matrices"));
    }
    let reg = |part: &Operand| match is_store {
        true => ctx.builder.word(part, 32),
        false => ctx.builder.word_destination(part),
    };
    let regs = parts.iter().map(reg).collect::<Decoded<_>>()?;
    let operand = ctx.operand(at)?;
    let (base, offset, _) = ctx.builder.address(operand, MemorySpace::Shared)?;
    let access = MatrixAccess { base, offset, regs, transposed, is_store };
    emit(ctx, Collective::Access(Box::new(access)), Class::Memory);
    Ok(())
}
