//! The module level of the grammar: directives, variables, function heads.

use super::body::parse_scope;
use super::cursor::{Cursor, Parsed};
use super::lexer::{Token, tokens};
use super::{
    Directives, Function, FunctionKind, Init, Linkage, Module, ParseError, ScalarType, SourceFile,
    SourceLocation, Space, TEXT_BYTES_MAX, Variable,
};

/// Reads a module.
///
/// # Errors
/// The first place where the text leaves the grammar or exceeds a cap. Never panics.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ParseError {
            line: 1,
            expected: format!("at most {TEXT_BYTES_MAX} bytes of text"),
            found: format!("{} bytes", text.len()),
        });
    }
    let tokens = tokens(text);
    let mut cursor = Cursor::new(&tokens);
    let mut module = Module { address_size: 64, ..Module::default() };
    while cursor.peek().is_some() {
        module_item(&mut cursor, &mut module)?;
    }
    Ok(module)
}

fn module_item(cursor: &mut Cursor<'_, '_>, module: &mut Module) -> Parsed<()> {
    if cursor.accept(Token::Semicolon) {
        return Ok(());
    }
    let Some(Token::Directive(name)) = cursor.peek() else {
        return cursor.error("a module-level directive");
    };
    match name {
        ".version" => {
            cursor.advance();
            module.version = version(cursor)?;
            Ok(())
        }
        ".target" => {
            cursor.advance();
            module.target.push(cursor.word("a target")?.to_owned());
            while cursor.accept(Token::Comma) {
                module.target.push(cursor.word("a target")?.to_owned());
            }
            Ok(())
        }
        ".address_size" => {
            cursor.advance();
            module.address_size = cursor.unsigned32()?;
            Ok(())
        }
        ".file" => file(cursor, module),
        ".section" => {
            cursor.advance();
            if !matches!(cursor.peek(), Some(Token::Directive(_) | Token::Word(_))) {
                return cursor.error("a section name");
            }
            cursor.advance();
            cursor.skip_braces()
        }
        ".pragma" | ".alias" => skip_statement(cursor),
        _ => declaration(cursor, module),
    }
}

fn skip_statement(cursor: &mut Cursor<'_, '_>) -> Parsed<()> {
    while !cursor.accept(Token::Semicolon) {
        if cursor.peek().is_none() {
            return cursor.error("a semicolon");
        }
        cursor.advance();
    }
    Ok(())
}

fn version(cursor: &mut Cursor<'_, '_>) -> Parsed<(u32, u32)> {
    if let Some(Token::Number(text)) = cursor.peek()
        && let Some((major, minor)) = text.split_once('.')
        && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
    {
        cursor.advance();
        return Ok((major, minor));
    }
    cursor.error("a version such as 9.0")
}

fn file(cursor: &mut Cursor<'_, '_>, module: &mut Module) -> Parsed<()> {
    cursor.advance();
    let index = cursor.unsigned32()?;
    let Some(Token::Text(path)) = cursor.peek() else { return cursor.error("a quoted path") };
    cursor.advance();
    while cursor.accept(Token::Comma) {
        cursor.unsigned()?;
    }
    module.files.push(SourceFile { index, path: path.trim_matches('"').to_owned() });
    Ok(())
}

fn declaration(cursor: &mut Cursor<'_, '_>, module: &mut Module) -> Parsed<()> {
    let linkage = linkage(cursor);
    match cursor.peek() {
        Some(Token::Directive(".entry")) => {
            cursor.advance();
            module.functions.push(function(cursor, FunctionKind::Entry, linkage)?);
        }
        Some(Token::Directive(".func")) => {
            cursor.advance();
            module.functions.push(function(cursor, FunctionKind::Func, linkage)?);
        }
        Some(Token::Directive(word)) if space(word).is_some() => {
            module.variables.extend(variables(cursor, linkage)?);
        }
        _ => return cursor.error("a variable, .entry or .func"),
    }
    Ok(())
}

fn linkage(cursor: &mut Cursor<'_, '_>) -> Linkage {
    let mut linkage = Linkage::Internal;
    while let Some(Token::Directive(word)) = cursor.peek() {
        linkage = match word {
            ".visible" => Linkage::Visible,
            ".extern" => Linkage::Extern,
            ".weak" => Linkage::Weak,
            ".common" => Linkage::Common,
            _ => break,
        };
        cursor.advance();
    }
    linkage
}

