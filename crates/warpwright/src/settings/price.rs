//! Prices in settings: a word, or dollars per million tokens, as exact nano-dollars, with the day
//! of the list that they are from; and what is said of one that is old.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use pipeline::price::Price;

use crate::limits::PRICE_DAYS_MAX;
use crate::settings::file::DollarsSection;
use crate::settings::model::ModelSetting;

/// A price with the day of the list that it is from, as `2026-11-01`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dated {
    pub(crate) price: Price,
    pub(crate) as_of: Option<String>,
}

/// Resolves a price; `unset` where nothing is said.
pub(crate) fn price(section: Option<&toml::Value>, unset: Price) -> Result<Price, String> {
    Ok(dated(section, unset)?.price)
}

/// The same with its day.
pub(crate) fn dated(section: Option<&toml::Value>, unset: Price) -> Result<Dated, String> {
    let words = "write \"free\", \"subscription\" or { input = DOLLARS, output = DOLLARS } per \
                 million tokens, cached_input beside them where it is cheaper, and as_of = \
                 \"YYYY-MM-DD\" for the day of the list";
    let undated = |price| Ok(Dated { price, as_of: None });
    let dollars: DollarsSection = match section {
        None => return undated(unset),
        Some(toml::Value::String(word)) if word == "free" => return undated(Price::Free),
        Some(toml::Value::String(word)) if word == "subscription" => {
            return undated(Price::Subscription);
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
    let price = Price::PerMillionTokens { input_nusd, cached_input_nusd, output_nusd };
    Ok(Dated { price, as_of: dollars.as_of.as_deref().map(day).transpose()? })
}

/// A day, as it is stored.
fn day(text: &str) -> Result<String, String> {
    let date: Date = text
        .parse()
        .map_err(|_| format!("`as_of = \"{text}\"`: write the day of the list as 2026-11-01"))?;
    Ok(date.to_string())
}

/// `NAME=PRICE` of the command line: the name, and the price as a settings file would have it.
pub(crate) fn of_flag(text: &str) -> Result<(&str, toml::Value), String> {
    let wrong = || {
        format!(
            "--price {text}: write NAME=INPUT/OUTPUT or NAME=INPUT/CACHED/OUTPUT in dollars per \
             million tokens, with @2026-11-01 behind it for the day of the list, or NAME=free or \
             NAME=subscription"
        )
    };
    let (name, price) = text.rsplit_once('=').ok_or_else(wrong)?;
    if matches!(price, "free" | "subscription") {
        return Ok((name, toml::Value::String(price.to_owned())));
    }
    let (amounts, as_of) = match price.split_once('@') {
        Some((amounts, as_of)) => (amounts, Some(as_of)),
        None => (price, None),
    };
    let amounts: Vec<f64> = amounts
        .split('/')
        .map(|amount| amount.trim().parse().map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    let fields: &[&str] = match amounts.len() {
        2 => &["input", "output"],
        3 => &["input", "cached_input", "output"],
        _ => return Err(wrong()),
    };
    let mut table = toml::Table::new();
    for (field, amount) in fields.iter().zip(amounts) {
        table.insert((*field).to_owned(), toml::Value::Float(amount));
    }
    if let Some(as_of) = as_of {
        table.insert("as_of".to_owned(), toml::Value::String(as_of.to_owned()));
    }
    Ok((name, toml::Value::Table(table)))
}

/// Each priced model of a run in a line: what it costs, and from which day's list that is.
pub(crate) fn lines(models: &[ModelSetting]) -> Vec<String> {
    models.iter().filter_map(line).collect()
}

fn line(model: &ModelSetting) -> Option<String> {
    let now = amounts(model.price())?;
    let batch = model.batch_price().and_then(amounts);
    let batch = batch.map_or_else(String::new, |batch| format!(", in batches {batch}"));
    let day = match model.price_as_of() {
        Some(day) => format!("as of {day}"),
        None => "without a day (`as_of`)".to_owned(),
    };
    Some(format!("{}: {now} dollars per million tokens{batch}, {day}", model.model_name()))
}

fn amounts(price: Price) -> Option<String> {
    match price {
        Price::PerMillionTokens { input_nusd, cached_input_nusd, output_nusd } => {
            let dollars = |nusd: i64| nusd as f64 / 1e9;
            Some(format!(
                "{} in, {} cached in, {} out",
                dollars(input_nusd),
                dollars(cached_input_nusd),
                dollars(output_nusd)
            ))
        }
        Price::Free | Price::Subscription | Price::Unknown => None,
    }
}

/// What is to be said of prices whose list was old, or is yet to come, at a time.
pub(crate) fn warnings(models: &[ModelSetting], now_us: i64) -> Vec<String> {
    let now = Timestamp::from_microsecond(now_us).unwrap_or(Timestamp::MAX);
    let today = now.to_zoned_datetime(TimeZone::system()).date();
    let aged = models.iter().filter_map(|model| {
        let day = model.price_as_of()?;
        Some((model.model_name(), day, aged(day, today)?))
    });
    aged.map(|(name, day, why)| format!("the price of {name} is as of {day}, {why}")).collect()
}

/// What is wrong with a day as that of a price, on the day `today`.
fn aged(day: &str, today: Date) -> Option<String> {
    let date: Date = day.parse().ok()?;
    let days = i64::from(date.until(today).ok()?.get_days());
    match days {
        // Days do not begin at once everywhere.
        ..-1 => Some("a day that is yet to come: look at its `as_of`".to_owned()),
        days if days > PRICE_DAYS_MAX => Some(format!(
            "{days} days before: compare it with your provider's list of now, and set `price` anew"
        )),
        _ => None,
    }
}

/// Dollars of a settings file or flag as nano-dollars.
pub(crate) fn nano_dollars(field: &str, dollars: f64) -> Result<i64, String> {
    if (0.0..=1e6).contains(&dollars) {
        return Ok((dollars * 1e9).round() as i64);
    }
    Err(format!("`{field} = {dollars}`: write dollars, 0 to 1000000"))
}

#[cfg(test)]
mod tests {
    use pipeline::price::Price;

    use super::{aged, dated, of_flag};

    fn value(text: &str) -> toml::Value {
        toml::from_str::<toml::Table>(&format!("price = {text}")).unwrap().remove("price").unwrap()
    }

    #[test]
    fn a_price_keeps_the_day_of_its_list() {
        let dollars = |input: i64, cached: i64, output: i64| Price::PerMillionTokens {
            input_nusd: input * 1_000_000_000,
            cached_input_nusd: cached * 1_000_000_000,
            output_nusd: output * 1_000_000_000,
        };
        for (text, price, as_of) in [
            ("\"free\"", Price::Free, None),
            ("{ input = 2, output = 8 }", dollars(2, 2, 8), None),
            (
                "{ input = 2, cached_input = 1, output = 8, as_of = \"2026-11-01\" }",
                dollars(2, 1, 8),
                Some("2026-11-01"),
            ),
        ] {
            let found = dated(Some(&value(text)), Price::Unknown).unwrap();
            assert_eq!((found.price, found.as_of.as_deref()), (price, as_of), "{text}");
        }
        for day in ["1 Nov", "2026-13-01", "2026-02-30", ""] {
            let text = format!("{{ input = 2, output = 8, as_of = \"{day}\" }}");
            let why = dated(Some(&value(&text)), Price::Unknown).unwrap_err();
            assert!(why.contains("write the day of the list"), "{day}: {why}");
        }
    }

    #[test]
    fn a_flag_says_what_a_file_would() {
        for (text, name, same) in [
            ("gpt=free", "gpt", "\"free\""),
            ("openai:gpt-5=2/8", "openai:gpt-5", "{ input = 2.0, output = 8.0 }"),
            (
                "gpt=2/0.5/8@2026-11-01",
                "gpt",
                "{ input = 2.0, cached_input = 0.5, output = 8.0, as_of = \"2026-11-01\" }",
            ),
        ] {
            assert_eq!(of_flag(text), Ok((name, value(same))), "{text}");
        }
        for text in ["gpt", "gpt=", "gpt=2", "gpt=a/b", "gpt=1/2/3/4", "gpt=cheap"] {
            assert!(of_flag(text).unwrap_err().contains("write NAME=INPUT/OUTPUT"), "{text}");
        }
    }

    #[test]
    fn a_list_older_than_ninety_days_is_said_to_be_so() {
        for (day, warns) in [
            ("2026-11-30", None),
            ("2026-09-01", None),
            ("2026-08-31", Some("91 days before")),
            ("2024-11-30", Some("730 days before")),
            ("2026-12-01", None),
            ("2026-12-02", Some("yet to come")),
            ("2062-11-30", Some("yet to come")),
        ] {
            let found = aged(day, "2026-11-30".parse().unwrap());
            match warns {
                None => assert_eq!(found, None, "{day}"),
                Some(part) => assert!(found.unwrap().contains(part), "{day}"),
            }
        }
    }
}
