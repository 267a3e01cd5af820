//! How the headline case is timed, as data: the operations of one sample and the list of samples.
//!
//! Whoever runs a window performs the operations in their order on one stream and decides nothing.
//! The numbers of the search stage are in [`Window::search`]; what became of the samples is in
//! [`summary`].

use serde::{Deserialize, Serialize};

use crate::limits::{
    ACCEPT_WARM_UP_MS, COLD_SAMPLES, COLD_SAMPLES_MIN, FOREIGN_CONTENT_EVERY,
    SAMPLE_CLOCK_SHARE_MIN, SLOW_CLOCK_SHARE_MAX, UNGATED_SHARE_MAX, UNTOUCHED_SETS, WARM_SAMPLES,
    WARM_UP_MS, WINDOW_BUDGET_MS,
};

/// One thing that is done on the stream, or by the host between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Gives the module's variables their first values again, where it has any: nothing that a call
    /// kept there reaches the next one.
    ResetModule,
    /// Copies the sample's content into the inputs of its buffer set. `prepare` runs when only the
    /// weights are there.
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
pub const COLD: [Operation; 12] = [
    Operation::ResetModule,
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
pub const WARM: [Operation; 11] = [
    Operation::ResetModule,
    Operation::Refill,
    Operation::Poison,
    Operation::ScrubShared,
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
    /// Contents are not kept on the device: a refill copies from the host.
    pub masters_on_host: bool,
    /// The plan runs for at least so long before the first sample.
    pub warm_up_ms: u32,
    /// No further sample begins after so long, once the least number of timed ones is there; what
    /// copying out takes does not count.
    pub budget_ms: u32,
    pub samples_min: u32,
    pub cold_operations: Vec<Operation>,
    pub cold_samples: Vec<SampleSpec>,
    pub warm_operations: Vec<Operation>,
    pub warm_samples: u32,
    /// How long the plan repeats afterwards while the card's energy is counted; 0 for not at all.
    pub energy_ms: u32,
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
        let foreign = COLD_SAMPLES / (FOREIGN_CONTENT_EVERY - 1);
        Self {
            sets,
            masters_on_host: false,
            warm_up_ms: WARM_UP_MS,
            budget_ms: WINDOW_BUDGET_MS,
            samples_min: COLD_SAMPLES_MIN,
            cold_operations: COLD.to_vec(),
            cold_samples: (0..COLD_SAMPLES + foreign)
                .map(|index| sample_spec(index, sets, key))
                .collect(),
            warm_operations: WARM.to_vec(),
            warm_samples: WARM_SAMPLES,
            energy_ms: 0,
            hash_key: key,
        }
    }
}

impl Window {
    /// A full window, for a case where one call of the baseline takes `baseline_ns`.
    #[must_use]
    pub fn accept(bytes: u64, l2_bytes: u64, key: [u64; 2], baseline_ns: f64) -> Self {
        let samples = match baseline_ns / 1e6 {
            ms if ms < 10.0 => 50,
            ms if ms < 100.0 => 20,
            _ => 7,
        };
        let short = Self::search(bytes, l2_bytes, key);
        let all = samples + samples / (FOREIGN_CONTENT_EVERY - 1);
        Self {
            warm_up_ms: ACCEPT_WARM_UP_MS,
            budget_ms: u32::MAX,
            samples_min: samples * 4 / 5,
            cold_samples: (0..all).map(|index| sample_spec(index, short.sets, key)).collect(),
            ..short
        }
    }
}

impl Window {
    /// One cold sample, then warm ones whose calls find what the calls before left in the module.
    #[must_use]
    pub fn history(key: [u64; 2], calls: u32) -> Self {
        let short = Self::search(u64::MAX, 0, key);
        let operations = WARM.into_iter().filter(|it| *it != Operation::ResetModule);
        let operations: Vec<_> = operations.collect();
        let cold = [0, 1].map(|content| SampleSpec { set: 0, content });
        Self {
            warm_up_ms: 0,
            budget_ms: u32::MAX,
            samples_min: 1,
            cold_operations: operations.clone(),
            cold_samples: cold.to_vec(),
            warm_operations: operations,
            warm_samples: calls,
            ..short
        }
    }

    /// Cold samples, each on a buffer set that no sample used before.
    #[must_use]
    pub fn untouched(bytes: u64, l2_bytes: u64, key: [u64; 2]) -> Self {
        let short = Self::search(bytes, l2_bytes, key);
        let sets = UNTOUCHED_SETS;
        let own = (0..sets).map(|set| SampleSpec { set, content: 0 });
        // One of the other content, so that it is verified too.
        let other = SampleSpec { set: 0, content: 1 };
        Self { sets, cold_samples: own.chain([other]).collect(), ..short }
    }
}

