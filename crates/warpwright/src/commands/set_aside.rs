//! What a run sets aside for looks at its best kernels, and which operators end without a claim:
//! the rule that the run goes by, from the ledger alone.

use pipeline::closing::{Fate, Frame, Operator, Plan, Unclaimed, plan};
use pipeline::digest::Digest;
use pipeline::tell::{Leave, Told};
use serde_json::{Value, json};
use store::{RunState, RunSummary, Store};

use crate::claims::closing;
use crate::commands::status::minute;
use crate::settings::RunSettings;
use crate::terminal;

/// The end of a run on GPUs as it is planned now.
pub(crate) struct SetAside {
    frame: Frame,
    operators: Vec<Operator>,
    plan: Plan,
    /// False for a run that has ended.
    goes_on: bool,
}

/// Why nothing is set aside in a run that makes no claims.
const NO_CARDS: &str = "the simulator takes no times, so nothing is claimed: `accept` takes this \
                        run's kernels through the full protocol on a machine with a GPU";

impl SetAside {
    /// Of a run; `None` where nobody looks at best kernels on this machine.
    pub(crate) async fn of_run(
        store: &Store,
        summary: &RunSummary,
        told: &Told,
    ) -> anyhow::Result<Option<Self>> {
        let run = &summary.run;
        let Ok(settings) = serde_json::from_str::<RunSettings>(&run.settings_json) else {
            return Ok(None);
        };
        let lanes = store.gpus_of(&run.id).await?;
        if lanes == 0 || !closing::is_for(&settings) {
            return Ok(None);
        }
        let bests: Vec<_> = summary.tasks.iter().map(|task| task.best_seq).collect();
        let model = store.device_model(&run.device_id).await?;
        let on = (model.as_str(), run.toolchain_id.as_str());
        let looked = closing::look(store, &run.id, &run.tasks, &bests, on).await?;
        let goes_on = run.state == RunState::Running;
        let over = store.searches_over(&run.id).await?;
        let searches =
            |task: &Digest| goes_on && !over.contains(task) && told.leave(task) != Leave::Stopped;
        let weight = |place: usize| settings.operators.get(place).map_or(1.0, |it| it.weight);
        let operators =
            looked.iter().zip(&run.tasks).enumerate().map(|(place, (it, task))| Operator {
                weight: told.weight(&task.hash, weight(place)),
                searching: searches(&task.hash),
                best: it.best,
                tried: it.tried,
                outdated_ms: 0,
                costs: it.costs,
            });
        let operators: Vec<_> = operators.collect();
        let frame = Frame {
            from_us: store.went_on_us(&run.id).await?,
            now_us: store.now_us(),
            end_us: told.budget(settings.budget).deadline_us,
            lanes,
            accepts: settings.search.accept,
        };
        let plan = plan(&frame, &operators);
        Ok(Some(Self { frame, operators, plan, goes_on }))
    }

    /// The line of `status`; nothing where a run has ended.
    pub(crate) fn line(&self, names: &[&str]) -> Option<String> {
        if !self.goes_on {
            return None;
        }
        let claims = self.names_of(names, |fate| *fate == Fate::Claim);
        let claims = match (self.frame.accepts, claims.as_slice()) {
            (false, _) => "claims are left to `accept`".to_owned(),
            (true, []) => "no claim".to_owned(),
            (true, some) => format!("claims of {}", some.join(", ")),
        };
        let Some(end_us) = self.frame.search_end_us(&self.plan) else {
            return Some(format!("nothing: the run has no end in time; {claims} after the search"));
        };
        let minutes = self.plan.set_aside_ms as f64 / 60_000.0;
        Some(format!(
            "{minutes:.1} min, from {} on: every best kernel measured, {claims}",
            minute(end_us)
        ))
    }

    fn names_of<'a>(&self, names: &[&'a str], holds: impl Fn(&Fate) -> bool) -> Vec<&'a str> {
        let pairs = names.iter().zip(&self.plan.fates);
        pairs.filter(|(_, fate)| holds(fate)).map(|(name, _)| *name).collect()
    }

    /// A line for each operator, with the command that helps where no claim is planned.
    pub(crate) fn why(&self, run: &str, names: &[&str]) -> Vec<String> {
        let of = |((name, fate), operator): ((&&str, &Fate), &Operator)| {
            let seconds = operator.costs.accept_ms / 1_000;
            let command = format!("`warpwright accept {run}:{name}`");
            let says = match fate {
                Fate::Accepted => "its best kernel went through the full protocol".to_owned(),
                Fate::Claim if !self.goes_on => format!("no claim yet: {command}"),
                Fate::Claim => format!("a claim is planned, about {seconds} s"),
                Fate::Measured(why) => {
                    format!("ends as measured, without a claim: {}; {command}", in_words(*why))
                }
                Fate::Nothing => "no kernel to look at".to_owned(),
            };
            format!("{name:<16} {says}")
        };
        names.iter().zip(&self.plan.fates).zip(&self.operators).map(of).collect()
    }

    /// For `--json`.
    pub(crate) fn as_json(&self, run: &str, names: &[&str]) -> Value {
        let operators = names.iter().zip(&self.plan.fates).zip(&self.operators);
        let operators = operators.map(|((name, fate), operator)| {
            json!({
                "task": name, "plan": fate, "accept_ms": operator.costs.accept_ms,
                "measure_ms": operator.costs.measure_ms,
                "command": matches!(fate, Fate::Measured(_))
                    .then(|| format!("warpwright accept {run}:{name}")),
            })
        });
        json!({
            "set_aside_ms": self.plan.set_aside_ms,
            "search_ends_us": self.frame.search_end_us(&self.plan),
            "operators": operators.collect::<Vec<_>>(),
        })
    }
}

fn in_words(why: Unclaimed) -> &'static str {
    match why {
        Unclaimed::Off => "claims are off (`accept = false` or --no-accept)",
        Unclaimed::NoTime => {
            "the time before the end that may be set aside goes to measuring and to heavier \
             operators, so it is claimed only while a card is idle"
        }
        Unclaimed::Replaced => {
            "an earlier kernel of it went through the protocol, and this one does while a card is \
             idle"
        }
        Unclaimed::Again => "its acceptance was too noisy, and is tried again while a card is idle",
        Unclaimed::Noise => "its acceptance was too noisy as often as it may be tried in a day",
        Unclaimed::GivenUp => "its acceptance did not come to an end",
    }
}

/// Adds what `status` says of it.
pub(crate) async fn show(
    store: &Store,
    summary: &RunSummary,
    told: &Told,
    why: bool,
) -> anyhow::Result<Value> {
    let names: Vec<_> = summary.run.tasks.iter().map(|task| task.name.as_str()).collect();
    let run = summary.run.id.as_str();
    let Some(aside) = SetAside::of_run(store, summary, told).await? else {
        if why && summary.run.kind != store::RunKind::Manual {
            terminal::line(&format!("claims    {NO_CARDS}"));
        }
        return Ok(Value::Null);
    };
    if let Some(line) = aside.line(&names) {
        terminal::line(&terminal::one_line(&format!("set aside {line}")));
    }
    if why {
        terminal::line("claims, the heaviest operator first, as far as the time goes:");
        aside.why(run, &names).iter().for_each(|line| terminal::line(&terminal::one_line(line)));
    }
    Ok(aside.as_json(run, &names))
}
