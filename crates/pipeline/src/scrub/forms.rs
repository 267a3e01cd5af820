//! The forms that keys have: prefixes of providers, `Authorization` and its like, private keys in
//! PEM, and passwords in addresses.

use super::{HIDDEN, HIDDEN_IN_MARKDOWN, Spot, pem};
use crate::limits::PRIVATE_BYTES_MAX;

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
    /// The same with so many letters and digits in one run, two digits among them: a name that is
    /// put together has none, even behind a difference, as in `sk-kv_tile_start`.
    Run,
    /// Letters and digits only.
    Plain,
    /// Capital letters and digits only.
    Capitals,
}

const fn form(prefix: &'static str, rest_min: usize, rest: Rest) -> Form {
    Form { prefix, rest_min, rest }
}

/// OpenAI and Anthropic (`sk-ant-`), GitHub, GitLab, AWS, Google and its OAuth, Slack, Hugging
/// Face, NVIDIA, Groq, xAI, Cerebras, Replicate, Perplexity, Fireworks, and JSON Web Tokens.
const FORMS: &[Form] = &[
    form("sk-", 16, Rest::Run),
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
    form("ya29.", 20, Rest::WithDigit),
    form("xoxa-", 10, Rest::WithDigit),
    form("xoxb-", 10, Rest::WithDigit),
    form("xoxe-", 10, Rest::WithDigit),
    form("xoxp-", 10, Rest::WithDigit),
    form("xoxr-", 10, Rest::WithDigit),
    form("xoxs-", 10, Rest::WithDigit),
    form("hf_", 30, Rest::Plain),
    form("nvapi-", 20, Rest::WithDigit),
    form("gsk_", 16, Rest::Run),
    form("xai-", 16, Rest::Run),
    form("csk-", 16, Rest::Run),
    form("r8_", 30, Rest::Plain),
    form("pplx-", 16, Rest::Run),
    form("fw_", 16, Rest::Run),
    form("eyJ", 17, Rest::WithDigit),
];

/// How much of what follows a label is the key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// One token.
    Token,
    /// All that is no white space, quote or bracket, as passwords are.
    Word,
    /// The rest of the line, or of the quotes: it may be several parameters.
    Line,
}

/// Ends of the names whose values are keys, whatever stands before, as in `OPENAI_API_KEY`.
const LABELS: &[(&str, Extent)] = &[
    ("authorization", Extent::Line),
    ("cookie", Extent::Line),
    ("api-key", Extent::Token),
    ("api_key", Extent::Token),
    ("apikey", Extent::Token),
    ("access_key", Extent::Token),
    ("secret_key", Extent::Token),
    ("client_secret", Extent::Token),
    ("access_token", Extent::Token),
    ("refresh_token", Extent::Token),
    ("id_token", Extent::Token),
    ("auth_token", Extent::Token),
    ("auth-token", Extent::Token),
    ("api_token", Extent::Token),
    ("password", Extent::Word),
    ("passwd", Extent::Word),
    ("passphrase", Extent::Word),
];
/// Words between such a name and the key.
const SCHEMES: &[&str] =
    &["basic", "bearer", "token", "apikey", "digest", "negotiate", "aws4-hmac-sha256"];
/// Characters that a key has at least behind its name, and where it has no digit, as words have
/// none.
const LABELLED_MIN: usize = 8;
const UNSURE_MIN: usize = 20;

const KEY: &str = "what looks like a key";
const PASSWORD: &str = "an address with a user or password";

/// Every place that has one of the forms, in no order.
pub(super) fn spots(text: &str) -> Vec<Spot<'static>> {
    let mut spots = Vec::new();
    words(text, &mut spots);
    pem::private_keys(text, &mut spots);
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
        let end = start + leading(&text[start..], is_key_char).len();
        from = end;
        // Behind what a text writes for a line break or a blank, a word begins anew.
        let begins = [start, start + escape(&text[..start], &text[start..end])];
        let key = begins.into_iter().find_map(|at| Some((at, at + form_bytes(&text[at..])?)));
        let labelled = || {
            let place = |at: usize| labelled(&text[..at], &text[at..end], &text[end..]);
            begins.into_iter().find_map(place).map(|(skip, key)| (end + skip, end + skip + key))
        };
        if let Some((at, until)) = key.or_else(labelled) {
            spots.push((at..until, KEY));
            from = until;
        }
    }
}

/// The bytes at the start of a word that belong to an escape before it: `\n`, `%20`, `\u0022`.
fn escape(before: &str, word: &str) -> usize {
    let digits = |count: usize| {
        let hex = word.bytes().take(count).filter(u8::is_ascii_hexdigit).count();
        if hex == count { count } else { 0 }
    };
    match (before.chars().next_back(), word.as_bytes().first()) {
        (Some('%'), _) => digits(2),
        (Some('\\'), Some(b'n' | b't' | b'r')) => 1,
        (Some('\\'), Some(b'x')) if word.len() > 2 => 3,
        (Some('\\'), Some(b'u')) if word.len() > 4 => 5,
        (Some(_) | None, _) => 0,
    }
}

