//! PTX text to tokens with line numbers.

use logos::Logos;

/// Tokens. Words keep their dots (`ld.global.f32`, `%tid.x`, `mma.sp::ordered_metadata`).
#[derive(Logos, Debug, Clone, Copy, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f]+", skip(r"//[^\n]*", allow_greedy = true))]
#[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
pub(crate) enum Token<'s> {
    #[regex(r"[A-Za-z_$%][A-Za-z0-9_$]*((\.|::)[A-Za-z0-9_$]+)*")]
    Word(&'s str),
    #[regex(r"\.[A-Za-z_][A-Za-z0-9_$]*(::[A-Za-z0-9_$]+)*")]
    Directive(&'s str),
    #[regex(r"[0-9][A-Za-z0-9_]*(\.[0-9]+([eE][+-]?[0-9]+)?)?")]
    Number(&'s str),
    #[regex(r#""[^"\n]*""#)]
    Text(&'s str),
    #[token("{")]
    BraceOpen,
    #[token("}")]
    BraceClose,
    #[token("(")]
    ParenOpen,
    #[token(")")]
    ParenClose,
    #[token("[")]
    BracketOpen,
    #[token("]")]
    BracketClose,
    #[token("<")]
    Less,
    #[token(">")]
    Greater,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token("=")]
    Equals,
    #[token("@")]
    At,
    #[token("!")]
    Bang,
    #[token("|")]
    Pipe,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("~")]
    Tilde,
    /// A character outside the grammar.
    Unknown(&'s str),
}

/// All tokens, each with its one-based line.
pub(crate) fn tokens(text: &str) -> Vec<(Token<'_>, u32)> {
    let mut line = 1;
    let mut counted = 0;
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(text.len() / 6);
    for (token, span) in Token::lexer(text).spanned() {
        let newlines = bytes[counted..span.start].iter().filter(|b| **b == b'\n').count();
        line += u32::try_from(newlines).unwrap_or(u32::MAX - line);
        counted = span.start;
        out.push((token.unwrap_or_else(|()| Token::Unknown(&text[span])), line));
    }
    out
}
