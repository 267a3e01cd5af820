//! Loads, stores, atomics and conversions between address spaces.

use super::builder::{Decoded, Reject, malformed};
use super::decode::{Ctx, alu};
use super::ir::{AluOp, Atomic, AtomicOp, Class, MemoryAccess, MemorySpace, Number, Op, Reg, Slot};
use super::modifiers::{Kind, Modifiers, Ty};
use crate::machine::address::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::syntax::Operand;

/// `cvta` and `isspacep`
pub(super) fn address_space(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    if root == "isspacep" {
        let space = take_space(&mut modifiers)?;
        modifiers.finish()?;
        let operand = ctx.operand(1)?;
        let a = ctx.builder.source(operand, 64)?;
        let d = super::decode_integer::pred_destination(ctx, 0)?;
        ctx.emit(Op::IsSpace { d, a, space }, Class::Integer);
        return Ok(());
    }
    let to_space = modifiers.take("to");
    let space = take_space(&mut modifiers)?;
    let ty = modifiers.take_type()?;
    modifiers.finish()?;
    let operand = ctx.operand(1)?;
    let a = ctx.builder.source(operand, ty.bits)?;
    let operand = ctx.operand(0)?;
    let d = ctx.builder.any(operand)?;
    let window = match space {
        MemorySpace::Shared => SHARED_WINDOW,
        MemorySpace::Local => LOCAL_WINDOW,
        MemorySpace::EntryParam => PARAM_WINDOW,
        MemorySpace::Global | MemorySpace::Const => {
            return match (d, a) {
                (Reg::Long(d), Reg::Long(a)) => {
                    ctx.alu(alu(AluOp::MovL, 0, d, a), Class::Move);
                    Ok(())
                }
                _ => Err(Reject::Unsupported),
            };
        }
        MemorySpace::Generic | MemorySpace::FrameParam => return Err(Reject::Unsupported),
    };
    if !matches!((d, a), (Reg::Long(_), Reg::Long(_))) {
        return Err(Reject::Unsupported);
    }
    let op =
        if to_space { Op::FromGeneric { d, a, window } } else { Op::ToGeneric { d, a, window } };
    ctx.emit(op, Class::Move);
    Ok(())
}

/// Removes a state space; none means generic.
pub(super) fn take_space(modifiers: &mut Modifiers<'_>) -> Decoded<MemorySpace> {
    const NAMES: [&str; 10] = [
        "global",
        "shared",
        "shared::cta",
        "local",
        "const",
        "param",
        "param::entry",
        "param::func",
        "shared::cluster",
        "global::cluster",
    ];
    Ok(match modifiers.take_any(&NAMES) {
        None => MemorySpace::Generic,
        Some("global") => MemorySpace::Global,
        Some("shared" | "shared::cta") => MemorySpace::Shared,
        Some("local") => MemorySpace::Local,
        Some("const") => MemorySpace::Const,
        Some("param" | "param::entry") => MemorySpace::EntryParam,
        Some("param::func") => MemorySpace::FrameParam,
        Some(_) => return Err(Reject::Unsupported),
    })
}

/// What the modifiers of a load or store say.
struct Qualifiers {
    space: MemorySpace,
    ty: Ty,
    elements: usize,
    polls: bool,
    strong: bool,
    cache_policy: bool,
}

fn qualifiers(mut modifiers: Modifiers<'_>) -> Decoded<Qualifiers> {
    const CACHES: [&str; 8] = ["ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"];
    const ORDERS: [&str; 4] = ["volatile", "relaxed", "acquire", "release"];
    const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];
    let cache_policy = modifiers.take("L2::cache_hint");
    modifiers.left.retain(|m| !m.starts_with("L1::") && !m.starts_with("L2::"));
    let space = take_space(&mut modifiers)?;
    let uncached = modifiers.left.contains(&"cv");
    while modifiers.take_any(&CACHES).is_some() {}
    let order = modifiers.take_any(&ORDERS);
    let scope = modifiers.take_any(&SCOPES);
    modifiers.take("weak");
    let elements = match modifiers.take_any(&["v2", "v4", "v8"]) {
        None => 1,
        Some("v2") => 2,
        Some("v4") => 4,
        Some(_) => 8,
    };
    let ty = modifiers.take_type()?;
    modifiers.finish()?;
    if ty.bits > 64 || ty.kind == Kind::Pred {
        return Err(Reject::Unsupported);
    }
    let polls = order.is_some() || uncached;
    Ok(Qualifiers {
        space,
        ty,
        elements,
        polls,
        strong: polls && scope != Some("cta"),
        cache_policy,
    })
}

pub(super) fn load(ctx: &mut Ctx<'_, '_, '_>, modifiers: Modifiers<'_>) -> Decoded<()> {
    let found = qualifiers(modifiers)?;
    let mut regs = Vec::with_capacity(found.elements);
    for operand in elements(ctx.operand(0)?) {
        regs.push(ctx.builder.any(operand)?);
    }
    access(ctx, found, regs, 1, false)
}

pub(super) fn store(ctx: &mut Ctx<'_, '_, '_>, modifiers: Modifiers<'_>) -> Decoded<()> {
    let found = qualifiers(modifiers)?;
    let mut regs = Vec::with_capacity(found.elements);
    for operand in elements(ctx.operand(1)?) {
        regs.push(ctx.builder.source(operand, found.ty.bits)?);
    }
    access(ctx, found, regs, 0, true)
}

