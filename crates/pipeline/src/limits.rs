//! Every cap of the pure core in one place.

/// Largest reply that is read, in bytes; a longer one is `Malformed/REPLY`.
pub const REPLY_BYTES_MAX: usize = 512 * 1024;
/// Largest CUDA source, in bytes.
pub const SOURCE_BYTES_MAX: usize = 256 * 1024;
/// Largest launch plan text, in bytes.
pub const PLAN_BYTES_MAX: usize = 64 * 1024;
/// Longest expression in a plan or task, in characters.
pub const EXPRESSION_CHARS_MAX: usize = 256;
/// Instructions that one expression may execute.
pub const EXPRESSION_FUEL: u64 = 2_000;
/// Steps in a plan, `prepare` included.
pub const STEPS_MAX: usize = 32;
/// Arguments of one kernel step.
pub const ARGS_MAX: usize = 32;
/// Workspaces in a plan.
pub const WORKSPACES_MAX: usize = 16;
/// Tensor maps in a plan.
pub const TENSOR_MAPS_MAX: usize = 16;
/// Entries in `domain` and in `constraints`.
pub const CONDITIONS_MAX: usize = 16;
/// Tunables in a plan.
pub const TUNABLES_MAX: usize = 8;
/// Values of one tunable.
pub const TUNABLE_VALUES_MAX: usize = 16;
/// Points of the whole tunable space.
pub const TUNABLE_POINTS_MAX: usize = 4096;
/// Total bytes of all workspaces at one shape.
pub const WORKSPACE_BYTES_MAX: u64 = 16 << 30;
/// Longest kernel name expression, in characters.
pub const KERNEL_NAME_CHARS_MAX: usize = 128;
/// Bytes of module-scope variables a kernel may carry.
pub const STATIC_BYTES_MAX: u64 = 64 << 20;
/// Dimensions, inputs, outputs and scalars of one task, each.
pub const TASK_ITEMS_MAX: usize = 32;
/// Baselines of its own that one task names.
pub const BASELINES_MAX: usize = 8;
/// Longest name of such a baseline, in characters.
pub const BASELINE_NAME_CHARS_MAX: usize = 40;
/// Cases of one task.
pub const CASES_MAX: usize = 64;
/// Cases of one task that run on the simulator, all in one process.
pub const SIM_CASES_MAX: usize = 15;
/// Largest extent of one dimension.
pub const EXTENT_MAX: i64 = 1 << 40;
/// Largest tensor, in bytes.
pub const TENSOR_BYTES_MAX: u64 = 64 << 30;
/// Wrong elements that a check reports.
pub const WRONG_ELEMENTS_MAX: usize = 8;
/// A survey leaves alone what takes less than this many times its floor.
pub const NOTHING_TO_GAIN: f64 = 1.05;
/// Elements from which the norm of the error is a matter of statistics, not of single elements.
pub const NORM_ELEMENTS_MIN: u64 = 1024;
/// Share of the elements' tolerances that the norm-wise error may reach where it is not what tells
/// classes apart.
pub(crate) const NORM_TOLERANCE_SHARE: f64 = 0.25;
/// Norm-wise error that operands rounded to bf16 give at most, and the largest error of an element
/// in tolerances of fp32: 2^-8 over 2^-24.
pub(crate) const ROUNDED_NORM_MAX: f64 = 6e-3;
pub(crate) const ROUNDED_RATIO_MAX: f64 = 65_536.0;
/// Declared fast algorithms: how far an element may be off beside the largest bound of its output,
/// 64 where the direct product has 4, and the norm-wise limit.
pub(crate) const FAST_ALGORITHM_BOUND: f64 = 16.0;
pub(crate) const FAST_ALGORITHM_NORM: f64 = 5e-5;
/// Elements that one thread compares at a time.
pub(crate) const CHECK_PART_ELEMENTS: usize = 1 << 16;
/// Diagnostics kept of one build.
pub const DIAGNOSTICS_MAX: usize = 24;
/// Diagnostics shown to the model.
pub const DIAGNOSTICS_SHOWN_MAX: usize = 8;
/// Longest single message that is kept or shown, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1_000;
/// Findings of the simulator that are kept for one case.
pub const FINDINGS_MAX: usize = 16;
/// Findings shown to the model.
pub const FINDINGS_SHOWN_MAX: usize = 4;
/// Earlier attempts that the digest in a prompt lists.
pub const HISTORY_LINES_MAX: usize = 12;
/// What such a line says of the verdict's detail, in bytes.
pub(crate) const HISTORY_DETAIL_BYTES_MAX: usize = 200;
/// Largest kernel source shown in a prompt, in bytes. All pieces together stay below
/// [`PROMPT_BYTES_MAX`].
pub const PROMPT_SOURCE_BYTES_MAX: usize = 96 * 1024;
/// Largest reference source shown in a prompt, in bytes.
pub const PROMPT_REFERENCE_BYTES_MAX: usize = 32 * 1024;
/// Largest plan shown in a prompt, in bytes.
pub const PROMPT_PLAN_BYTES_MAX: usize = 24 * 1024;
/// Largest reply excerpt shown in a prompt, in bytes.
pub const PROMPT_EXCERPT_BYTES_MAX: usize = 2_000;
/// Backticks in a row that a fence has room for; more are counted instead of shown.
pub const BACKTICKS_MAX: usize = 16;
/// Longest text that is kept private, and how many of them.
pub const PRIVATE_BYTES_MAX: usize = 4096;
pub const PRIVATE_TEXTS_MAX: usize = 256;
/// How far back somebody looks for where a path begins, in bytes; what goes on for longer counts as
/// one.
pub(crate) const PATH_RUN_BYTES_MAX: usize = 256;
/// Passes of a scrubber over one text, after which nothing of it is left.
pub(crate) const SCRUB_PASSES_MAX: u32 = 16;
/// Longest private key in PEM, in bytes.
pub(crate) const PEM_BYTES_MAX: usize = 16 * 1024;
/// Longest hint of a person, in bytes, and how many one prompt shows.
pub const HINT_BYTES_MAX: usize = 2_000;
pub const HINTS_SHOWN_MAX: usize = 4;
/// Longest sentence about a task that a prompt shows, in bytes.
pub const PROMPT_ABOUT_BYTES_MAX: usize = 1_000;
/// Largest rendered prompt, in bytes.
pub const PROMPT_BYTES_MAX: usize = 256 * 1024;
/// Instructions that rendering one template may execute.
pub const TEMPLATE_FUEL: u64 = 200_000;
/// Output tokens below which a question is not worth asking: a kernel with its plan needs them.
pub const OUTPUT_TOKENS_MIN: u64 = 4_000;
/// Time that must be left of a run before another question is asked, in milliseconds.
pub const CALL_ROOM_MS: i64 = 60_000;
/// Tasks of one run.
pub const RUN_TASKS_MAX: usize = 1_000;
/// What a verdict quotes of a refusal, in bytes.
pub const REFUSAL_BYTES_MAX: usize = 300;
/// Repairs of one candidate in a row before the search goes back to the best.
pub const REPAIRS_IN_A_ROW_MAX: u32 = 4;
/// Failed promotes that a lineage may have before the search leaves it.
pub const STRIKES: u32 = 3;
/// Longest line of a transcript, in bytes.
pub const TRANSCRIPT_LINE_BYTES_MAX: usize = 2 << 20;
/// Largest token count or latency (in milliseconds) that a transcript may record.
pub const RECORDED_COUNT_MAX: u64 = 1_000_000_000_000;
/// Entries of a transcript.
pub const TRANSCRIPT_ENTRIES_MAX: usize = 100_000;
/// Longest diagnosis note in a plan, in characters.
pub const DIAGNOSIS_CHARS_MAX: usize = 200;

