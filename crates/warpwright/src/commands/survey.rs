//! `survey`: which tasks are worth spending on, before a token is spent.

use judge::Judge;
use pipeline::price::Price;
use pipeline::survey::{Advice, Pot, Survey, survey};
use serde_json::Value;

use crate::cli::SurveyArgs;
use crate::gpus::{self, DeviceSetting};
use crate::outcome::{Exit, Outcome, bad_input};
use crate::settings::model::ModelSetting;
use crate::settings::price::nano_dollars;
use crate::settings::{ATTEMPTS_PER_TASK, Places};
use crate::survey::list::{self, List};
use crate::survey::look::{Card, Eyes, Looked};
use crate::survey::{MONEY_UNIT_NUSD, Operator, file, operators, table};
use crate::{claims, terminal, wiring};

/// Looks at every operator of a list, prints what it is worth, and writes the run file.
pub(crate) async fn perform(places: &Places, args: &SurveyArgs) -> anyhow::Result<Outcome> {
    file::refuse_existing(args)?;
    let list = list::read(&args.tasks)?;
    let pot = pot(args, &list)?;
    check_models(places, args, &list)?;
    let toolchain = wiring::toolchain(places)?;
    let simulator = wiring::judge(places, &DeviceSetting::Sim, &toolchain)?;
    let gpu = card(places)?;
    let store = wiring::ledger(places).await?;
    let looked = look(&Eyes { store: &store, simulator: &simulator, gpu: &gpu }, &list).await;
    store.close().await;
    let looked = looked?;
    let found: Vec<_> = looked.iter().map(|looked| looked.found.clone()).collect();
    let survey = survey(&found, pot);
    let operators = operators(&list.operators, &looked, &survey);
    let measured_by = tell(&operators, &survey, &gpu, list.weighted);
    let worth = operators.iter().filter(|it| it.row.advice == Advice::Spend).count();
    let outcome = if worth > 0 {
        file::write(args, &file::text(args, &list, &operators, &survey, &measured_by)?)?;
        let output = args.output.display();
        terminal::line(&format!("\nwrote {output}: look at it, then `warpwright run {output}`"));
        Outcome::done().with("output", output.to_string())
    } else {
        let why = "nothing is worth spending on, so no run file was written";
        terminal::line(&format!("\n{why}"));
        Outcome::ended(Exit::DidNotPass, why).with("output", Value::Null)
    };
    Ok(with_numbers(outcome, &operators, &survey, &gpu))
}

/// Models that the run file will name are there, and who pays for them is told of a missing price.
fn check_models(places: &Places, args: &SurveyArgs, list: &List) -> anyhow::Result<()> {
    let of_file = list.file.models.as_ref().map(|models| models.names()).unwrap_or_default();
    let names = if args.models.is_empty() { of_file } else { args.models.clone() };
    for name in &names {
        let model = ModelSetting::resolve(name, &places.file)?;
        if model.price() == Price::Unknown {
            terminal::note(&format!(
                "the price of {} is unknown: a run with a limit of dollars needs it (`price` in \
                 its section of the settings file, or --price {name}=INPUT/OUTPUT)",
                model.named()
            ));
        }
    }
    Ok(())
}

/// What is divided among the operators: flags, then the run file.
fn pot(args: &SurveyArgs, list: &List) -> anyhow::Result<Pot> {
    let dollars = args.budget.dollars.or(list.file.budget.dollars);
    let nusd = dollars.map(|dollars| nano_dollars("dollars", dollars)).transpose();
    let nusd = nusd.map_err(bad_input)?;
    let attempts = args.budget.attempts.or(list.file.budget.attempts);
    if attempts == Some(0) {
        return Err(bad_input("`budget.attempts = 0`: write 1 or more"));
    }
    Ok(Pot {
        attempts_each: u64::from(ATTEMPTS_PER_TASK),
        attempts: attempts.map(u64::from),
        money: nusd.map(|nusd| (nusd / MONEY_UNIT_NUSD).unsigned_abs()),
    })
}

/// The card that times; or why there is none.
fn card(places: &Places) -> anyhow::Result<Result<Card, String>> {
    let judge: Option<Judge> = match claims::gpu_judge(places) {
        Ok(judge) => judge,
        // What nobody asked for must not keep anybody from the rest.
        Err(error) if places.device == DeviceSetting::Auto => {
            return Ok(Err(format!("this machine's GPU cannot be used: {error:#}")));
        }
        Err(error) => return Err(error),
    };
    match judge {
        Some(judge) => Card::of(judge).map(Ok),
        None => Ok(Err(gpus::why_none(&places.device).to_owned())),
    }
}

async fn look(eyes: &Eyes<'_>, list: &List) -> anyhow::Result<Vec<Looked>> {
    let mut looked = Vec::new();
    for listed in &list.operators {
        looked.push(eyes.look(listed).await?);
    }
    Ok(looked)
}

/// Prints the survey; says in a line by what it was measured.
fn tell(
    operators: &[Operator<'_>],
    survey: &Survey,
    gpu: &Result<Card, String>,
    weighted: bool,
) -> String {
    let measured_by = match gpu {
        Ok(card) => format!(
            "Times are of the headline shape on {} (driver {}), measured as the search does, with \
             a cold cache; they claim nothing.",
            card.sheet.facts.model, card.sheet.driver
        ),
        Err(why) => format!(
            "NOT AVAILABLE HERE: baselines, distance to the roofline and gain need a GPU ({why}). \
             Shares are by weight alone, and allotments are equal."
        ),
    };
    terminal::line(&measured_by);
    if !weighted {
        terminal::line(
            "Nobody said how much an operator matters (`weight` or `calls` in a run file): all \
             count alike.",
        );
    }
    terminal::line("");
    table::lines(operators, survey).iter().for_each(|line| terminal::line(line));
    measured_by
}

fn with_numbers(
    outcome: Outcome,
    operators: &[Operator<'_>],
    survey: &Survey,
    gpu: &Result<Card, String>,
) -> Outcome {
    let admitted = operators.iter().filter(|it| it.looked.admitted_now).count();
    let timed: usize = operators.iter().map(|it| it.looked.timed_now).sum();
    let records: Vec<Value> = operators.iter().map(table::as_json).collect();
    outcome
        .with("operators", records)
        .with("gain_of_whole", survey.gain_of_whole)
        .with("gpu", gpu.as_ref().ok().map(|card| card.sheet.facts.model.clone()))
        .with("not_available", gpu.as_ref().err().cloned())
        .with("admitted_now", admitted)
        .with("timed_now", timed)
}
