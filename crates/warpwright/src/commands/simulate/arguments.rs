//! What `--arg`, `--dim` and `-D` say: integers, floats and buffers by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pipeline::device_facts::{DeviceFacts, FACT_NAMES};
use pipeline::dtype::Dtype;
use pipeline::expression::{Expression, RESERVED_WORDS};
use pipeline::scope::Scope;

use crate::limits::SIMULATED_ARGUMENTS_MAX;
use crate::outcome::bad_input;

/// One `--arg`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) given: Given,
}

/// Its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    /// An integer expression.
    Integer(String),
    Float(f64),
    Buffer(BufferSpec),
}

/// A buffer as it is declared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BufferSpec {
    pub(crate) direction: Direction,
    /// Type and shape; `None` takes both from the file.
    pub(crate) form: Option<(Dtype, Vec<String>)>,
    pub(crate) source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
    InOut,
}

/// Where the first values come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// Generated, or garbage for a plain output.
    Fill(Fill),
    File(PathBuf),
}

/// Generated values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fill {
    Normal,
    Wide,
    Ints,
    Iota,
    /// Integers from 0 to below this expression.
    Index(String),
    Constant(f64),
}

/// Everything that the flags declare.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    /// In the order of the command line.
    pub(crate) arguments: Vec<Argument>,
    /// `--dim`, integer arguments and `-D`.
    pub(crate) integers: BTreeMap<String, i64>,
    pub(crate) defines: BTreeMap<String, i64>,
}

impl Declared {
    /// Reads the flags.
    pub(crate) fn read(
        args: &[String],
        dims: &[String],
        defines: &[String],
        device: &DeviceFacts,
    ) -> anyhow::Result<Self> {
        let mut declared = Self::default();
        if args.len() + dims.len() + defines.len() > SIMULATED_ARGUMENTS_MAX {
            return Err(bad_input(format!(
                "more than {SIMULATED_ARGUMENTS_MAX} arguments, dims and macros"
            )));
        }
        for text in defines {
            let (name, value) = text.split_once('=').unwrap_or((text.as_str(), "1"));
            let value = value.trim().parse().map_err(|_| {
                let why = "a macro takes an integer here; write others as #define in the source";
                bad_input(format!("`-D {text}`: {why}"))
            })?;
            declared.add_name("-D", name)?;
            declared.defines.insert(name.to_owned(), value);
            declared.integers.insert(name.to_owned(), value);
        }
        for text in dims {
            let (name, value) = split("--dim", text, "rows=37")?;
            declared.add_name("--dim", name)?;
            declared.add_integer(&format!("--dim {text}"), name, value, device)?;
        }
        for text in args {
            let (name, value) = split("--arg", text, "n=1024")?;
            declared.add_name("--arg", name)?;
            let given =
                given(value.trim()).map_err(|why| bad_input(format!("`--arg {text}`: {why}")))?;
            if let Given::Integer(expression) = &given {
                declared.add_integer(&format!("--arg {text}"), name, expression, device)?;
            }
            declared.arguments.push(Argument { name: name.to_owned(), given });
        }
        Ok(declared)
    }

    /// Refuses names that cannot stand in an expression or are taken.
    fn add_name(&self, flag: &str, name: &str) -> anyhow::Result<()> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !first || name.len() > 64 || !name.chars().all(word) {
            return Err(bad_input(format!(
                "`{flag} {name}`: `{name}` is no name; use letters, digits and `_`"
            )));
        }
        if FACT_NAMES.contains(&name) || RESERVED_WORDS.contains(&name) {
            return Err(bad_input(format!(
                "`{flag} {name}`: `{name}` has a meaning in expressions; choose another name"
            )));
        }
        let known = self.arguments.iter().any(|argument| argument.name == name);
        if known || self.integers.contains_key(name) {
            return Err(bad_input(format!("`{name}` is given twice")));
        }
        Ok(())
    }

    fn add_integer(
        &mut self,
        place: &str,
        name: &str,
        text: &str,
        device: &DeviceFacts,
    ) -> anyhow::Result<()> {
        let value = self.evaluate(text, device);
        let value = value.map_err(|why| bad_input(format!("`{place}`: {why}")))?;
        self.integers.insert(name.to_owned(), value);
        Ok(())
    }

    /// The names that an expression may use.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let facts = FACT_NAMES.iter().map(|name| (*name).to_owned());
        self.integers.keys().cloned().chain(facts).collect()
    }

    /// The value of an integer expression over what is declared.
    pub(crate) fn evaluate(&self, text: &str, device: &DeviceFacts) -> Result<i64, String> {
        // Expressions are about sizes and have no sign; a plain integer may be negative.
        if let Ok(plain) = text.trim().parse() {
            return Ok(plain);
        }
        let scope = Scope::of_dims(&self.integers).with_device(device);
        let parsed = Expression::parse(text, &self.names());
        let value = parsed.and_then(|expression| expression.integer(&scope));
        value.map_err(|error| error.to_string())
    }

    /// The buffers in order.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = (&str, &BufferSpec)> {
        self.arguments.iter().filter_map(|argument| match &argument.given {
            Given::Buffer(spec) => Some((argument.name.as_str(), spec)),
            Given::Integer(_) | Given::Float(_) => None,
        })
    }
}

