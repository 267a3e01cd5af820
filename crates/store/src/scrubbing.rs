//! What comes from outside, without secrets and traces of this machine: each step of an attempt
//! takes its values through here before it writes any of them.
//!
//! Kernels, plans, PTX and cubins are stored as they are: they are hashed, and built again.

use std::borrow::Cow;

use pipeline::build::Diagnostic;
use pipeline::confinement::Confinement;
use pipeline::scrub::Scrubber;
use pipeline::verdict::Verdict;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::{CallTarget, Result, SettledReply};

pub(crate) fn text(scrubber: &Scrubber, text: &str) -> String {
    scrubber.scrub(text).into_owned()
}

pub(crate) fn verdict(scrubber: &Scrubber, verdict: &Verdict) -> Verdict {
    Verdict { detail: text(scrubber, &verdict.detail), ..verdict.clone() }
}

/// Names of a provider and its model, which for a program is a path of this machine.
pub(crate) struct Target<'a> {
    provider: Cow<'a, str>,
    model: Cow<'a, str>,
    price_json: &'a str,
}

impl<'a> Target<'a> {
    pub(crate) fn of(scrubber: &Scrubber, target: CallTarget<'a>) -> Self {
        let CallTarget { provider, model, price_json } = target;
        Self { provider: scrubber.scrub(provider), model: scrubber.scrub(model), price_json }
    }

    pub(crate) fn clean(&self) -> CallTarget<'_> {
        let Self { provider, model, price_json } = self;
        CallTarget { provider, model, price_json }
    }
}

pub(crate) fn reply(scrubber: &Scrubber, reply: &SettledReply) -> SettledReply {
    SettledReply {
        text: scrubber.scrub_reply(&reply.text).into_owned(),
        reasoning: text(scrubber, &reply.reasoning),
        http_log: scrubber.scrub_json(&reply.http_log).into_owned(),
        model: text(scrubber, &reply.model),
        finish_reason: text(scrubber, &reply.finish_reason),
        ..reply.clone()
    }
}

pub(crate) fn diagnostics(scrubber: &Scrubber, diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let clean = |diagnostic: &Diagnostic| Diagnostic {
        file: text(scrubber, &diagnostic.file),
        message: text(scrubber, &diagnostic.message),
        excerpt: text(scrubber, &diagnostic.excerpt),
        ..diagnostic.clone()
    };
    diagnostics.iter().map(clean).collect()
}

/// What held a compiler.
pub(crate) fn held(scrubber: &Scrubber, held: &Confinement) -> Result<Confinement> {
    value(scrubber, "what held a compiler", held)
}

/// A report, or an entry of an acceptance; one that would be none any more is refused, since it
/// may not be stored as it is either.
pub(crate) fn value<T>(scrubber: &Scrubber, what: &'static str, value: &T) -> Result<T>
where
    T: Serialize + DeserializeOwned + Clone,
{
    scrubber.scrub_value(value).ok_or_else(|| {
        let json = serde_json::to_string(value).unwrap_or_default();
        let found = scrubber.find_json(&json).map_or_else(String::new, |found| found.what);
        StoreError::Private { what, found }
    })
}
