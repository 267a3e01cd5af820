//! The forms that keys have: prefixes of providers, `Authorization` and its like, private keys in
//! PEM, and passwords in addresses.

use super::{HIDDEN, Spot};

/// A prefix that a provider gives its keys.
struct Form {
    prefix: &'static str,
    /// Characters that follow at least.
    rest_min: usize,
    rest: Rest,
}

/// What follows the prefix at least.
#[derive(Clone, Copy)]
enum Rest {
    /// Letters, digits, `-` and `_`, a digit among them.
    WithDigit,
    /// Letters and digits only.
    Plain,
    /// Capital letters and digits only.
    Capitals,
}

const fn form(prefix: &'static str, rest_min: usize, rest: Rest) -> Form {
    Form { prefix, rest_min, rest }
}

/// OpenAI and Anthropic (`sk-ant-`), GitHub, GitLab, AWS, Google, Slack, Hugging Face, NVIDIA,
/// Groq, xAI.
const FORMS: &[Form] = &[
    form("sk-", 16, Rest::WithDigit),
    form("ghp_", 20, Rest::Plain),
    form("gho_", 20, Rest::Plain),
    form("ghu_", 20, Rest::Plain),
    form("ghs_", 20, Rest::Plain),
    form("ghr_", 20, Rest::Plain),
    form("github_pat_", 20, Rest::WithDigit),
    form("glpat-", 16, Rest::WithDigit),
    form("AKIA", 16, Rest::Capitals),
    form("ASIA", 16, Rest::Capitals),
    form("AIza", 30, Rest::WithDigit),
    form("xoxa-", 10, Rest::WithDigit),
    form("xoxb-", 10, Rest::WithDigit),
    form("xoxe-", 10, Rest::WithDigit),
    form("xoxp-", 10, Rest::WithDigit),
    form("xoxr-", 10, Rest::WithDigit),
    form("xoxs-", 10, Rest::WithDigit),
    form("hf_", 30, Rest::Plain),
    form("nvapi-", 20, Rest::WithDigit),
    form("gsk_", 20, Rest::WithDigit),
    form("xai-", 20, Rest::WithDigit),
];

/// Names whose values are keys.
const LABELS: &[&str] = &["authorization", "api-key", "api_key", "apikey", "x-api-key"];
/// Words between such a name and the key.
const SCHEMES: &[&str] = &["basic", "bearer", "token", "digest"];
/// Characters that a key has at least behind its name, and where it has no digit, as words have
/// none.
const LABELLED_MIN: usize = 8;
const UNSURE_MIN: usize = 20;

const KEY: &str = "what looks like a key";
const PRIVATE_KEY: &str = "what looks like a private key";
const PASSWORD: &str = "an address with a user or password";

/// Every place that has one of the forms, in no order.
pub(super) fn spots(text: &str) -> Vec<Spot<'static>> {
    let mut spots = Vec::new();
    words(text, &mut spots);
    private_keys(text, &mut spots);
    addresses(text, &mut spots);
    spots
}

/// Characters that keys are made of.
pub(super) fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Keys by their prefix, and what follows a label.
fn words(text: &str, spots: &mut Vec<Spot<'static>>) {
    let mut from = 0;
    while let Some(start) = text[from..].find(is_key_char).map(|at| from + at) {
        let word = leading(&text[start..], is_key_char);
        let end = start + word.len();
        from = end;
        if has_form(word) {
            spots.push((start..end, KEY));
        } else if let Some((before, token)) = labelled(word, &text[end..]) {
            from = end + before + token;
            spots.push((end + before..from, KEY));
        }
    }
}

fn has_form(word: &str) -> bool {
    let word = word.trim_start_matches(['-', '_']);
    FORMS.iter().any(|form| {
        word.strip_prefix(form.prefix).is_some_and(|rest| {
            let good = |byte: u8| match form.rest {
                Rest::WithDigit => true,
                Rest::Plain => byte.is_ascii_alphanumeric(),
                Rest::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            };
            let digit = match form.rest {
                Rest::WithDigit => has_digit(rest),
                Rest::Plain | Rest::Capitals => true,
            };
            digit && rest.bytes().take_while(|byte| good(*byte)).count() >= form.rest_min
        })
    })
}

/// The key behind a word that announces one: what stands before it, and its length, in bytes.
fn labelled(word: &str, after: &str) -> Option<(usize, usize)> {
    let among = |list: &[&str], word: &str| list.iter().any(|it| it.eq_ignore_ascii_case(word));
    let quotes = ['"', '\'', ' ', '\t'];
    let (value, schemed) = if among(&["bearer"], word) {
        (after.strip_prefix(' ')?.trim_start_matches(' '), false)
    } else if among(LABELS, word) {
        let value = after.trim_start_matches(quotes).strip_prefix([':', '='])?;
        let value = value.trim_start_matches(quotes);
        let first = leading(value, is_token_char);
        let schemed = among(SCHEMES, first);
        let rest = if schemed { &value[first.len()..] } else { value };
        (rest.trim_start_matches(' '), schemed)
    } else {
        return None;
    };
    let token = leading(value, is_token_char);
    let enough = if schemed || has_digit(token) { LABELLED_MIN } else { UNSURE_MIN };
    (token.len() >= enough).then_some((after.len() - value.len(), token.len()))
}

/// Characters of a token in a header (RFC 9110, `token68`).
fn is_token_char(c: char) -> bool {
    is_key_char(c) || matches!(c, '.' | '~' | '+' | '/' | '=')
}

fn leading(text: &str, good: fn(char) -> bool) -> &str {
    &text[..text.find(|c| !good(c)).unwrap_or(text.len())]
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Blocks of PEM that hold a private key; one without an end goes to the end of the text.
fn private_keys(text: &str, spots: &mut Vec<Spot<'static>>) {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let mut from = 0;
    while let Some(start) = text[from..].find(BEGIN).map(|at| from + at) {
        let inside = start + BEGIN.len();
        let title = leading(&text[inside..], |c| c != '\n' && c != '-');
        from = inside;
        if title.contains("PRIVATE KEY") {
            let end = text[inside..].find(END).map(|at| inside + at + END.len());
            from = end.map_or(text.len(), |end| {
                let title = leading(&text[end..], |c| c != '\n' && c != '-').len();
                end + title + leading(&text[end + title..], |c| c == '-').len()
            });
            spots.push((start..from, PRIVATE_KEY));
        }
    }
}

/// What stands before the `@` of an address.
fn addresses(text: &str, spots: &mut Vec<Spot<'static>>) {
    for (at, mark) in text.match_indices("://") {
        let start = at + mark.len();
        let ends = |c: char| c.is_whitespace() || "/?#\"'`<>\\".contains(c);
        let authority = text[start..].split(ends).next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@')
            && !user.is_empty()
            && user != HIDDEN
        {
            spots.push((start..start + user.len(), PASSWORD));
        }
    }
}
