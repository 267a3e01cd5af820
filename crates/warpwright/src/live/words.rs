//! Numbers of the live lines in few characters.

use pipeline::report::{Score, microseconds};
use pipeline::verdict::Kind;
use store::Bookings;

use crate::commands::status::dollars;

/// Parts of a line; empty ones are left out.
pub(super) fn joined<const N: usize>(parts: [String; N]) -> String {
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" | ")
}

/// A span of time, to the second.
pub(super) fn span(ms: u64) -> String {
    let s = ms / 1_000;
    match (s / 3_600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// Attempts by verdict, those with none left out.
pub(super) fn mix(kinds: &[u32; Kind::ALL.len()]) -> String {
    let counts = Kind::ALL.into_iter().zip(kinds).filter(|(_, count)| **count > 0);
    let words: Vec<_> = counts.map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    words.join(", ")
}

/// The best attempt with what ranks it.
pub(super) fn best(seq: u32, score: &Score) -> String {
    match score {
        Score::None => format!("best #{seq}"),
        Score::Estimated(estimate) => {
            format!("best #{seq} (estimate: {:.3e} sectors)", estimate.sectors)
        }
        Score::Measured(measured) => {
            format!("best #{seq} ({} µs)", microseconds(measured.cold.median_ns))
        }
    }
}

/// What the calls cost, may cost besides, and may cost at most.
pub(super) fn money(bookings: &Bookings, cap_nusd: Option<i64>) -> String {
    let open = bookings.reserved.nusd;
    let spent = bookings.total().nusd.saturating_sub(open);
    let reserved = match open {
        0 => String::new(),
        open => format!(" + ${} reserved", dollars(open)),
    };
    let cap = cap_nusd.map_or_else(String::new, |cap| format!(" of ${}", dollars(cap)));
    format!("${}{reserved}{cap}", dollars(spent))
}

/// Tokens that are booked, and how many may be.
pub(super) fn tokens(bookings: &Bookings, cap: Option<u64>) -> String {
    let cap = cap.map_or_else(String::new, |cap| format!(" of {}", thousands(cap)));
    format!("{}{cap} tokens", thousands(bookings.total().tokens))
}

fn thousands(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}.{}k", number / 1_000, number / 100 % 10),
        _ => format!("{}.{}M", number / 1_000_000, number / 100_000 % 10),
    }
}

/// A line of at most so many characters.
pub(super) fn cut(line: &str, chars_max: usize) -> String {
    if line.chars().count() <= chars_max {
        return line.to_owned();
    }
    let kept = line.chars().take(chars_max.saturating_sub(1));
    kept.chain(['…']).take(chars_max).collect()
}

/// A length as a number of attempts.
pub(super) fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}
