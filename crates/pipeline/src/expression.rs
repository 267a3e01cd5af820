//! Integer and boolean expressions of plans and tasks.
//!
//! Minijinja's expression compiler does the arithmetic (exact, checked); this file fixes the small
//! language around it: which characters, words and names are allowed, and that a result is an
//! integer or a boolean. Every rejection says how to mend it.

use std::collections::BTreeSet;

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::limits::{EXPRESSION_CHARS_MAX, EXPRESSION_FUEL};
use crate::scope::Scope;

/// Words with a meaning of their own; nothing may be named so.
pub const RESERVED_WORDS: [&str; 12] =
    ["and", "or", "not", "if", "else", "true", "false", "ceil_div", "align_up", "min", "max", "in"];
const FUNCTIONS: [&str; 4] = ["ceil_div", "align_up", "min", "max"];

/// A checked expression. It compiles, and names only what it was allowed to name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Expression(String);

/// Why an expression is not acceptable or has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("expression is empty; write an integer such as `1`")]
    Empty,
    #[error("expression `{0}` is longer than {EXPRESSION_CHARS_MAX} characters")]
    TooLong(String),
    #[error("expression `{text}` contains `{found}`; {hint}")]
    Character { text: String, found: String, hint: &'static str },
    #[error("expression `{text}` uses the unknown name `{name}`; known are: {known}")]
    UnknownName { text: String, name: String, known: String },
    #[error("expression `{text}` does not parse: {why}")]
    Syntax { text: String, why: String },
    #[error("expression `{text}` has no value: {why}")]
    Evaluation { text: String, why: String },
    #[error("expression `{text}` gives {got}, not {wanted}")]
    Kind { text: String, got: String, wanted: &'static str },
}

impl Expression {
    /// Checks `text` against the language and the names that it may use.
    ///
    /// # Errors
    /// Names the first thing that is not allowed and what to write instead.
    pub fn parse(text: &str, names: &BTreeSet<String>) -> Result<Self, ExpressionError> {
        check_characters(text)?;
        let environment = environment();
        let compiled =
            environment.compile_expression(text).map_err(|error| syntax(text, &error))?;
        for word in words(text) {
            let known = names.contains(word) || RESERVED_WORDS.contains(&word) && word != "in";
            if !known {
                return Err(unknown_name(text, word, names));
            }
        }
        for name in compiled.undeclared_variables(false) {
            if !names.contains(&name) && !FUNCTIONS.contains(&name.as_str()) {
                return Err(unknown_name(text, &name, names));
            }
        }
        Ok(Self(text.split_whitespace().collect::<Vec<_>>().join(" ")))
    }

    /// The text, with runs of blanks made one.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The integer value under `scope`.
    ///
    /// # Errors
    /// Overflow, division by zero, or a value that is not an integer in the range of `i64`.
    pub fn integer(&self, scope: &Scope) -> Result<i64, ExpressionError> {
        let value = self.evaluate(scope)?;
        if value.kind() == ValueKind::Number && value.is_integer() {
            return i64::try_from(value.clone()).map_err(|_| self.kind_error(&value, "an i64"));
        }
        Err(self.kind_error(&value, "an integer"))
    }

    /// The truth value under `scope`.
    ///
    /// # Errors
    /// As [`Expression::integer`], or a value that is not a boolean.
    pub fn boolean(&self, scope: &Scope) -> Result<bool, ExpressionError> {
        let value = self.evaluate(scope)?;
        match value.kind() {
            ValueKind::Bool => Ok(value.is_true()),
            _ => Err(self.kind_error(&value, "a truth value such as `cols % 4 == 0`")),
        }
    }

    fn evaluate(&self, scope: &Scope) -> Result<Value, ExpressionError> {
        let environment = environment();
        let compiled = environment.compile_expression(&self.0).map_err(|e| syntax(&self.0, &e))?;
        let context = Value::from(scope.values().clone());
        compiled.eval(context).map_err(|error| ExpressionError::Evaluation {
            text: self.0.clone(),
            why: describe(&error),
        })
    }

    fn kind_error(&self, value: &Value, wanted: &'static str) -> ExpressionError {
        let got = format!("{} ({})", value.kind(), value);
        ExpressionError::Kind { text: self.0.clone(), got, wanted }
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(EXPRESSION_FUEL));
    environment.add_function("ceil_div", ceil_div);
    environment.add_function("align_up", align_up);
    environment.add_function("min", |a: i64, b: i64| a.min(b));
    environment.add_function("max", |a: i64, b: i64| a.max(b));
    environment
}

fn ceil_div(value: i64, divisor: i64) -> Result<i64, Error> {
    if divisor <= 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "ceil_div needs a positive divisor"));
    }
    let floor = value.div_euclid(divisor);
    Ok(if value.rem_euclid(divisor) == 0 { floor } else { floor + 1 })
}

