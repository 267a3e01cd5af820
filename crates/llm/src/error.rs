//! What can go wrong between a prompt and its reply. A bad answer is none of it.

use std::fmt;

use pipeline::transcript::Usage;

/// The kind of an [`LlmError`], as the ledger keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Nothing more will be answered.
    Exhausted,
    /// The key is wrong or not allowed.
    Auth,
    /// The account has no credit left.
    NoCredit,
    /// Too many requests or tokens for now.
    RateLimited,
    /// The provider is down, unreachable or overloaded.
    Unavailable,
    /// The connection broke or went silent after the question had left.
    Interrupted,
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
    /// A file or program of this machine could not be used.
    LocalFile,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [Self; 13] = [
        Self::Exhausted,
        Self::Auth,
        Self::NoCredit,
        Self::RateLimited,
        Self::Unavailable,
        Self::Interrupted,
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
            Self::NoCredit => "no_credit",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Interrupted => "interrupted",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Recorded => "recorded",
            Self::Drift => "drift",
            Self::UnknownTicket => "unknown_ticket",
            Self::Deadline => "deadline",
            Self::LocalFile => "local_file",
        }
    }

    /// What happened and the way out, around the provider's own message.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Exhausted => ("the replies are used up", "record more, or stop here"),
            Self::Auth => ("the provider refused the key", "check the key and what it may do"),
            Self::NoCredit => ("the account has no credit left", "top it up, then resume"),
            Self::RateLimited => ("the provider is limiting requests", "wait, or ask for less"),
            Self::Unavailable => ("the provider is not available", "try again later"),
            Self::Interrupted => ("the answer broke off on its way", "it may have been charged"),
            Self::Malformed => {
                ("the provider's answer cannot be read", "check its address and version")
            }
            Self::Refused => {
                ("the provider refuses this request", "change the prompt, the model or the limits")
            }
            Self::Recorded => ("recorded failure", "remove the entry to go on without it"),
            Self::Drift => {
                ("the recorded reply answers another prompt", "record it again or allow drift")
            }
            Self::UnknownTicket => {
                ("the ticket is not one of this provider", "ask again under a new reservation")
            }
            Self::Deadline => ("no reply in time", "allow more time, or try again"),
            Self::LocalFile => ("this machine", "check the file"),
        }
    }

    /// The same where the model is a program of this machine and nothing serves it.
    fn words_of_program(self) -> (&'static str, &'static str) {
        match self {
            Self::Unavailable => ("the model's program failed", "see what it says, then try again"),
            Self::Interrupted => ("the model's program broke off", "it may have been charged"),
            Self::Malformed => ("what the model's program printed cannot be read", "mend it"),
            Self::Refused => (
                "the model's program refuses this request",
                "change the prompt, the model or the limits",
            ),
            Self::Auth => ("the model's program has no valid key", "see what it says"),
            Self::RateLimited => {
                ("the model's program is asked too often", "wait, or ask for less")
            }
            Self::Exhausted | Self::NoCredit | Self::Recorded | Self::Drift => self.words(),
            Self::UnknownTicket | Self::Deadline | Self::LocalFile => self.words(),
        }
    }

    /// What a call that ended like this may have cost, where the provider said nothing about it.
    fn charge(self) -> Charge {
        match self {
            Self::Malformed | Self::UnknownTicket | Self::Deadline | Self::Interrupted => {
                Charge::Unknown
            }
            Self::Exhausted | Self::Auth | Self::NoCredit | Self::RateLimited => Charge::Nothing,
            Self::Unavailable | Self::Refused | Self::Recorded => Charge::Nothing,
            Self::Drift | Self::LocalFile => Charge::Nothing,
        }
    }
}

/// What a call without a reply may have cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    Nothing,
    /// It may have been answered and charged: booked as lost, at its worst case.
    Unknown,
    /// The provider counted tokens although it gave no answer, and maybe said what they cost in
    /// nano-dollars.
    Known {
        usage: Usage,
        cost_nusd: Option<i64>,
    },
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmError {
    class: ErrorClass,
    message: String,
    charge: Charge,
    retry_after_ms: Option<u64>,
    of_program: bool,
}

impl std::error::Error for LlmError {}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, way_out) =
            if self.of_program { self.class.words_of_program() } else { self.class.words() };
        write!(f, "{what}: {}; {way_out}", self.message)
    }
}

