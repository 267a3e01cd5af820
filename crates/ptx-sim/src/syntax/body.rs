//! Function bodies: scopes, statements, instructions, operands.

use std::sync::Arc;

use super::cursor::{Cursor, Parsed};
use super::lexer::Token;
use super::parser::{params, scalar_type, space, variables};
use super::{
    Guard, Instruction, Linkage, Operand, Prototype, REGISTERS_MAX, Registers, Scope,
    SourceLocation, Statement,
};

/// State while one function body is read.
struct Body<'f> {
    locations: &'f mut Vec<SourceLocation>,
    current: Option<u32>,
    registers: u64,
}

/// Reads `{ ... }` and collects the distinct `.loc` positions.
pub(super) fn parse_scope(
    cursor: &mut Cursor<'_, '_>,
    locations: &mut Vec<SourceLocation>,
) -> Parsed<Scope> {
    let mut body = Body { locations, current: None, registers: 0 };
    scope(cursor, &mut body)
}

fn scope(cursor: &mut Cursor<'_, '_>, body: &mut Body<'_>) -> Parsed<Scope> {
    cursor.expect(Token::BraceOpen)?;
    cursor.enter()?;
    let mut statements = Vec::new();
    while !cursor.accept(Token::BraceClose) {
        statement(cursor, body, &mut statements)?;
    }
    cursor.leave();
    Ok(Scope { statements })
}

fn statement(
    cursor: &mut Cursor<'_, '_>,
    body: &mut Body<'_>,
    out: &mut Vec<Statement>,
) -> Parsed<()> {
    match cursor.peek() {
        Some(Token::Semicolon) => cursor.advance(),
        Some(Token::BraceOpen) => out.push(Statement::Scope(scope(cursor, body)?)),
        Some(Token::Directive(word)) => directive(cursor, body, word, out)?,
        Some(Token::Word(word)) if cursor.peek_second() == Some(Token::Colon) => {
            cursor.advance();
            cursor.advance();
            out.push(labelled(cursor, word)?);
        }
        Some(Token::Word(_) | Token::At) => {
            out.push(Statement::Instruction(instruction(cursor, body)?));
        }
        _ => return cursor.error("a statement"),
    }
    Ok(())
}

fn directive(
    cursor: &mut Cursor<'_, '_>,
    body: &mut Body<'_>,
    word: &str,
    out: &mut Vec<Statement>,
) -> Parsed<()> {
    match word {
        ".reg" => out.push(Statement::Registers(registers(cursor, body)?)),
        ".loc" => location(cursor, body)?,
        ".pragma" => {
            cursor.advance();
            let Some(Token::Text(text)) = cursor.peek() else { return cursor.error("a string") };
            cursor.advance();
            while cursor.accept(Token::Comma) {
                cursor.advance();
            }
            cursor.expect(Token::Semicolon)?;
            out.push(Statement::Pragma(text.trim_matches('"').to_owned()));
        }
        _ if space(word).is_some() => {
            let found = variables(cursor, Linkage::Internal)?;
            out.extend(found.into_iter().map(Statement::Variable));
        }
        _ => return cursor.error("a statement"),
    }
    Ok(())
}

/// What stands after `name:`.
fn labelled(cursor: &mut Cursor<'_, '_>, name: &str) -> Parsed<Statement> {
    if cursor.accept_directive(".callprototype") {
        let first = if cursor.peek() == Some(Token::ParenOpen) { params(cursor)? } else { vec![] };
        cursor.word("`_`")?;
        let second = if cursor.peek() == Some(Token::ParenOpen) { params(cursor)? } else { vec![] };
        while matches!(cursor.peek(), Some(Token::Directive(_) | Token::Number(_))) {
            cursor.advance();
        }
        cursor.expect(Token::Semicolon)?;
        let name = name.to_owned();
        return Ok(Statement::Prototype(Prototype { name, returns: first, params: second }));
    }
    if cursor.accept_directive(".branchtargets") || cursor.accept_directive(".calltargets") {
        let mut targets = vec![cursor.word("a label")?.to_owned()];
        while cursor.accept(Token::Comma) {
            targets.push(cursor.word("a label")?.to_owned());
        }
        cursor.expect(Token::Semicolon)?;
        return Ok(Statement::Targets { name: name.to_owned(), targets });
    }
    Ok(Statement::Label(name.to_owned()))
}

