//! How the headline case is timed, as data: the operations of one sample and the list of samples.
//!
//! Whoever runs a window performs the operations in their order on one stream and decides nothing.
//! The numbers of the search stage are in [`Window::search`]; what became of the samples is in
//! [`summary`].

use serde::{Deserialize, Serialize};

use crate::limits::{
    COLD_SAMPLES, COLD_SAMPLES_MIN, FOREIGN_CONTENT_EVERY, SAMPLE_CLOCK_SHARE_MIN, WARM_SAMPLES,
    WARM_UP_MS, WINDOW_BUDGET_MS,
};

/// One thing that is done on the stream, or by the host between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Copies the sample's content into the inputs of its buffer set; `prepare` follows.
    Refill,
    /// Fills outputs with poison, and workspaces with what the plan asks for.
    Poison,
    /// Overwrites the shared memory of every SM.
    ScrubShared,
    /// Writes twice the L2 cache and then reads as much of other memory.
    FlushCache,
    /// Holds the stream until everything behind it is queued.
    CloseGate,
    StartEvent,
    /// The plan's steps.
    Plan,
    StopEvent,
    /// A keyed hash of every output.
    HashOutputs,
    OpenGate,
    /// Waits for the stream, and copies outputs out whose hash is new.
    Wait,
}

/// With everything cold: what a claim may be about.
pub const COLD: [Operation; 11] = [
    Operation::Refill,
    Operation::Poison,
    Operation::ScrubShared,
    Operation::FlushCache,
    Operation::CloseGate,
    Operation::StartEvent,
    Operation::Plan,
    Operation::StopEvent,
    Operation::HashOutputs,
    Operation::OpenGate,
    Operation::Wait,
];

/// With what the cache still holds: shown beside it, never instead.
pub const WARM: [Operation; 8] = [
    Operation::Poison,
    Operation::CloseGate,
    Operation::StartEvent,
    Operation::Plan,
    Operation::StopEvent,
    Operation::HashOutputs,
    Operation::OpenGate,
    Operation::Wait,
];

/// One window of timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Buffer sets, each with all inputs, outputs and workspaces; samples rotate among them.
    pub sets: u32,
    /// The plan runs for at least so long before the first sample.
    pub warm_up_ms: u32,
    /// No further sample begins after so long, once the least number is there.
    pub budget_ms: u32,
    pub samples_min: u32,
    pub cold_operations: Vec<Operation>,
    pub cold_samples: Vec<SampleSpec>,
    pub warm_operations: Vec<Operation>,
    pub warm_samples: u32,
    /// Key of the hashes; secret until the window is over.
    pub hash_key: [u64; 2],
}

/// Where a sample runs and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleSpec {
    pub set: u32,
    /// Index of the content; only content 0 is timed, others keep a kernel from knowing what comes.
    pub content: u32,
}

impl Window {
    /// The window of the search stage: `bytes` of all tensors of one set, `l2_bytes` of the card.
    ///
    /// Which set a sample uses follows from `key`, which is drawn for each evaluation.
    #[must_use]
    pub fn search(bytes: u64, l2_bytes: u64, key: [u64; 2]) -> Self {
        let sets = buffer_sets(bytes, l2_bytes);
        let sample = |index: u32| SampleSpec {
            set: (mix(key[0] ^ u64::from(index)) % u64::from(sets)) as u32,
            content: u32::from(index % FOREIGN_CONTENT_EVERY == FOREIGN_CONTENT_EVERY - 1),
        };
        let foreign = COLD_SAMPLES / (FOREIGN_CONTENT_EVERY - 1);
        Self {
            sets,
            warm_up_ms: WARM_UP_MS,
            budget_ms: WINDOW_BUDGET_MS,
            samples_min: COLD_SAMPLES_MIN,
            cold_operations: COLD.to_vec(),
            cold_samples: (0..COLD_SAMPLES + foreign).map(sample).collect(),
            warm_operations: WARM.to_vec(),
            warm_samples: WARM_SAMPLES,
            hash_key: key,
        }
    }
}

/// Sets enough that a set is out of the cache when its turn comes again; two of large tensors.
fn buffer_sets(bytes: u64, l2_bytes: u64) -> u32 {
    let enough = (5 * l2_bytes).div_ceil(bytes.max(1)) + 1;
    enough.clamp(2, 16) as u32
}

