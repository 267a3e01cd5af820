//! Kills at random times and at every named boundary, in a run of 30 tasks: the end is that of a
//! run that nobody disturbed, and the books are the server's.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use store::{Boundary, CallState, Chain};

use super::night::{ANSWER_NUSD, Night, Seen, TASKS, keys};

/// How many kills at random times; without it, as many as CI has time for.
const KILLS: &str = "WARPWRIGHT_CRASH_KILLS";
const KILLS_IN_CI: usize = 25;
/// Where the times of the kills come from.
const KILL_SEED: u64 = 0x005e_ed0f_4b11_1500;
/// The class of a call whose process was killed.
const ABANDONED: &str = "abandoned";
/// The longest life of a process that is to be killed, at first, at least and at most.
const LIFE_MS: [f64; 3] = [500.0, 20.0, 4_000.0];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below_one(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What was in flight at the kills so far.
#[derive(Default)]
struct InFlight {
    keys: BTreeSet<String>,
    calls: usize,
    kills: usize,
}

impl InFlight {
    /// Looks at what a kill left.
    fn note(&mut self, night: &Night) -> Seen {
        let seen = night.look();
        assert!(matches!(seen.chain, Chain::Intact { .. }), "{:?}", seen.chain);
        let sent = keys(&seen.calls, &[CallState::Sent]);
        self.calls += sent.len();
        self.kills += 1;
        self.keys.extend(sent);
        seen
    }
}

#[test]
fn the_end_of_a_killed_night_is_that_of_an_undisturbed_one() {
    let count = std::env::var(KILLS).map_or(KILLS_IN_CI, |text| text.parse().unwrap());
    let started = Instant::now();
    // Beside the other one, to use a second core.
    let undisturbed = Night::new();
    undisturbed.turn_one_away();
    let alone = undisturbed.start(false, None);

    let night = Night::new();
    let mut in_flight = InFlight::default();
    kill_at_each_boundary(&night, &mut in_flight);
    kill_at_random_times(&night, count, &mut in_flight);
    let (status, said) = Night::wait(night.start(true, None));
    assert_eq!(status.code(), Some(0), "{said}");
    let (status, said) = Night::wait(alone);
    assert_eq!(status.code(), Some(0), "{said}");

    assert_eq!(night.end_state(), undisturbed.end_state());
    assert_eq!(night.program.call(&["ledger", "verify"]).code, Some(0));
    eprintln!(
        "{TASKS} tasks, {count} kills at random times from seed {KILL_SEED:#x} ({KILLS} sets how \
         many), {} named boundaries; {:.0} s with the undisturbed run beside it",
        Boundary::ALL.len(),
        started.elapsed().as_secs_f64()
    );
    check_books(&night, &in_flight);
}

fn kill_at_each_boundary(night: &Night, in_flight: &mut InFlight) {
    for (index, boundary) in Boundary::ALL.iter().enumerate() {
        let point = format!("{}:1", boundary.name());
        if *boundary == Boundary::Failed {
            night.turn_one_away();
        }
        let (status, said) = Night::wait(night.start(index > 0, Some(&point)));
        assert_eq!(status.signal(), Some(9), "{point}: {said}");
        in_flight.note(night);
    }
}

/// Lives are drawn so that the work lasts as long as the kills do: longer ones while the run is
/// behind them, shorter ones while it is ahead.
fn kill_at_random_times(night: &Night, count: usize, in_flight: &mut InFlight) {
    let mut random = Random(KILL_SEED);
    let [mut life_ms, least_ms, most_ms] = LIFE_MS;
    for kill in 0..count {
        let mut child = night.start(true, None);
        Night::wait_until_it_goes_on(&mut child);
        let life = Duration::from_secs_f64(random.below_one() * life_ms / 1e3);
        std::thread::sleep(life);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "it ended by itself before kill {kill} of {count}");
        if random.next().is_multiple_of(3) {
            let bytes: Vec<_> = (0..random.next() % 9_000).map(|_| random.next() as u8).collect();
            night.tear_log(&bytes);
        }
        let closed = in_flight.note(night).closed;
        // The last two tasks are left for the end, so that no process gets there before its kill.
        let ahead = closed * count > kill * (TASKS - 4);
        let last = closed + 2 >= TASKS;
        let next_ms = life_ms * if ahead { 0.6 } else { 1.5 };
        life_ms = if last { least_ms } else { next_ms.clamp(least_ms, most_ms) };
    }
}

/// Every request that the server counted is booked, each as its own call; what is booked besides
/// was stored as sent when a kill came before it left.
fn check_books(night: &Night, in_flight: &InFlight) {
    let Seen { calls, closed, .. } = night.look();
    assert_eq!(closed, TASKS);
    let of = |state| keys(&calls, &[state]);
    let (settled, lost) = (of(CallState::Settled), of(CallState::Lost));
    assert_eq!(keys(&calls, &[CallState::Reserved, CallState::Sent]), BTreeSet::new());
    let booked: BTreeSet<_> = settled.union(&lost).cloned().collect();
    let charged = night.charged();
    // Nothing is asked twice under one key.
    assert_eq!(night.charged_count(), charged.len());
    let unbooked: Vec<_> = charged.difference(&booked).collect();
    assert_eq!(unbooked, Vec::<&String>::new());
    let never_left: BTreeSet<_> = booked.difference(&charged).cloned().collect();
    assert!(never_left.is_subset(&in_flight.keys), "{never_left:?}");
    assert_eq!(charged.len() + never_left.len(), settled.len() + lost.len());

    // What no kill lost, the server cut off.
    let by_kills = |call: &&store::CallRow| call.error.as_ref().is_some_and(|it| it.0 == ABANDONED);
    let abandoned: BTreeSet<_> =
        calls.iter().filter(by_kills).map(|call| call.id.to_string()).collect();
    assert!(abandoned.is_subset(&in_flight.keys), "{abandoned:?}");
    assert!(lost.len() <= abandoned.len() + 1, "{lost:?}");
    assert!(abandoned.len() <= in_flight.calls);

    let status = night.program.call(&["status", "@last", "--json"]).closing();
    assert_eq!(status["settled_nusd"], settled.len() as i64 * ANSWER_NUSD);
    let reserved: i64 =
        calls.iter().filter(|it| it.state == CallState::Lost).map(|it| it.reservation.nusd).sum();
    assert_eq!(status["lost_nusd"], reserved);
    let charged_nusd = charged.len() as i64 * ANSWER_NUSD;
    assert!(charged_nusd <= settled.len() as i64 * ANSWER_NUSD + reserved);
    eprintln!(
        "the server counted {}; settled {}, lost {}, of which {} never left; {} calls were in \
         flight at {} kills",
        charged.len(),
        settled.len(),
        lost.len(),
        never_left.len(),
        in_flight.calls,
        in_flight.kills
    );
}