/// The state space that a directive opens a declaration of.
pub(super) fn space(directive: &str) -> Option<Space> {
    Some(match directive {
        ".global" => Space::Global,
        ".const" => Space::Const,
        ".shared" => Space::Shared,
        ".local" => Space::Local,
        ".param" => Space::Param,
        _ => return None,
    })
}

/// A fundamental type.
pub(super) fn scalar_type(directive: &str) -> Option<ScalarType> {
    Some(match directive {
        ".pred" => ScalarType::Pred,
        ".b8" => ScalarType::Bits(1),
        ".b16" => ScalarType::Bits(2),
        ".b32" => ScalarType::Bits(4),
        ".b64" => ScalarType::Bits(8),
        ".b128" => ScalarType::Bits(16),
        ".u8" => ScalarType::Unsigned(1),
        ".u16" => ScalarType::Unsigned(2),
        ".u32" => ScalarType::Unsigned(4),
        ".u64" => ScalarType::Unsigned(8),
        ".s8" => ScalarType::Signed(1),
        ".s16" => ScalarType::Signed(2),
        ".s32" => ScalarType::Signed(4),
        ".s64" => ScalarType::Signed(8),
        ".f16" => ScalarType::Float(2),
        ".f32" => ScalarType::Float(4),
        ".f64" => ScalarType::Float(8),
        ".bf16" => ScalarType::Other(2),
        ".f16x2" | ".bf16x2" | ".tf32" => ScalarType::Other(4),
        ".texref" | ".samplerref" | ".surfref" => ScalarType::Opaque,
        _ => return None,
    })
}

/// `.space qualifiers .type name[dims] = init, name2 ...;`
pub(super) fn variables(cursor: &mut Cursor<'_, '_>, linkage: Linkage) -> Parsed<Vec<Variable>> {
    let mut shape = variable_shape(cursor, linkage)?;
    let mut out = Vec::new();
    loop {
        let mut variable = shape.clone();
        named_array(cursor, &mut variable)?;
        if cursor.accept(Token::Equals) {
            initialiser(cursor, &mut variable.init)?;
        }
        if variable.elements == Some(0) && !variable.init.is_empty() {
            variable.elements = Some(variable.init.len() as u64);
        }
        out.push(variable);
        if !cursor.accept(Token::Comma) {
            break;
        }
        shape.line = cursor.line();
    }
    cursor.expect(Token::Semicolon)?;
    Ok(out)
}

/// Space, alignment, vector width and type, without a name.
fn variable_shape(cursor: &mut Cursor<'_, '_>, linkage: Linkage) -> Parsed<Variable> {
    let line = cursor.line();
    let Some(Token::Directive(word)) = cursor.peek() else { return cursor.error("a state space") };
    let Some(space) = space(word) else { return cursor.error("a state space") };
    cursor.advance();
    let (mut ty, mut align, mut vector) = (None, None, None);
    while let Some(Token::Directive(word)) = cursor.peek() {
        cursor.advance();
        match word {
            ".align" => align = Some(cursor.unsigned32()?),
            ".ptr" | ".global" | ".const" | ".shared" | ".local" | ".param" | ".managed" => {}
            ".v2" => vector = Some(2),
            ".v4" => vector = Some(4),
            ".attribute" => {
                while !cursor.accept(Token::ParenClose) {
                    if cursor.peek().is_none() {
                        return cursor.error("a closing parenthesis");
                    }
                    cursor.advance();
                }
            }
            other => match scalar_type(other) {
                // `.ptr .align n` describes what is pointed to, not the parameter.
                Some(found) => ty = Some(found),
                None => {
                    cursor.back();
                    return cursor.error("a type");
                }
            },
        }
    }
    let Some(ty) = ty else { return cursor.error("a type") };
    let natural = ty.bytes() * vector.unwrap_or(1);
    let align = align.filter(|a| a.is_power_of_two()).unwrap_or(natural).max(ty.bytes());
    let elements = vector.map(u64::from);
    Ok(Variable { name: String::new(), space, linkage, ty, align, elements, init: vec![], line })
}

