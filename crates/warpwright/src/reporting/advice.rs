//! Why an operator has no claim, and the command that helps.

use serde::Serialize;
use store::ClaimState;

/// How an operator ended, in words, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Advice {
    pub(crate) why: String,
    /// What helps next; `None` where there is nothing to do.
    pub(crate) command: Option<String>,
}

/// What the advice follows from.
pub(crate) struct Ending<'a> {
    /// The run's id, and how the task is pointed at in it.
    pub(crate) run: &'a str,
    pub(crate) task: &'a str,
    /// True where that claim waits for a person.
    pub(crate) withheld: bool,
    /// The claim that counts: one that stands before one that does not.
    pub(crate) claim: Option<StoredClaim<'a>>,
    pub(crate) best: Option<Best<'a>>,
    pub(crate) attempts: usize,
    /// The most frequent way to fail, with how often.
    pub(crate) most: Option<(String, usize)>,
    /// Number of the newest closed attempt.
    pub(crate) last_seq: Option<u32>,
    /// True where the run may still make attempts by itself or by `resume`.
    pub(crate) goes_on: bool,
}

/// A claim of the ledger.
#[derive(Clone, Copy)]
pub(crate) struct StoredClaim<'a> {
    pub(crate) id: &'a str,
    /// The run that made it, which may be another one, and the number of its attempt there.
    pub(crate) run: &'a str,
    pub(crate) seq: u32,
    pub(crate) state: ClaimState,
    pub(crate) why: &'a str,
}

/// The best correct attempt.
#[derive(Clone)]
pub(crate) struct Best<'a> {
    pub(crate) seq: u32,
    /// Where its acceptance was made, if another run made it.
    pub(crate) elsewhere: Option<Elsewhere<'a>>,
    /// True where a GPU judged it.
    pub(crate) on_gpu: bool,
    pub(crate) acceptance: Acceptance<'a>,
}

/// An attempt of another run that has the same program.
#[derive(Clone)]
pub(crate) struct Elsewhere<'a> {
    pub(crate) run: &'a str,
    pub(crate) seq: u32,
    /// In words, with the date.
    pub(crate) says: String,
}

