//! Branches, calls, returns, traps, and instructions that only hint.

use super::builder::{Decoded, Place, Reject, malformed};
use super::decode::{Ctx, alu};
use super::function::signature;
use super::ir::{AluOp, Call, Callee, Class, Constant, Op};
use super::modifiers::Modifiers;
use super::symbols::Symbol;
use crate::syntax::{Function, Operand, Variable};

/// `bra`
pub(super) fn branch(ctx: &mut Ctx<'_, '_, '_>, mut modifiers: Modifiers<'_>) -> Decoded<()> {
    modifiers.take("uni");
    modifiers.finish()?;
    let Operand::Name(label) = ctx.operand(0)? else { return malformed("expected a label") };
    let label = ctx.builder.label(label)?;
    ctx.emit(Op::Branch(label), Class::Control);
    Ok(())
}

/// `ret`, `exit`, `trap`, `brkpt`, `call`
pub(super) fn transfer(
    ctx: &mut Ctx<'_, '_, '_>,
    root: &str,
    mut modifiers: Modifiers<'_>,
) -> Decoded<()> {
    modifiers.take("uni");
    modifiers.finish()?;
    let op = match root {
        "ret" => Op::Return,
        "exit" => Op::Exit,
        "trap" | "brkpt" => Op::Trap,
        _ => return call(ctx),
    };
    ctx.emit(op, Class::Control);
    Ok(())
}

/// Fences and the like: nothing to compute, but they tell what a kernel is up to.
pub(super) fn hint(ctx: &mut Ctx<'_, '_, '_>, root: &str) -> Decoded<()> {
    match root {
        "nanosleep" => ctx.emit(Op::Yield, Class::Control),
        "createpolicy" => {
            let operand = ctx.operand(0)?;
            let d = ctx.builder.long_destination(operand)?;
            let zero = ctx.builder.long_constant(Constant::Value(0));
            ctx.alu(alu(AluOp::MovL, 0, d, zero), Class::Move);
        }
        _ => {
            let is_fence = matches!(root, "membar" | "fence");
            let is_narrow = ctx.instruction.modifiers().any(|m| m == "cta" || m == "proxy");
            ctx.builder.communicates |= is_fence && !is_narrow;
            ctx.emit(Op::Nothing, Class::Control);
        }
    }
    Ok(())
}

/// `call (results), function, (arguments)`
fn call(ctx: &mut Ctx<'_, '_, '_>) -> Decoded<()> {
    let mut operands = ctx.instruction.operands.as_slice();
    let results: &[Operand] = match operands {
        [Operand::List(list), rest @ ..] => {
            operands = rest;
            list
        }
        _ => &[],
    };
    let (name, arguments): (_, &[Operand]) = match operands {
        [Operand::Name(name)] => (name, &[]),
        [Operand::Name(name), Operand::List(list)] => (name, list),
        // A prototype as the last operand: an indirect call.
        _ => return Err(Reject::Unsupported),
    };
    let Some(Place::Module(Symbol::Function(index))) = ctx.builder.place(name) else {
        return Err(Reject::Unsupported);
    };
    let module = ctx.module;
    let Some(function) = module.functions.get(index as usize) else {
        return Err(Reject::Unsupported);
    };
    let defined = module.functions.iter().position(|f| f.name == function.name && f.body.is_some());
    let callee = match (defined, &*function.name) {
        (Some(index), _) => Callee::Function(index as u32),
        (None, "vprintf") => Callee::Print,
        (None, "__assertfail") => Callee::AssertFail,
        (None, _) => return Err(Reject::Unsupported),
    };
    if let Callee::Function(index) = callee
        && !ctx.builder.calls.contains(&index)
    {
        ctx.builder.calls.push(index);
    }
    let call = copies(ctx, function, callee, arguments, results)?;
    ctx.emit(Op::Call(Box::new(call)), Class::Control);
    Ok(())
}

fn copies(
    ctx: &Ctx<'_, '_, '_>,
    function: &Function,
    callee: Callee,
    arguments: &[Operand],
    results: &[Operand],
) -> Decoded<Call> {
    if arguments.len() != function.params.len() || results.len() != function.returns.len() {
        return malformed(format!("wrong number of arguments or results of `{}`", function.name));
    }
    let (params, returns, _) = signature(function);
    let ranges = |operands: &[Operand], formals: &[Variable], offsets: &[u32]| {
        operands
            .iter()
            .zip(formals)
            .zip(offsets)
            .map(|((operand, formal), offset)| match operand {
                Operand::Name(name) => match ctx.builder.place(name) {
                    Some(Place::FrameParam(at)) => Ok((at, *offset, formal.bytes() as u32)),
                    _ => Err(Reject::Unsupported),
                },
                _ => Err(Reject::Unsupported),
            })
            .collect::<Decoded<Vec<_>>>()
    };
    let arguments = ranges(arguments, &function.params, &params)?;
    let results = ranges(results, &function.returns, &returns)?
        .into_iter()
        .map(|(here, there, bytes)| (there, here, bytes))
        .collect();
    Ok(Call { callee, arguments, results })
}
