//! `cp.async` from global to shared memory, its groups and its waits.
//!
//! Not here: `cp.async.bulk` and copies that signal an `mbarrier`.

use super::builder::{Decoded, Reject, malformed};
use super::decode::Ctx;
use super::decode_memory::word;
use super::ir::{AsyncCopy, AsyncSource, Class, MemorySpace, Op, Reg};
use super::modifiers::Modifiers;
use crate::syntax::{Immediate, Operand};

/// `cp`
pub(super) fn copy(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    if !modifiers.take("async") {
        return Err(Reject::Unsupported);
    }
    match modifiers.take_any(&["commit_group", "wait_group", "wait_all"]) {
        None => return issue(ctx, modifiers),
        Some("commit_group") => ctx.emit(Op::AsyncCommit, Class::Control),
        Some("wait_all") => ctx.emit(Op::AsyncWait(None), Class::Control),
        Some(_) => {
            let newest = u32::try_from(number(ctx, 0)?).ok();
            let newest = newest.map_or_else(|| malformed("expected a count of groups"), Ok)?;
            ctx.emit(Op::AsyncWait(Some(newest)), Class::Control);
        }
    }
    modifiers.finish()
}

fn number(ctx: &Ctx<'_, '_, '_>, index: usize) -> Decoded<i128> {
    match ctx.operand(index)? {
        Operand::Number(Immediate::Int(value)) => Ok(*value),
        _ => malformed("expected a number"),
    }
}

fn issue(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let cached = modifiers.take_any(&["ca", "cg"]).is_some();
    let hinted = modifiers.take("L2::cache_hint");
    modifiers.left.retain(|name| !name.starts_with("L2::"));
    let shared = modifiers.take_any(&["shared", "shared::cta"]).is_some();
    let global = modifiers.take("global");
    modifiers.finish()?;
    if !(cached && shared && global) {
        return Err(Reject::Unsupported);
    }
    let bytes = match number(ctx, 2)? {
        4 => 4,
        8 => 8,
        16 => 16,
        other => return malformed(format!("{other} bytes cannot be copied at once")),
    };
    let source = match ctx.count() - usize::from(hinted) {
        3 => AsyncSource::Whole,
        4 => source(ctx)?,
        _ => return Err(Reject::Unsupported),
    };
    let (to, from) = (ctx.operand(0)?, ctx.operand(1)?);
    let (base, offset, _) = ctx.builder.address(to, MemorySpace::Shared)?;
    let to = (base, offset);
    let (base, offset, _) = ctx.builder.address(from, MemorySpace::Global)?;
    let copy = AsyncCopy { to, from: (base, offset), bytes, source };
    ctx.emit(Op::AsyncCopy(Box::new(copy)), Class::Memory);
    Ok(())
}

/// The fourth operand: bytes to read, or a predicate that says to read none.
fn source(ctx: &mut Ctx<'_, '_, '_>) -> Decoded<AsyncSource> {
    let operand = ctx.operand(3)?;
    let is_predicate = match operand {
        Operand::Not(_) => true,
        Operand::Name(_) => matches!(ctx.builder.any(operand), Ok(Reg::Pred(_))),
        _ => false,
    };
    if is_predicate {
        let (slot, negated) = ctx.builder.pred(operand)?;
        return Ok(AsyncSource::Unless(slot, negated));
    }
    Ok(AsyncSource::Bytes(word(ctx, 3)?))
}
