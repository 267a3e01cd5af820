//! What a server says it counted and charged, in any of the spellings that servers have.

use pipeline::transcript::Usage;
use serde_json::Value;

use crate::limits::{REPORTED_COST_NUSD_MAX, REPORTED_TOKENS_MAX};
use crate::model::Price;

/// The counts in a `usage` object; `None` where it does not say what was used.
pub(super) fn usage(value: &Value) -> Option<Usage> {
    let first = |paths: &[&str]| paths.iter().find_map(|path| count(value.pointer(path)?));
    let input_tokens = first(&["/prompt_tokens", "/input_tokens"])?;
    let total_tokens = first(&["/total_tokens"]);
    // Some servers leave reasoning out of the completion but not out of the total.
    let rest_tokens = total_tokens.map(|total| total.saturating_sub(input_tokens));
    let output_tokens = first(&["/completion_tokens", "/output_tokens"]);
    let output_tokens = output_tokens.max(rest_tokens)?;
    let cached_input_tokens = first(&[
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cache_read_input_tokens",
        "/cached_tokens",
    ]);
    let reasoning_tokens = first(&[
        "/completion_tokens_details/reasoning_tokens",
        "/output_tokens_details/reasoning_tokens",
        "/reasoning_tokens",
    ]);
    // No prompt has no tokens: such a server does not count.
    (input_tokens + output_tokens > 0).then(|| Usage {
        input_tokens,
        output_tokens,
        cached_input_tokens: cached_input_tokens.unwrap_or(0).min(input_tokens),
        reasoning_tokens: reasoning_tokens.unwrap_or(0).min(output_tokens),
        estimated: false,
    })
}

/// A number of tokens, whatever its JSON type.
fn count(value: &Value) -> Option<u64> {
    if let Some(count) = value.as_u64() {
        return Some(count.min(REPORTED_TOKENS_MAX));
    }
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse::<f64>().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    // The cast saturates. Less than nothing is no count.
    (number >= 0.0).then(|| (number.ceil() as u64).min(REPORTED_TOKENS_MAX))
}

/// The cost in a `usage` object in nano-dollars, rounded up; `None` where there is no credible one.
pub(super) fn reported_cost_nusd(usage: &Value) -> Option<i64> {
    let cost = usage.get("cost")?;
    let cost_nusd = nusd(cost.get("total_cost").unwrap_or(cost))?;
    let own_key = usage.get("is_byok").and_then(Value::as_bool).unwrap_or(false);
    let upstream = usage.pointer("/cost_details/upstream_inference_cost").filter(|_| own_key);
    let upstream_nusd = upstream.and_then(nusd).unwrap_or(0);
    Some(cost_nusd.saturating_add(upstream_nusd))
}

/// What a call cost: the server's word before the price list.
pub(super) fn cost_nusd(reported: Option<i64>, price: Price, usage: Option<Usage>) -> Option<i64> {
    match price {
        // What is paid anyway, or by nobody, is not charged by the call.
        Price::Free | Price::Subscription => Some(0),
        Price::Unknown | Price::PerMillionTokens { .. } => {
            reported.or_else(|| price.cost_nusd(usage?))
        }
    }
}

fn nusd(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => decimal_nusd(&number.to_string()),
        Value::String(text) => decimal_nusd(text.trim().trim_start_matches('$')),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Dollars as a decimal number, with no detour over binary fractions.
fn decimal_nusd(text: &str) -> Option<i64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 30 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: i128 = digits.parse().ok()?;
    let shift = exponent.checked_add(9)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let power = |shift: u32| 10_i128.checked_pow(shift);
    let nusd = match u32::try_from(shift) {
        Ok(shift) => digits.checked_mul(power(shift)?)?,
        Err(_) => match power(shift.unsigned_abs()) {
            Some(divisor) => (digits + divisor - 1).div_euclid(divisor),
            None => i128::from(digits > 0),
        },
    };
    i64::try_from(nusd).ok().filter(|nusd| *nusd <= REPORTED_COST_NUSD_MAX)
}

