//! What an answerer that is no service may tell beside its text: tokens, dollars, its name.
//!
//! Lenient on purpose: an answer is not thrown away because of how it was counted. What is absent
//! or makes no sense counts as not told.

use pipeline::limits::RECORDED_COUNT_MAX;
use pipeline::transcript::Usage;
use serde_json::{Map, Value};

use crate::limits::REPORTED_COST_NUSD_MAX;

/// Tokens by the field names of a transcript; both totals must be there and plausible.
pub(crate) fn usage(fields: &Map<String, Value>) -> Option<Usage> {
    let count = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            value.as_u64().filter(|count| *count <= RECORDED_COUNT_MAX).map(Some).ok_or(())
        }
    };
    let optional = |name: &str| count(name).ok().flatten().unwrap_or(0);
    let (input_tokens, output_tokens) =
        (count("input_tokens").ok()??, count("output_tokens").ok()??);
    Some(Usage {
        cached_input_tokens: optional("cached_input_tokens"),
        reasoning_tokens: optional("reasoning_tokens"),
        ..Usage::of(input_tokens, output_tokens)
    })
}

/// The field `cost_usd` in nano-dollars, rounded up.
pub(crate) fn cost_nusd(fields: &Map<String, Value>) -> Option<i64> {
    let usd = fields.get("cost_usd")?.as_f64()?;
    // The cast saturates.
    let nusd = (usd * 1e9).ceil() as i64;
    (usd >= 0.0 && nusd <= REPORTED_COST_NUSD_MAX).then_some(nusd)
}

/// A text field that is not empty.
pub(crate) fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use pipeline::transcript::Usage;
    use serde_json::Value;

    use super::{cost_nusd, text, usage};

    #[test]
    fn what_makes_no_sense_is_not_told() {
        let cached = Usage { cached_input_tokens: 1, reasoning_tokens: 2, ..Usage::of(3, 4) };
        for (json, counted, nusd, model) in [
            ("{}", None, None, None),
            (
                r#"{"input_tokens":3,"output_tokens":4,"more":[]}"#,
                Some(Usage::of(3, 4)),
                None,
                None,
            ),
            (
                concat!(
                    r#"{"input_tokens":3,"output_tokens":4,"#,
                    r#""cached_input_tokens":1,"reasoning_tokens":2}"#
                ),
                Some(cached),
                None,
                None,
            ),
            (
                r#"{"input_tokens":3,"output_tokens":4,"cached_input_tokens":-1}"#,
                Some(Usage::of(3, 4)),
                None,
                None,
            ),
            (r#"{"input_tokens":3}"#, None, None, None),
            (r#"{"input_tokens":-3,"output_tokens":4}"#, None, None, None),
            (r#"{"input_tokens":3,"output_tokens":18446744073709551615}"#, None, None, None),
            (r#"{"input_tokens":null,"output_tokens":"4","cost_usd":null}"#, None, None, None),
            (r#"{"cost_usd":0.0000000011,"model":""}"#, None, Some(2), None),
            (r#"{"cost_usd":1e300,"model":"m"}"#, None, None, Some("m")),
            (r#"{"cost_usd":-1,"model":7}"#, None, None, None),
            (r#"{"cost_usd":"1"}"#, None, None, None),
            (r#"{"cost_usd":0}"#, None, Some(0), None),
        ] {
            let Ok(Value::Object(fields)) = serde_json::from_str(json) else { panic!("{json}") };
            assert_eq!(usage(&fields), counted, "{json}");
            assert_eq!(cost_nusd(&fields), nusd, "{json}");
            assert_eq!(text(&fields, "model").as_deref(), model, "{json}");
        }
    }
}
