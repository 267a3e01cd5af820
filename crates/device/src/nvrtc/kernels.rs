//! Scans a source for the names of its kernels: a hint for messages, not a parser.

use crate::limits::NAMES_HINTED_MAX;

/// A kernel as the source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDeclaration {
    /// Its name, without namespaces.
    pub name: String,
    /// What is between the angle brackets of `template <…>`.
    pub template: Option<String>,
    /// Its parameters as written, with single blanks.
    pub params: Vec<String>,
}

/// The kernel names that the source seems to declare, in order, without repetitions, capped.
///
/// Comments and strings are skipped; macros are not expanded, so a name may be missing.
pub fn declared_kernels(source: &str) -> Vec<String> {
    kernel_declarations(source).into_iter().map(|kernel| kernel.name).collect()
}

/// The kernels that the source seems to declare, as [`declared_kernels`] finds them.
pub fn kernel_declarations(source: &str) -> Vec<KernelDeclaration> {
    let tokens = tokens(source);
    let mut found: Vec<KernelDeclaration> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if *token != "__global__" {
            continue;
        }
        let rest = &tokens[index + 1..];
        if let Some((name, start)) = name_after(rest)
            && !found.iter().any(|known| known.name == name)
        {
            found.push(KernelDeclaration {
                name: name.to_owned(),
                template: template_before(&tokens[..index]),
                params: params_from(&rest[start..]),
            });
        }
        if found.len() == NAMES_HINTED_MAX {
            break;
        }
    }
    found
}

/// The template parameters of the declaration that these tokens begin.
fn template_before(tokens: &[&str]) -> Option<String> {
    let start = tokens.iter().rposition(|token| matches!(*token, ";" | "}" | "{"));
    let own = &tokens[start.map_or(0, |at| at + 1)..];
    let begin = own.iter().position(|token| *token == "template")?;
    let inside = own.get(begin + 2..)?;
    let end = inside.iter().rposition(|token| *token == ">")?;
    Some(joined(&inside[..end]))
}

/// The parameters between the parentheses, of which the first is open already.
fn params_from(tokens: &[&str]) -> Vec<String> {
    let mut params = Vec::new();
    let (mut depth, mut begin) = (0_i32, 0);
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            ")" if depth == 0 => {
                params.push(joined(&tokens[begin..at]));
                break;
            }
            "," if depth == 0 => {
                params.push(joined(&tokens[begin..at]));
                begin = at + 1;
            }
            "(" | "<" | "[" | "{" => depth += 1,
            ")" | ">" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    params.retain(|param| !param.is_empty() && param != "void");
    params
}

/// Tokens as one text: blanks only between words, and after `*`, `&`, `,` and `>`.
fn joined(tokens: &[&str]) -> String {
    let mut text = String::new();
    let mut previous = "";
    for token in tokens {
        let after = is_wordlike(previous) || matches!(previous, "*" | "&" | "," | ">");
        if !text.is_empty() && after && is_wordlike(token) {
            text.push(' ');
        }
        text.push_str(token);
        previous = token;
    }
    text
}

fn is_wordlike(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
}

/// The identifier before the parameter list, and where that list begins; attributes have argument
/// lists of their own.
fn name_after<'a>(tokens: &[&'a str]) -> Option<(&'a str, usize)> {
    let mut previous = "";
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" if depth > 0 || is_attribute(previous) => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            "(" => return is_word(previous).then_some((previous, at + 1)),
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
    fn parameters_are_read_as_written() {
        let found = kernel_declarations(
            "template <int N, typename T> __global__ void t(const T* __restrict__ x, T (&y)[N],
                                                            unsigned long long n = f(1, 2)) {}
             extern \"C\" __global__ void none(void) {}",
        );
        assert_eq!(found[0].template.as_deref(), Some("int N, typename T"));
        assert_eq!(
            found[0].params,
            ["const T* __restrict__ x", "T(& y)[N]", "unsigned long long n=f(1, 2)"]
        );
        assert_eq!((found[1].template.as_deref(), found[1].params.len()), (None, 0));
    }

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
