//! Warp collectives and block barriers.

use super::builder::{Decoded, Reject, malformed};
use super::decode::Ctx;
use super::decode_integer::{destination, pred_destination};
use super::decode_memory::word;
use super::ir::{
    Barrier, BarrierReduction, Class, Collective, Op, ReduxMode, Reg, ShuffleMode, Slot, VoteMode,
};
use super::modifiers::{Kind, Modifiers};
use crate::syntax::Operand;

/// `shfl`, `vote`, `match`, `redux`, `elect`, `activemask`
pub(super) fn collective(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    if root == "activemask" {
        let d = destination(ctx, 0, 32)?;
        ctx.emit(Op::Activemask(d), Class::Integer);
        return Ok(());
    }
    if !modifiers.take("sync") {
        return Err(Reject::Unsupported);
    }
    let (collective, mask) = match root {
        "shfl" => shuffle(ctx, modifiers)?,
        "vote" => vote(ctx, modifiers)?,
        "match" => match_lanes(ctx, modifiers)?,
        "redux" => redux(ctx, modifiers)?,
        _ => elect(ctx)?,
    };
    ctx.emit(Op::Collective(Box::new((collective, mask))), Class::Integer);
    Ok(())
}

/// `d` or `d|p`
fn with_predicate(ctx: &mut Ctx<'_, '_, '_>) -> Decoded<(Reg, Option<Slot>)> {
    match ctx.operand(0)? {
        Operand::Pair(d, p) => {
            let d = ctx.builder.any(d)?;
            match ctx.builder.any(p)? {
                Reg::Pred(p) => Ok((d, Some(p))),
                Reg::Sink => Ok((d, None)),
                Reg::Word { .. } | Reg::Long(_) => malformed("expected a predicate after `|`"),
            }
        }
        operand => Ok((ctx.builder.any(operand)?, None)),
    }
}

fn word_of(ctx: &mut Ctx<'_, '_, '_>, reg: Reg) -> Decoded<Slot> {
    match reg {
        Reg::Word { slot, .. } => Ok(slot),
        Reg::Sink => Ok(ctx.builder.new_word()),
        Reg::Long(_) | Reg::Pred(_) => malformed("expected a 32-bit destination"),
    }
}