/// The finaliser of splitmix64.
fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// One sample as it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    pub content: u32,
    /// Between the two events, in nanoseconds.
    pub elapsed_ns: u64,
    /// SM clock read by the gate, in Hz.
    pub sm_clock_hz: f64,
    /// True when the gate had to open itself: then the host's delays are in the time.
    pub ungated: bool,
    /// Keyed hash of all outputs, see [`combined_hash`].
    pub hash: [u64; 2],
}

/// The key of one output's hash: equal contents of two outputs have different hashes.
#[must_use]
pub fn output_key(key: [u64; 2], output: usize) -> [u64; 2] {
    key.map(|word| mix(word.wrapping_add(output as u64)))
}

/// The hash of all outputs from those of each.
#[must_use]
pub fn combined_hash(hashes: &[[u64; 2]]) -> [u64; 2] {
    hashes
        .iter()
        .fold([0; 2], |sum, hash| [sum[0].wrapping_add(hash[0]), sum[1].wrapping_add(hash[1])])
}

/// Times of one kind, net of the events, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub median_ns: f64,
    pub p10_ns: f64,
    pub p90_ns: f64,
    pub samples: u32,
    /// Samples left out: ungated, on a lower clock, or with an output that nobody verified.
    pub dropped: u32,
}

/// Summarises the samples of content 0 whose outputs were verified.
///
/// A sample whose clock is below 97 % of the median clock is dropped. `None` when nothing is left.
#[must_use]
pub fn summary(
    samples: &[Sample],
    verified: &dyn Fn(&Sample) -> bool,
    event_pair_ns: u64,
) -> Option<Spread> {
    let timed: Vec<&Sample> = samples.iter().filter(|sample| sample.content == 0).collect();
    let clock = median(timed.iter().map(|sample| sample.sm_clock_hz).collect())?;
    let good = timed.iter().filter(|sample| {
        let steady = sample.sm_clock_hz >= SAMPLE_CLOCK_SHARE_MIN * clock;
        steady && !sample.ungated && verified(sample)
    });
    let net = |sample: &&&Sample| sample.elapsed_ns.saturating_sub(event_pair_ns) as f64;
    let mut times: Vec<f64> = good.map(|sample| net(&sample)).collect();
    times.sort_by(f64::total_cmp);
    let count = times.len();
    Some(Spread {
        median_ns: median(times.clone())?,
        p10_ns: percentile(&times, 0.1)?,
        p90_ns: percentile(&times, 0.9)?,
        samples: count as u32,
        dropped: (timed.len() - count) as u32,
    })
}

/// The median, the mean of the two middle values of an even number.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// The value below which a share of the sorted values lies, nearest rank.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::{COLD, Operation, Sample, WARM, Window, buffer_sets, summary};

    fn sample(elapsed_ns: u64, sm_clock_hz: f64) -> Sample {
        Sample { content: 0, elapsed_ns, sm_clock_hz, ungated: false, hash: [elapsed_ns, 0] }
    }

    #[test]
    fn every_sample_is_poisoned_before_and_hashed_after_its_plan() {
        for operations in [&COLD[..], &WARM[..]] {
            let at = |wanted| operations.iter().position(|it| *it == wanted).unwrap();
            assert!(at(Operation::Poison) < at(Operation::CloseGate));
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
    fn a_summary_takes_only_what_is_gated_steady_and_verified() {
        let mut samples: Vec<Sample> = (0..10).map(|i| sample(1100 + i, 1.98e9)).collect();
        samples.push(sample(5000, 1.5e9));
        samples.push(Sample { ungated: true, ..sample(9000, 1.98e9) });
        samples.push(Sample { content: 1, ..sample(1, 1.98e9) });
        let spread = summary(&samples, &|sample| sample.hash[0] != 1109, 100).unwrap();
        assert_eq!((spread.samples, spread.dropped), (9, 3));
        assert_eq!((spread.median_ns, spread.p10_ns, spread.p90_ns), (1004.0, 1001.0, 1007.0));
        assert_eq!(summary(&samples, &|_| false, 100), None);
        assert_eq!(summary(&[], &|_| true, 100), None);
    }
}
