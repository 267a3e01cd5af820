//! `selftest`: the GPU suite, what of it runs on the simulator, and the workload that the suite
//! times by two clocks.

use std::path::Path;
use std::time::{Duration, Instant};

use device::cuda;
use device::toolchain::Toolchain;
use pipeline::hardware::HardwareSheet;

use crate::cli::SelftestArgs;
use crate::gpus::{self, Cards, DeviceSetting};
use crate::outcome::{Exit, Outcome, bad_input, not_available};
use crate::selftest::{Bench, PARTS, Part, Status, write_page};
use crate::settings::Places;
use crate::{terminal, wiring};

/// Runs the parts that were asked for.
pub(crate) fn gpu(places: &Places, args: &SelftestArgs) -> anyhow::Result<Outcome> {
    let parts = chosen_parts(&args.only, |_| true)?;
    let setting = match &places.device {
        DeviceSetting::Auto => DeviceSetting::Cuda(Cards::All),
        other => other.clone(),
    };
    let sheets = gpus::chosen(places, &setting)?
        .ok_or_else(|| not_available("`selftest gpu` needs a GPU; --device says `sim`"))?;
    let deadline = deadline(args);
    let toolchain = wiring::toolchain(places)?;
    let sheets = gpus::measured(places, &toolchain, sheets)?;
    run(&parts, args, &toolchain, sheets, deadline)
}

/// Runs the parts that were asked for on the simulator.
pub(crate) fn sim(places: &Places, args: &SelftestArgs) -> anyhow::Result<Outcome> {
    let parts = chosen_parts(&args.only, |part| part.simulated)?;
    let deadline = deadline(args);
    let toolchain = wiring::toolchain(places)?;
    run(&parts, args, &toolchain, Vec::new(), deadline)
}

fn deadline(args: &SelftestArgs) -> Option<Instant> {
    args.deadline.map(|s| Instant::now() + Duration::from_secs(s.into()))
}

fn run(
    parts: &[&'static Part],
    args: &SelftestArgs,
    toolchain: &Toolchain,
    sheets: Vec<HardwareSheet>,
    deadline: Option<Instant>,
) -> anyhow::Result<Outcome> {
    let mut bench = Bench::open(&args.out, toolchain, sheets, deadline)?;
    bench.only_items.clone_from(&args.item);
    for &part in parts {
        bench.run(part)?;
    }
    let page = write_page(&bench, &command_line())?;
    terminal::line(&format!("\n{}", page.display()));
    Ok(outcome(&bench))
}

fn chosen_parts(
    only: &[String],
    runs_here: impl Fn(&Part) -> bool,
) -> anyhow::Result<Vec<&'static Part>> {
    let here: Vec<&Part> = PARTS.iter().filter(|part| runs_here(part)).collect();
    if let Some(unknown) = only.iter().find(|name| here.iter().all(|part| part.name != **name)) {
        let names: Vec<_> = here.iter().map(|part| part.name).collect();
        return Err(bad_input(format!("no part `{unknown}`: there are {}", names.join(", "))));
    }
    let wanted = |part: &&Part| only.is_empty() || only.iter().any(|name| name == part.name);
    Ok(here.into_iter().filter(wanted).collect())
}

fn command_line() -> String {
    let words = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!("warpwright {words}")
}

fn outcome(bench: &Bench<'_>) -> Outcome {
    let count = |status| bench.rows.iter().filter(|row| row.status == status).count();
    let (passed, failed) = (count(Status::Passed), count(Status::Failed));
    let absent = count(Status::NotAvailable);
    let said = format!("{passed} passed, {failed} failed, {absent} not available here");
    terminal::line(&said);
    let outcome = if failed > 0 {
        Outcome::ended(Exit::DidNotPass, said)
    } else if bench.left > 0 {
        let left = format!(
            "the deadline came first: {} items are left; the same command with the same --out \
             goes on",
            bench.left
        );
        terminal::line(&left);
        Outcome::ended(Exit::BudgetEnded, format!("{said}; {left}"))
    } else if passed == 0 {
        Outcome::ended(Exit::NotAvailable, format!("{said}: nothing was proved"))
    } else {
        Outcome::done()
    };
    outcome.with("passed", passed).with("failed", failed).with("not_available", absent)
}

/// The workload, in this very process: a profiler cannot follow a confined child.
pub(crate) fn clock(harness: &Path, gate: &str) -> anyhow::Result<Outcome> {
    let unavailable = |error: cuda::CudaError| not_available(error.to_string());
    let cubin = std::fs::read(harness)?;
    let context = cuda::Context::open(0).map_err(unavailable)?;
    let series = cuda::clock_series(&context, &cubin, gate == "gated")?;
    terminal::json(&serde_json::to_value(&series)?);
    Ok(Outcome::done())
}
