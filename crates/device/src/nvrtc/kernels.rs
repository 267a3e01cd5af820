//! Scans a source for the names of its kernels: a hint for messages, not a parser.

use crate::limits::NAMES_HINTED_MAX;

/// The kernel names that the source seems to declare, in order, without repetitions, capped.
///
/// Comments and strings are skipped; macros are not expanded, so a name may be missing.
pub fn declared_kernels(source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let mut found: Vec<String> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if *token != "__global__" {
            continue;
        }
        if let Some(name) = name_after(&tokens[index + 1..])
            && !found.iter().any(|known| known == name)
        {
            found.push(name.to_owned());
        }
        if found.len() == NAMES_HINTED_MAX {
            break;
        }
    }
    found
}

/// The identifier before the parameter list; attributes have argument lists of their own.
fn name_after<'a>(tokens: &[&'a str]) -> Option<&'a str> {
    let mut previous = "";
    let mut depth = 0_usize;
    for token in tokens {
        match *token {
            "(" if depth > 0 || is_attribute(previous) => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            "(" => return is_word(previous).then_some(previous),
            ";" | "{" => return None,
            _ => {}
        }
        previous = token;
    }
    None
}

fn is_attribute(word: &str) -> bool {
    word.starts_with("__") && word.ends_with("__")
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Words and single characters, without comments, strings and white space.
fn tokens(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            string_length(rest)
        } else if is_word(rest) {
            let in_word = |each: char| each.is_ascii_alphanumeric() || each == '_';
            let end = rest.find(|each| !in_word(each)).unwrap_or(rest.len());
            found.push(&rest[..end]);
            end
        } else {
            if !first.is_whitespace() {
                found.push(&rest[..first.len_utf8()]);
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, each) in text.char_indices().skip(1) {
        match each {
            '\n' => return index,
            '"' if !escaped => return index + 1,
            _ => escaped = each == '\\' && !escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found() {
        let cases = [
            ("extern \"C\" __global__ void k(float* x) {}", vec!["k"]),
            ("__global__ void __launch_bounds__(256, 2) tk(int n) {}", vec!["tk"]),
            ("__global__ __launch_bounds__(A(1)) void a(); __global__ void b();", vec!["a", "b"]),
            ("template <int N> __global__ void t(float (&x)[N]);", vec!["t"]),
            ("// __global__ void no()\n/* __global__ void no() */", vec![]),
            ("auto s = \"__global__ void no()\"; __global__ void yes();", vec!["yes"]),
            ("__global__ void k(); __global__ void k() {}", vec!["k"]),
            ("__global__ ; \"\\\"", vec![]),
        ];
        for (source, expected) in cases {
            assert_eq!(declared_kernels(source), expected, "{source}");
        }
    }
}