fn registers(cursor: &mut Cursor<'_, '_>, body: &mut Body<'_>) -> Parsed<Registers> {
    cursor.advance();
    let mut ty = None;
    let mut width = 1;
    while let Some(Token::Directive(word)) = cursor.peek() {
        match (word, scalar_type(word)) {
            (".v2", _) => width = 2,
            (".v4", _) => width = 4,
            (_, Some(found)) => ty = Some(found),
            (_, None) => return cursor.error("a register type"),
        }
        cursor.advance();
    }
    let Some(ty) = ty.filter(|_| width == 1) else { return cursor.error("a scalar register type") };
    let mut names = Vec::new();
    loop {
        let name = cursor.word("a register name")?.to_owned();
        let family = if cursor.accept(Token::Less) {
            let count = cursor.unsigned32()?;
            cursor.expect(Token::Greater)?;
            Some(count)
        } else {
            None
        };
        body.registers += u64::from(family.unwrap_or(1));
        if body.registers > REGISTERS_MAX {
            return cursor.error("fewer registers in one function");
        }
        names.push((name, family));
        if !cursor.accept(Token::Comma) {
            break;
        }
    }
    cursor.expect(Token::Semicolon)?;
    Ok(Registers { ty, names })
}

/// `.loc file line column[, function_name label, inlined_at file line column]`
fn location(cursor: &mut Cursor<'_, '_>, body: &mut Body<'_>) -> Parsed<()> {
    cursor.advance();
    let (file, line, column) = (cursor.unsigned32()?, cursor.unsigned32()?, cursor.unsigned32()?);
    let mut inlined_at = None;
    while cursor.accept(Token::Comma) {
        match cursor.word("function_name or inlined_at")? {
            "function_name" => {
                cursor.word("a label")?;
                cursor.offset()?;
            }
            "inlined_at" => {
                let file = cursor.unsigned32()?;
                inlined_at = Some((file, cursor.unsigned32()?, cursor.unsigned32()?));
            }
            _ => return cursor.error("function_name or inlined_at"),
        }
    }
    let found = SourceLocation { file, line, column, inlined_at };
    // Line 0 marks code without a position of its own; the position before it stays.
    if line > 0 {
        let known = body.locations.iter().rev().take(64).position(|l| *l == found);
        let index = known.map_or(body.locations.len(), |back| body.locations.len() - 1 - back);
        if known.is_none() {
            body.locations.push(found);
        }
        body.current = u32::try_from(index).ok();
    }
    Ok(())
}

fn instruction(cursor: &mut Cursor<'_, '_>, body: &Body<'_>) -> Parsed<Instruction> {
    let guard = if cursor.accept(Token::At) {
        let negated = cursor.accept(Token::Bang);
        Some(Guard { register: cursor.word("a predicate")?.into(), negated })
    } else {
        None
    };
    let line = cursor.line();
    let op: Arc<str> = cursor.word("an opcode")?.into();
    let mut operands = Vec::new();
    if !cursor.accept(Token::Semicolon) {
        loop {
            operands.push(operand(cursor)?);
            if !cursor.accept(Token::Comma) {
                break;
            }
        }
        cursor.expect(Token::Semicolon)?;
    }
    Ok(Instruction { guard, op, operands, location: body.current, line })
}

fn operand(cursor: &mut Cursor<'_, '_>) -> Parsed<Operand> {
    let first = match cursor.peek() {
        Some(Token::Word(word)) => {
            cursor.advance();
            match cursor.offset()? {
                0 => Operand::Name(word.into()),
                offset => Operand::Offset(word.into(), offset),
            }
        }
        Some(Token::Bang) => {
            cursor.advance();
            Operand::Not(cursor.word("a predicate")?.into())
        }
        Some(Token::BraceOpen) => {
            cursor.advance();
            Operand::Vector(list(cursor, Token::BraceClose)?)
        }
        Some(Token::ParenOpen) => {
            cursor.advance();
            Operand::List(list(cursor, Token::ParenClose)?)
        }
        Some(Token::BracketOpen) => address(cursor)?,
        _ => Operand::Number(cursor.immediate()?),
    };
    if cursor.accept(Token::Pipe) {
        cursor.enter()?;
        let second = operand(cursor)?;
        cursor.leave();
        return Ok(Operand::Pair(Box::new(first), Box::new(second)));
    }
    Ok(first)
}

/// Operands up to a closing token, which is taken.
fn list(cursor: &mut Cursor<'_, '_>, close: Token<'_>) -> Parsed<Vec<Operand>> {
    cursor.enter()?;
    let mut out = Vec::new();
    while !cursor.accept(close) {
        out.push(operand(cursor)?);
        if !cursor.accept(Token::Comma) && cursor.peek() != Some(close) {
            return cursor.error("a comma or the end of the list");
        }
    }
    cursor.leave();
    Ok(out)
}

fn address(cursor: &mut Cursor<'_, '_>) -> Parsed<Operand> {
    cursor.expect(Token::BracketOpen)?;
    let (base, offset) = match operand(cursor)? {
        Operand::Offset(name, offset) => (Operand::Name(name), offset),
        base => (base, cursor.offset()?),
    };
    let mut more = Vec::new();
    while cursor.accept(Token::Comma) {
        more.push(operand(cursor)?);
    }
    cursor.expect(Token::BracketClose)?;
    Ok(Operand::Address { base: Box::new(base), offset, more })
}
