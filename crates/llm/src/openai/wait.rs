//! When a server wants to be asked again, from its headers.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::limits::WANTED_WAIT_MS_MAX;

/// The wait before the next try in milliseconds; `limited` also believes what the headers say of
/// used-up limits, which most answers carry.
pub(super) fn wanted_wait_ms(headers: &HeaderMap, limited: bool) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let now = text("date").and_then(date).unwrap_or_else(Timestamp::now);
    text("retry-after-ms")
        .and_then(|text| wait_ms(text.parse::<f64>().ok()?))
        .or_else(|| text("retry-after").and_then(|text| retry_after_ms(text, now)))
        .or_else(|| reset_ms(headers, now).filter(|_| limited))
        .map(|wait| wait.min(WANTED_WAIT_MS_MAX))
}

/// The wait that a body asks for, where routers and Google put it.
pub(super) fn wait_in_body_ms(error: &Value) -> Option<u64> {
    let of = |value: &Value| match value {
        Value::Number(seconds) => wait_ms(seconds.as_f64()? * 1e3),
        Value::String(text) => seconds_ms(text).or_else(|| duration_ms(text)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let places = ["/retry_after", "/metadata/retry_after_seconds", "/metadata/headers/Retry-After"];
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let delays = details.filter_map(|detail| detail.get("retryDelay"));
    let values = places.iter().filter_map(|place| error.pointer(place)).chain(delays);
    values.filter_map(of).next().map(|wait| wait.min(WANTED_WAIT_MS_MAX))
}

fn retry_after_ms(text: &str, now: Timestamp) -> Option<u64> {
    seconds_ms(text).or_else(|| duration_ms(text)).or_else(|| Some(ms_until(date(text)?, now)))
}

/// The reset of the limit that is used up; of the nearest one where none says so.
fn reset_ms(headers: &HeaderMap, now: Timestamp) -> Option<u64> {
    let text = |name: String| headers.get(name)?.to_str().ok().map(str::trim);
    let resets = ["-requests", "-tokens", ""].into_iter().filter_map(|what| {
        let reset = moment_ms(text(format!("x-ratelimit-reset{what}"))?, now)?;
        let remaining = text(format!("x-ratelimit-remaining{what}"));
        Some((remaining == Some("0"), reset))
    });
    let resets: Vec<(bool, u64)> = resets.collect();
    let used_up = resets.iter().filter(|(used_up, _)| *used_up).map(|(_, reset)| *reset).max();
    used_up.or_else(|| resets.iter().map(|(_, reset)| *reset).min())
}

/// A duration, or a moment as seconds or milliseconds since 1970.
fn moment_ms(text: &str, now: Timestamp) -> Option<u64> {
    let since_1970 = |ms: f64| {
        let at = Timestamp::from_millisecond(ms as i64).ok()?;
        Some(ms_until(at, now))
    };
    match text.parse::<f64>() {
        Ok(number) if number >= 1e12 => since_1970(number),
        Ok(number) if number >= 1e9 => since_1970(number * 1e3),
        Ok(_) => seconds_ms(text),
        Err(_) => duration_ms(text),
    }
}

fn date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()
}

fn ms_until(at: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond().saturating_sub(now.as_millisecond())).unwrap_or(0)
}

fn seconds_ms(text: &str) -> Option<u64> {
    wait_ms(text.parse::<f64>().ok()? * 1e3)
}

fn wait_ms(ms: f64) -> Option<u64> {
    // The cast saturates.
    (ms.is_finite() && ms >= 0.0).then(|| ms.ceil() as u64)
}

/// Numbers with units one after the other, as in `6m0s`, `2m59.56s` and `20ms`.
fn duration_ms(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at(number_end);
        let is_unit = |c: char| c.is_ascii_alphabetic();
        let unit_end = tail.find(|c| !is_unit(c)).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        total += number.parse::<f64>().ok()? * unit_ms(unit)?;
        rest = tail;
    }
    if text.is_empty() { None } else { wait_ms(total) }
}

