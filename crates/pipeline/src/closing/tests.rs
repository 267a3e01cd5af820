//! The plan on tables, and whole runs of it on a clock of their own, with ends at any minute.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Best, Costs, Fate, Frame, Look, Operator, Unclaimed, Work, next, plan};

const MINUTE_US: i64 = 60_000_000;
const MINUTE_MS: i64 = 60_000;

fn frame(minutes: Option<i64>, lanes: usize) -> Frame {
    let end_us = minutes.map(|it| it * MINUTE_US);
    Frame { from_us: 0, now_us: 0, end_us, lanes, accepts: true }
}

fn operator(weight: f64, searching: bool, best: Option<Best>) -> Operator {
    let costs = Costs { measure_ms: MINUTE_MS, accept_ms: 3 * MINUTE_MS };
    Operator { weight, searching, best, tried: false, outdated_ms: 0, costs }
}

fn best(measurement: Look, acceptance: Look) -> Option<Best> {
    Some(Best { measurement, acceptance })
}

#[test]
fn measurements_are_set_aside_first_then_claims_by_weight() {
    use Fate::{Claim, Measured};
    let no_time = Measured(Unclaimed::NoTime);
    let three = [3.0, 1.0, 2.0].map(|weight| operator(weight, true, None));
    for (minutes, lanes, set_aside, fates) in [
        (60, 1, 12, [Claim, Claim, Claim]),
        (18, 1, 9, [Claim, no_time, Claim]),
        (12, 1, 6, [Claim, no_time, no_time]),
        (10, 1, 3, [no_time, no_time, no_time]),
        // Half of the run is not enough to measure all.
        (4, 1, 2, [no_time, no_time, no_time]),
        (0, 1, 0, [no_time, no_time, no_time]),
        // (12 - 4) / 3 + 4, rounded up: whichever card is free takes the next.
        (60, 2, 8, [Claim, Claim, Claim]),
    ] {
        let frame = frame(Some(minutes), lanes);
        let found = plan(&frame, &three);
        assert_eq!(found.set_aside_ms, set_aside * MINUTE_MS, "{minutes} {lanes}");
        assert_eq!(found.fates, fates, "{minutes} {lanes}");
        let ends = (minutes - set_aside) * MINUTE_US;
        assert_eq!(frame.search_end_us(&found), Some(ends));
    }
    let unbounded = frame(None, 1);
    let found = plan(&unbounded, &three);
    assert_eq!((found.set_aside_ms, unbounded.search_end_us(&found)), (0, None));
    assert_eq!(found.fates, [Claim, Claim, Claim]);
}

#[test]
fn nothing_is_set_aside_for_what_is_done_or_will_not_be() {
    use Fate::{Accepted, Claim, Measured, Nothing};
    use Look::{Again, Due, Ended, GivenUp, Noisy};
    let tried = |it: Operator| Operator { tried: true, ..it };
    for (operator, accepts, minutes, fate) in [
        (operator(1.0, false, None), true, 0, Nothing),
        (operator(1.0, true, None), true, 4, Claim),
        (operator(1.0, true, best(Ended, Due)), true, 4, Claim),
        (operator(1.0, false, best(Ended, Due)), true, 3, Claim),
        (operator(1.0, false, best(Ended, Ended)), true, 0, Accepted),
        // A better kernel may come, and gets a number.
        (operator(1.0, true, best(Ended, Ended)), true, 1, Accepted),
        (tried(operator(1.0, true, best(Due, Due))), true, 1, Measured(Unclaimed::Replaced)),
        (operator(1.0, false, best(Ended, GivenUp)), true, 0, Measured(Unclaimed::GivenUp)),
        // An earlier night's noise says nothing; this run's own waits for an idle card.
        (operator(1.0, false, best(Ended, Again)), true, 3, Claim),
        (tried(operator(1.0, false, best(Ended, Again))), true, 0, Measured(Unclaimed::Again)),
        (operator(1.0, false, best(Ended, Noisy)), true, 0, Measured(Unclaimed::Noise)),
        (operator(1.0, true, best(Due, Due)), false, 1, Measured(Unclaimed::Off)),
        (operator(1.0, false, best(GivenUp, Due)), false, 0, Measured(Unclaimed::Off)),
    ] {
        let found = plan(&Frame { accepts, ..frame(Some(60), 1) }, &[operator]);
        assert_eq!(
            (found.set_aside_ms / MINUTE_MS, found.fates[0]),
            (minutes, fate),
            "{operator:?}"
        );
    }
}

