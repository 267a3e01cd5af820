//! How a run searches: how much goes on at once, when a task has come to rest, who is asked first.

use agent::{ModelOrder, ModelUse};
use clap::{ArgAction, Args};
use pipeline::attempt::Mode;
use serde::{Deserialize, Serialize};

use crate::limits::{CALLS_AT_ONCE_MAX, IN_FLIGHT_PER_TASK_MAX};
use crate::outcome::bad_input;
use crate::settings::file::{OpenAiSection, SearchSection};
use crate::settings::model::ModelSetting;

/// Attempts of one task at once where answers take their time.
const IN_FLIGHT: u32 = 4;
/// Attempts without an improvement after which a task has come to rest.
const PLATEAU: u32 = 16;
/// Calls that a server, a program or a mailbox may have open.
const CALLS_AT_ONCE: u32 = 16;
const PROGRAMS_AT_ONCE: u32 = 4;
/// What waits for hours should be many.
const BATCHED_AT_ONCE: u32 = 256;
const QUESTIONS_AT_ONCE: u32 = 64;

/// How a run searches, as it is stored with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchSetting {
    /// Attempts of one task that are under way at once.
    pub(crate) in_flight: u32,
    /// `None` for never.
    pub(crate) plateau: Option<u32>,
    pub(crate) model_order: Order,
    /// Whether a run on GPUs takes its best kernels through the full protocol; runs of older
    /// versions did not.
    #[serde(default)]
    pub(crate) accept: bool,
}

/// Which model an attempt asks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    #[default]
    Turns,
    First,
}

/// What one model is for, as it is stored with a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UseSetting {
    pub(crate) calls_at_once: u32,
    /// Empty for all.
    pub(crate) modes: Vec<Mode>,
}

/// The flags.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct SearchArgs {
    /// How many attempts of one task are under way at once; the next one is asked before the
    /// others' ends are known [default: 4, with recorded replies 1]
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<u32>,
    /// After how many attempts without an improvement a task is left; 0 for never [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) plateau: Option<u32>,
    /// Take the best kernels through the full protocol behind a claim while cards are idle and
    /// after the search, as far as the time goes [default: on; the simulator makes no claims]
    #[arg(long, overrides_with = "no_accept")]
    pub(crate) accept: bool,
    /// Leave claims to `accept`; the best kernels are only measured
    #[arg(long, action = ArgAction::SetTrue)]
    pub(crate) no_accept: bool,
}

/// One after the other and never at rest: runs of older versions, and kernels of a person.
impl Default for SearchSetting {
    fn default() -> Self {
        Self { in_flight: 1, plateau: None, model_order: Order::Turns, accept: false }
    }
}

impl SearchArgs {
    /// What a flag says of claims, if one does.
    fn accept(self) -> Option<bool> {
        match (self.accept, self.no_accept) {
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => None,
        }
    }
}

impl SearchSetting {
    /// Flags, then `layers` from the strongest to the weakest.
    pub(crate) fn resolve(
        args: SearchArgs,
        layers: &[SearchSection],
        models: &[ModelSetting],
    ) -> anyhow::Result<Self> {
        let in_flight = args.in_flight.or_else(|| layers.iter().find_map(|it| it.in_flight));
        let plateau = args.plateau.or_else(|| layers.iter().find_map(|it| it.plateau));
        let accept = args.accept().or_else(|| layers.iter().find_map(|it| it.accept));
        let order = layers.iter().find_map(|it| it.model_order.as_deref());
        let recorded = models.iter().all(|it| it.run_kind() != store::RunKind::Auto);
        Ok(Self {
            in_flight: in_range(
                "in_flight",
                in_flight.unwrap_or(if recorded { 1 } else { IN_FLIGHT }),
                IN_FLIGHT_PER_TASK_MAX,
            )
            .map_err(bad_input)?,
            plateau: Some(plateau.unwrap_or(PLATEAU)).filter(|plateau| *plateau > 0),
            accept: accept.unwrap_or(true),
            model_order: match order {
                None | Some("turns") => Order::Turns,
                Some("first") => Order::First,
                Some(other) => {
                    let why = format!("`model_order = \"{other}\"`: write turns or first");
                    return Err(bad_input(why));
                }
            },
        })
    }

    /// Lays the flags of `resume` over what a run was started with.
    pub(crate) fn change(&mut self, args: SearchArgs) -> anyhow::Result<()> {
        if let Some(in_flight) = args.in_flight {
            let checked = in_range("in_flight", in_flight, IN_FLIGHT_PER_TASK_MAX);
            self.in_flight = checked.map_err(bad_input)?;
        }
        if let Some(plateau) = args.plateau {
            self.plateau = Some(plateau).filter(|plateau| *plateau > 0);
        }
        self.accept = args.accept().unwrap_or(self.accept);
        Ok(())
    }

    /// As the engine wants it.
    pub(crate) fn order(self) -> ModelOrder {
        match self.model_order {
            Order::Turns => ModelOrder::Turns,
            Order::First => ModelOrder::First,
        }
    }
}

impl UseSetting {
    /// What a section of the settings file says, or what suits a server.
    pub(crate) fn of_server(section: &OpenAiSection) -> Result<Self, String> {
        let of_lane = match section.lane.as_deref() {
            Some("batch") => BATCHED_AT_ONCE,
            Some(_) | None => CALLS_AT_ONCE,
        };
        Self::of(section.calls_at_once.unwrap_or(of_lane), section.modes.as_ref())
    }