fn unit_ms(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(1.0),
        "s" => Some(1e3),
        "m" => Some(60e3),
        "h" => Some(3_600e3),
        "d" => Some(86_400e3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
    use serde_json::json;

    use super::{WANTED_WAIT_MS_MAX, wait_in_body_ms, wanted_wait_ms};

    const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");

    const Y2001: (&str, &str) = ("date", "Sun, 09 Sep 2001 01:46:40 GMT");

    type Pairs = &'static [(&'static str, &'static str)];

    #[test]
    fn headers_say_when_to_ask_again() {
        let rows: [(Pairs, Option<u64>); 27] = [
            (&[], None),
            (&[("retry-after", "2")], Some(2_000)),
            (&[("retry-after", " 0.25 ")], Some(250)),
            (&[("retry-after", "20ms")], Some(20)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "")], None),
            (&[("retry-after", "1e300")], Some(WANTED_WAIT_MS_MAX)),
            (&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(1_500)),
            (&[("retry-after-ms", "x"), ("retry-after", "9")], Some(9_000)),
            (&[DATE, ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")], Some(10_000)),
            (&[DATE, ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(0)),
            (&[DATE, ("retry-after", "Wed, 31 Dec 9998 00:00:00 GMT")], Some(WANTED_WAIT_MS_MAX)),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(0)),
            (&[("x-ratelimit-reset-requests", "6m0s")], Some(360_000)),
            (&[("x-ratelimit-reset-requests", "1s")], Some(1_000)),
            (&[("x-ratelimit-reset-tokens", "20ms")], Some(20)),
            (&[("x-ratelimit-reset-tokens", "2m59.56s")], Some(179_560)),
            (&[("x-ratelimit-reset-tokens", "1h2m")], Some(3_720_000)),
            (&[("x-ratelimit-reset-tokens", "7")], Some(7_000)),
            (&[("x-ratelimit-reset-tokens", "5parsecs")], None),
            (&[("x-ratelimit-reset-tokens", "m5")], None),
            (
                &[("x-ratelimit-reset-requests", "1d"), ("x-ratelimit-reset-tokens", "3s")],
                Some(3_000),
            ),
            (
                &[
                    ("x-ratelimit-reset-requests", "1h"),
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-tokens", "3s"),
                    ("x-ratelimit-remaining-tokens", "90"),
                ],
                Some(3_600_000),
            ),
            (&[Y2001, ("x-ratelimit-reset", "1000000007000")], Some(7_000)),
            (&[Y2001, ("x-ratelimit-reset", "1000000005")], Some(5_000)),
        ];
        assert_waits(&rows);
    }

    fn assert_waits(rows: &[(Pairs, Option<u64>)]) {
        for (pairs, expected) in rows {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| {
                    (HeaderName::from_static(name), HeaderValue::from_static(value))
                })
                .collect();
            assert_eq!(wanted_wait_ms(&headers, true), *expected, "{pairs:?}");
        }
    }

    #[test]
    fn bodies_say_when_to_ask_again() {
        for (body, expected) in [
            (json!({ "metadata": { "retry_after_seconds": 2.5 } }), Some(2_500)),
            (json!({ "metadata": { "headers": { "Retry-After": "3" } } }), Some(3_000)),
            (json!({ "details": [{ "a": 1 }, { "retryDelay": "33s" }] }), Some(33_000)),
            (json!({ "retry_after": 1e300 }), Some(WANTED_WAIT_MS_MAX)),
            (json!({ "retry_after": -1 }), None),
            (json!({ "retry_after": "soon", "details": "none" }), None),
            (json!(["retry_after"]), None),
        ] {
            assert_eq!(wait_in_body_ms(&body), expected, "{body}");
        }
    }

    #[test]
    fn a_limit_counts_only_where_it_was_the_reason() {
        let headers: HeaderMap =
            [(HeaderName::from_static("x-ratelimit-reset"), HeaderValue::from_static("5"))]
                .into_iter()
                .collect();
        assert_eq!(wanted_wait_ms(&headers, true), Some(5_000));
        assert_eq!(wanted_wait_ms(&headers, false), None);
    }
}
