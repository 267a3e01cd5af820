//! What can go wrong between a prompt and its reply. A bad answer is none of it.

/// The kind of an [`LlmError`], as the ledger keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Nothing more will be answered.
    Exhausted,
    /// The key is wrong or not allowed.
    Auth,
    /// Too many requests or tokens for now.
    RateLimited,
    /// The provider is down, unreachable or too slow.
    Unavailable,
    /// The provider answered something that is no answer.
    Malformed,
    /// The provider refuses this request.
    Refused,
    /// A recorded failure of a kind that has no class here.
    Recorded,
    /// A recorded reply belongs to another prompt, and that was forbidden.
    Drift,
    /// The ticket is not one of this provider.
    UnknownTicket,
    /// Nothing was answered before the caller's deadline.
    Deadline,
    /// A file of this machine could not be used.
    LocalFile,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [Self; 11] = [
        Self::Exhausted,
        Self::Auth,
        Self::RateLimited,
        Self::Unavailable,
        Self::Malformed,
        Self::Refused,
        Self::Recorded,
        Self::Drift,
        Self::UnknownTicket,
        Self::Deadline,
        Self::LocalFile,
    ];

    /// The name, as in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Auth => "auth",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Recorded => "recorded",
            Self::Drift => "drift",
            Self::UnknownTicket => "unknown_ticket",
            Self::Deadline => "deadline",
            Self::LocalFile => "local_file",
        }
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    #[error("the replies are used up: {0}; record more, or stop here")]
    Exhausted(String),
    #[error("the provider refused the key: {0}; check the key and what it may do")]
    Auth(String),
    #[error("the provider is limiting requests: {0}; wait, or ask for less")]
    RateLimited(String),
    #[error("the provider is not available: {0}; try again later")]
    Unavailable(String),
    #[error("the provider's answer cannot be read: {0}; check its address and version")]
    Malformed(String),
    #[error("the provider refuses this request: {0}; change the prompt or the limits")]
    Refused(String),
    #[error("recorded failure: {0}; remove the entry to go on without it")]
    Recorded(String),
    #[error("the recorded reply {0} answers another prompt; record it again or allow drift")]
    Drift(String),
    #[error("ticket `{0}` is not one of this provider; ask again under a new reservation")]
    UnknownTicket(String),
    #[error("no reply within {limit_ms} ms; allow more time, or try again")]
    Deadline { limit_ms: u64 },
    #[error("{path}: {why}; check the file")]
    LocalFile { path: String, why: String },
}

impl LlmError {
    /// The kind of error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Exhausted(_) => ErrorClass::Exhausted,
            Self::Auth(_) => ErrorClass::Auth,
            Self::RateLimited(_) => ErrorClass::RateLimited,
            Self::Unavailable(_) => ErrorClass::Unavailable,
            Self::Malformed(_) => ErrorClass::Malformed,
            Self::Refused(_) => ErrorClass::Refused,
            Self::Recorded(_) => ErrorClass::Recorded,
            Self::Drift(_) => ErrorClass::Drift,
            Self::UnknownTicket(_) => ErrorClass::UnknownTicket,
            Self::Deadline { .. } => ErrorClass::Deadline,
            Self::LocalFile { .. } => ErrorClass::LocalFile,
        }
    }

    /// True when the same request may succeed if it is made again, as a new try.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.class() {
            ErrorClass::RateLimited | ErrorClass::Unavailable | ErrorClass::Malformed => true,
            ErrorClass::Recorded | ErrorClass::UnknownTicket | ErrorClass::Deadline => true,
            ErrorClass::Exhausted | ErrorClass::Auth | ErrorClass::Refused => false,
            ErrorClass::Drift | ErrorClass::LocalFile => false,
        }
    }

    /// True when the provider may have answered and charged: the call is then booked as lost, at
    /// its worst case, before it is made again.
    #[must_use]
    pub fn may_have_cost(&self) -> bool {
        match self.class() {
            ErrorClass::Malformed | ErrorClass::UnknownTicket | ErrorClass::Deadline => true,
            ErrorClass::Exhausted | ErrorClass::Auth | ErrorClass::RateLimited => false,
            ErrorClass::Unavailable | ErrorClass::Refused | ErrorClass::Recorded => false,
            ErrorClass::Drift | ErrorClass::LocalFile => false,
        }
    }

    /// The error that a provider's failure text means, by the status code that it begins with.
    #[must_use]
    pub fn of_status_text(text: &str) -> Self {
        let code: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
        let text = text.trim().to_owned();
        match code.parse::<u16>() {
            Ok(401..=403) => Self::Auth(text),
            Ok(429) => Self::RateLimited(text),
            Ok(408 | 500..=599) => Self::Unavailable(text),
            Ok(400..=499) => Self::Refused(text),
            Ok(200..=299) => Self::Malformed(text),
            Ok(_) | Err(_) => Self::Recorded(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorClass, LlmError};

    #[test]
    fn classes_follow_the_leading_code() {
        for (text, class, retryable) in [
            ("429 rate limited", ErrorClass::RateLimited, true),
            ("  503 overloaded", ErrorClass::Unavailable, true),
            ("500", ErrorClass::Unavailable, true),
            ("408 timeout", ErrorClass::Unavailable, true),
            ("401 no key", ErrorClass::Auth, false),
            ("402 no credit", ErrorClass::Auth, false),
            ("403 forbidden", ErrorClass::Auth, false),
            ("400 too long", ErrorClass::Refused, false),
            ("404 no model", ErrorClass::Refused, false),
            ("200 but no JSON", ErrorClass::Malformed, true),
            ("connection reset", ErrorClass::Recorded, true),
            ("99999999 odd", ErrorClass::Recorded, true),
            ("", ErrorClass::Recorded, true),
        ] {
            let error = LlmError::of_status_text(text);
            assert_eq!((error.class(), error.is_retryable()), (class, retryable), "{text}");
        }
    }

    #[test]
    fn only_calls_without_a_known_end_are_booked_as_lost() {
        for (error, lost) in [
            (LlmError::Deadline { limit_ms: 5 }, true),
            (LlmError::UnknownTicket("t".to_owned()), true),
            (LlmError::of_status_text("200 but no JSON"), true),
            (LlmError::of_status_text("429 rate limited"), false),
            (LlmError::of_status_text("503 overloaded"), false),
            (LlmError::Exhausted("end".to_owned()), false),
        ] {
            assert_eq!(error.may_have_cost(), lost, "{error}");
        }
    }

    #[test]
    fn class_names_are_distinct() {
        let mut names = ErrorClass::ALL.map(ErrorClass::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