/// The parts of a vector operand; a single one is its own part.
pub(super) fn elements(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(parts) => parts,
        single => std::slice::from_ref(single),
    }
}

fn access(
    ctx: &mut Ctx<'_, '_, '_>,
    found: Qualifiers,
    regs: Vec<Reg>,
    address_index: usize,
    is_store: bool,
) -> Decoded<()> {
    if regs.len() != found.elements {
        return malformed(format!("expected {} vector elements", found.elements));
    }
    if regs.iter().any(|r| matches!(r, Reg::Pred(_))) {
        return malformed("a predicate cannot be loaded or stored");
    }
    if ctx.count() > 2 + usize::from(found.cache_policy) {
        return Err(Reject::Unsupported);
    }
    let operand = ctx.operand(address_index)?;
    let (base, offset, space) = ctx.builder.address(operand, found.space)?;
    let is_global = matches!(space, MemorySpace::Generic | MemorySpace::Global);
    ctx.builder.communicates |= found.strong && is_global;
    let memory = MemoryAccess {
        space,
        bytes: (found.ty.bits / 8) as u8,
        signed: found.ty.is_signed(),
        base,
        offset,
        regs,
        polls: found.polls,
    };
    let op = if is_store { Op::Store(Box::new(memory)) } else { Op::Load(Box::new(memory)) };
    ctx.emit(op, Class::Memory);
    Ok(())
}

/// `atom` and `red`
pub(super) fn atomic(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    let cache_policy = modifiers.take("L2::cache_hint");
    modifiers.take_any(&["relaxed", "acquire", "release", "acq_rel"]);
    modifiers.take_any(&["cta", "gpu", "sys"]);
    modifiers.take("noftz");
    let space = take_space(&mut modifiers)?;
    let width = match modifiers.take_any(&["v2", "v4", "v8"]) {
        None => 1,
        Some("v2") => 2,
        Some("v4") => 4,
        Some(_) => 8,
    };
    let op = take_atomic(&mut modifiers)?;
    let ty = modifiers.take_type()?;
    modifiers.finish()?;
    if cache_policy || !(16..=64).contains(&ty.bits) {
        return Err(Reject::Unsupported);
    }
    let number = ty.number()?;
    check_atomic(op, number)?;
    let returns = usize::from(root == "atom");
    let d = match returns {
        0 => Vec::new(),
        _ => registers(ctx, 0, None)?,
    };
    let a = registers(ctx, returns + 1, Some(ty.bits))?;
    if a.len() != width || (returns == 1 && d.len() != width) {
        return malformed(format!("expected {width} vector elements"));
    }
    let c = match op {
        AtomicOp::Cas => registers(ctx, returns + 2, Some(ty.bits))?.pop(),
        _ => None,
    };
    let operand = ctx.operand(returns)?;
    let (base, offset, space) = ctx.builder.address(operand, space)?;
    ctx.builder.communicates |= matches!(space, MemorySpace::Generic | MemorySpace::Global);
    let packed = ty.packed;
    let atomic = Atomic { op, number, packed, space, base, offset, d, a, c };
    ctx.emit(Op::Atomic(Box::new(atomic)), Class::Memory);
    Ok(())
}

/// Registers of an operand; with a width, constants are allowed.
fn registers(
    ctx: &mut Ctx<'_, '_, '_>,
    index: usize,
    source_bits: Option<u32>,
) -> Decoded<Vec<Reg>> {
    let mut regs = Vec::new();
    for operand in elements(ctx.operand(index)?) {
        let reg = match source_bits {
            Some(bits) => ctx.builder.source(operand, bits)?,
            None => ctx.builder.any(operand)?,
        };
        if matches!(reg, Reg::Pred(_)) {
            return malformed("a predicate cannot be an atomic operand");
        }
        regs.push(reg);
    }
    Ok(regs)
}

fn take_atomic(modifiers: &mut Modifiers<'_>) -> Decoded<AtomicOp> {
    const NAMES: [(&str, AtomicOp); 10] = [
        ("add", AtomicOp::Add),
        ("min", AtomicOp::Min),
        ("max", AtomicOp::Max),
        ("and", AtomicOp::And),
        ("or", AtomicOp::Or),
        ("xor", AtomicOp::Xor),
        ("exch", AtomicOp::Exch),
        ("cas", AtomicOp::Cas),
        ("inc", AtomicOp::Inc),
        ("dec", AtomicOp::Dec),
    ];
    let found = NAMES.iter().find(|(name, _)| modifiers.left.contains(name));
    let (name, op) = found.ok_or(Reject::Unsupported)?;
    modifiers.take(name);
    Ok(*op)
}

fn check_atomic(op: AtomicOp, number: Number) -> Decoded<()> {
    let legal = match op {
        AtomicOp::Add | AtomicOp::Min | AtomicOp::Max => true,
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => !number.is_float(),
        AtomicOp::Exch | AtomicOp::Cas => !number.is_float(),
        AtomicOp::Inc | AtomicOp::Dec => number == Number::U32,
    };
    if legal { Ok(()) } else { Err(Reject::Unsupported) }
}

/// A 32-bit source for other decoders.
pub(super) fn word(ctx: &mut Ctx<'_, '_, '_>, index: usize) -> Decoded<Slot> {
    let operand = ctx.operand(index)?;
    ctx.builder.word(operand, 32)
}