/// Timed samples of the search stage with a cold cache.
pub const COLD_SAMPLES: u32 = 30;
/// Samples below which a window has no time.
pub const COLD_SAMPLES_MIN: u32 = 5;
/// Samples of the search stage with a warm cache.
pub const WARM_SAMPLES: u32 = 10;
/// Buffer sets of a window in which each is used once.
pub const UNTOUCHED_SETS: u32 = 12;
/// One sample of so many runs on other content and is not timed.
pub const FOREIGN_CONTENT_EVERY: u32 = 4;
/// How long a plan runs before its first sample, in milliseconds.
pub const WARM_UP_MS: u32 = 100;
/// The same before a window of an acceptance.
pub const ACCEPT_WARM_UP_MS: u32 = 500;
/// How long a plan repeats at least while its energy is counted, and how many times as long it may
/// take until the counter has moved, in milliseconds.
pub const ENERGY_MS: u32 = 200;
pub const ENERGY_PATIENCE: u32 = 5;
/// How long the samples of the search stage may take, in milliseconds.
pub const WINDOW_BUDGET_MS: u32 = 400;
/// Share of the median clock below which a sample is dropped.
pub const SAMPLE_CLOCK_SHARE_MIN: f64 = 0.97;

/// Share of samples that may wait for the host, and share that may run on a lower clock, before a
/// window is void.
pub const UNGATED_SHARE_MAX: f64 = 0.1;
pub const SLOW_CLOCK_SHARE_MAX: f64 = 0.2;
/// Times below this are hardly longer than what the events themselves take, in nanoseconds.
pub const SHORT_TIME_NS: f64 = 20_000.0;

