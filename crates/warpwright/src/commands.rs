//! One file per command; this one only dispatches.

mod accept;
mod doctor;
pub(crate) mod drive;
mod ending;
mod estimate;
mod evaluate;
mod export;
mod follow;
pub(crate) mod hardware;
mod init;
mod ledger;
mod manual;
mod recheck;
mod report;
pub(crate) mod reproduce;
mod resume;
mod review;
mod scaffold;
mod selftest;
mod set_aside;
mod show;
mod simulate;
pub(crate) mod status;
mod stop;
mod survey;
mod tasks;
mod tell;
mod toolchains;
mod why;
mod worker;

use std::path::Path;

use agent::AgentError;
use store::StoreError;

use crate::cli::{
    Cli, Command, HardwareCommand, LedgerCommand, SelftestCommand, TaskCommand, ToolchainCommand,
};
use crate::outcome::Outcome;
use crate::privacy;
use crate::settings::Places;

/// Performs a command.
pub(crate) async fn perform(cli: Cli) -> anyhow::Result<Outcome> {
    let places = Places::of(&cli)?;
    if cli.command.reads_settings() {
        privacy::warn_of_readers(&places.ledger);
    }
    let performed = dispatch(cli, &places).await;
    performed.map_err(|error| named(error, &places.ledger))
}

/// An error of the ledger with its path, wherever it came up.
fn named(error: anyhow::Error, ledger: &Path) -> anyhow::Error {
    match error.downcast::<StoreError>() {
        Ok(error) => error.at(ledger).into(),
        Err(error) => match error.downcast::<AgentError>() {
            Ok(AgentError::Store(error)) => AgentError::Store(error.at(ledger)).into(),
            Ok(other) => other.into(),
            Err(error) => error,
        },
    }
}

async fn dispatch(cli: Cli, places: &Places) -> anyhow::Result<Outcome> {
    match cli.command {
        Command::Init(args) => init::perform(&args),
        Command::Demo => drive::demo(places).await,
        Command::Survey(args) => survey::perform(places, &args).await,
        Command::Run(args) => drive::run(places, &args).await,
        Command::Evaluate(args) => evaluate::perform(places, &args, cli.json).await,
        Command::Simulate(args) => simulate::perform(places, *args).await,
        Command::Resume(args) => resume::perform(places, &args).await,
        Command::Accept(args) => accept::perform(places, &args).await,
        Command::Export(args) => export::perform(places, &args).await,
        Command::Reproduce(args) => reproduce::perform(places, &args).await,
        Command::Recheck(args) => recheck::perform(places, &args).await,
        Command::Review(args) => review::perform(places, &args).await,
        Command::Worker(args) => worker::perform(places, &args).await,
        Command::Status(args) if args.follow => {
            follow::perform(places, args.selector.as_deref()).await
        }
        Command::Status(args) => status::perform(places, &args).await,
        Command::Tell(args) => tell::perform(places, &args).await,
        Command::Stop(args) => stop::perform(places, &args).await,
        Command::Show(args) => show::perform(places, &args, cli.json).await,
        Command::Report(args) => report::perform(places, &args, cli.json).await,
        Command::Ledger(LedgerCommand::Verify(args)) => {
            ledger::verify(places, args.selector.as_deref()).await
        }
        Command::Ledger(LedgerCommand::Copy { file }) => ledger::copy(places, &file).await,
        Command::Selftest(SelftestCommand::Gpu(args)) => selftest::gpu(places, &args),
        Command::Selftest(SelftestCommand::Sim(args)) => selftest::sim(places, &args),
        Command::Clock { harness, gate } => selftest::clock(&harness, &gate),
        Command::Hardware(HardwareCommand::Probe) => hardware::probe(places),
        Command::Hardware(HardwareCommand::Show) => hardware::show(places),
        Command::Task(TaskCommand::New(args)) => scaffold::make(&args),
        Command::Task(TaskCommand::Check { tasks }) => tasks::check(places, &tasks).await,
        Command::Toolchain(ToolchainCommand::Install) => toolchains::install(places),
        Command::Toolchain(ToolchainCommand::List) => toolchains::list(places),
        Command::Doctor(args) => match &args.model {
            Some(model) => doctor::check_model(places, model).await,
            None => doctor::perform(places).await,
        },
        Command::Completions { shell } => manual::completions(shell),
        Command::Man => manual::page(),
    }
}