/// The length of the key that a text begins with, in bytes.
fn form_bytes(text: &str) -> Option<usize> {
    let marks = leading(text, |c| "-_".contains(c)).len();
    FORMS.iter().find_map(|form| {
        let behind = text[marks..].strip_prefix(form.prefix)?;
        let rest = leading(behind, is_key_char);
        let good = match form.rest {
            Rest::WithDigit => rest.len() >= form.rest_min && digits(rest) > 0,
            Rest::Run => {
                rest.split(['-', '_']).any(|run| run.len() >= form.rest_min && digits(run) > 1)
            }
            Rest::Plain => leading(rest, |c| c.is_ascii_alphanumeric()).len() >= form.rest_min,
            Rest::Capitals => {
                let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
                leading(rest, capital).len() >= form.rest_min
            }
        };
        // The parts of a web token are joined by dots.
        let rest = if form.prefix == "eyJ" { leading(behind, is_token_char) } else { rest };
        good.then(|| marks + form.prefix.len() + rest.len())
    })
}

/// The key behind a word that announces one: what stands before it, and its length, in bytes.
fn labelled(before: &str, word: &str, after: &str) -> Option<(usize, usize)> {
    if word.eq_ignore_ascii_case("bearer") {
        let value = after.strip_prefix(' ')?.trim_start_matches(' ');
        let token = leading(value, is_token_char);
        return is_key(token, UNSURE_MIN).then_some((after.len() - value.len(), token.len()));
    }
    let extent = extent_of(word)?;
    let quotes = ['"', '\'', '\\', ' ', '\t'];
    let value = after.trim_start_matches(quotes).strip_prefix([':', '='])?;
    let opening = &value[..value.len() - value.trim_start_matches(quotes).len()];
    let value = &value[opening.len()..];
    let scheme = leading(value, is_token_char);
    let schemed = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    let rest = if schemed { value[scheme.len()..].trim_start_matches(' ') } else { value };
    let key = match extent {
        Extent::Token => leading(rest, is_token_char),
        Extent::Word => leading(rest, is_password_char),
        Extent::Line => {
            let opened = if opening.trim().is_empty() { before } else { opening };
            until_closed(rest, opened.trim_end())
        }
    };
    let min = if schemed { LABELLED_MIN } else { UNSURE_MIN };
    let holds_key = match extent {
        Extent::Token | Extent::Word => is_key(key, min),
        Extent::Line => key.split(|c| !is_token_char(c)).any(|token| is_key(token, min)),
    };
    holds_key.then_some((after.len() - rest.len(), key.len()))
}

/// Long enough for a key, or shorter with a digit, which words have none of.
fn is_key(token: &str, bytes_min: usize) -> bool {
    token.len() >= if digits(token) > 0 { LABELLED_MIN } else { bytes_min }
}

fn extent_of(word: &str) -> Option<Extent> {
    let ends = |name: &&(&str, Extent)| {
        let Some(at) = word.len().checked_sub(name.0.len()) else { return false };
        let starts = at == 0 || matches!(word.as_bytes()[at - 1], b'-' | b'_');
        starts && word[at..].eq_ignore_ascii_case(name.0)
    };
    LABELS.iter().find(ends).map(|(_, extent)| *extent)
}

/// The rest of the line; where quotes were opened, up to the same ones, with as many backslashes.
fn until_closed<'t>(text: &'t str, opened: &str) -> &'t str {
    let text = &text[..text.floor_char_boundary(PRIVATE_BYTES_MAX)];
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    let backslashes = |text: &str| text.len() - text.trim_end_matches('\\').len();
    let Some(quote) = opened.chars().next_back().filter(|c| ['"', '\''].contains(c)) else {
        return line;
    };
    let deep = backslashes(&opened[..opened.len() - 1]);
    let closes = |at: &usize| backslashes(&line[..*at]) == deep;
    match line.match_indices(quote).map(|(at, _)| at).find(closes) {
        Some(at) => &line[..at - deep],
        None => line,
    }
}

/// Characters of a token in a header (RFC 9110, `token68`).
fn is_token_char(c: char) -> bool {
    is_key_char(c) || matches!(c, '.' | '~' | '+' | '/' | '=')
}

/// What a password behind its name is made of. One that begins as the name of a variable does is
/// none, but the others may have any mark that ends no value.
fn is_password_char(c: char) -> bool {
    !(c.is_whitespace() || c.is_control() || "\"'`,;&<>(){}[]|\\$".contains(c))
}

/// The start of a text that is made of such characters.
pub(super) fn leading(text: &str, good: fn(char) -> bool) -> &str {
    &text[..text.find(|c| !good(c)).unwrap_or(text.len())]
}

fn digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_digit).count()
}

/// What stands before the `@` of an address.
fn addresses(text: &str, spots: &mut Vec<Spot<'static>>) {
    for (at, mark) in text.match_indices("://") {
        let start = at + mark.len();
        let ends = |c: char| c.is_whitespace() || "/?#\"'`<>\\".contains(c);
        let authority = text[start..].split(ends).next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@')
            && !user.is_empty()
            && ![HIDDEN, HIDDEN_IN_MARKDOWN].contains(&user)
        {
            spots.push((start..start + user.len(), PASSWORD));
        }
    }
}
