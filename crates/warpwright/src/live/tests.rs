//! What the lines say, row by row.

use agent::Progress;
use pipeline::attempt::Mode;
use pipeline::budget::Budget;
use pipeline::device_facts::DeviceFacts;
use pipeline::report::{Counters, Estimate, Score};
use pipeline::verdict::Kind;
use store::{Booking, Bookings};

use super::{Fact, Live, Size, Step, shares};

const WIDE: Size = Size { rows: 24, cols: 200 };

fn live(budget: Budget, end_ms: Option<u64>, tasks: &[&str]) -> Live {
    let tasks: Vec<_> =
        tasks.iter().map(|name| ((*name).to_owned(), budget.attempts_max, Vec::new())).collect();
    Live::new(budget, end_ms, Bookings::default(), &tasks)
}

fn step(task: &str, seq: u32, mode: Option<Mode>, step: Step) -> Fact {
    Fact::Step { task: task.to_owned(), seq, mode, step }
}

fn closed(task: &str, seq: u32, kind: Kind, sectors: f64) -> Fact {
    let counters = Counters { load_sectors: sectors, ..Counters::default() };
    let estimate = Estimate::new(&counters, &DeviceFacts::simulated_h200(), [1, 1]);
    let score = if kind == Kind::Correct { Score::Estimated(estimate) } else { Score::None };
    Fact::Closed { task: task.to_owned(), seq, kind, score }
}

#[test]
fn a_tasks_line_follows_its_attempts() {
    let mut live = live(Budget::of_attempts(4), None, &["softmax"]);
    let repair = Some(Mode::Repair);
    for (fact, now_ms, seen_ms, wanted) in [
        (
            step("softmax", 1, Some(Mode::First), Step::Asking),
            0,
            900,
            "0/4 | #1 first: asking, 0 s",
        ),
        (step("softmax", 1, Some(Mode::First), Step::Asking), 500, 2_000, "asking, 2 s"),
        (step("softmax", 1, Some(Mode::First), Step::Compiling), 2_000, 9_000, "first: compiling"),
        (step("softmax", 1, Some(Mode::First), Step::Judging), 9_000, 9_999, "judging, 0 s"),
        (
            step("softmax", 1, None, Step::Worker),
            9_999,
            70_999,
            "first: waiting for a worker, 1:01",
        ),
        (closed("softmax", 1, Kind::Wrong, 0.0), 71_000, 71_000, "1/4 | Wrong 1"),
        (step("softmax", 2, repair, Step::Mailbox), 71_000, 3_672_000, "mailbox, 1:00:01"),
        (step("softmax", 2, None, Step::Retrying { wait_ms: 9_000 }), 1_000, 3_000, "again in 7 s"),
        (
            step("softmax", 2, None, Step::Retrying { wait_ms: 9_000 }),
            1_000,
            99_000,
            "again in 0 s",
        ),
        (step("softmax", 2, repair, Step::Asking), 100_000, 100_000, "#2 repair: asking, 0 s"),
        (
            closed("softmax", 2, Kind::Correct, 5e5),
            0,
            0,
            "2/4 | Wrong 1, Correct 1 | best #2 (estimate: 5.000e5 sectors)",
        ),
        (closed("softmax", 3, Kind::Correct, 9e5), 0, 0, "3/4 | Wrong 1, Correct 2 | best #2 ("),
        (closed("softmax", 4, Kind::Correct, 1e5), 0, 0, "4/4 | Wrong 1, Correct 3 | best #4 ("),
        (closed("another", 4, Kind::Correct, 1e5), 0, 0, "4/4 | Wrong 1, Correct 3 | best #4 ("),
    ] {
        live.take(&fact, now_ms);
        let lines = live.lines(WIDE, seen_ms);
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("softmax  ") && lines[0].contains(wanted),
            "{} {wanted}",
            lines[0]
        );
    }
}

/// The last line of a run of five attempts, some of which were closed at these times.
fn run_line(live: &mut Live, closed_ms: &[u64], now_ms: u64) -> String {
    for (at_ms, seq) in closed_ms.iter().zip(1..) {
        live.take(&closed("a", seq, Kind::Wrong, 0.0), *at_ms);
    }
    live.lines(WIDE, now_ms).pop().unwrap()
}

#[test]
fn the_time_that_is_left_follows_the_attempts_so_far() {
    for (end_ms, closed_ms, now_ms, wanted) in [
        (None, vec![], 61_000, "0/5 attempts | 1:01 elapsed, ETA — |"),
        (None, vec![10_000], 10_000, "1/5 attempts | 10 s elapsed, ETA 40 s |"),
        (None, vec![10_000, 30_000], 35_000, "2/5 attempts | 35 s elapsed, ETA 40 s |"),
        (None, vec![10_000], 3_599_000, "1/5 attempts | 59:59 elapsed, ETA 0 s |"),
        (Some(40_000), vec![10_000, 30_000], 35_000, "ETA 5 s |"),
        (Some(30_000), vec![10_000], 35_000, "ETA 0 s |"),
        (Some(30_000), vec![], 10_000, "ETA — |"),
        (None, vec![1_000; 5], 35_000, "5/5 attempts | 35 s elapsed, ETA 0 s |"),
    ] {
        let mut live = live(Budget::of_attempts(5), end_ms, &["a"]);
        let line = run_line(&mut live, &closed_ms, now_ms);
        assert!(line.contains(wanted), "{line}\n{wanted}");
    }
}