/// How far its acceptance for a claim came.
#[derive(Clone, Copy)]
pub(crate) enum Acceptance<'a> {
    None,
    /// It has not ended.
    Begun,
    /// A person has to look, at what the text says.
    Waits(&'a str),
    /// It ended without a claim, for this cause.
    Unclaimed(&'a str),
}

/// What is to be said of an operator.
pub(crate) fn advice(ending: &Ending<'_>) -> Advice {
    let Ending { run, task, .. } = ending;
    let of = |seq: u32| format!("{run}:{task}:{seq}");
    match ending.claim {
        Some(claim) if ending.withheld => {
            return Advice {
                why: "its claim waits for a person (require_review)".to_owned(),
                command: Some(format!("warpwright review approve {} --reason TEXT", claim.id)),
            };
        }
        Some(claim) => {
            return of_claim(&claim, &format!("{}:{task}:{}", claim.run, claim.seq));
        }
        None => {}
    }
    let Some(best) = &ending.best else { return without_kernel(ending) };
    let accept = Some(format!("warpwright accept {}", of(best.seq)));
    let (selector, by) = match &best.elsewhere {
        Some(it) => (format!("{}:{task}:{}", it.run, it.seq), format!(" ({})", it.says)),
        None => (of(best.seq), String::new()),
    };
    match best.acceptance {
        Acceptance::Waits(what) => Advice {
            why: format!("a person has to look at it first: {what}{by}"),
            command: Some(format!("warpwright review list {selector}")),
        },
        Acceptance::Unclaimed(cause) => Advice {
            why: format!("no claim: {cause}{by}"),
            command: Some(format!("warpwright show {selector}")),
        },
        Acceptance::Begun => {
            Advice { why: format!("its acceptance was interrupted{by}"), command: accept }
        }
        Acceptance::None if best.on_gpu => Advice {
            why: "correct; nobody took it through the full protocol yet".to_owned(),
            command: accept,
        },
        Acceptance::None => Advice {
            why:
                "correct on the simulator, which takes no times: the command needs a machine with \
                  a GPU"
                    .to_owned(),
            command: accept,
        },
    }
}

fn of_claim(claim: &StoredClaim<'_>, selector: &str) -> Advice {
    let id = claim.id;
    match claim.state {
        ClaimState::Confirmed => {
            Advice { why: format!("confirmed: claim {id} stands"), command: None }
        }
        ClaimState::Claimed => Advice {
            why: "claimed, and provisional until another process gets it too, on another day or \
                  card: `reproduce` takes the file"
                .to_owned(),
            command: Some(format!("warpwright export {id} --out claim.bundle")),
        },
        ClaimState::Withdrawn => Advice {
            why: format!("withdrawn: {}", claim.why),
            command: Some(format!("warpwright show {selector}")),
        },
    }
}

fn without_kernel(ending: &Ending<'_>) -> Advice {
    let Ending { run, task, attempts, .. } = ending;
    let resume = ending.goes_on.then(|| format!("warpwright resume {run}"));
    let Some((most, count)) = &ending.most else {
        let why = if *attempts == 0 { "no attempt ended" } else { "no attempt is correct" };
        return Advice { why: why.to_owned(), command: resume };
    };
    let show = ending.last_seq.map(|seq| format!("warpwright show {run}:{task}:{seq}"));
    Advice {
        why: format!("none of {attempts} attempts is correct; most often {most} ({count})"),
        command: show.or(resume),
    }
}

#[cfg(test)]
mod tests {
    use store::ClaimState;

    use super::{Acceptance, Best, Elsewhere, Ending, StoredClaim, advice};

    fn ending() -> Ending<'static> {
        Ending {
            run: "0190",
            task: "gelu",
            withheld: false,
            claim: None,
            best: None,
            attempts: 0,
            most: None,
            last_seq: None,
            goes_on: false,
        }
    }

    fn best(on_gpu: bool, acceptance: Acceptance<'static>) -> Ending<'static> {
        let best = Best { seq: 4, elsewhere: None, on_gpu, acceptance };
        Ending { best: Some(best), attempts: 6, ..ending() }
    }

    /// As [`best`], with an acceptance that another run made.
    fn elsewhere(acceptance: Acceptance<'static>) -> Ending<'static> {
        let says = "by run 0177, of its #2, 2026-11-30 04:00".to_owned();
        let elsewhere = Some(Elsewhere { run: "0177", seq: 2, says });
        let best = Best { seq: 1, elsewhere, on_gpu: true, acceptance };
        Ending { best: Some(best), ..ending() }
    }

    fn claim(state: ClaimState) -> Ending<'static> {
        let claim =
            StoredClaim { id: "c1", run: "0190", seq: 3, state, why: "0.9x on another card" };
        Ending { claim: Some(claim), ..best(true, Acceptance::None) }
    }

    #[test]
    fn every_ending_says_why_and_what_helps() {
        let failing = Ending {
            attempts: 9,
            most: Some(("Wrong/SHAPE".to_owned(), 5)),
            last_seq: Some(9),
            ..ending()
        };
        for (ending, why, command) in [
            (claim(ClaimState::Confirmed), "claim c1 stands", None),
            (claim(ClaimState::Claimed), "provisional", Some("warpwright export c1 --out")),
            (claim(ClaimState::Withdrawn), "0.9x on another", Some("warpwright show 0190:gelu:3")),
            (
                Ending { withheld: true, ..claim(ClaimState::Claimed) },
                "waits for a person",
                Some("warpwright review approve c1"),
            ),
            (best(true, Acceptance::None), "full protocol", Some("warpwright accept 0190:gelu:4")),
            (
                best(false, Acceptance::None),
                "takes no times",
                Some("warpwright accept 0190:gelu:4"),
            ),
            (best(true, Acceptance::Begun), "interrupted", Some("warpwright accept 0190:gelu:4")),
            (
                best(true, Acceptance::Unclaimed("1.01 to 1.04 is not above 1.03")),
                "1.01 to 1.04",
                Some("warpwright show 0190:gelu:4"),
            ),
            (
                best(true, Acceptance::Waits("PHYSICS")),
                "PHYSICS",
                Some("warpwright review list 0190:gelu:4"),
            ),
            (failing, "Wrong/SHAPE (5)", Some("warpwright show 0190:gelu:9")),
            (ending(), "no attempt ended", None),
            (Ending { goes_on: true, ..ending() }, "no attempt", Some("warpwright resume 0190")),
        ] {
            check(&ending, why, command);
        }
    }

    #[test]
    fn what_another_run_found_is_told_with_the_way_there() {
        for (ending, why, command) in [
            (
                elsewhere(Acceptance::Waits("PHYSICS")),
                "PHYSICS (by run 0177, of its #2",
                Some("warpwright review list 0177:gelu:2"),
            ),
            (
                elsewhere(Acceptance::Unclaimed("slower")),
                "slower (by run 0177",
                Some("warpwright show 0177:gelu:2"),
            ),
            // Going on with it is this run's as well.
            (
                elsewhere(Acceptance::Begun),
                "interrupted (by run 0177",
                Some("warpwright accept 0190:gelu:1"),
            ),
        ] {
            check(&ending, why, command);
        }
    }

    fn check(ending: &Ending<'_>, why: &str, command: Option<&str>) {
        let found = advice(ending);
        assert!(found.why.contains(why), "{found:?}");
        let fits = match (&found.command, command) {
            (Some(found), Some(command)) => found.starts_with(command),
            (found, command) => found.is_none() && command.is_none(),
        };
        assert!(fits, "{found:?}, expected {command:?}");
    }
}
