use super::{COLD, NoTime, Operation, Sample, WARM, Window, buffer_sets, summary};

fn sample(elapsed_ns: u64, sm_clock_hz: f64) -> Sample {
    Sample { content: 0, elapsed_ns, sm_clock_hz, ungated: false, hash: [elapsed_ns, 0] }
}

#[test]
fn every_sample_is_poisoned_before_and_hashed_after_its_plan() {
    for operations in [&COLD[..], &WARM[..]] {
        let at = |wanted| operations.iter().position(|it| *it == wanted).unwrap();
        assert_eq!(at(Operation::ResetModule), 0, "nothing of the last call is left");
        assert!(at(Operation::Refill) < at(Operation::Poison));
        assert!(at(Operation::Poison) < at(Operation::CloseGate));
        assert!(at(Operation::ScrubShared) < at(Operation::CloseGate));
        assert!(at(Operation::CloseGate) < at(Operation::StartEvent));
        assert_eq!(at(Operation::StartEvent) + 1, at(Operation::Plan));
        assert_eq!(at(Operation::Plan) + 1, at(Operation::StopEvent));
        assert!(at(Operation::StopEvent) < at(Operation::HashOutputs));
        assert!(at(Operation::HashOutputs) < at(Operation::OpenGate));
        assert_eq!(at(Operation::Wait), operations.len() - 1);
    }
    let flush = COLD.iter().position(|it| *it == Operation::FlushCache).unwrap();
    assert_eq!(COLD[flush + 1], Operation::CloseGate, "nothing fills the cache after it");
}

#[test]
fn a_window_without_a_gate_is_the_same_but_for_the_gate() {
    let window = Window::search(1 << 30, 60 << 20, [7, 9]);
    let open = window.clone().without_gate();
    assert!(window.is_gated() && !open.is_gated());
    assert_eq!(open.cold_operations.len() + 2, COLD.len());
    assert_eq!(open.warm_operations.len() + 2, WARM.len());
    let flush = open.cold_operations.iter().position(|it| *it == Operation::FlushCache);
    assert_eq!(open.cold_operations[flush.unwrap() + 1], Operation::StartEvent);
    assert_eq!(open.cold_samples, window.cold_samples);
}

#[test]
fn a_window_rotates_sets_and_mixes_in_other_content() {
    let window = Window::search(1 << 30, 60 << 20, [7, 9]);
    assert_eq!(window.sets, 2);
    let timed = window.cold_samples.iter().filter(|it| it.content == 0).count();
    assert_eq!((timed, window.cold_samples.len()), (30, 40));
    for set in 0..2 {
        assert!(window.cold_samples.iter().any(|it| it.set == set && it.content == 0));
    }
    assert_ne!(window.cold_samples, Window::search(1 << 30, 60 << 20, [8, 9]).cold_samples);
    assert_eq!([1 << 20, 1 << 26, 1 << 40].map(|it| buffer_sets(it, 60 << 20)), [16, 6, 2]);
}

#[test]
fn a_summary_leaves_out_what_is_ungated_or_slow() {
    let mut samples: Vec<Sample> = (0..18).map(|i| sample(1100 + i, 1.98e9)).collect();
    samples.push(sample(5000, 1.5e9));
    samples.push(Sample { ungated: true, ..sample(9000, 1.98e9) });
    samples.push(Sample { content: 1, ..sample(1, 1.98e9) });
    let spread = summary(&samples, 5, 100).unwrap();
    assert_eq!((spread.samples, spread.dropped), (18, 2));
    assert_eq!((spread.median_ns, spread.p10_ns, spread.p90_ns), (1008.5, 1002.0, 1015.0));
}

#[test]
fn a_window_with_too_many_bad_samples_is_void() {
    let good = || (0..20).map(|i| sample(1100 + i, 1.98e9)).collect::<Vec<_>>();
    let mut ungated = good();
    ungated[..3].iter_mut().for_each(|sample| sample.ungated = true);
    let mut slow = good();
    slow[..5].iter_mut().for_each(|sample| sample.sm_clock_hz = 1.4e9);
    let few: Vec<Sample> = good().into_iter().take(4).collect();
    for (samples, why) in [
        (ungated, NoTime::Ungated { ungated: 3, timed: 20 }),
        (slow, NoTime::Clock { slow: 5, timed: 20 }),
        (few, NoTime::TooFew { good: 4, least: 5 }),
        (Vec::new(), NoTime::TooFew { good: 0, least: 5 }),
    ] {
        assert_eq!(summary(&samples, 5, 100), Err(why));
    }
}

#[test]
fn the_least_number_of_timed_samples_is_reached_by_the_real_list() {
    let window = Window::search(1 << 30, 60 << 20, [7, 9]);
    let timed = window.cold_samples.iter().filter(|it| it.content == 0);
    assert!(timed.count() as u32 >= window.samples_min);
    assert!(window.cold_samples.iter().any(|it| it.content == 1));
}