/// Rounds of a comparison: the fewest that say something, and the most that are run.
pub const ROUNDS_MIN: u32 = 7;
pub const ROUNDS_MAX: u32 = 15;
/// Baselines whose pilot is within this factor of the fastest enter the rounds.
pub const JOINING_SHARE_MAX: f64 = 1.05;
/// How often a baseline's pilot is taken at most while it is void.
pub const PILOT_TRIES_MAX: usize = 3;
/// A speed-up above this is claimed only when a sanitizer watched the kernel.
pub const AUDITED_RATIO_MIN: f64 = 10.0;
/// What the tensors of a hidden shape may take that is not there for its size, in bytes.
pub(crate) const HIDDEN_BYTES_USUAL_MAX: u64 = 8 << 20;
/// What doubling the work must change a memory-bound time by, and the ratio of work from which
/// two sizes say something.
pub const GROWTH_MIN: f64 = 1.3;
pub const WORK_RATIO_MIN: f64 = 1.5;
/// What no multiprocessor has more of, what registers of a thread come in, and what the system
/// takes of shared memory for each block, in bytes: NVIDIA's occupancy tables.
pub(crate) const BLOCKS_PER_SM_MAX: u64 = 32;
pub(crate) const REGISTER_GRAIN: u64 = 8;
pub(crate) const SHARED_RESERVED_BYTES: u64 = 1024;
/// Tries to draw a hidden shape inside a plan's domain, and distinct shapes below which the domain
/// counts as fixed.
pub const HIDDEN_TRIES_MAX: u32 = 10_000;
pub const HIDDEN_SHAPES_MIN: usize = 3;
/// Tries to draw a shape beyond 2^31, and what the extents of half of them are multiples of.
pub const BIG_TRIES_MAX: u32 = 1_000;
pub const BIG_ALIGNED_EXTENT: i64 = 256;

/// Longest word that is left out where a cut would leave its first half, in bytes.
const CUT_WORD_BYTES_MAX: usize = 256;

