//! One function from syntax to code.

use crate::limits::AREA_BYTES_MAX;
use std::collections::HashMap;

use super::builder::{Builder, Place, Reject};
use super::decode;
use super::ir::{Callee, FunctionCode, Op, align_up, resolve_location};
use super::layout::layout;
use super::symbols::{Symbol, Symbols};
use super::{DecodeError, render};
use crate::syntax::{
    Function, FunctionKind, Instruction, Module, Scope, Space, Statement, Variable,
};

/// Offsets of parameters, then returns, and the size of both, in the frame's parameter area.
pub(super) fn signature(function: &Function) -> (Vec<u32>, Vec<u32>, u32) {
    let mut end = 0_u32;
    let mut place = |variable: &Variable| {
        let start = align_up(end, variable.align.clamp(1, 128));
        end = start.saturating_add(variable.bytes().min(AREA_BYTES_MAX) as u32);
        start
    };
    let params = function.params.iter().map(&mut place).collect();
    let returns = function.returns.iter().map(&mut place).collect();
    (params, returns, end)
}

/// Decodes the body of a function. Call targets are still module indices.
pub(super) fn decode(
    module: &Module,
    index: u32,
    symbols: &mut Symbols,
    kernel: &str,
) -> Result<FunctionCode, DecodeError> {
    let context = Context { module, index, kernel };
    let function = context.function();
    let Some(body) = &function.body else {
        return Err(context.unsupported(
            format!("call of extern `{}`", function.name),
            function.line,
            None,
        ));
    };
    let directives = &function.directives;
    if directives.cluster.is_some() || directives.explicit_cluster {
        return Err(context.unsupported(".reqnctapercluster".to_owned(), function.line, None));
    }
    let mut builder = Builder::new(symbols);
    builder.enter(&Scope::default());
    declare_parameters(&mut builder, function);
    scope(&mut builder, &context, body)?;
    let (word_constants, long_constants, pred_constants) = builder.constants();
    let most = builder.words.max(builder.longs).max(builder.preds);
    if most > u32::from(u16::MAX) || u64::from(builder.param_bytes_max) > AREA_BYTES_MAX {
        let what = format!("{most} registers in `{}`", function.name);
        return Err(context.unsupported(what, function.line, None));
    }
    let (code, origins) = layout(std::mem::take(&mut builder.flat));
    Ok(FunctionCode {
        code,
        origins,
        locations: function.locations.clone(),
        words: builder.words,
        longs: builder.longs,
        preds: builder.preds,
        word_constants,
        long_constants,
        pred_constants,
        param_bytes: builder.param_bytes_max,
        local_bytes: align_up(builder.local_bytes, 16),
        shared: builder.shared,
        calls: builder.calls,
        communicates: builder.communicates,
    })
}

/// Replaces module indices by program indices.
pub(super) fn translate_calls(code: &mut FunctionCode, decoded: &HashMap<u32, u32>) {
    for call in &mut code.calls {
        *call = decoded.get(call).copied().unwrap_or(0);
    }
    for inst in &mut code.code {
        if let Op::Call(call) = &mut inst.op
            && let Callee::Function(index) = &mut call.callee
        {
            *index = decoded.get(index).copied().unwrap_or(0);
        }
    }
}

/// What errors are attributed to.
struct Context<'m> {
    module: &'m Module,
    index: u32,
    kernel: &'m str,
}

impl Context<'_> {
    fn function(&self) -> &Function {
        &self.module.functions[self.index as usize]
    }

    fn unsupported(&self, what: String, ptx_line: u32, location: Option<u32>) -> DecodeError {
        let files: Vec<_> = self.module.files.iter().map(|f| (f.index, f.path.clone())).collect();
        DecodeError::Unsupported {
            instruction: what,
            ptx_line,
            source_location: location
                .and_then(|l| resolve_location(&self.function().locations, &files, l)),
            kernel: self.kernel.to_owned(),
        }
    }

    fn rejected(&self, reject: Reject, instruction: &Instruction) -> DecodeError {
        let text = render::instruction(instruction);
        match reject {
            Reject::Unsupported => self.unsupported(text, instruction.line, instruction.location),
            Reject::Malformed(reason) => DecodeError::Malformed {
                reason: format!("{reason} in `{text}`"),
                ptx_line: instruction.line,
                kernel: self.kernel.to_owned(),
            },
        }
    }
}

fn declare_parameters(builder: &mut Builder<'_>, function: &Function) {
    let (params, returns, end) = signature(function);
    if function.kind == FunctionKind::Entry {
        for (param, offset) in function.params.iter().zip(params) {
            builder.declare_variable(&param.name, Place::EntryParam(offset));
        }
        return;
    }
    builder.reserve_param(end, 1);
    let named = function.params.iter().zip(params).chain(function.returns.iter().zip(returns));
    for (variable, offset) in named {
        builder.declare_variable(&variable.name, Place::FrameParam(offset));
    }
}

fn scope(
    builder: &mut Builder<'_>,
    context: &Context<'_>,
    scope_syntax: &Scope,
) -> Result<(), DecodeError> {
    builder.enter(scope_syntax);
    for statement in &scope_syntax.statements {
        match statement {
            Statement::Registers(registers) => builder.declare_registers(registers),
            Statement::Variable(variable) => declare(builder, context, variable)?,
            Statement::Label(label) => {
                if let Ok(label) = builder.label(label) {
                    builder.place_label(label);
                }
            }
            Statement::Instruction(instruction) => {
                builder.set_origin(instruction);
                decode::instruction(builder, context.module, instruction)
                    .map_err(|reject| context.rejected(reject, instruction))?;
            }
            Statement::Scope(inner) => scope(builder, context, inner)?,
            Statement::Prototype(_) | Statement::Targets { .. } | Statement::Pragma(_) => {}
        }
    }
    builder.leave();
    Ok(())
}

fn declare(
    builder: &mut Builder<'_>,
    context: &Context<'_>,
    variable: &Variable,
) -> Result<(), DecodeError> {
    let bytes = variable.bytes();
    let too_large = matches!(variable.space, Space::Local | Space::Param) && bytes > AREA_BYTES_MAX;
    if too_large || u64::from(builder.local_bytes) > AREA_BYTES_MAX {
        let what = format!("`{}` of {bytes} bytes", variable.name);
        return Err(context.unsupported(what, variable.line, None));
    }
    let place = match variable.space {
        Space::Param => Place::FrameParam(builder.reserve_param(bytes as u32, variable.align)),
        Space::Local => Place::Local(builder.reserve_local(bytes as u32, variable.align)),
        Space::Global | Space::Const | Space::Shared => {
            let declared = builder.symbols.declare(variable).map_err(|(reason, ptx_line)| {
                DecodeError::Malformed { reason, ptx_line, kernel: context.kernel.to_owned() }
            })?;
            Place::Module(declared.unwrap_or(Symbol::Function(0)))
        }
    };
    builder.declare_variable(&variable.name, place);
    Ok(())
}