#[test]
fn a_free_card_takes_what_fits_the_heaviest_first() {
    use Look::{Again, Due, Ended, Noisy};
    let measured = best(Ended, Due);
    let tried = |it: Operator| Operator { tried: true, ..it };
    let [light, heavy] = [1.0, 2.0].map(|weight| operator(weight, false, measured));
    let new = operator(0.5, false, Some(Best::NEW));
    let searching = |it: Operator| Operator { searching: true, ..it };
    for (operators, in_hand, now, wanted) in [
        (vec![light, heavy], vec![], 0, Some(Work::Accept(1))),
        (vec![light, heavy], vec![1], 0, Some(Work::Accept(0))),
        (vec![light, heavy, new], vec![], 0, Some(Work::Measure(2))),
        // Someone else measures it.
        (vec![light, heavy, new], vec![2], 0, Some(Work::Accept(1))),
        // A first claim goes before another one of a heavier operator.
        (vec![light, tried(heavy)], vec![], 0, Some(Work::Accept(0))),
        (vec![tried(light), tried(heavy)], vec![], 0, Some(Work::Accept(1))),
        (vec![tried(operator(2.0, false, best(Ended, Again)))], vec![], 0, Some(Work::Accept(0))),
        (vec![operator(2.0, false, best(Ended, Noisy))], vec![], 0, None),
        // It must be over at 20.
        (vec![light], vec![], 17, Some(Work::Accept(0))),
        (vec![light], vec![], 18, None),
        (vec![new], vec![], 19, Some(Work::Measure(0))),
        (vec![new], vec![], 20, None),
        // A better kernel may still come, and be measured.
        (vec![searching(light)], vec![], 16, Some(Work::Accept(0))),
        (vec![searching(light)], vec![], 17, None),
        // No time is set aside for a second claim: it ends before the search does, at 19.
        (vec![searching(tried(light))], vec![], 16, Some(Work::Accept(0))),
        (vec![searching(tried(light)), searching(heavy)], vec![1], 13, None),
        (vec![searching(tried(light)), searching(heavy)], vec![1], 12, Some(Work::Accept(0))),
        (vec![operator(1.0, true, None), operator(1.0, false, None)], vec![], 0, None),
    ] {
        let frame = Frame { now_us: now * MINUTE_US, ..frame(Some(20), 1) };
        let in_hand: BTreeSet<usize> = in_hand.into_iter().collect();
        let planned = plan(&frame, &operators);
        let found = next(&frame, &planned, &operators, &in_hand);
        assert_eq!(found, wanted, "{operators:?} {in_hand:?} {now}");
    }
    let off = Frame { accepts: false, ..frame(None, 1) };
    let planned = plan(&off, &[light, new]);
    let none = BTreeSet::new();
    assert_eq!(next(&off, &planned, &[light, new], &none), Some(Work::Measure(1)));
    assert_eq!(next(&off, &planned, &[light], &none), None);
}

/// An operator of a simulated run: when better kernels are found, when its search ends by itself,
/// and what looks at it take, in seconds.
#[derive(Clone, Debug)]
struct Script {
    weight: f64,
    finds: Vec<i64>,
    rests: i64,
    costs: [i64; 2],
}

/// A piece of work that somebody has in hand, with the kernel that it is about.
struct InHand {
    work: Work,
    kernel: usize,
    ends: i64,
}

/// How a simulated run ended.
struct Simulated {
    operators: Vec<Operator>,
    /// Fates when the search ended; none where a look was under way then that no time was set aside
    /// for, and so may take that of others.
    fates: Vec<Fate>,
    last_work: i64,
}

struct World<'a> {
    scripts: &'a [Script],
    frame: Frame,
    operators: Vec<Operator>,
    kernels: Vec<usize>,
    in_hand: Vec<InHand>,
}

