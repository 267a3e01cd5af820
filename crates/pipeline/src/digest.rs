//! Content identities: BLAKE3 over length-prefixed parts, printed as 64 hex digits.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A BLAKE3 hash in hex. Equal content has an equal digest on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Hash of `parts` under `domain`; each part is length-prefixed, so that no two lists collide.
    #[must_use]
    pub fn of_parts(domain: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().to_hex().to_string())
    }

    /// Hash of plain bytes, as an artifact store uses it.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex().to_string())
    }

    /// All 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 12 hex digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl From<String> for Digest {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        let split = Digest::of_parts("t", &[b"ab", b"c"]);
        assert_ne!(split, Digest::of_parts("t", &[b"a", b"bc"]));
        assert_ne!(split, Digest::of_parts("u", &[b"ab", b"c"]));
        assert_eq!(split.short().len(), 12);
    }
}
