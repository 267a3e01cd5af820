//! Secrets and traces of this machine in text: found, or replaced by [`HIDDEN`].
//!
//! A [`Scrubber`] knows the forms of common keys (`scrub/forms.rs`) and the texts that its maker
//! hands over: a home folder, a host's name, the values of variables. It stands at two borders, in
//! front of a model and of the ledger. Kernels and plans are hashed and compiled, and a bundle must
//! reproduce, so nothing there is replaced: [`Scrubber::find`] says what is in it and where, and
//! the caller refuses. Every pass takes time linear in the text.

mod forms;

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::{PRIVATE_BYTES_MAX, PRIVATE_TEXTS_MAX, SCRUB_PASSES_MAX};
use crate::reply;

/// What stands where something was: no letter, so that it is never taken for a name itself.
pub const HIDDEN: &str = "***";

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
    /// As a whole part of a path.
    PathPart,
    /// Also within a longer word.
    Anywhere,
}

/// Something that must not leave this machine, by what it is; never the thing itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub what: String,
    /// From 1.
    pub line: usize,
}

/// Finds and replaces.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    texts: Vec<Private>,
}

/// A place in a text, with what is there.
type Spot<'a> = (Range<usize>, &'a str);

impl Private {
    /// A name or a path, which counts as a word of its own; `None` for what is in every text.
    #[must_use]
    pub fn name(what: &str, text: &str) -> Option<Self> {
        Self::new(what, text.trim().trim_end_matches('/'), Place::Word)
    }

    /// The name of a machine. One that is an ordinary word, as `gpu` is, tells nothing, and is in
    /// every text.
    #[must_use]
    pub fn host(what: &str, text: &str) -> Option<Self> {
        let telling = text.contains(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
        Self::name(what, text).filter(|_| telling && text.trim() != "localhost")
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

    /// Every place where it counts.
    fn spots<'a>(&'a self, text: &str, spots: &mut Vec<Spot<'a>>) {
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
        let before = text[..range.start].chars().next_back();
        let after = text[range.end..].chars().next();
        let within = |own: Option<char>, other: Option<char>| {
            own.is_some_and(is_word) && other.is_some_and(is_word)
        };
        let word = !within(self.text.chars().next(), before)
            && !within(self.text.chars().next_back(), after);
        match self.place {
            Place::Anywhere => true,
            Place::Word => word,
            Place::PathPart => word && matches!(before, Some('/' | '\\')),
        }
    }
}

impl Scrubber {
    /// One that knows these texts beside the forms of keys; of too many, the first.
    #[must_use]
    pub fn new(texts: impl IntoIterator<Item = Private>) -> Self {
        Self { texts: texts.into_iter().take(PRIVATE_TEXTS_MAX).collect() }
    }

    /// The text with [`HIDDEN`] in the place of everything that must not leave.
    #[must_use]
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut scrubbed = Cow::Borrowed(text);
        // What was hidden may have kept its neighbours from being seen.
        for _ in 0..SCRUB_PASSES_MAX {
            let spots = self.spots(&scrubbed);
            if spots.is_empty() {
                break;
            }
            scrubbed = Cow::Owned(replaced(&scrubbed, &spots));
        }
        scrubbed
    }

    /// A reply, with its code blocks as they are: what is compiled must be what was written.
    #[must_use]
    pub fn scrub_reply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (mut scrubbed, mut from) = (String::new(), 0);
        for code in reply::code_blocks(text) {
            scrubbed.push_str(&self.scrub(&text[from..code.start]));
            scrubbed.push_str(&text[code.clone()]);
            from = code.end;
        }
        scrubbed.push_str(&self.scrub(&text[from..]));
        let same_code = || reply::fences(&scrubbed) == reply::fences(text);
        if scrubbed == text || !same_code() { Cow::Borrowed(text) } else { Cow::Owned(scrubbed) }
    }

    /// The values of type string in JSON text; names of fields and numbers stay as they are.
    #[must_use]
    pub fn scrub_json<'t>(&self, json: &'t str) -> Cow<'t, str> {
        let (mut scrubbed, mut from) = (String::new(), 0);
        for (range, value) in values_of_json(json) {
            if let Cow::Owned(clean) = self.scrub(&value) {
                scrubbed.push_str(&json[from..range.start]);
                scrubbed.push_str(&serde_json::Value::from(clean).to_string());
                from = range.end;
            }
        }
        scrubbed.push_str(&json[from..]);
        if scrubbed == json { Cow::Borrowed(json) } else { Cow::Owned(scrubbed) }
    }

    /// A value without what must not leave; `None` where it would not be a value any more.
    #[must_use]
    pub fn scrub_value<T: Serialize + DeserializeOwned + Clone>(&self, value: &T) -> Option<T> {
        let json = serde_json::to_string(value).ok()?;
        match self.scrub_json(&json) {
            Cow::Borrowed(_) => Some(value.clone()),
            Cow::Owned(clean) => serde_json::from_str(&clean).ok(),
        }
    }

    /// The first thing that must not leave.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Found> {
        let spots = self.spots(text);
        let (range, what) = spots.first()?;
        Some(Found { what: (*what).to_owned(), line: line_of(text, range.start) })
    }

    /// As [`Scrubber::find`], in the values of type string of JSON text.
    #[must_use]
    pub fn find_json(&self, json: &str) -> Option<Found> {
        values_of_json(json).find_map(|(range, value)| {
            let found = self.find(&value)?;
            Some(Found { line: line_of(json, range.start), ..found })
        })
    }

    /// Every spot, in order.
    fn spots(&self, text: &str) -> Vec<Spot<'_>> {
        let mut spots = forms::spots(text);
        for private in &self.texts {
            private.spots(text, &mut spots);
        }
        spots.sort_by_key(|(range, _)| (range.start, range.end));
        spots
    }
}

fn replaced(text: &str, spots: &[Spot<'_>]) -> String {
    let (mut clean, mut from) = (String::with_capacity(text.len()), 0);
    for (range, _) in spots {
        // Spots that overlap are one.
        if range.start >= from {
            clean.push_str(&text[from..range.start]);
            clean.push_str(HIDDEN);
        }
        from = from.max(range.end);
    }
    clean.push_str(&text[from..]);
    clean
}

/// The whole run of characters of keys around a place, so that no half of a word is left.
fn widened(text: &str, range: Range<usize>) -> Range<usize> {
    let before = text[..range.start].trim_end_matches(forms::is_key_char);
    let after = text[range.end..].trim_start_matches(forms::is_key_char);
    before.len()..text.len() - after.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The values of type string in JSON text, each with its place, quotes included.
fn values_of_json(json: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut from = 0;
    let strings = std::iter::from_fn(move || {
        let start = from + json[from..].find('"')?;
        from = end_of_string(json, start);
        Some(start..from)
    });
    strings.filter_map(|range| {
        let is_name = json[range.end..].trim_start().starts_with(':');
        let value = serde_json::from_str(&json[range.clone()]).ok()?;
        (!is_name).then_some((range, value))
    })
}

/// Where the JSON string ends that begins at `start`.
fn end_of_string(json: &str, start: usize) -> usize {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(start + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

#[cfg(test)]
mod tests;