fn shuffle(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<(Collective, Slot)> {
    let mode = match modifiers.take_any(&["up", "down", "bfly", "idx"]) {
        Some("up") => ShuffleMode::Up,
        Some("down") => ShuffleMode::Down,
        Some("bfly") => ShuffleMode::Bfly,
        Some(_) => ShuffleMode::Idx,
        None => return Err(Reject::Unsupported),
    };
    modifiers.take_type()?;
    modifiers.finish()?;
    let (a, b, c) = (word(ctx, 1)?, word(ctx, 2)?, word(ctx, 3)?);
    let mask = word(ctx, 4)?;
    let (d, p) = with_predicate(ctx)?;
    let d = word_of(ctx, d)?;
    Ok((Collective::Shuffle { mode, d, p, a, b, c }, mask))
}

fn vote(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<(Collective, Slot)> {
    let mode = match modifiers.take_any(&["all", "any", "uni", "ballot"]) {
        Some("all") => VoteMode::All,
        Some("any") => VoteMode::Any,
        Some("uni") => VoteMode::Uni,
        Some(_) => VoteMode::Ballot,
        None => return Err(Reject::Unsupported),
    };
    modifiers.take_type()?;
    modifiers.finish()?;
    let operand = ctx.operand(1)?;
    let (p, negated) = ctx.builder.pred(operand)?;
    let mask = word(ctx, 2)?;
    let d = match mode {
        VoteMode::Ballot => Reg::Word { slot: destination(ctx, 0, 32)?, narrow: false },
        VoteMode::All | VoteMode::Any | VoteMode::Uni => Reg::Pred(pred_destination(ctx, 0)?),
    };
    Ok((Collective::Vote { mode, d, p, negated }, mask))
}

fn match_lanes(
    ctx: &mut Ctx<'_, '_, '_>,
    mut modifiers: Modifiers<'_>,
) -> Decoded<(Collective, Slot)> {
    let mode = modifiers.take_any(&["any", "all"]).ok_or(Reject::Unsupported)?;
    let ty = modifiers.take_type()?;
    modifiers.finish()?;
    let operand = ctx.operand(1)?;
    let a = ctx.builder.source(operand, ty.bits)?;
    let mask = word(ctx, 2)?;
    let (d, p) = with_predicate(ctx)?;
    let d = word_of(ctx, d)?;
    let collective = if mode == "any" {
        Collective::MatchAny { d, a }
    } else {
        Collective::MatchAll { d, p, a }
    };
    Ok((collective, mask))
}

fn redux(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<(Collective, Slot)> {
    let name = modifiers.take_any(&["add", "min", "max", "and", "or", "xor"]);
    let ty = modifiers.take_type()?;
    modifiers.finish()?;
    if ty.kind == Kind::Float || ty.bits != 32 {
        return Err(Reject::Unsupported);
    }
    let mode = match (name, ty.is_signed()) {
        (Some("add"), _) => ReduxMode::Add,
        (Some("min"), true) => ReduxMode::MinS,
        (Some("max"), true) => ReduxMode::MaxS,
        (Some("min"), false) => ReduxMode::MinU,
        (Some("max"), false) => ReduxMode::MaxU,
        (Some("and"), _) => ReduxMode::And,
        (Some("or"), _) => ReduxMode::Or,
        (Some("xor"), _) => ReduxMode::Xor,
        _ => return Err(Reject::Unsupported),
    };
    let (a, mask) = (word(ctx, 1)?, word(ctx, 2)?);
    let d = destination(ctx, 0, 32)?;
    Ok((Collective::Redux { mode, d, a }, mask))
}

fn elect(ctx: &mut Ctx<'_, '_, '_>) -> Decoded<(Collective, Slot)> {
    let mask = word(ctx, 1)?;
    let (d, p) = with_predicate(ctx)?;
    let p = p.map_or_else(|| malformed("elect needs a predicate"), Ok)?;
    Ok((Collective::Elect { d, p }, mask))
}

/// `bar` and `barrier`
pub(super) fn barrier(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    if modifiers.take("warp") {
        modifiers.take("sync");
        modifiers.finish()?;
        let mask = word(ctx, 0)?;
        ctx.emit(Op::Collective(Box::new((Collective::WarpSync, mask))), Class::Control);
        return Ok(());
    }
    modifiers.take("cta");
    modifiers.take("aligned");
    let kind = modifiers.take_any(&["sync", "arrive", "red"]).ok_or(Reject::Unsupported)?;
    if kind == "red" {
        return reduction(ctx, modifiers);
    }
    modifiers.finish()?;
    let id = word(ctx, 0)?;
    let count = if ctx.count() > 1 { Some(word(ctx, 1)?) } else { None };
    let arrive = kind == "arrive";
    let barrier = Barrier { id, count, arrive, reduction: None, source: None };
    ctx.emit(Op::Barrier(Box::new(barrier)), Class::Control);
    Ok(())
}

fn reduction(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    let kind = modifiers.take_any(&["popc", "and", "or"]).ok_or(Reject::Unsupported)?;
    modifiers.take_type()?;
    modifiers.finish()?;
    let reduction = match kind {
        "popc" => BarrierReduction::Popc(destination(ctx, 0, 32)?),
        "and" => BarrierReduction::And(pred_destination(ctx, 0)?),
        _ => BarrierReduction::Or(pred_destination(ctx, 0)?),
    };
    let id = word(ctx, 1)?;
    let count = if ctx.count() > 3 { Some(word(ctx, 2)?) } else { None };
    let operand = ctx.operand(ctx.count().saturating_sub(1))?;
    let source = Some(ctx.builder.pred(operand)?);
    let barrier = Barrier { id, count, arrive: false, reduction: Some(reduction), source };
    ctx.emit(Op::Barrier(Box::new(barrier)), Class::Control);
    Ok(())
}