#[cfg(test)]
mod tests {
    use pipeline::transcript::Usage;
    use serde_json::{Value, json};

    use super::{cost_nusd, reported_cost_nusd, usage};
    use crate::model::Price;

    #[test]
    fn counts_in_every_spelling() {
        let of = Usage::of;
        let huge = super::REPORTED_TOKENS_MAX;
        for (value, expected) in [
            (json!({"prompt_tokens": 10, "completion_tokens": 20}), Some(of(10, 20))),
            (json!({"prompt_tokens": 10.0, "completion_tokens": "20"}), Some(of(10, 20))),
            (json!({"prompt_tokens": 10, "completion_tokens": -3}), None),
            (json!({"prompt_tokens": 10, "completion_tokens": 1e300}), Some(of(10, huge))),
            (json!({"prompt_tokens": u64::MAX, "completion_tokens": 1}), Some(of(huge, 1))),
            (json!({"input_tokens": 10, "output_tokens": 20}), Some(of(10, 20))),
            (json!({"prompt_tokens": 10, "total_tokens": 30}), Some(of(10, 20))),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 30,
                    "completion_tokens_details": {"reasoning_tokens": 15}}),
                Some(Usage { reasoning_tokens: 15, ..of(10, 20) }),
            ),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 20,
                    "prompt_tokens_details": {"cached_tokens": 4}}),
                Some(Usage { cached_input_tokens: 4, ..of(10, 20) }),
            ),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 20,
                    "prompt_tokens_details": null, "prompt_cache_hit_tokens": 400}),
                Some(Usage { cached_input_tokens: 10, ..of(10, 20) }),
            ),
            (json!({"prompt_tokens": 10}), None),
            (json!({"completion_tokens": 10}), None),
            (json!({"prompt_tokens": 0, "completion_tokens": 0}), None),
            (json!({"prompt_tokens": "many", "completion_tokens": 1}), None),
            (json!({}), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(usage(&value), expected, "{value}");
        }
    }

    #[test]
    fn costs_are_exact_and_rounded_up() {
        for (cost, expected) in [
            (json!(0.001), Some(1_000_000)),
            (json!(0.000_000_001_1), Some(2)),
            (json!(1.5e-7), Some(150)),
            (json!(1e-30), Some(1)),
            (json!(0), Some(0)),
            (json!(2), Some(2_000_000_000)),
            (json!(0.1), Some(100_000_000)),
            (json!("0.0123456789"), Some(12_345_679)),
            (json!("$3.00"), Some(3_000_000_000)),
            (json!({"total_cost": 0.5}), Some(500_000_000)),
            (json!(-1), None),
            (json!("-0.5"), None),
            (json!("NaN"), None),
            (json!("inf"), None),
            (json!(1e9), None),
            (json!("1e999999999999"), None),
            (json!("1e2147483647"), None),
            (json!("."), None),
            (json!(""), None),
            (json!(true), None),
            (Value::Null, None),
        ] {
            assert_eq!(reported_cost_nusd(&json!({ "cost": cost })), expected, "{cost}");
        }
        let own_key = json!({"cost": 0.01, "is_byok": true,
            "cost_details": {"upstream_inference_cost": 0.2}});
        assert_eq!(reported_cost_nusd(&own_key), Some(210_000_000));
    }

    #[test]
    fn the_servers_word_comes_before_the_price_list() {
        let paid = Price::PerMillionTokens {
            input_nusd: 1_000_000,
            cached_input_nusd: 0,
            output_nusd: 2_000_000,
        };
        let counted = Some(Usage::of(10, 20));
        for (reported, price, usage, expected) in [
            (Some(7), paid, counted, Some(7)),
            (Some(0), paid, None, Some(0)),
            (None, paid, counted, Some(50)),
            (None, paid, None, None),
            (None, Price::Unknown, counted, None),
            (None, Price::Free, None, Some(0)),
            (None, Price::Subscription, None, Some(0)),
            (Some(7), Price::Subscription, counted, Some(0)),
        ] {
            assert_eq!(cost_nusd(reported, price, usage), expected, "{reported:?} {price:?}");
        }
    }
}
