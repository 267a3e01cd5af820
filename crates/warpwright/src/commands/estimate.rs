//! `run --dry-run`: what a run will need, from what the ledger knows of its models, and with every
//! assumption named. Nobody is asked and nothing is stored.

use llm::{Llm, ModelInfo};
use pipeline::device_facts::DeviceFacts;
use pipeline::estimate::{CallHistory, Estimate, Needs, Plan, estimate, first_cap};
use pipeline::next_step::{SearchLimits, Step, next_step};
use pipeline::notice::Cap;
use pipeline::prompt::Prompt;
use pipeline::scrub::Scrubber;
use pipeline::template::Templates;
use store::Store;

use crate::commands::status::{dollars, seconds};
use crate::gpus::{self, DeviceSetting};
use crate::outcome::Outcome;
use crate::settings::{EvaluatorSetting, Places, ResolvedRun, RunSettings, price};
use crate::{privacy, terminal, wiring};

/// What one model of the run will need.
struct Part {
    model: String,
    estimate: Estimate,
    /// It counts nothing, so that its calls are booked at their worst case.
    at_most: bool,
}

/// Prints the estimate.
pub(crate) async fn perform(places: &Places, resolved: &ResolvedRun) -> anyhow::Result<Outcome> {
    let settings = &resolved.settings;
    let templates = wiring::templates(settings.prompts.as_ref())?;
    let (prompt_bytes, prompt_bound) = mean_prompt(resolved, &templates)?;
    let models = wiring::models(settings)?;
    let attempts = attempts(resolved);
    let count = u64::try_from(models.len()).unwrap_or(1).max(1);
    let mut parts = Vec::new();
    for (index, (model, setting)) in (0..).zip(models.iter().zip(&settings.models)) {
        let info = model.describe();
        let history = history(places, &info).await?;
        let of_tasks = u64::from(settings.search.in_flight) * resolved.tasks.len() as u64;
        let plan = Plan {
            attempts: attempts / count + u64::from(index < attempts % count),
            prompt_bytes,
            booked_at_most: setting.is_booked_at_most().then_some(prompt_bound),
            output_tokens_max: info.output_tokens_max,
            price: info.price,
            calls_at_once: u64::from(setting.uses().calls_at_once).min(of_tasks),
        };
        parts.push(Part {
            model: info.model.clone(),
            estimate: estimate(&plan, &history),
            at_most: plan.booked_at_most.is_some(),
        });
    }
    let cards = card_time(places, resolved, attempts).await?;
    let needs = needs(attempts, &parts, cards.1);
    let first = first_cap(&needs, &settings.budget, now_us());
    let mut lines = vec![cards.0, first_in_words(first, attempts)];
    lines.extend(price::lines(&settings.models).into_iter().map(|it| format!("price: {it}")));
    lines.extend(price::warnings(&settings.models, now_us()));
    let prices: Vec<_> = settings
        .models
        .iter()
        .map(|it| serde_json::json!({ "model": it.model_name(), "as_of": it.price_as_of() }))
        .collect();
    Ok(say(attempts, resolved.tasks.len(), &parts, &lines)
        .with("estimated_gpu_us", cards.1)
        .with("first_cap", first.map(|(cap, _)| serde_json::json!(cap)))
        .with("attempts_within", first.map_or(attempts, |(_, within)| within))
        .with("prices", prices))
}

/// What the whole run needs; its models answer beside each other.
fn needs(attempts: u64, parts: &[Part], gpu_us: Option<u64>) -> Needs {
    let estimates = || parts.iter().map(|part| &part.estimate);
    let tokens = |it: &Estimate| it.input_tokens.saturating_add(it.output_tokens);
    Needs {
        attempts,
        tokens: estimates().map(tokens).fold(0, u64::saturating_add),
        nusd: estimates()
            .map(|it| it.nusd)
            .try_fold(0, |sum: i64, it| Some(sum.saturating_add(it?))),
        us: estimates().map(|it| it.model_ms.saturating_mul(1_000)).max().unwrap_or(0),
        gpu_us,
    }
}

/// Which limit ends the run by the estimate.
fn first_in_words(first: Option<(Cap, u64)>, attempts: u64) -> String {
    let Some((cap, within)) = first else {
        return format!("limits: all {attempts} attempts fit into them by this estimate");
    };
    let what = match cap {
        Cap::Attempts => "attempts",
        Cap::Tokens => "tokens",
        Cap::Dollars => "dollars",
        Cap::Time => "time",
        Cap::GpuSeconds => "GPU-seconds",
    };
    format!(
        "limits: that of {what} would end it first, after about {within} of {attempts} attempts by \
         this estimate, somewhat earlier since a call begins only if its worst case fits"
    )
}

fn now_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}

