//! Texts that must not leave this machine, and where in other text each of them counts.
//!
//! Kernels are full of divisions, which look like paths: `in[i]/data[j]`, `x/max`. What comes
//! before a name or a path decides which it is.

use std::ops::Range;

use super::{Spot, forms};
use crate::limits::{PATH_RUN_BYTES_MAX, PRIVATE_BYTES_MAX};

/// A text that must not leave this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Private {
    what: String,
    text: String,
    place: Place,
}

/// Where in other text it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where it is no part of a longer word.
    Word,
    /// Where a path of several parts begins or goes on.
    Path,
    /// The same for a path of one part, only where something is below it.
    Root,
    /// As a whole part of a path, but for its first.
    PathPart,
    /// Also within a longer word.
    Anywhere,
}

impl Private {
    /// An absolute path; `None` for a relative one, which is an ordinary word, and for `/`.
    #[must_use]
    pub fn path(what: &str, text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches('/');
        let place = if text.matches('/').count() > 1 { Place::Path } else { Place::Root };
        Self::new(what, text, place).filter(|_| text.starts_with('/'))
    }

    /// The name of a machine. One that is an ordinary word, as `gpu` is, or the name of a card, as
    /// `h200` and `gpu1` are, tells nothing, and is in every text.
    #[must_use]
    pub fn host(what: &str, text: &str) -> Option<Self> {
        let text = text.trim();
        let telling = text.contains(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
        let ordinary = text == "localhost" || is_card(&text.to_ascii_lowercase());
        Self::new(what, text, Place::Word).filter(|_| telling && !ordinary)
    }

    /// The name of a user, where it is part of a path.
    #[must_use]
    pub fn user(what: &str, text: &str) -> Option<Self> {
        Self::new(what, text.trim(), Place::PathPart).filter(|it| it.text != "root")
    }

    /// A key or password; one that can be no word of a language counts within words too.
    #[must_use]
    pub fn secret(what: &str, text: &str) -> Option<Self> {
        const SECRET_CHARS_MIN: usize = 8;
        const UNLIKE_WORDS_CHARS_MIN: usize = 16;
        let text = text.trim();
        let chars = text.chars().count();
        let unlike_words =
            chars >= UNLIKE_WORDS_CHARS_MIN && text.contains(|c: char| c.is_ascii_digit());
        let place = if unlike_words { Place::Anywhere } else { Place::Word };
        Self::new(what, text, place).filter(|_| chars >= SECRET_CHARS_MIN)
    }

    fn new(what: &str, text: &str, place: Place) -> Option<Self> {
        const CHARS_MIN: usize = 3;
        let usable = text.len() <= PRIVATE_BYTES_MAX
            && text.chars().count() >= CHARS_MIN
            && text.contains(char::is_alphanumeric);
        usable.then(|| Self { what: what.to_owned(), text: text.to_owned(), place })
    }

    /// What it is, for messages.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Every place where it counts.
    pub(super) fn spots<'a>(&'a self, text: &str, spots: &mut Vec<Spot<'a>>) {
        let mut from = 0;
        while let Some(at) = text[from..].find(&self.text).map(|at| from + at) {
            let range = at..at + self.text.len();
            if self.counts(text, &range) {
                let whole = self.place == Place::Anywhere;
                let range = if whole { widened(text, range) } else { range };
                from = range.end;
                spots.push((range, &self.what));
            } else {
                from = at + self.text.chars().next().map_or(1, char::len_utf8);
            }
        }
    }

    fn counts(&self, text: &str, range: &Range<usize>) -> bool {
        let (before, after) = (&text[..range.start], &text[range.end..]);
        let within = |own: Option<char>, other: Option<char>| {
            own.is_some_and(is_word) && other.is_some_and(is_word)
        };
        let word = !within(self.text.chars().next(), before.chars().next_back())
            && !within(self.text.chars().next_back(), after.chars().next());
        match self.place {
            Place::Anywhere => true,
            Place::Word => word,
            Place::Path => word && path_before(before) != Before::Other,
            Place::Root => path_before(before) == Before::Nothing && after.starts_with('/'),
            Place::PathPart => {
                word && before.ends_with('/') && matches!(path_before(before), Before::Path(1..))
            }
        }
    }
}

/// What a name or a path in a text goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// An absolute path, or one that climbs, of so many parts.
    Path(usize),
    /// A number, a name or an operand: what follows is a division.
    Other,
}

fn path_before(text: &str) -> Before {
    let near = text.ceil_char_boundary(text.len().saturating_sub(PATH_RUN_BYTES_MAX));
    let start = near + tail(&text[near..], is_path_char);
    if near > 0 && start == near {
        return Before::Path(1);
    }
    let (outer, run) = (&text[..start], &text[start..]);
    let run = without_letter(outer, run);
    // The marks of a comment are none of a path; those of an address are.
    let run = if outer.ends_with(':') { run } else { run.strip_prefix("//").unwrap_or(run) };
    let opens = ["/", "~/", "./", "../"].iter().any(|start| run.starts_with(start));
    if outer.ends_with([')', ']']) || !(opens || run.is_empty()) {
        Before::Other
    } else if run.is_empty() {
        Before::Nothing
    } else {
        Before::Path(run.split('/').filter(|part| !part.is_empty()).count())
    }
}

/// The letter of an option, as in `-I/usr`, or of an escape, as in `\n/usr`, is no part of a path.
fn without_letter<'t>(outer: &str, run: &'t str) -> &'t str {
    let rest = run.strip_prefix('-');
    let rest = rest.or_else(|| outer.ends_with('\\').then_some(run)).unwrap_or_default();
    if rest.starts_with(|c: char| c.is_ascii_alphabetic()) { &rest[1..] } else { run }
}

/// A model of cards, as `a100`, `gb200`, `rtx4090`, or a word for one with its number.
fn is_card(host: &str) -> bool {
    const SERIES: [&str; 10] = ["gpu", "cuda", "rtx", "a", "b", "gb", "h", "l", "t", "v"];
    let name = host.trim_end_matches(|c: char| c.is_ascii_digit());
    name != host && host.len() - name.len() <= 4 && SERIES.contains(&name.trim_end_matches('-'))
}

/// The whole run of characters of keys around a place, so that no half of a word is left.
fn widened(text: &str, range: Range<usize>) -> Range<usize> {
    let after = text[range.end..].trim_start_matches(forms::is_key_char);
    tail(&text[..range.start], forms::is_key_char)..text.len() - after.len()
}

/// Where the last run of such characters begins.
fn tail(text: &str, good: fn(char) -> bool) -> usize {
    text.trim_end_matches(good).len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_path_char(c: char) -> bool {
    is_word(c) || "/-.~+@".contains(c)
}