impl LlmError {
    /// An error of a class; what it may have cost follows from the class.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        let (message, charge) = (message.into(), class.charge());
        Self { class, message, charge, retry_after_ms: None, of_program: false }
    }

    /// Nothing was answered within `limit_ms`.
    #[must_use]
    pub fn deadline(limit_ms: u64) -> Self {
        Self::new(ErrorClass::Deadline, format!("nothing within {limit_ms} ms"))
    }

    /// Says what the call may have cost, where that is known better than from the class.
    #[must_use]
    pub fn charged(mut self, charge: Charge) -> Self {
        self.charge = charge;
        self
    }

    /// Says that the model is a program of this machine.
    #[must_use]
    pub fn of_program(mut self) -> Self {
        self.of_program = true;
        self
    }

    /// Says when the provider wants to be asked again.
    #[must_use]
    pub fn retry_after_ms(mut self, retry_after_ms: Option<u64>) -> Self {
        self.retry_after_ms = retry_after_ms;
        self
    }

    /// The same with another message, as when something must not be shown.
    #[must_use]
    pub fn map_message(mut self, change: impl FnOnce(&str) -> String) -> Self {
        self.message = change(&self.message);
        self
    }

    /// The kind of error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// What the call may have cost.
    #[must_use]
    pub fn charge(&self) -> Charge {
        self.charge
    }

    /// The wait that the provider asked for before the next try, in milliseconds.
    #[must_use]
    pub fn wanted_wait_ms(&self) -> Option<u64> {
        self.retry_after_ms
    }

    /// True when the same request may succeed if it is made again, as a new try.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.class {
            ErrorClass::RateLimited | ErrorClass::Unavailable | ErrorClass::Malformed => true,
            ErrorClass::Recorded | ErrorClass::UnknownTicket | ErrorClass::Deadline => true,
            ErrorClass::Interrupted => true,
            ErrorClass::Exhausted | ErrorClass::Auth | ErrorClass::Refused => false,
            ErrorClass::Drift | ErrorClass::LocalFile | ErrorClass::NoCredit => false,
        }
    }

    /// The error that an HTTP status means. A proxy that gave up waiting says nothing about what
    /// the model behind it did and charged.
    #[must_use]
    pub fn of_status(status: u16, message: impl Into<String>) -> Self {
        match status {
            401 | 403 => Self::new(ErrorClass::Auth, message),
            402 => Self::new(ErrorClass::NoCredit, message),
            429 => Self::new(ErrorClass::RateLimited, message),
            408 | 499 | 502 | 504 | 522 | 524 => {
                Self::new(ErrorClass::Unavailable, message).charged(Charge::Unknown)
            }
            500..=599 => Self::new(ErrorClass::Unavailable, message),
            400..=498 => Self::new(ErrorClass::Refused, message),
            _ => Self::new(ErrorClass::Malformed, message),
        }
    }

    /// The error that a recorded failure means, by the status code that it begins with.
    #[must_use]
    pub fn of_status_text(text: &str) -> Self {
        let code: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
        let text = text.trim();
        match code.parse::<u16>() {
            Ok(status @ (200..=299 | 400..=599)) => Self::of_status(status, text),
            Ok(_) | Err(_) => Self::new(ErrorClass::Recorded, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Charge, ErrorClass, LlmError};

    #[test]
    fn classes_follow_the_leading_code() {
        for (text, class, retryable) in [
            ("429 rate limited", ErrorClass::RateLimited, true),
            ("  503 overloaded", ErrorClass::Unavailable, true),
            ("500", ErrorClass::Unavailable, true),
            ("408 timeout", ErrorClass::Unavailable, true),
            ("401 no key", ErrorClass::Auth, false),
            ("402 no credit", ErrorClass::NoCredit, false),
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
    fn only_calls_without_a_known_end_may_have_been_charged() {
        for (error, charge) in [
            (LlmError::deadline(5), Charge::Unknown),
            (LlmError::new(ErrorClass::UnknownTicket, "t"), Charge::Unknown),
            (LlmError::new(ErrorClass::Interrupted, "reset"), Charge::Unknown),
            (LlmError::of_status_text("200 but no JSON"), Charge::Unknown),
            (LlmError::of_status_text("504 gateway timeout"), Charge::Unknown),
            (LlmError::of_status_text("429 rate limited"), Charge::Nothing),
            (LlmError::of_status_text("503 overloaded"), Charge::Nothing),
            (LlmError::new(ErrorClass::Exhausted, "end"), Charge::Nothing),
        ] {
            assert_eq!(error.charge(), charge, "{error}");
        }
    }

    #[test]
    fn class_names_are_distinct() {
        let mut names = ErrorClass::ALL.map(ErrorClass::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
