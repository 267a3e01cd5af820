//! A cursor over tokens: looking ahead, taking, literals, errors.

use super::lexer::Token;
use super::{Immediate, NESTING_MAX, ParseError};

/// A position in the token list.
#[derive(Debug)]
pub(super) struct Cursor<'t, 's> {
    tokens: &'t [(Token<'s>, u32)],
    at: usize,
    depth: usize,
}

pub(super) type Parsed<T> = Result<T, ParseError>;

impl<'t, 's> Cursor<'t, 's> {
    pub(super) fn new(tokens: &'t [(Token<'s>, u32)]) -> Cursor<'t, 's> {
        Cursor { tokens, at: 0, depth: 0 }
    }

    /// Goes back one token.
    pub(super) fn back(&mut self) {
        self.at = self.at.saturating_sub(1);
    }

    pub(super) fn peek(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at).map(|t| t.0)
    }

    pub(super) fn peek_second(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at + 1).map(|t| t.0)
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.1)
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    pub(super) fn error<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(token) => format!("{token:?}").chars().take(60).collect(),
        };
        Err(ParseError { line: self.line(), expected: expected.to_owned(), found })
    }

    /// Takes the token if it is next.
    pub(super) fn accept(&mut self, token: Token<'_>) -> bool {
        let hit = self.peek() == Some(token);
        self.at += usize::from(hit);
        hit
    }

    pub(super) fn expect(&mut self, token: Token<'_>) -> Parsed<()> {
        if self.accept(token) { Ok(()) } else { self.error(&format!("{token:?}")) }
    }

    pub(super) fn accept_directive(&mut self, name: &str) -> bool {
        let hit = self.peek() == Some(Token::Directive(name));
        self.at += usize::from(hit);
        hit
    }

    pub(super) fn word(&mut self, expected: &str) -> Parsed<&'s str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.error(expected),
        }
    }

    /// An unsigned integer literal.
    pub(super) fn unsigned(&mut self) -> Parsed<u64> {
        if let Some(Token::Number(text)) = self.peek()
            && let Some(Immediate::Int(value)) = number(text)
            && let Ok(value) = u64::try_from(value)
        {
            self.at += 1;
            return Ok(value);
        }
        self.error("an unsigned integer")
    }

    pub(super) fn unsigned32(&mut self) -> Parsed<u32> {
        let value = self.unsigned()?;
        u32::try_from(value).or_else(|_| {
            self.at -= 1;
            self.error("a 32-bit unsigned integer")
        })
    }

    /// A number with an optional sign.
    pub(super) fn immediate(&mut self) -> Parsed<Immediate> {
        let negative = self.accept(Token::Minus);
        if !negative {
            self.accept(Token::Plus);
        }
        let inverted = self.accept(Token::Tilde);
        let Some(Token::Number(text)) = self.peek() else { return self.error("a number") };
        let Some(value) = number(text) else { return self.error("a number") };
        self.at += 1;
        Ok(match value {
            Immediate::Int(v) if negative => Immediate::Int(v.wrapping_neg()),
            Immediate::Int(v) if inverted => Immediate::Int(!v),
            Immediate::F32(bits) if negative => Immediate::F32(bits ^ 1 << 31),
            Immediate::F64(bits) if negative => Immediate::F64(bits ^ 1 << 63),
            other => other,
        })
    }

    /// A signed byte offset after a symbol or register: any number of `+n` and `-n`.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        let mut sum = 0_i64;
        loop {
            let negative = match self.peek() {
                Some(Token::Plus) => false,
                Some(Token::Minus) => true,
                _ => return Ok(sum),
            };
            if !negative {
                self.advance();
            }
            let value = match self.immediate()? {
                Immediate::Int(value) => i64::try_from(value).ok(),
                Immediate::F32(_) | Immediate::F64(_) => None,
            };
            match value.and_then(|v| sum.checked_add(v)) {
                Some(next) => sum = next,
                None => return self.error("a 64-bit byte offset"),
            }
        }
    }

    pub(super) fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > NESTING_MAX { self.error("fewer nested braces") } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Skips to the matching closing brace, which is taken.
    pub(super) fn skip_braces(&mut self) -> Parsed<()> {
        self.expect(Token::BraceOpen)?;
        let mut depth = 1_u64;
        while depth > 0 {
            match self.peek() {
                Some(Token::BraceOpen) => depth += 1,
                Some(Token::BraceClose) => depth -= 1,
                Some(_) => {}
                None => return self.error("a closing brace"),
            }
            self.advance();
        }
        Ok(())
    }
}

/// A literal: decimal, hexadecimal, octal, binary, `0f`/`0d` bits, or decimal fraction.
pub(super) fn number(text: &str) -> Option<Immediate> {
    let lower = text.to_ascii_lowercase();
    if let Some(bits) = lower.strip_prefix("0f") {
        return u32::from_str_radix(bits, 16).ok().map(Immediate::F32);
    }
    if let Some(bits) = lower.strip_prefix("0d") {
        return u64::from_str_radix(bits, 16).ok().map(Immediate::F64);
    }
    if lower.contains('.') {
        return lower.parse::<f64>().ok().map(|v| Immediate::F64(v.to_bits()));
    }
    let digits = lower.trim_end_matches('u');
    let (digits, radix) = if let Some(hex) = digits.strip_prefix("0x") {
        (hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        (binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (digits, 8)
    } else {
        (digits, 10)
    };
    i128::from_str_radix(digits, radix).ok().map(Immediate::Int)
}
