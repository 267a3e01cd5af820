//! What a person wants to hear of a run without looking: the events, as one line of JSON each, and
//! the rule for shares of a cap. Who carries them outside is none of this.

use serde::Serialize;

use crate::budget::{Budget, Spent};

/// Shares of a cap that are worth a word, in percent.
pub const SHARES: [u8; 3] = [50, 90, 100];

/// A cap of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    Attempts,
    Tokens,
    Dollars,
    Time,
    GpuSeconds,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Notice {
    /// The run ended; `state` as in the ledger, `reason` in words.
    Finished { state: String, reason: String },
    /// So much of a cap is used or reserved.
    CapShare { cap: Cap, percent: u8 },
    /// Calls of a model, or work on something else that `what` names, wait until it works again.
    BreakerOpen { what: String, why: String },
    /// It works again.
    BreakerClosed { what: String },
    /// The first claim of the run.
    FirstClaim { task: String, claim: String, says: String },
    /// A GPU is not used until it is healthy.
    GpuParked { gpu: String, why: String },
    /// It is used again.
    GpuUnparked { gpu: String },
}

impl Notice {
    /// The event in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Finished { state, reason } => format!("the run is {state}: {reason}"),
            Self::CapShare { cap, percent } => {
                format!("{percent} % of the run's {} are used or reserved", cap.words())
            }
            Self::BreakerOpen { what, why } => format!("{what} is paused: {why}"),
            Self::BreakerClosed { what } => format!("{what} works again"),
            Self::FirstClaim { task, claim, says } => {
                format!("the first claim of the run, {claim} at {task}: {says}")
            }
            Self::GpuParked { gpu, why } => format!("the GPU {gpu} is parked: {why}"),
            Self::GpuUnparked { gpu } => format!("the GPU {gpu} is used again"),
        }
    }
}

impl Cap {
    /// What it limits.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::Tokens => "tokens",
            Self::Dollars => "dollars",
            Self::Time => "hours",
            Self::GpuSeconds => "GPU-seconds",
        }
    }
}

/// How far each cap that binds is used, in percent of at most 100. `began_us` is when the run's
/// time began, `attempts` how many it has opened.
#[must_use]
pub fn used(budget: &Budget, spent: &Spent, attempts: u32, began_us: i64) -> Vec<(Cap, u8)> {
    let share = |part: i128, whole: i128| match whole {
        // A cap of nothing is used up.
        ..=0 => 100,
        whole => u8::try_from((part.max(0) * 100 / whole).min(100)).unwrap_or(100),
    };
    let tokens = budget.tokens_max.map(|cap| share(spent.tokens.into(), cap.into()));
    let dollars = budget.nusd_max.map(|cap| share(spent.nusd.into(), cap.into()));
    let time = budget.deadline_us.map(|end_us| {
        share(
            i128::from(spent.now_us) - i128::from(began_us),
            i128::from(end_us) - i128::from(began_us),
        )
    });
    let attempts = Some(share(attempts.into(), budget.attempts_max.into()));
    let gpu = budget.gpu_us_max.map(|cap| share(spent.gpu_us.into(), cap.into()));
    [
        (Cap::Attempts, attempts),
        (Cap::Tokens, tokens),
        (Cap::Dollars, dollars),
        (Cap::Time, time),
        (Cap::GpuSeconds, gpu),
    ]
    .into_iter()
    .filter_map(|(cap, share)| Some((cap, share?)))
    .collect()
}

/// The shares of caps that were reached between two looks: for each cap only the highest new one.
#[must_use]
pub fn reached(before: &[(Cap, u8)], now: &[(Cap, u8)]) -> Vec<Notice> {
    let said = |percent: u8| SHARES.into_iter().rev().find(|share| *share <= percent).unwrap_or(0);
    let earlier = |cap: Cap| before.iter().find(|(it, _)| *it == cap).map_or(0, |(_, it)| *it);
    now.iter()
        .filter(|(cap, percent)| said(*percent) > said(earlier(*cap)))
        .map(|(cap, percent)| Notice::CapShare { cap: *cap, percent: said(*percent) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Cap, Notice, reached, used};
    use crate::budget::{Budget, Spent};

    #[test]
    fn each_share_of_each_cap_is_said_once() {
        let share = |cap, percent| Notice::CapShare { cap, percent };
        for (before, now, wanted) in [
            (0, 49, vec![]),
            (49, 50, vec![share(Cap::Dollars, 50)]),
            (50, 89, vec![]),
            (0, 95, vec![share(Cap::Dollars, 90)]),
            (95, 100, vec![share(Cap::Dollars, 100)]),
            // More was added, and is used up again.
            (100, 60, vec![]),
            (60, 100, vec![share(Cap::Dollars, 100)]),
        ] {
            let at = |percent| [(Cap::Dollars, percent)];
            assert_eq!(reached(&at(before), &at(now)), wanted, "{before} {now}");
        }
    }

    #[test]
    fn shares_are_of_the_caps_that_there_are() {
        let budget =
            Budget { nusd_max: Some(1_000), deadline_us: Some(300), ..Budget::of_attempts(4) };
        let spent = Spent { tokens: 5, nusd: 899, now_us: 250, gpu_us: 45 };
        let wanted = [(Cap::Attempts, 25), (Cap::Dollars, 89), (Cap::Time, 75)];
        assert_eq!(used(&budget, &spent, 1, 100), wanted);
        let capped = Budget { gpu_us_max: Some(50), ..budget };
        assert_eq!(used(&capped, &spent, 1, 100)[3], (Cap::GpuSeconds, 90));
        let over = Spent { tokens: u64::MAX, nusd: i64::MAX, now_us: i64::MAX, gpu_us: u64::MAX };
        let capped = Budget { tokens_max: Some(0), ..capped };
        assert!(used(&capped, &over, 9, 100).iter().all(|(_, percent)| *percent == 100));
    }

    #[test]
    fn an_event_is_one_line_of_json_that_names_itself() {
        let finished = Notice::Finished { state: "stopped".into(), reason: "a\nb".into() };
        let json = serde_json::to_string(&finished).unwrap();
        assert_eq!(json, r#"{"event":"finished","state":"stopped","reason":"a\nb"}"#);
        let share = Notice::CapShare { cap: Cap::Time, percent: 90 };
        let json = serde_json::to_string(&share).unwrap();
        assert_eq!(json, r#"{"event":"cap_share","cap":"time","percent":90}"#);
    }
}