/// Cuts `text` to at most `bytes_max` bytes and says how much was cut. The word next to the cut
/// goes too: half a key is none that anybody would know, and is worth something.
#[must_use]
pub fn capped(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.+/=~".contains(c);
    let mut end = text.floor_char_boundary(bytes_max);
    let word = text[..end].trim_end_matches(is_word).len();
    if text[end..].starts_with(is_word) && end - word <= CUT_WORD_BYTES_MAX {
        end = text[..word].trim_end_matches(' ').len();
    }
    format!("{} … [{} bytes cut]", &text[..end], text.len() - end)
}
/// Lengths of answers that are remembered for each mode, and how many say enough about the next.
pub(crate) const COMPLETIONS_KEPT: usize = 256;
pub(crate) const COMPLETIONS_MIN: usize = 20;
/// Failures of a model in a row that open its breaker, and those that may have cost something.
pub const BREAKER_FAILURES: u32 = 8;
pub const BREAKER_PAID_FAILURES: u32 = 3;
/// How long a breaker stays open at first, in milliseconds; doubled for each call that tried in
/// vain, up to the second.
pub const BREAKER_WAIT_MS: u64 = 5_000;
pub const BREAKER_WAIT_MS_MAX: u64 = 300_000;
/// Tries in vain before a model that never answered is given up.
pub const TRIES_AT_FIRST_MAX: u32 = 5;
/// Wait that a model may ask for before it has ever answered, in milliseconds.
pub const WANTED_WAIT_AT_FIRST_MS_MAX: u64 = 900_001;
/// Tries in vain that may have cost something before a model is given up.
pub const PAID_TRIES_MAX: u32 = 3;
/// Longest outage of a model that has answered before it is given up, in milliseconds.
pub const OUTAGE_MS_MAX: u64 = 6 * 3_600_000;
/// Wait after the first failure of a question, in milliseconds; doubled after each further one.
pub const RETRY_WAIT_MS: u64 = 500;
/// The same where the failure may have cost something; quadrupled after each further one.
pub const PAID_RETRY_WAIT_MS: u64 = 4_000;
/// Longest wait between two tries that the provider did not ask for, in milliseconds.
pub const RETRY_WAIT_MS_MAX: u64 = 120_000;
/// Attempts that every task of a run gets before money moves to where it gains most.
pub const START_ATTEMPTS: u32 = 4;
/// Latest attempts of a task that say what an improvement costs.
pub const RECENT_ATTEMPTS: usize = 8;
/// Share of the floor from which a measured kernel leaves nothing to gain.
pub const SPEED_OF_LIGHT: f64 = 0.95;
/// What a call is assumed to answer, how long it is assumed to take, and how many bytes of a prompt
/// are assumed to make a token, until calls were seen.
pub const ASSUMED_OUTPUT_TOKENS: u64 = 8_000;
pub const ASSUMED_LATENCY_MS: u64 = 60_000;
pub const INPUT_BYTES_PER_TOKEN: u64 = 4;
/// What a look at a best kernel is assumed to take until some were seen, in milliseconds: one round
/// beside a baseline, and the full protocol with PyTorch (131 and 133 s were measured, and 85 s
/// without PyTorch: docs/measurements/h200-judge.md).
pub const MEASUREMENT_MS: i64 = 60_000;
pub const ACCEPTANCE_MS: i64 = 135_000;
/// What `task check` is assumed to take, which comes before the first acceptance at a task.
pub const TASK_CHECK_MS: i64 = 60_000;
/// How many of the latest looks say what the next costs, and the longest time between two stored
/// steps in which somebody worked, in milliseconds.
pub const CLOSING_COSTS_SEEN: usize = 4;
pub const CLOSING_GAP_MS_MAX: i64 = 300_000;
/// The part of a run's time (one over this) that may be set aside for such looks.
pub const CLOSING_SHARE_MAX: i64 = 2;
/// Acceptances of one program in a day that end for noise: the best of many tries would be luck.
pub const ACCEPTANCE_TRIES_A_DAY_MAX: usize = 2;
/// A day, in microseconds.
pub const DAY_US: i64 = 86_400_000_000;
/// Time on a card that an evaluation is reserved, in microseconds: of the search, as long as the
/// process of a candidate may take; of a promote, which has several, twice that; of a step of an
/// acceptance, as long as a window of a baseline may take.
pub const SEARCH_CARD_US: u64 = 60_000_000;
pub const PROMOTE_CARD_US: u64 = 120_000_000;
pub const STEP_CARD_US: u64 = 120_000_000;
/// Time on cards that is set aside for measuring the best kernel of one task beside a baseline.
pub const MEASURING_CARD_US: u64 = 60_000_000;
/// Time that it takes to end an evaluation which is about to overrun its reservation.
pub const CARD_GRACE_US: u64 = 2_000_000;

#[cfg(test)]
mod tests {
    use super::capped;

    #[test]
    fn cuts_at_a_character_border_and_says_how_much() {
        assert_eq!(capped("kernel", 10), "kernel");
        assert_eq!(capped("äöü", 3), "ä … [4 bytes cut]");
        assert_eq!(capped("key sk-0123456789", 12), "key … [14 bytes cut]");
        assert_eq!(capped("key sk-0123 456789", 11), "key sk-0123 … [7 bytes cut]");
        assert_eq!(capped(&"x".repeat(400), 300), format!("{} … [100 bytes cut]", "x".repeat(300)));
    }
}