    /// The same for a program.
    pub(crate) fn of_program(
        calls: Option<u32>,
        modes: Option<&Vec<String>>,
    ) -> Result<Self, String> {
        Self::of(calls.unwrap_or(PROGRAMS_AT_ONCE), modes)
    }

    fn of(calls: u32, modes: Option<&Vec<String>>) -> Result<Self, String> {
        let mode = |name: &String| {
            let names = || Mode::ALL.map(Mode::name).join(", ");
            Mode::from_name(name).ok_or_else(|| format!("`modes`: `{name}` is none of {}", names()))
        };
        let modes = modes.into_iter().flatten().map(mode).collect::<Result<_, _>>()?;
        let calls_at_once = in_range("calls_at_once", calls, CALLS_AT_ONCE_MAX)?;
        Ok(Self { calls_at_once, modes })
    }

    /// What suits a model that no section is about: answers that are there, or people.
    pub(crate) fn plain() -> Self {
        Self { calls_at_once: QUESTIONS_AT_ONCE, modes: Vec::new() }
    }

    /// What runs of older versions had.
    pub(crate) fn one() -> Self {
        Self { calls_at_once: 1, modes: Vec::new() }
    }

    /// As the engine wants it.
    pub(crate) fn model_use(&self) -> ModelUse {
        let calls_at_once = usize::try_from(self.calls_at_once).unwrap_or(1);
        ModelUse { calls_at_once, modes: self.modes.clone() }
    }
}

/// Refuses a run in which nobody answers some of the questions.
pub(crate) fn check_modes(models: &[ModelSetting]) -> anyhow::Result<()> {
    let uses: Vec<_> = models.iter().map(ModelSetting::uses).collect();
    let unserved = Mode::ALL.into_iter().find(|mode| {
        uses.iter().all(|of_model| !of_model.modes.is_empty() && !of_model.modes.contains(mode))
    });
    match unserved {
        None => Ok(()),
        Some(mode) => Err(bad_input(format!(
            "no model of this run is for `{}`: add it to the `modes` of one, or name a model \
             without",
            mode.name()
        ))),
    }
}

fn in_range(field: &str, value: u32, most: u32) -> Result<u32, String> {
    match value {
        value if (1..=most).contains(&value) => Ok(value),
        value => Err(format!("`{field} = {value}`: write 1 to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, SearchArgs, SearchSetting, UseSetting};
    use crate::settings::file::{OpenAiSection, SearchSection};
    use crate::settings::model::ModelSetting;

    fn section(in_flight: Option<u32>, plateau: Option<u32>, order: Option<&str>) -> SearchSection {
        SearchSection { in_flight, plateau, model_order: order.map(str::to_owned), accept: None }
    }

    #[test]
    fn flags_win_over_files_and_recorded_replies_go_one_by_one() {
        let file = section(Some(2), Some(0), Some("first"));
        let flags = SearchArgs { in_flight: Some(7), plateau: Some(9), ..SearchArgs::default() };
        let live = ModelSetting::resolve("command:cat", &Default::default()).unwrap();
        let none = SearchArgs::default();
        for (args, layers, models, wanted) in [
            (none, vec![], vec![live.clone()], (4, Some(16), Order::Turns)),
            (none, vec![], vec![ModelSetting::Demo], (1, Some(16), Order::Turns)),
            (none, vec![], vec![ModelSetting::Demo, live.clone()], (4, Some(16), Order::Turns)),
            (none, vec![file.clone()], vec![live.clone()], (2, None, Order::First)),
            (flags, vec![file], vec![ModelSetting::Demo], (7, Some(9), Order::First)),
        ] {
            let found = SearchSetting::resolve(args, &layers, &models).unwrap();
            assert_eq!((found.in_flight, found.plateau, found.model_order), wanted);
        }
    }

    #[test]
    fn claims_are_made_unless_somebody_says_otherwise() {
        let file = |accept| SearchSection { accept, ..SearchSection::default() };
        let flags = |accept, no_accept| SearchArgs { accept, no_accept, ..SearchArgs::default() };
        for (args, of_file, wanted, resumed) in [
            (flags(false, false), None, true, true),
            (flags(false, false), Some(false), false, false),
            (flags(true, false), Some(false), true, false),
            (flags(false, true), Some(true), false, true),
        ] {
            let found = SearchSetting::resolve(args, &[file(of_file)], &[]).unwrap();
            assert_eq!(found.accept, wanted, "{args:?} {of_file:?}");
            // A resumed run keeps what it was started with where no flag says more.
            let mut kept = SearchSetting { accept: resumed, ..found };
            kept.change(args).unwrap();
            assert_eq!(kept.accept, if args.accept().is_some() { wanted } else { resumed });
        }
        let older = r#"{"in_flight":4,"plateau":16,"model_order":"turns"}"#;
        assert!(!serde_json::from_str::<SearchSetting>(older).unwrap().accept);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (args, layer, part) in [
            (
                SearchArgs { in_flight: Some(0), ..SearchArgs::default() },
                None,
                "`in_flight = 0`: write 1 to",
            ),
            (SearchArgs::default(), Some(section(None, None, Some("x"))), "write turns or first"),
        ] {
            let layers: Vec<_> = layer.into_iter().collect();
            let why = SearchSetting::resolve(args, &layers, &[]).unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        }
        let modes = Some(vec!["first".to_owned(), "dream".to_owned()]);
        let section = OpenAiSection { modes, ..OpenAiSection::default() };
        let why = UseSetting::of_server(&section).unwrap_err();
        assert!(why.contains("`dream` is none of first, repair, optimise"), "{why}");
        assert!(UseSetting::of_program(Some(0), None).is_err());
    }
}
