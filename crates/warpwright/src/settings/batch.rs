//! The batch lane of an OpenAI-compatible server in the settings.

use llm::BatchSettings;
use llm::limits::BATCH_REQUESTS_MAX;
use pipeline::price::Price;
use serde::{Deserialize, Serialize};

use crate::settings::file::OpenAiSection;
use crate::settings::model::millis;
use crate::settings::price::{dated, price};

/// How long a request waits for others, in seconds.
const COLLECT_S: f64 = 10.0;
/// Time between two looks at a batch, in seconds.
const POLL_S: f64 = 30.0;

/// What is set for the batch lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchSetting {
    pub(crate) price: Price,
    pub(crate) collect_ms: u64,
    pub(crate) poll_ms: u64,
    pub(crate) requests_max: usize,
    /// `None` leaves it to the server.
    pub(crate) deadline_ms: Option<u64>,
}

impl BatchSetting {
    /// Resolves the fields of a section; `None` for the interactive lane.
    pub(crate) fn of(section: &OpenAiSection, whole: Price) -> Result<Option<Self>, String> {
        match section.lane.as_deref() {
            Some("batch") => {}
            None | Some("interactive") => return refuse_stray(section).map(|()| None),
            Some(other) => {
                return Err(format!("`lane = \"{other}\"`: write interactive or batch"));
            }
        }
        let requests_max = section.batch_requests_max.unwrap_or(BATCH_REQUESTS_MAX);
        if !(1..=BATCH_REQUESTS_MAX).contains(&requests_max) {
            return Err(format!(
                "`batch_requests_max = {requests_max}`: write 1 to {BATCH_REQUESTS_MAX}"
            ));
        }
        let deadline_ms = section.batch_deadline_minutes.map(|minutes| {
            millis("batch_deadline_minutes", Some(minutes * 60.0), minutes)
                .map_err(|_| format!("`batch_deadline_minutes = {minutes}`: write 0 to 16000"))
        });
        Ok(Some(Self {
            price: batch_price(section.batch_price.as_ref(), whole)?,
            collect_ms: millis("batch_collect_s", section.batch_collect_s, COLLECT_S)?,
            poll_ms: millis("batch_poll_s", section.batch_poll_s, POLL_S)?,
            requests_max,
            deadline_ms: deadline_ms.transpose()?,
        }))
    }

    /// What the provider is given.
    pub(crate) fn settings(self) -> BatchSettings {
        BatchSettings {
            price: self.price,
            collect_ms: self.collect_ms,
            requests_max: self.requests_max,
            poll_ms: self.poll_ms,
            deadline_ms: self.deadline_ms,
        }
    }
}

/// A share of the price, or a price of its own; without either, nothing is off.
fn batch_price(section: Option<&toml::Value>, whole: Price) -> Result<Price, String> {
    let share = match section {
        None => return Ok(whole),
        Some(toml::Value::Float(share)) => *share,
        Some(toml::Value::Integer(share)) => *share as f64,
        Some(other) => {
            return price(Some(other), whole).map_err(|why| format!("`batch_price`: {why}"));
        }
    };
    if !(share > 0.0 && share <= 1.0) {
        return Err(format!(
            "`batch_price = {share}`: write the share of `price` that a batch costs, more than 0 \
             and at most 1, or a price of its own"
        ));
    }
    Ok(whole.share((share * 1e3).ceil() as u32))
}

/// The day of the list that a price of its own is from.
pub(crate) fn price_as_of(section: &OpenAiSection) -> Result<Option<String>, String> {
    match &section.batch_price {
        Some(own @ toml::Value::Table(_)) => {
            let own = dated(Some(own), Price::Unknown);
            Ok(own.map_err(|why| format!("`batch_price`: {why}"))?.as_of)
        }
        Some(_) | None => Ok(None),
    }
}

/// Fields of a lane that is not chosen.
fn refuse_stray(section: &OpenAiSection) -> Result<(), String> {
    let stray = [
        ("batch_price", section.batch_price.is_some()),
        ("batch_deadline_minutes", section.batch_deadline_minutes.is_some()),
        ("batch_collect_s", section.batch_collect_s.is_some()),
        ("batch_poll_s", section.batch_poll_s.is_some()),
        ("batch_requests_max", section.batch_requests_max.is_some()),
    ];
    match stray.iter().find(|(_, set)| *set) {
        Some((name, _)) => Err(format!("`{name}` means nothing without `lane = \"batch\"`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pipeline::price::Price;

    use super::BatchSetting;
    use crate::settings::file::FileSettings;
    use crate::settings::model::ModelSetting;

    fn resolve(more: &str) -> Result<Option<BatchSetting>, String> {
        let text = format!(
            "[model.m]\nkind = 'openai'\nmodel = 'x'\n\
             price = {{ input = 2.0, output = 8.0 }}\n{more}"
        );
        match ModelSetting::resolve("m", &FileSettings::parse(&text)?) {
            Ok(ModelSetting::Openai(setting)) => Ok(setting.batch),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_lane_has_its_own_price_and_deadline() {
        let price = |input_nusd, output_nusd| Price::PerMillionTokens {
            input_nusd,
            cached_input_nusd: input_nusd,
            output_nusd,
        };
        for (more, wanted, deadline_ms) in [
            ("lane = 'batch'", price(2_000_000_000, 8_000_000_000), None),
            ("lane = 'batch'\nbatch_price = 0.5", price(1_000_000_000, 4_000_000_000), None),
            ("lane = 'batch'\nbatch_price = 'free'", Price::Free, None),
            (
                "lane = 'batch'\nbatch_price = { input = 0.1, output = 0.4 }\n\
                 batch_deadline_minutes = 90",
                price(100_000_000, 400_000_000),
                Some(5_400_000),
            ),
        ] {
            let found = resolve(more).unwrap().unwrap();
            assert_eq!((found.price, found.deadline_ms), (wanted, deadline_ms), "{more}");
        }
        assert_eq!(resolve("lane = 'interactive'").unwrap(), None);
        for (more, part) in [
            ("lane = 'fast'", "interactive or batch"),
            ("batch_price = 0.5", "means nothing without `lane = \"batch\"`"),
            ("lane = 'batch'\nbatch_price = 1.5", "`batch_price = 1.5`"),
            ("lane = 'batch'\nbatch_price = 0", "`batch_price = 0`"),
            ("lane = 'batch'\nbatch_price = 'cheap'", "`batch_price`: "),
            ("lane = 'batch'\nbatch_requests_max = 196", "write 1 to 195"),
            ("lane = 'batch'\nbatch_deadline_minutes = -1.0", "`batch_deadline_minutes = -1`"),
            ("lane = 'batch'\nbatch_poll_s = 0.0", "`batch_poll_s = 0`"),
        ] {
            let why = resolve(more).unwrap_err();
            assert!(why.contains(part), "{more}: {why}");
        }
    }
}