/// A name with array dimensions.
fn named_array(cursor: &mut Cursor<'_, '_>, variable: &mut Variable) -> Parsed<()> {
    cursor.word("a name")?.clone_into(&mut variable.name);
    while cursor.accept(Token::BracketOpen) {
        let extent =
            if cursor.peek() == Some(Token::BracketClose) { 0 } else { cursor.unsigned()? };
        cursor.expect(Token::BracketClose)?;
        let product = variable.elements.unwrap_or(1).checked_mul(extent);
        match product.filter(|p| *p <= 1 << 40) {
            Some(elements) => variable.elements = Some(elements),
            None => return cursor.error("a smaller array"),
        }
    }
    Ok(())
}

fn initialiser(cursor: &mut Cursor<'_, '_>, out: &mut Vec<Init>) -> Parsed<()> {
    if cursor.accept(Token::BraceOpen) {
        cursor.enter()?;
        while !cursor.accept(Token::BraceClose) {
            initialiser(cursor, out)?;
            if !cursor.accept(Token::Comma) && cursor.peek() != Some(Token::BraceClose) {
                return cursor.error("a comma or closing brace");
            }
        }
        cursor.leave();
        return Ok(());
    }
    if let Some(Token::Word(word)) = cursor.peek() {
        cursor.advance();
        let generic = word == "generic";
        let symbol = if generic {
            cursor.expect(Token::ParenOpen)?;
            let inner = cursor.word("a symbol")?;
            cursor.expect(Token::ParenClose)?;
            inner
        } else {
            word
        };
        let offset = cursor.offset()?;
        out.push(Init::Address { symbol: symbol.to_owned(), offset, generic });
        return Ok(());
    }
    out.push(Init::Number(cursor.immediate()?));
    Ok(())
}

fn function(cursor: &mut Cursor<'_, '_>, kind: FunctionKind, linkage: Linkage) -> Parsed<Function> {
    let line = cursor.line();
    cursor.accept_directive(".attribute");
    let returns = if cursor.peek() == Some(Token::ParenOpen) { params(cursor)? } else { vec![] };
    let name = cursor.word("a function name")?.to_owned();
    let params = if cursor.peek() == Some(Token::ParenOpen) { params(cursor)? } else { vec![] };
    let directives = directives(cursor)?;
    let mut locations: Vec<SourceLocation> = Vec::new();
    let body = if cursor.accept(Token::Semicolon) {
        None
    } else {
        Some(parse_scope(cursor, &mut locations)?)
    };
    Ok(Function { name, kind, linkage, returns, params, directives, body, locations, line })
}

/// `(.param .type name, ...)`
pub(super) fn params(cursor: &mut Cursor<'_, '_>) -> Parsed<Vec<Variable>> {
    cursor.expect(Token::ParenOpen)?;
    let mut out = Vec::new();
    while !cursor.accept(Token::ParenClose) {
        let mut variable = if cursor.peek() == Some(Token::Directive(".reg")) {
            return cursor.error("a .param parameter");
        } else {
            variable_shape(cursor, Linkage::Internal)?
        };
        named_array(cursor, &mut variable)?;
        out.push(variable);
        if !cursor.accept(Token::Comma) && cursor.peek() != Some(Token::ParenClose) {
            return cursor.error("a comma or closing parenthesis");
        }
    }
    Ok(out)
}

fn directives(cursor: &mut Cursor<'_, '_>) -> Parsed<Directives> {
    let mut found = Directives::default();
    while let Some(Token::Directive(word)) = cursor.peek() {
        cursor.advance();
        match word {
            ".maxntid" => found.maxntid = Some(extents(cursor)?),
            ".reqntid" => found.reqntid = Some(extents(cursor)?),
            ".reqnctapercluster" => found.cluster = Some(extents(cursor)?),
            ".minnctapersm" => found.minnctapersm = Some(cursor.unsigned32()?),
            ".maxnreg" => found.maxnreg = Some(cursor.unsigned32()?),
            ".explicitcluster" => found.explicit_cluster = true,
            ".maxclusterrank" | ".maxnctapersm" => {
                cursor.unsigned()?;
                found.other.push(word.trim_start_matches('.').to_owned());
            }
            ".pragma" => skip_statement(cursor)?,
            other => found.other.push(other.trim_start_matches('.').to_owned()),
        }
    }
    Ok(found)
}

fn extents(cursor: &mut Cursor<'_, '_>) -> Parsed<[u32; 3]> {
    let mut dims = [1; 3];
    for (axis, dim) in dims.iter_mut().enumerate() {
        if axis > 0 && !cursor.accept(Token::Comma) {
            break;
        }
        *dim = cursor.unsigned32()?;
    }
    Ok(dims)
}