fn split<'a>(flag: &str, text: &'a str, example: &str) -> anyhow::Result<(&'a str, &'a str)> {
    let parts = text.split_once('=').filter(|(_, value)| !value.trim().is_empty());
    let (name, value) = parts
        .ok_or_else(|| bad_input(format!("`{flag} {text}`: write NAME=VALUE, as in {example}")))?;
    Ok((name.trim(), value))
}

/// Splits at the commas that are not inside parentheses.
pub(crate) fn split_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_i32;
    for each in text.chars() {
        match each {
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth += i32::from(each == '(') - i32::from(each == ')');
                if let Some(last) = parts.last_mut() {
                    last.push(each);
                }
            }
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

fn given(text: &str) -> Result<Given, String> {
    let (direction, rest) = match text.split_once(':') {
        Some(("in", rest)) => (Some(Direction::In), rest),
        Some(("out", rest)) => (Some(Direction::Out), rest),
        Some(("inout", rest)) => (Some(Direction::InOut), rest),
        _ => (None, text),
    };
    if let Some(file) = rest.strip_prefix('@') {
        let direction = direction.unwrap_or(Direction::In);
        return buffer(direction, None, &format!("@{file}")).map(Given::Buffer);
    }
    let typed = rest.split_once('[').and_then(|(word, shape)| Some((dtype(word)?, shape)));
    if let Some((dtype, shape)) = typed {
        let (shape, tail) = shape.split_once(']').ok_or("the shape has no `]`")?;
        let form = Some((dtype, split_commas(shape)));
        return buffer(direction.unwrap_or(Direction::In), form, tail).map(Given::Buffer);
    }
    if direction.is_some() || rest.contains('[') {
        return Err(
            "write a buffer as f32[1024], out:f32[rows, cols] or f32[64]:zeros; types are \
                    f64 f32 f16 bf16 e4m3 e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool"
                .to_owned(),
        );
    }
    if dtype(rest).is_some() {
        return Err(format!("a buffer needs its shape: {rest}[1024]"));
    }
    Ok(match (rest.parse::<i64>(), float(rest)) {
        (Ok(_), _) | (_, None) => Given::Integer(rest.to_owned()),
        (Err(_), Some(value)) => Given::Float(value),
    })
}

/// A float as in C: `1.5`, `1e-5`, `2.0f`, `inf`, `nan`.
pub(crate) fn float(text: &str) -> Option<f64> {
    let suffixed = text.strip_suffix(['f', 'F']).filter(|rest| rest.contains(['.', 'e']));
    suffixed.unwrap_or(text).parse().ok()
}

fn buffer(
    direction: Direction,
    form: Option<(Dtype, Vec<String>)>,
    tail: &str,
) -> Result<BufferSpec, String> {
    let source = match (tail.split_at_checked(1), direction) {
        (Some(("@", file)), _) if !file.is_empty() => Source::File(PathBuf::from(file)),
        (Some((":", _)), Direction::Out) => {
            return Err("an output starts as garbage; write inout: for a buffer with values".into());
        }
        (Some((":", word)), _) => Source::Fill(fill(word)?),
        (None, _) if tail.is_empty() => Source::Fill(Fill::Normal),
        _ => return Err(format!("`{tail}` after the shape: write :zeros or @file.bin")),
    };
    if direction == Direction::Out && matches!(source, Source::File(_)) {
        return Err("an output starts as garbage; write inout: for a buffer from a file".into());
    }
    Ok(BufferSpec { direction, form, source })
}

fn fill(word: &str) -> Result<Fill, String> {
    let index = word.strip_prefix("index(").and_then(|rest| rest.strip_suffix(')'));
    Ok(match (word, index) {
        (_, Some(bound)) => Fill::Index(bound.to_owned()),
        ("normal", _) => Fill::Normal,
        ("wide", _) => Fill::Wide,
        ("ints", _) => Fill::Ints,
        ("iota", _) => Fill::Iota,
        ("zeros", _) => Fill::Constant(0.0),
        ("ones", _) => Fill::Constant(1.0),
        _ => Fill::Constant(float(word).ok_or_else(|| {
            format!(
                "`{word}` is no way to fill a buffer; there are normal, ints, wide, zeros, ones, \
                 iota, index(N), and a number"
            )
        })?),
    })
}

/// A type by its name, or by the name that it has in CUDA.
pub(crate) fn dtype(word: &str) -> Option<Dtype> {
    let word = match word.trim() {
        "float" => "f32",
        "double" => "f64",
        "half" => "f16",
        "bfloat16" => "bf16",
        "int" => "i32",
        "unsigned" | "uint" => "u32",
        other => other,
    };
    serde_json::from_value(word.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::{Declared, Direction, Fill, Given, Source, given, split_commas};
    use pipeline::device_facts::DeviceFacts;
    use pipeline::dtype::Dtype;

    #[test]
    fn values_are_told_apart() {
        let shape = |given: &Given| match given {
            Given::Buffer(spec) => spec.form.clone().map(|(dtype, shape)| (dtype, shape.join("|"))),
            _ => None,
        };
        for (text, expected) in [
            ("1024", "Integer(\"1024\")"),
            ("-3", "Integer(\"-3\")"),
            ("rows * 4", "Integer(\"rows * 4\")"),
            ("1e-5", "Float(1e-5)"),
            ("2.0f", "Float(2.0)"),
            ("inf", "Float(inf)"),
        ] {
            assert_eq!(format!("{:?}", given(text).unwrap()), expected, "{text}");
        }
        for (text, dtype, expected, direction) in [
            ("f32[1024]", Dtype::F32, "1024", Direction::In),
            (
                "half[rows, ceil_div(cols, 2)]:ones",
                Dtype::F16,
                "rows|ceil_div(cols, 2)",
                Direction::In,
            ),
            ("out:i64[n]", Dtype::I64, "n", Direction::Out),
            ("inout:float[8]:2.5", Dtype::F32, "8", Direction::InOut),
        ] {
            let found = given(text).unwrap();
            assert_eq!(shape(&found), Some((dtype, expected.to_owned())), "{text}");
            let Given::Buffer(spec) = found else { panic!("{text}") };
            assert_eq!(spec.direction, direction, "{text}");
        }
        let Given::Buffer(file) = given("f32[4]@a:b[1].bin").unwrap() else { panic!() };
        assert_eq!(file.source, Source::File("a:b[1].bin".into()));
        let Given::Buffer(index) = given("i32[64]:index(rows)").unwrap() else { panic!() };
        assert_eq!(index.source, Source::Fill(Fill::Index("rows".to_owned())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let read = |args: &[&str], dims: &[&str], defines: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            let device = DeviceFacts::simulated_h200();
            Declared::read(&owned(args), &owned(dims), &owned(defines), &device)
        };
        for (args, part) in [
            (vec!["1024"], "write NAME=VALUE"),
            (vec!["x="], "write NAME=VALUE"),
            (vec!["x=f32[8"], "no `]`"),
            (vec!["x=f32"], "needs its shape: f32[1024]"),
            (vec!["x=f33[8]"], "types are f64"),
            (vec!["x=f32[8]:sevens"], "no way to fill"),
            (vec!["x=f32[8]zeros"], "after the shape"),
            (vec!["x=out:f32[8]:zeros"], "write inout:"),
            (vec!["n=8", "n=9"], "given twice"),
            (vec!["max=8"], "choose another name"),
            (vec!["a-b=8"], "is no name"),
            (vec!["n=rows"], "unknown name `rows`"),
        ] {
            let error = read(&args, &[], &[]).unwrap_err().to_string();
            assert!(error.contains(part), "{args:?}: {error}");
        }
        assert!(read(&[], &[], &["T=float"]).unwrap_err().to_string().contains("#define"));
        let all = read(&["m=rows//2", "eps=1e-3"], &["rows=37"], &["TILE=4"]).unwrap();
        assert_eq!((all.integers["m"], all.integers["TILE"]), (18, 4));
        assert_eq!(split_commas("ceil_div(n, 4), 2"), ["ceil_div(n, 4)", "2"]);
    }
}
