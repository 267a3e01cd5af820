//! What a model or its server sends.

use pipeline::reply::{candidate, compose};

use crate::task::signature;

/// A reply: what is a candidate is the same candidate when it is written down and read again.
pub(crate) fn reply(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(found) = candidate(&text, &signature()) else { return };
    let Ok(fences) = pipeline::reply::fences(&text) else { panic!("a candidate without fences") };
    let again = candidate(&compose(&fences.source, &fences.plan), &signature());
    let again = again.unwrap_or_else(|malformed| panic!("{:?}", malformed.verdict()));
    assert_eq!(again, found);
}

/// An answer of a provider over HTTP: how it is cut into pieces changes nothing.
pub(crate) fn provider(bytes: &[u8]) {
    let whole = llm::conformance::read_untrusted(bytes, 0);
    for cut in [1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        assert_eq!(llm::conformance::read_untrusted(bytes, cut), whole, "cut at {cut}");
    }
}