/// GPU-seconds, from what attempts on such a device took in this ledger; in words, and in
/// microseconds where they are known.
async fn card_time(
    places: &Places,
    resolved: &ResolvedRun,
    attempts: u64,
) -> anyhow::Result<(String, Option<u64>)> {
    let device = match device_model(places, &resolved.settings) {
        Ok(Some(device)) => device,
        Ok(None) => {
            return Ok(("GPU-seconds: none, since the simulator holds no GPU".to_owned(), None));
        }
        Err(error) => return Ok((format!("GPU-seconds: not known: {error:#}"), None)),
    };
    let (used_us, of) = match places.ledger.exists() {
        true => Store::open_read_only(&places.ledger).await?.card_history(&device).await?,
        false => (0, 0),
    };
    let Some(mean_us) = used_us.checked_div(of) else {
        let words = "GPU-seconds: not known, since this ledger has no evaluation on such a GPU; \
                     --rehearse measures";
        return Ok((words.to_owned(), None));
    };
    let whole_us = mean_us.saturating_mul(attempts);
    let (whole, mean) = (seconds(whole_us), seconds(mean_us));
    let words = format!(
        "GPU-seconds: {whole}, {mean} an attempt (the mean of {of} judged in this ledger, \
         their promotions, measurements and claims included)"
    );
    Ok((words, Some(whole_us)))
}

/// As many attempts as all limits on them allow.
fn attempts(resolved: &ResolvedRun) -> u64 {
    let of_task = |it: &crate::settings::OperatorSetting| it.attempts_max.map(u64::from);
    let of_tasks: Option<u64> = resolved.settings.operators.iter().map(of_task).sum();
    let of_run = u64::from(resolved.settings.budget.attempts_max);
    of_tasks.map_or(of_run, |of_tasks| of_tasks.min(of_run))
}

/// The first question of each task, as it would be asked for the simulated device: its mean length
/// in bytes, and the tokens that it may count as at most.
fn mean_prompt(resolved: &ResolvedRun, templates: &Templates) -> anyhow::Result<(u64, u64)> {
    let (device, scrubber) = (DeviceFacts::simulated_h200(), Scrubber::default());
    let (mut bytes, mut bound) = (0, 0);
    for loaded in &resolved.tasks {
        let Step::Ask(ask) = next_step(&SearchLimits::of_attempts(1), &[], &[]) else { continue };
        let prompt = Prompt::render(templates, &loaded.task, &device, &ask, &[], &scrubber)?;
        bytes += prompt.messages.iter().map(|message| message.content.len() as u64).sum::<u64>();
        bound += prompt.input_tokens_bound();
    }
    let count = resolved.tasks.len().max(1) as u64;
    Ok((bytes / count, bound / count))
}

async fn history(places: &Places, info: &ModelInfo) -> anyhow::Result<CallHistory> {
    if !places.ledger.exists() {
        return Ok(CallHistory::default());
    }
    let store = Store::open_read_only(&places.ledger).await?;
    // Names are stored as the scrubber leaves them.
    let scrubber = privacy::scrubber(places);
    let [provider, model] =
        [&info.provider, &info.model].map(|name| scrubber.scrub(name).into_owned());
    Ok(store.call_history(&provider, &model).await?)
}

/// The GPU that would judge; `None` for the simulator.
fn device_model(places: &Places, settings: &RunSettings) -> anyhow::Result<Option<String>> {
    if let EvaluatorSetting::Folder(folder) = &settings.evaluator
        && settings.device == DeviceSetting::Auto
        && let Some(device) = fleet::announced(folder)?
    {
        return Ok((!device.simulated).then_some(device.model));
    }
    let cards = gpus::chosen(places, &settings.device)?;
    let first = cards.as_ref().and_then(|cards| cards.first());
    Ok(first.map(|sheet| sheet.facts.model.clone()))
}

fn say(attempts: u64, tasks: usize, parts: &[Part], lines: &[String]) -> Outcome {
    let tasks = terminal::counted(tasks as u64, "task");
    let whole = terminal::counted(attempts, "attempt");
    terminal::line(&format!("{whole} at {tasks}; nothing was asked or stored"));
    let mut nusd = Some(0_i64);
    for Part { model, estimate, at_most } in parts {
        let [input, output, latency_ms] = estimate.of_call;
        let from = match estimate.from_calls {
            _ if *at_most => "the worst case, which is booked: it tells no counts".to_owned(),
            0 => "assumed, since this ledger has no answer of it; --rehearse measures".to_owned(),
            calls => format!("the mean of {calls} calls in this ledger"),
        };
        let cost = estimate
            .nusd
            .map_or("an unknown price".to_owned(), |it| format!("{} dollars", dollars(it)));
        terminal::line(&terminal::one_line(&format!(
            "{model}: {} tokens in, {} out, {cost}, {:.1} hours of answers; a call {input} in, \
             {output} out, {:.0} s ({from})",
            estimate.input_tokens,
            estimate.output_tokens,
            estimate.model_ms as f64 / 3.6e6,
            latency_ms as f64 / 1e3,
        )));
        nusd = nusd.zip(estimate.nusd).map(|(sum, nusd)| sum.saturating_add(nusd));
    }
    lines.iter().for_each(|line| terminal::line(&terminal::one_line(line)));
    terminal::line(
        "Prompts grow with what was tried, calls that fail are made again, and judging goes on \
         beside the answers: limits hold whatever the estimate says.",
    );
    let rows: Vec<_> = parts
        .iter()
        .map(|part| serde_json::json!({ "model": part.model, "estimate": part.estimate }))
        .collect();
    Outcome::done().with("attempts", attempts).with("estimated_nusd", nusd).with("models", rows)
}