impl World<'_> {
    fn finish(&mut self, now: i64) {
        let (over, going) = self.in_hand.drain(..).partition(|it: &InHand| it.ends <= now);
        self.in_hand = going;
        let over: Vec<InHand> = over;
        for InHand { work, kernel, .. } in over {
            let operator = &mut self.operators[work.place()];
            operator.outdated_ms = 0;
            let same = kernel == self.kernels[work.place()];
            match (work, &mut operator.best) {
                (Work::Measure(_), Some(best)) if same => best.measurement = Look::Ended,
                (Work::Accept(_), best) => {
                    operator.tried = true;
                    if let Some(best) = best.as_mut().filter(|_| same) {
                        best.acceptance = Look::Ended;
                    }
                }
                (Work::Measure(_), _) => {}
            }
        }
    }

    fn search(&mut self, now: i64, ended: bool) {
        for (place, script) in self.scripts.iter().enumerate() {
            let operator = &mut self.operators[place];
            operator.searching &= !ended && now < script.rests;
            if operator.searching && script.finds.contains(&now) {
                operator.best = Some(Best::NEW);
                self.kernels[place] += 1;
            }
        }
        for InHand { work, kernel, ends } in &self.in_hand {
            let operator = &mut self.operators[work.place()];
            if *kernel != self.kernels[work.place()] {
                operator.tried |= matches!(work, Work::Accept(_));
                operator.outdated_ms = 1_000 * (ends - now);
            }
        }
    }

    fn begin(&mut self, now: i64) -> i64 {
        let mut last = 0;
        while self.in_hand.len() < self.frame.lanes {
            let busy = self.in_hand.iter().map(|it| it.work.place()).collect();
            let planned = plan(&self.frame, &self.operators);
            let Some(work) = next(&self.frame, &planned, &self.operators, &busy) else { break };
            let ends = now + work.cost_ms(&self.operators) / 1_000;
            last = last.max(ends);
            self.in_hand.push(InHand { work, kernel: self.kernels[work.place()], ends });
        }
        last
    }
}

/// A run of so many seconds; while somebody searches, cards are idle only at times.
fn simulate(scripts: &[Script], seconds: i64, lanes: usize, idle_every: i64) -> Simulated {
    let costs = |[measure, accept]: [i64; 2]| Costs {
        measure_ms: 1_000 * measure,
        accept_ms: 1_000 * accept,
    };
    let operators = scripts.iter().map(|script| Operator {
        costs: costs(script.costs),
        ..operator(script.weight, true, None)
    });
    let frame = Frame { end_us: Some(seconds * 1_000_000), ..frame(None, lanes) };
    let kernels = vec![0; scripts.len()];
    let (operators, in_hand) = (operators.collect(), Vec::new());
    let mut world = World { scripts, frame, operators, kernels, in_hand };
    let (mut fates, mut last_work) = (None, 0);
    for now in 0..=seconds {
        world.frame.now_us = now * 1_000_000;
        world.finish(now);
        let planned = plan(&world.frame, &world.operators);
        let search_end_us = world.frame.search_end_us(&planned).unwrap_or(i64::MAX);
        world.search(now, now * 1_000_000 >= search_end_us);
        let searching = world.operators.iter().any(|operator| operator.searching);
        if !searching && fates.is_none() {
            let promised = plan(&world.frame, &world.operators).fates;
            fates = Some(if world.in_hand.is_empty() { promised } else { Vec::new() });
        }
        if !searching || now % idle_every == 0 {
            last_work = last_work.max(world.begin(now));
        }
    }
    let fates = fates.unwrap_or_default();
    Simulated { operators: world.operators, fates, last_work }
}

fn script() -> impl Strategy<Value = Script> {
    let finds = proptest::collection::vec(0i64..4_000, 0..6);
    let costs = (1i64..90, 10i64..600).prop_map(|(measure, accept)| [measure, accept]);
    (0.1f64..9.0, finds, 1i64..6_000, costs).prop_map(|(weight, finds, rests, costs)| Script {
        weight,
        finds,
        rests,
        costs,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whenever the end comes, every best kernel is measured, nothing was begun that the end
    /// interrupts, and what was promised to cards that were free is claimed.
    #[test]
    fn whenever_the_end_comes_every_best_kernel_is_measured(
        scripts in proptest::collection::vec(script(), 1..7),
        seconds in 1i64..4_000,
        lanes in 1usize..4,
        idle_every in 1i64..40,
    ) {
        let ended = simulate(&scripts, seconds, lanes, idle_every);
        prop_assert!(ended.last_work <= seconds, "work until {} of {seconds}", ended.last_work);
        let measuring: i64 = scripts.iter().map(|script| script.costs[0]).sum();
        let has_time = 2 * measuring <= seconds;
        for (place, operator) in ended.operators.iter().enumerate() {
            let Some(best) = operator.best else { continue };
            prop_assert!(!has_time || best.measurement == Look::Ended, "{place} {ended:?}");
            let promised = ended.fates.get(place) == Some(&Fate::Claim);
            prop_assert!(!promised || best.acceptance == Look::Ended, "{place} {ended:?}");
        }
    }
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?} until {}", self.operators, self.fates, self.last_work)
    }
}
