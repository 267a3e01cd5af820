//! Secrets and traces of this machine in text: found, or replaced by [`HIDDEN`].
//!
//! A [`Scrubber`] knows the forms of common keys (`scrub/forms.rs`) and the texts that its maker
//! hands over: a home folder, a host's name, the values of variables. It stands at two borders, in
//! front of a model and of the ledger. Kernels and plans are hashed and compiled, and a bundle must
//! reproduce, so nothing there is replaced: [`Scrubber::find`] says what is in it and where, and
//! the caller refuses. Every pass takes time linear in the text.

mod forms;
mod pem;
mod private;

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::private::Private;
use crate::limits::{PRIVATE_TEXTS_MAX, SCRUB_PASSES_MAX};
use crate::reply;

/// What stands where something was: no letter, so that it is never taken for a name itself.
pub const HIDDEN: &str = "***";
/// The same where three stars alone on a line would be Markdown that ends a block.
const HIDDEN_IN_MARKDOWN: &str = "[hidden]";

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

impl Scrubber {
    /// One that knows these texts beside the forms of keys; of too many, the first.
    #[must_use]
    pub fn new(texts: impl IntoIterator<Item = Private>) -> Self {
        Self { texts: texts.into_iter().take(PRIVATE_TEXTS_MAX).collect() }
    }

    /// The text with [`HIDDEN`] in the place of everything that must not leave.
    #[must_use]
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.replaced_by(HIDDEN, text)
    }

    fn replaced_by<'t>(&self, mark: &str, text: &'t str) -> Cow<'t, str> {
        let mut scrubbed = Cow::Borrowed(text);
        // What was hidden may have kept its neighbours from being seen.
        for _ in 0..SCRUB_PASSES_MAX {
            let spots = self.spots(&scrubbed);
            if spots.is_empty() {
                return scrubbed;
            }
            scrubbed = Cow::Owned(replaced(&scrubbed, &spots, mark));
        }
        if self.spots(&scrubbed).is_empty() { scrubbed } else { mark.to_owned().into() }
    }

    /// A reply, with the kernel and the plan in it as they are: what is compiled must be what was
    /// written. Where nothing can be compiled, nothing is spared.
    #[must_use]
    pub fn scrub_reply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let fences = reply::fences(text);
        for mark in [HIDDEN, HIDDEN_IN_MARKDOWN] {
            let around = if fences.is_ok() { self.around_fences(mark, text) } else { break };
            if around == text {
                return Cow::Borrowed(text);
            }
            if reply::fences(&around) == fences {
                return Cow::Owned(around);
            }
        }
        // Judged as what it is stored as, like any reply.
        self.scrub(text)
    }

    fn around_fences(&self, mark: &str, text: &str) -> String {
        let (mut scrubbed, mut from) = (String::new(), 0);
        for code in reply::fence_places(text) {
            scrubbed.push_str(&self.replaced_by(mark, &text[from..code.start]));
            scrubbed.push_str(&text[code.clone()]);
            from = code.end;
        }
        scrubbed.push_str(&self.replaced_by(mark, &text[from..]));
        scrubbed
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

    /// As [`Scrubber::find`], in the strings of JSON text, names of fields among them.
    #[must_use]
    pub fn find_json(&self, json: &str) -> Option<Found> {
        strings_of_json(json).find_map(|(range, value)| {
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

fn replaced(text: &str, spots: &[Spot<'_>], mark: &str) -> String {
    let (mut clean, mut from) = (String::with_capacity(text.len()), 0);
    for (range, _) in spots {
        // Spots that overlap are one.
        if range.start >= from {
            clean.push_str(&text[from..range.start]);
            clean.push_str(mark);
        }
        from = from.max(range.end);
    }
    clean.push_str(&text[from..]);
    clean
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The values of type string in JSON text, each with its place, quotes included.
fn values_of_json(json: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let is_name = |range: &Range<usize>| json[range.end..].trim_start().starts_with(':');
    strings_of_json(json).filter(move |(range, _)| !is_name(range))
}

/// The same with names of fields.
fn strings_of_json(json: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut from = 0;
    let strings = std::iter::from_fn(move || {
        let start = from + json[from..].find('"')?;
        from = end_of_string(json, start);
        Some(start..from)
    });
    strings.filter_map(|range| {
        let value = serde_json::from_str(&json[range.clone()]).ok()?;
        Some((range, value))
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
