//! Ids of rows, one type for each so that they cannot be swapped.

use std::fmt;

macro_rules! id_type {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// The id as stored.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id_type!(RunId, "Id of a run, UUIDv7 text.");
id_type!(AttemptId, "Id of an attempt, UUIDv7 text.");
id_type!(CallId, "Id of one call of a model, UUIDv7 text; also the provider's idempotency key.");
id_type!(CardHold, "Id of the time on a card that an evaluation holds, UUIDv7 text.");
id_type!(AcceptanceId, "Id of an acceptance, UUIDv7 text.");
id_type!(ClaimId, "Id of a claim, UUIDv7 text.");
