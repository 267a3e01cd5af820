//! `wmma`: products of larger tiles whose spread over the lanes PTX leaves open.

use super::builder::{Decoded, Reject, malformed};
use super::decode::Ctx;
use super::decode_matrix::{LANES, adds_up, emit, format, registers, shape};
use super::decode_memory::{take_space, word};
use super::ir::{Class, Collective, Constant, MemoryAccess, Number, Reg};
use super::ir_matrix::{Fragment, FragmentAccess, Mma, Spread, packed};
use super::modifiers::Modifiers;
use crate::syntax::Operand;

/// Registers of A and of B in halves, which repeat elements.
const HALF_REGISTERS: usize = 8;
/// Shapes (m, n, k) of halves, bfloat16 and bytes.
const TILES: [[usize; 3]; 3] = [[16, 16, 16], [32, 8, 16], [8, 32, 16]];

/// `wmma`
pub(super) fn wmma(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let kind = modifiers.take_any(&["load", "store", "mma"]).ok_or(Reject::Unsupported)?;
    if !(modifiers.take("sync") && modifiers.take("aligned")) {
        return Err(Reject::Unsupported);
    }
    match kind {
        "mma" => multiply(ctx, modifiers),
        _ => access(ctx, modifiers, kind == "store"),
    }
}

fn take_shape(modifiers: &mut Modifiers<'_>) -> Decoded<[usize; 3]> {
    let found = modifiers.left.iter().position(|name| shape(name).is_some());
    let name = found.map(|at| modifiers.left.remove(at)).ok_or(Reject::Unsupported)?;
    shape(name).ok_or(Reject::Unsupported)
}

/// True for shapes that A and B of a format come in.
fn exists(place: [usize; 3], number: Number) -> bool {
    match number {
        Number::F16 | Number::Bf16 | Number::S8 | Number::U8 => TILES.contains(&place),
        Number::Tf32 => place == [16, 16, 8],
        Number::F64 => place == [8, 8, 4],
        Number::U16 | Number::S16 | Number::U32 | Number::S32 | Number::U64 => false,
        Number::S64 | Number::F32 | Number::E4m3 | Number::E5m2 => false,
    }
}

/// A fragment with as many registers as its format has for so many elements.
fn fragment(
    ctx: &mut Ctx<'_, '_, '_>,
    index: usize,
    number: Number,
    elements: usize,
    [is_total, written]: [bool; 2],
) -> Decoded<Fragment> {
    let Operand::Vector(parts) = ctx.operand(index)? else {
        return malformed("expected the registers of a matrix in braces");
    };
    let expected = match number {
        Number::F16 if !is_total => HALF_REGISTERS,
        _ => elements / LANES / packed(number),
    };
    if parts.len() != expected {
        return malformed(format!("expected {expected} registers of a matrix"));
    }
    registers(ctx, number, parts, written)
}

fn multiply(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let saturates = modifiers.take("satfinite");
    // Of doubles, which round to nearest here.
    modifiers.take("rn");
    // How A and B lay in memory, which a spread by rows does not depend on.
    while modifiers.take_any(&["row", "col"]).is_some() {}
    let place @ [m, n, k] = take_shape(&mut modifiers)?;
    let [d, a, b, c] = match modifiers.left[..] {
        [d, c] => [format(d)?, Number::F16, Number::F16, format(c)?],
        [d, a, b, c] => [format(d)?, format(a)?, format(b)?, format(c)?],
        _ => return Err(Reject::Unsupported),
    };
    if a != b || !exists(place, a) || !adds_up(a, c) || !adds_up(a, d) {
        return Err(Reject::Unsupported);
    }
    let mma = Mma {
        spread: Spread::Open,
        m,
        n,
        k,
        d: fragment(ctx, 0, d, m * n, [true, true])?,
        a: fragment(ctx, 1, a, m * k, [false, false])?,
        b: fragment(ctx, 2, b, k * n, [false, false])?,
        c: fragment(ctx, 3, c, m * n, [true, false])?,
        saturates,
    };
    let flops = 2 * m * n * k / LANES;
    emit(ctx, Collective::Mma(Box::new(mma)), Class::Tensor(flops as u16));
    Ok(())
}

fn access(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>, is_store: bool) -> Decoded<()> {
    let part = modifiers.take_any(&["a", "b", "c", "d"]).ok_or(Reject::Unsupported)?;
    let by_rows = modifiers.take_any(&["row", "col"]).ok_or(Reject::Unsupported)? == "row";
    let place @ [m, n, k] = take_shape(&mut modifiers)?;
    let space = take_space(&mut modifiers)?;
    let [name] = modifiers.left[..] else { return Err(Reject::Unsupported) };
    let number = format(name)?;
    let is_total = matches!(part, "c" | "d");
    let known = match is_total {
        true => totals_exist(place, number),
        false => exists(place, number),
    };
    if !known {
        return Err(Reject::Unsupported);
    }
    let (rows, columns) = match part {
        "a" => (m, k),
        "b" => (k, n),
        _ => (m, n),
    };
    let (at, held) = if is_store { (0, 1) } else { (1, 0) };
    let fragment = fragment(ctx, held, number, rows * columns, [is_total, !is_store])?;
    let stride = match ctx.count() {
        2 => {
            let length = if by_rows { columns } else { rows };
            ctx.builder.word_constant(Constant::Value(length as u64))
        }
        3 => word(ctx, 2)?,
        _ => return Err(Reject::Unsupported),
    };
    let operand = ctx.operand(at)?;
    let (base, offset, space) = ctx.builder.address(operand, space)?;
    let scratch = match number.bits() {
        64 => Reg::Long(ctx.builder.new_long()),
        _ => Reg::Word { slot: ctx.builder.new_word(), narrow: false },
    };
    let bytes = (number.bits() / 8) as u8;
    let regs = vec![scratch];
    let element = MemoryAccess { space, bytes, signed: false, base, offset, regs, polls: false };
    let access =
        FragmentAccess { fragment, rows, columns, by_rows, stride, element, scratch, is_store };
    emit(ctx, Collective::FragmentAccess(Box::new(access)), Class::Memory);
    Ok(())
}

/// True for shapes that C and D of a format come in.
fn totals_exist(place: [usize; 3], number: Number) -> bool {
    let of = |a: Number| exists(place, a) && adds_up(a, number);
    [Number::F16, Number::Bf16, Number::Tf32, Number::S8, Number::F64].into_iter().any(of)
}