impl Window {
    /// Cold calls for a profiler, which waits for each launch: nothing holds the stream, and one
    /// call warms up.
    #[must_use]
    pub fn profiled(bytes: u64, l2_bytes: u64, key: [u64; 2], calls: u32) -> Self {
        let short = Self::search(bytes, l2_bytes, key).without_gate();
        let sets = short.sets;
        Self {
            warm_up_ms: 0,
            budget_ms: u32::MAX,
            samples_min: 1,
            cold_samples: (0..calls).map(|at| SampleSpec { set: at % sets, content: 0 }).collect(),
            warm_samples: 0,
            ..short
        }
    }

    /// The same with nothing that holds the stream: the host's delays are in the times then.
    #[must_use]
    pub fn without_gate(mut self) -> Self {
        let of_gate = |it: &Operation| matches!(it, Operation::CloseGate | Operation::OpenGate);
        self.cold_operations.retain(|operation| !of_gate(operation));
        self.warm_operations.retain(|operation| !of_gate(operation));
        self
    }

    /// True where a gate holds the stream until all of a sample is queued.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.cold_operations.contains(&Operation::CloseGate)
    }
}

/// Where sample `index` runs, and on what.
fn sample_spec(index: u32, sets: u32, key: [u64; 2]) -> SampleSpec {
    SampleSpec {
        set: (mix(key[0] ^ u64::from(index)) % u64::from(sets)) as u32,
        content: u32::from(index % FOREIGN_CONTENT_EVERY == FOREIGN_CONTENT_EVERY - 1),
    }
}

/// Fewer buffer sets than this would let a call find what the one before it left in place.
pub(crate) const SETS_MIN: u32 = 2;

/// Sets enough that a set is out of the cache when its turn comes again; two of large tensors.
#[must_use]
pub fn buffer_sets(bytes: u64, l2_bytes: u64) -> u32 {
    let enough = (5 * l2_bytes).div_ceil(bytes.max(1)) + 1;
    enough.clamp(u64::from(SETS_MIN), 16) as u32
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
    /// Samples left out: ungated, or on a lower clock.
    pub dropped: u32,
}

/// Why samples make no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTime {
    #[error("{ungated} of {timed} samples waited for the host")]
    Ungated { ungated: u32, timed: u32 },
    #[error("{slow} of {timed} samples ran on a lower clock")]
    Clock { slow: u32, timed: u32 },
    #[error("{good} samples are left, {least} are needed")]
    TooFew { good: u32, least: u32 },
}

/// Summarises the samples of content 0.
///
/// A sample is dropped whose clock is below 97 % of the median clock, or that the gate did not
/// hold. Where more than a fifth or a tenth of them are, the window is void.
///
/// # Errors
/// Why there is no time.
pub fn summary(samples: &[Sample], least: u32, event_pair_ns: u64) -> Result<Spread, NoTime> {
    let timed: Vec<&Sample> = samples.iter().filter(|sample| sample.content == 0).collect();
    let clock = median(timed.iter().map(|sample| sample.sm_clock_hz).collect()).unwrap_or(0.0);
    let is_slow = |sample: &Sample| sample.sm_clock_hz < SAMPLE_CLOCK_SHARE_MIN * clock;
    let count = |of: &dyn Fn(&Sample) -> bool| timed.iter().filter(|it| of(it)).count() as u32;
    let (ungated, slow, all) = (count(&|it| it.ungated), count(&is_slow), timed.len() as u32);
    if f64::from(ungated) > UNGATED_SHARE_MAX * f64::from(all) {
        return Err(NoTime::Ungated { ungated, timed: all });
    }
    if f64::from(slow) > SLOW_CLOCK_SHARE_MAX * f64::from(all) {
        return Err(NoTime::Clock { slow, timed: all });
    }
    let good = timed.iter().filter(|sample| !sample.ungated && !is_slow(sample));
    let net = |sample: &&&Sample| sample.elapsed_ns.saturating_sub(event_pair_ns) as f64;
    let mut times: Vec<f64> = good.map(|sample| net(&sample)).collect();
    times.sort_by(f64::total_cmp);
    let left = times.len() as u32;
    let too_few = NoTime::TooFew { good: left, least };
    if left < least {
        return Err(too_few);
    }
    Ok(Spread {
        median_ns: median(times.clone()).ok_or(too_few)?,
        p10_ns: percentile(&times, 0.1).ok_or(too_few)?,
        p90_ns: percentile(&times, 0.9).ok_or(too_few)?,
        samples: left,
        dropped: all - left,
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
mod tests;
