//! The limits of a run: from flags and files to a budget, and the time at which it ends.

use std::str::FromStr;

use jiff::civil::Time;
use jiff::{SignedDuration, Timestamp};
use pipeline::budget::Budget;

use crate::cli::BudgetArgs;
use crate::environment;
use crate::outcome::bad_input;
use crate::settings::file::BudgetSection;
use crate::settings::price::nano_dollars;

/// The limits that the environment sets, for new runs.
pub(crate) fn of_environment() -> anyhow::Result<BudgetSection> {
    Ok(BudgetSection {
        attempts: parsed(environment::ATTEMPTS)?,
        tokens: parsed(environment::TOKENS)?,
        dollars: parsed(environment::DOLLARS)?,
        hours: parsed(environment::HOURS)?,
        gpu_seconds: parsed(environment::GPU_SECONDS)?,
    })
}

fn parsed<T: FromStr>(variable: &str) -> anyhow::Result<Option<T>> {
    let Some(text) = environment::value(variable) else { return Ok(None) };
    let wrong = |_| bad_input(format!("{variable} = `{text}`: write a number, or unset it"));
    text.trim().parse().map(Some).map_err(wrong)
}

/// The budget of a new run: flags, then `layers` from the strongest to the weakest. `until` is the
/// clock time at which it ends, where one is said.
pub(crate) fn resolve(
    args: &BudgetArgs,
    until: Option<&String>,
    layers: &[&BudgetSection],
    default_attempts: u32,
) -> anyhow::Result<Budget> {
    let deadline_us = deadline_us(args, until, layers, Timestamp::now())?;
    Ok(Budget { deadline_us, ..amounts(args, layers, default_attempts)? })
}

/// Lays the flags of `resume` over what a run was started with.
pub(crate) fn change(budget: &mut Budget, args: &BudgetArgs) -> anyhow::Result<()> {
    let changed = amounts(args, &[], budget.attempts_max)?;
    budget.attempts_max = changed.attempts_max;
    budget.tokens_max = changed.tokens_max.or(budget.tokens_max);
    budget.nusd_max = changed.nusd_max.or(budget.nusd_max);
    budget.gpu_us_max = changed.gpu_us_max.or(budget.gpu_us_max);
    let deadline = deadline_us(args, args.until.as_ref(), &[], Timestamp::now())?;
    budget.deadline_us = deadline.or(budget.deadline_us);
    Ok(())
}

/// What flags and files say, the first layer that says something winning; attempts as given or as
/// `default_attempts`.
fn amounts(
    args: &BudgetArgs,
    layers: &[&BudgetSection],
    default_attempts: u32,
) -> anyhow::Result<Budget> {
    let attempts = args.attempts.or_else(|| layers.iter().find_map(|layer| layer.attempts));
    if attempts == Some(0) {
        return Err(bad_input("`budget.attempts = 0`: write 1 or more"));
    }
    let dollars = args.dollars.or_else(|| layers.iter().find_map(|layer| layer.dollars));
    let gpu_seconds = args.gpu_seconds.or_else(|| layers.iter().find_map(|it| it.gpu_seconds));
    if gpu_seconds == Some(0) {
        return Err(bad_input("`budget.gpu_seconds = 0`: write 1 or more, or leave it out"));
    }
    let nusd_max = dollars.map(|dollars| nano_dollars("dollars", dollars)).transpose();
    Ok(Budget {
        attempts_max: attempts.unwrap_or(default_attempts),
        tokens_max: args.tokens.or_else(|| layers.iter().find_map(|layer| layer.tokens)),
        nusd_max: nusd_max.map_err(bad_input)?,
        deadline_us: None,
        gpu_us_max: gpu_seconds.map(|seconds| seconds.saturating_mul(1_000_000)),
    })
}

/// When the run stops: the nearest of `--hours` and `--until`.
fn deadline_us(
    args: &BudgetArgs,
    until: Option<&String>,
    layers: &[&BudgetSection],
    now: Timestamp,
) -> anyhow::Result<Option<i64>> {
    let hours = args.hours.or_else(|| layers.iter().find_map(|layer| layer.hours));
    let by_hours = hours.map(|hours| end_after(hours, now)).transpose()?;
    let by_clock = until.map(|until| end_at(until, now)).transpose()?;
    Ok([by_hours, by_clock].into_iter().flatten().map(Timestamp::as_microsecond).min())
}

fn end_after(hours: f64, now: Timestamp) -> anyhow::Result<Timestamp> {
    if !(hours > 0.0 && hours <= 24.0 * 366.0) {
        return Err(bad_input(format!("`hours = {hours}`: write more than 0, at most 8784")));
    }
    Ok(now + SignedDuration::from_secs_f64(hours * 3_600.0))
}

/// `07:30` is the next time that the clock here shows it; a full time has its date and zone.
fn end_at(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    let wrong = || {
        bad_input(format!("`until {text}`: write a time as 07:30, or as 2027-01-31T07:30:00+01:00"))
    };
    if let Ok(full) = text.parse::<Timestamp>() {
        if full <= now {
            return Err(bad_input(format!("`until {text}` is over")));
        }
        return Ok(full);
    }
    let time = Time::strptime("%H:%M", text).map_err(|_| wrong())?;
    let here = now.to_zoned_datetime(jiff::tz::TimeZone::system());
    for days in 0..=1 {
        let day = here.date().checked_add(jiff::Span::new().days(days)).map_err(|_| wrong())?;
        let end = day
            .to_datetime(time)
            .to_zoned_datetime(here.time_zone().clone())
            .map_err(|_| wrong())?;
        if end.timestamp() > now {
            return Ok(end.timestamp());
        }
    }
    Err(wrong())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{end_after, end_at};

    #[test]
    fn a_run_ends_at_a_time_that_is_still_to_come() {
        let now: Timestamp = "2027-01-30T12:00:00Z".parse().unwrap();
        let full = end_at("2027-01-31T07:30:00+01:00", now).unwrap();
        assert_eq!(full, "2027-01-31T06:30:00Z".parse().unwrap());
        for minute in ["00:00", "07:30", "12:00", "23:59"] {
            let end = end_at(minute, now).unwrap();
            let hours = end.duration_since(now).as_secs_f64() / 3_600.0;
            assert!(hours > 0.0 && hours <= 25.0, "{minute}: {end}");
        }
        let half = end_after(0.5, now).unwrap();
        assert_eq!(half, "2027-01-30T12:30:00Z".parse().unwrap());
        for (text, part) in [
            ("7 o'clock", "write a time as 07:30"),
            ("25:00", "write a time as 07:30"),
            ("2020-01-01T00:00:00Z", "is over"),
            ("", "write a time"),
        ] {
            let why = end_at(text, now).unwrap_err().to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
        for hours in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(end_after(hours, now).is_err(), "{hours}");
        }
    }
}