#[test]
fn what_is_spent_is_told_with_its_cap() {
    const DOLLAR: i64 = 1_000_000_000;
    let booked = |settled, reserved, tokens| Bookings {
        settled: Booking { calls: 1, tokens, nusd: settled },
        failed: Booking { calls: 1, tokens: 0, nusd: DOLLAR / 2 },
        reserved: Booking { calls: 1, tokens: 500, nusd: reserved },
        ..Bookings::default()
    };
    let none = Bookings::default();
    for (nusd_max, tokens_max, bookings, wanted) in [
        (None, None, none, "| $0.0000 | 0 tokens"),
        (None, None, booked(DOLLAR, 0, 9_000), "| $1.5000 | 9500 tokens"),
        (None, None, booked(0, DOLLAR, 9_500), "| $0.5000 + $1.0000 reserved | 10.0k tokens"),
        (Some(5 * DOLLAR), None, booked(0, 1, 0), "| $0.5000 + $0.0000 reserved of $5.0000 |"),
        (None, Some(999_999), booked(0, 0, 98_760), "| 99.2k of 999.9k tokens"),
        (None, Some(2_000_000), booked(0, 0, 20_000_000), "| 20.0M of 2.0M tokens"),
    ] {
        let budget = Budget { nusd_max, tokens_max, ..Budget::of_attempts(5) };
        let mut live = live(budget, None, &["a"]);
        live.take(&Fact::Booked(bookings), 0);
        let line = run_line(&mut live, &[], 0);
        assert!(line.contains(wanted), "{line}\n{wanted}");
    }
}

#[test]
fn lines_fit_every_window() {
    let names: Vec<_> = (0..150).map(|index| format!("a_task_with_a_name_{index}")).collect();
    for count in [1, 3, 8, 9, 150] {
        let names: Vec<_> = names[..count].iter().map(String::as_str).collect();
        let mut live = live(Budget::of_attempts(300), None, &names);
        for name in &names {
            live.take(&closed(name, 1, Kind::Correct, 1e6), 1);
        }
        live.take(&step(names[count - 1], 2, Some(Mode::Optimise), Step::Judging), 2);
        for rows in [0, 1, 2, 3, 4, 5, 10, 24, 200] {
            for cols in [0, 1, 2, 10, 40, 80, 300] {
                let lines = live.lines(Size { rows, cols }, 5_000);
                assert!(lines.len() <= rows.saturating_sub(1), "{count} {rows} {lines:?}");
                let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
                assert!(widest < cols.max(1), "{count} {cols} {lines:?}");
                let shown = if count > 8 { 3 } else { count.min(rows.max(2)) + 1 };
                assert!(lines.len() <= shown.max(3), "{count} {rows} {lines:?}");
                if cols >= 80 && rows >= 2 {
                    assert!(lines[lines.len() - 1].contains("/300 attempts"), "{lines:?}");
                }
                if cols >= 80 && rows >= 4 {
                    let in_hand = lines.iter().find(|line| line.contains("judging"));
                    assert!(
                        in_hand.is_some_and(|line| line.contains(names[count - 1])),
                        "{lines:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn many_tasks_are_summed_up() {
    let names: Vec<_> = (0..20).map(|index| format!("t{index}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut live = live(Budget::of_attempts(40), None, &names);
    live.take(&closed("t0", 1, Kind::Correct, 1e6), 0);
    live.take(&closed("t1", 1, Kind::Wrong, 0.0), 0);
    live.take(&closed("t1", 2, Kind::Wrong, 0.0), 0);
    live.take(&step("t2", 1, Some(Mode::First), Step::Compiling), 0);
    assert_eq!(
        live.lines(WIDE, 0)[..2],
        [
            "t2  0/2 | #1 first: compiling",
            "all 20 tasks: 1 with a correct kernel, 1 without, 18 to begin | Wrong 2, Correct 1",
        ]
    );
}

#[test]
fn attempts_are_shared_as_the_policy_shares_them() {
    for (attempts_max, tasks, wanted) in [
        (6, vec![(0, 9), (0, 9), (0, 9)], vec![2, 2, 2]),
        (7, vec![(0, 9), (0, 9), (0, 9)], vec![3, 2, 2]),
        (7, vec![(0, 1), (0, 9), (0, 2)], vec![1, 4, 2]),
        (9, vec![(5, 9), (0, 9)], vec![5, 4]),
        (3, vec![(5, 9), (0, 9)], vec![5, 0]),
        (99, vec![(0, 2), (3, 2)], vec![2, 3]),
        (9, vec![], vec![]),
    ] {
        assert_eq!(shares(attempts_max, &tasks), wanted, "{attempts_max} {tasks:?}");
    }
}

#[test]
fn what_an_observer_is_told_becomes_a_fact() {
    let bookings = Bookings::default();
    for (progress, wanted) in [
        (Progress::Booked { bookings: &bookings }, Some(Fact::Booked(bookings))),
        (Progress::Elsewhere { task: "a", seq: 3 }, Some(step("a", 3, None, Step::Worker))),
        (
            Progress::Retrying { task: "a", seq: 3, why: "503", wait_ms: 7 },
            Some(step("a", 3, None, Step::Retrying { wait_ms: 7 })),
        ),
        (Progress::Unnoted { why: "" }, None),
    ] {
        assert_eq!(Fact::of(&progress), wanted);
    }
}