fn align_up(value: i64, multiple: i64) -> Result<i64, Error> {
    let overflow = || Error::new(ErrorKind::InvalidOperation, "align_up overflows");
    ceil_div(value, multiple)?.checked_mul(multiple).ok_or_else(overflow)
}

fn check_characters(text: &str) -> Result<(), ExpressionError> {
    if text.trim().is_empty() {
        return Err(ExpressionError::Empty);
    }
    if text.chars().count() > EXPRESSION_CHARS_MAX {
        let start: String = text.chars().take(40).collect();
        return Err(ExpressionError::TooLong(format!("{start}…")));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_ ,()+-*/%<>=!".contains(c);
    if let Some(found) = text.chars().find(|c| !allowed(*c)) {
        let hint = "use integers, names, + - * // % comparisons, ceil_div, align_up, min, max";
        return Err(character(text, &found.to_string(), hint));
    }
    if text.contains("**") {
        return Err(character(text, "**", "there is no power operator; multiply"));
    }
    if text.replace("//", "").contains('/') {
        return Err(character(text, "/", "use // (rounds down) or ceil_div(a, b)"));
    }
    Ok(())
}

fn character(text: &str, found: &str, hint: &'static str) -> ExpressionError {
    ExpressionError::Character { text: text.to_owned(), found: found.to_owned(), hint }
}

/// Maximal runs of name characters that do not begin with a digit.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

fn unknown_name(text: &str, name: &str, names: &BTreeSet<String>) -> ExpressionError {
    let known = names.iter().cloned().collect::<Vec<_>>().join(", ");
    ExpressionError::UnknownName { text: text.to_owned(), name: name.to_owned(), known }
}

fn syntax(text: &str, error: &Error) -> ExpressionError {
    ExpressionError::Syntax { text: text.to_owned(), why: describe(error) }
}

fn describe(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::Expression;
    use crate::scope::Scope;

    fn scope() -> Scope {
        Scope::of_dims(&BTreeMap::from([("rows".to_owned(), 37), ("cols".to_owned(), 1009)]))
    }

    fn names() -> BTreeSet<String> {
        scope().values().keys().cloned().collect()
    }

    fn integer(text: &str) -> Result<i64, String> {
        let parsed = Expression::parse(text, &names()).map_err(|error| error.to_string())?;
        parsed.integer(&scope()).map_err(|error| error.to_string())
    }

    #[test]
    fn integers() {
        for (text, value) in [
            ("1", 1),
            ("rows * cols", 37_333),
            ("ceil_div(cols, 256)", 4),
            ("ceil_div(0 - 5, 4)", -1),
            ("align_up(cols, 128)", 1024),
            ("cols // 4", 252),
            ("max(min(rows, 8), 3) if rows > 4 else 1", 8),
            ("0 - rows", -37),
        ] {
            assert_eq!(integer(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn every_rejection_names_the_thing_and_the_way_out() {
        for (text, part) in [
            ("", "is empty"),
            ("rows / 2", "use // (rounds down) or ceil_div"),
            ("2 ** 70", "no power operator"),
            ("rows.bit", "contains `.`"),
            ("'a' * 9", "contains `'`"),
            ("row", "unknown name `row`; known are: cols, rows"),
            ("range(9)", "unknown name `range`"),
            ("rows in cols", "unknown name `in`"),
            ("rows rows", "does not parse"),
            ("rows // 0", "has no value"),
            ("ceil_div(rows, 0)", "positive divisor"),
            ("rows > 3", "not an integer"),
            ("9223372036854775807 * 2", "not an i64"),
            ("9999999999999999999999999999999999999999999", "does not parse"),
        ] {
            let error = integer(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = format!("1{}", " + 1".repeat(100));
        assert!(integer(&long).unwrap_err().contains("longer than 256"));
    }

    #[test]
    fn truth_values() {
        let parsed = Expression::parse("cols % 4 == 0 or rows < 40", &names()).unwrap();
        assert_eq!(parsed.boolean(&scope()), Ok(true));
        let error = Expression::parse("cols", &names()).unwrap().boolean(&scope()).unwrap_err();
        assert!(error.to_string().contains("not a truth value"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9_ ,()+*/%<>=!-]{0,64}") {
            let _ = integer(&text);
        }

        #[test]
        fn arithmetic_agrees_with_rust(a in -1000i64..1000, b in 1i64..1000) {
            prop_assert_eq!(integer(&format!("({a}) // {b}")), Ok(a.div_euclid(b)));
            prop_assert_eq!(integer(&format!("ceil_div({a}, {b})")), Ok(-(-a).div_euclid(b)));
            prop_assert_eq!(integer(&format!("({a}) * {b} - {b}")), Ok(a * b - b));
        }
    }
}
