//! What a person steers a run by: targets, allotments, tasks that are stopped.

use proptest::prelude::*;

use super::{Phase, Search, Turn, next_turn, standing};
use crate::allotment::{Purse, Wish, allotments};
use crate::attempt::{Attempt, Mode};
use crate::next_step::fixtures::{history, measured};
use crate::next_step::{Ask, SearchEnd, SearchLimits, StopReason};
use crate::report::Score;

const LIMITS: SearchLimits = SearchLimits { attempts_max: 99, plateau: None, in_flight_max: 2 };

fn search(attempts: &[Attempt]) -> Search<'_> {
    let (in_flight, ended, goal_ns, purse) = (&[], None, None, None);
    Search { limits: LIMITS, weight: 1.0, attempts, in_flight, ended, goal_ns, purse }
}

fn under_way(seq: u32) -> Ask {
    Ask { seq, mode: Mode::First, parent: None, subset_notice: false }
}

fn purse(allotted_nusd: i64, spent_nusd: i64) -> Option<Purse> {
    Some(Purse { allotted_nusd, spent_nusd })
}

fn asks(searches: &[Search<'_>]) -> Result<usize, Turn> {
    match next_turn(u32::MAX, searches) {
        Turn::Ask { task, .. } => Ok(task),
        other => Err(other),
    }
}

#[test]
fn a_search_ends_when_its_best_kernel_is_fast_enough() {
    let mut timed = history("9w");
    let score = measured(0.1);
    let Score::Measured(taken) = &score else { panic!() };
    let ns = taken.cold.median_ns;
    timed[0].report.as_mut().unwrap().score = score.clone();
    let reached = Phase::Ended(SearchEnd::TargetReached);
    for (attempts, goal_ns, ends) in [
        (&timed, None, false),
        (&timed, Some(ns - 1.0), false),
        (&timed, Some(ns), true),
        (&timed, Some(2.0 * ns), true),
        // Counts of the simulator are no times, and no kernel is no fast one.
        (&history("9"), Some(f64::MAX), false),
        (&history("w"), Some(f64::MAX), false),
    ] {
        let search = Search { goal_ns, ..search(attempts) };
        assert_eq!(standing(&search).phase == reached, ends, "{goal_ns:?}");
        let stop = Turn::Stop(StopReason::SearchesEnded);
        assert_eq!(asks(&[search]), if ends { Err(stop) } else { Ok(0) });
    }
}

#[test]
fn a_run_whose_tasks_a_person_stopped_says_so() {
    let attempts = history("w");
    let open = search(&attempts);
    let stopped = Search { ended: Some(SearchEnd::Stopped), ..open };
    let spent = Search { limits: SearchLimits { attempts_max: 1, ..LIMITS }, ..open };
    let in_flight = [under_way(2)];
    for (searches, wanted) in [
        ([stopped, stopped], Err(Turn::Stop(StopReason::TasksStopped))),
        ([stopped, spent], Err(Turn::Stop(StopReason::SearchesEnded))),
        ([spent, spent], Err(Turn::Stop(StopReason::AttemptsSpent))),
        ([stopped, Search { in_flight: &in_flight, ..stopped }], Err(Turn::Wait)),
        ([stopped, open], Ok(1)),
    ] {
        assert_eq!(asks(&searches), wanted, "{searches:?}");
    }
}

#[test]
fn whoever_used_its_allotment_waits_for_those_that_did_not() {
    let (poor, good) = (history("9wwwwwww"), history("9w8w7w6w"));
    let with = |attempts, purse| Search { purse, ..search(attempts) };
    let (used, left) = (purse(10, 10), purse(10, 9));
    let in_flight = [under_way(9), under_way(10)];
    let full = Search { in_flight: &in_flight, ..with(&poor, left) };
    let ended = Search { ended: Some(SearchEnd::Refused), ..with(&poor, left) };
    let last = SearchLimits { attempts_max: 10, ..LIMITS };
    for (searches, wanted) in [
        ([with(&poor, left), with(&good, left)], Ok(1)),
        ([with(&poor, left), with(&good, used)], Ok(0)),
        // More than used: one call may overrun it.
        ([with(&poor, left), with(&good, purse(10, 25))], Ok(0)),
        // Nobody has anything left, or can use it: by the gain alone.
        ([with(&poor, used), with(&good, used)], Ok(1)),
        ([ended, with(&good, used)], Ok(1)),
        // It will go on, with money that another must not take.
        ([full, with(&good, used)], Err(Turn::Wait)),
        ([Search { limits: last, ..full }, with(&good, used)], Ok(1)),
        // The first attempts of a task come out of its allotment, too.
        ([with(&[], used), with(&good, left)], Ok(1)),
    ] {
        assert_eq!(asks(&searches), wanted, "{searches:?}");
    }
}

/// One operator of a played run: its wish, weight, what each of its attempts costs, and how many
/// it may make.
#[derive(Clone, Debug)]
struct Played {
    wish: Wish,
    cost: i64,
    attempts_max: u32,
}

fn played() -> impl Strategy<Value = Played> {
    let wish = (prop::option::of(0..400_i64), 0.1..9.0_f64);
    (wish, 1..40_i64, 1..40_u32).prop_map(|((nusd, weight), cost, attempts_max)| Played {
        wish: Wish { nusd, weight },
        cost,
        attempts_max,
    })
}

/// Plays a run to its end, several attempts at once; gives what each operator spent and made.
/// `look` sees each choice.
fn play(
    cap: i64,
    operators: &[Played],
    mut look: impl FnMut(&[Search<'_>], usize),
) -> (Vec<i64>, Vec<u32>) {
    let attempts = history(&"w".repeat(5));
    let wishes: Vec<Wish> = operators.iter().map(|it| it.wish).collect();
    let allotted = allotments(cap, &wishes);
    let (mut spent, mut made) = (vec![0; operators.len()], vec![0_u32; operators.len()]);
    let mut in_flight: Vec<Vec<Ask>> = vec![Vec::new(); operators.len()];
    for round in 0_usize.. {
        assert!(round < 10_000, "it never ends");
        let searches: Vec<Search<'_>> = (0..operators.len())
            .map(|index| {
                let left = operators[index].attempts_max - made[index];
                let known = attempts.len() as u32 + left + in_flight[index].len() as u32;
                let allotted_nusd = allotted.as_ref().map(|nusd| nusd[index]);
                Search {
                    limits: SearchLimits { attempts_max: known, ..LIMITS },
                    weight: operators[index].wish.weight,
                    in_flight: &in_flight[index],
                    purse: allotted_nusd
                        .map(|allotted_nusd| Purse { allotted_nusd, spent_nusd: spent[index] }),
                    ..search(&attempts)
                }
            })
            .collect();
        match next_turn(u32::MAX, &searches) {
            Turn::Ask { task, ask } => {
                look(&searches, task);
                if spent.iter().sum::<i64>() + operators[task].cost > cap {
                    break;
                }
                spent[task] += operators[task].cost;
                made[task] += 1;
                in_flight[task].push(ask);
            }
            Turn::Wait => {
                let open = in_flight.iter_mut().max_by_key(|open| open.len()).unwrap();
                assert!(open.pop().is_some(), "it waits for nothing");
            }
            Turn::Stop(_) => break,
        }
    }
    (spent, made)
}

proptest! {
    #[test]
    fn allotments_are_kept_nobody_starves_and_nothing_is_stranded(
        cap in 0..2_000_i64,
        operators in prop::collection::vec(played(), 1..6),
    ) {
        let mut wrong = None;
        let (spent, made) = play(cap, &operators, |searches, task| {
            let used = |search: &Search<'_>| search.purse.is_some_and(Purse::is_used);
            let asks = |search: &Search<'_>| {
                matches!(standing(search).phase, Phase::Start | Phase::Search)
            };
            let waits = searches.iter().any(|search| asks(search) && !used(search));
            if used(&searches[task]) && waits {
                wrong = Some(format!("{task} of {searches:?}"));
            }
        });
        prop_assert_eq!(wrong, None);
        let sum: i64 = spent.iter().sum();
        prop_assert!(sum <= cap);
        let wishes: Vec<Wish> = operators.iter().map(|it| it.wish).collect();
        let allotted = allotments(cap, &wishes);
        let dearest = operators.iter().map(|it| it.cost).max().unwrap_or(0);
        for (index, operator) in operators.iter().enumerate() {
            let done = made[index] == operator.attempts_max;
            // What nobody could use moved on, until no attempt fitted into the rest.
            prop_assert!(done || sum + dearest > cap, "{} {:?}", index, spent);
            // Whoever can use its allotment gets it, but for what the others' last calls overran.
            if let Some(allotted) = &allotted {
                let overruns = dearest * operators.len() as i64;
                prop_assert!(done || spent[index] + overruns >= allotted[index], "{:?}", spent);
            }
        }
    }
}
