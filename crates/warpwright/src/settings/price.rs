//! Prices in settings: a word, or dollars per million tokens, as exact nano-dollars.

use pipeline::price::Price;

use crate::settings::file::DollarsSection;

/// Resolves a price; `unset` where nothing is said.
pub(crate) fn price(section: Option<&toml::Value>, unset: Price) -> Result<Price, String> {
    let words = "write \"free\", \"subscription\" or { input = DOLLARS, output = DOLLARS } per \
                 million tokens, cached_input beside them where it is cheaper";
    let dollars: DollarsSection = match section {
        None => return Ok(unset),
        Some(toml::Value::String(word)) if word == "free" => return Ok(Price::Free),
        Some(toml::Value::String(word)) if word == "subscription" => {
            return Ok(Price::Subscription);
        }
        Some(other) => {
            let parsed = other.clone().try_into();
            parsed.map_err(|error| format!("`price = {other}`: {}; {words}", error.message()))?
        }
    };
    let input_nusd = nano_dollars("input", dollars.input)?;
    let cached = dollars.cached_input.unwrap_or(dollars.input);
    let cached_input_nusd = nano_dollars("cached_input", cached)?;
    if cached_input_nusd > input_nusd {
        return Err("`cached_input` costs more than `input`: then leave it out".to_owned());
    }
    let output_nusd = nano_dollars("output", dollars.output)?;
    Ok(Price::PerMillionTokens { input_nusd, cached_input_nusd, output_nusd })
}

/// Dollars of a settings file or flag as nano-dollars.
pub(crate) fn nano_dollars(field: &str, dollars: f64) -> Result<i64, String> {
    if (0.0..=1e6).contains(&dollars) {
        return Ok((dollars * 1e9).round() as i64);
    }
    Err(format!("`{field} = {dollars}`: write dollars, 0 to 1000000"))
}
