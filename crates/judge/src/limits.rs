//! Every cap of the judge in one place.

use std::time::Duration;

use sandbox::ChildLimits;

/// Master seeds per public case.
pub(crate) const POOL_MASTERS: u64 = 4;
/// Evaluations after which the pool is renewed.
pub(crate) const POOL_EVALUATIONS: u64 = 64;
/// Room for the PTX and for the cubin of one build, in bytes each.
pub(crate) const IMAGE_BYTES_MAX: usize = 16 << 20;
/// Sealed inputs and expected outputs that are kept, in bytes, unless a judge is told otherwise.
pub(crate) const CASE_CACHE_BYTES_MAX: u64 = 512 << 20;
/// Cases that are kept at most, and of how many descriptors that this process may have one is kept:
/// a case has two, and as many again may be on their way to children.
pub(crate) const CASE_CACHE_ENTRIES_MAX: u64 = 4096;
pub(crate) const CASE_FILES: u64 = 8;
/// Compiled references that are kept.
pub(crate) const REFERENCE_BUILDS_MAX: usize = 64;
/// Warp instructions that one launch of a candidate may execute on the simulator.
pub(crate) const CANDIDATE_LAUNCH_BUDGET: u64 = 100_000_000;
/// The same for a reference.
pub(crate) const REFERENCE_LAUNCH_BUDGET: u64 = 400_000_000;
/// Runs of a candidate's child that somebody may kill before the evaluation is given up.
pub(crate) const CANDIDATE_TRIES_MAX: u32 = 3;
/// How many times its processor time a child on the simulator may take by the clock: more than that
/// says that others have the processors, and nothing of the kernel.
pub(crate) const SIMULATED_WALL_FACTOR: u32 = 4;
/// Runs on the simulator, and of the compiler, that may end so before that is said.
pub(crate) const BUSY_TRIES_MAX: u32 = 2;
/// Share of the compulsory bytes that a counted headline must move to be ranked; what is missing
/// covers sampling.
pub(crate) const BYTES_SHARE_MIN: f64 = 0.9;
/// Share of the task's own operation count that a direct fp32 kernel must execute to be ranked; the
/// task counts functions such as `exp` roughly.
pub(crate) const FLOPS_SHARE_MIN: f64 = 0.4;
/// The same for a product, whose operations are counted exactly, but for a last term or two.
pub(crate) const PRODUCT_SHARE_MIN: f64 = 0.95;
/// Elements of a tensor that one thread draws at a time.
pub(crate) const DRAW_ELEMENTS: usize = 1 << 16;
/// Tensors of one run start at a multiple of this, in bytes.
pub(crate) const TENSOR_ALIGN: u64 = 4096;

/// Hidden shapes of a promote, and what the tensors of one may take, in bytes.
pub(crate) const PROMOTE_SHAPES: usize = 4;
pub(crate) const HIDDEN_BYTES_GPU: u64 = 64 << 20;
pub(crate) const HIDDEN_BYTES_SIM: u64 = 128 << 10;
/// Relations between calls that a promote tries.
pub(crate) const PROMOTE_RELATIONS: usize = 1;
/// Hidden shapes of an acceptance, and distributions at each.
pub(crate) const ACCEPT_SHAPES: usize = 6;
pub(crate) const ACCEPT_DISTRIBUTIONS: usize = 6;
/// Groups of runs that look for races, and the runs of each, a memfd a run. The simulator has no
/// timed samples, hundreds of which are verified on a GPU, and makes up for them: what fails in one
/// run of a hundred shows there in 99 of a hundred acceptances too.
pub(crate) const RACES_GPU: [usize; 2] = [2, 20];
pub(crate) const RACES_SIM: [usize; 2] = [10, 40];
/// How long a window of a baseline may take, compiling it included.
pub(crate) const BASELINE_DEADLINE: Duration = Duration::from_secs(120);
/// Share of the tolerance that two runs on equal inputs may be apart.
pub(crate) const SPREAD_SHARE_MAX: f64 = 0.5;
/// A source is compiled again this long after the first time: `__TIME__` has changed by then.
pub(crate) const REBUILD_WAIT: Duration = Duration::from_secs(2);
/// How much faster than the incumbent a candidate must be beside it.
pub(crate) const SIDE_BY_SIDE_TIE: f64 = 0.01;
/// Log of how much faster than without its trick a kernel may be that must gain nothing by it, and
/// how often that is timed when a window gives no time.
pub(crate) const GAIN_MAX: f64 = 0.03;
pub(crate) const GAIN_TRIES_MAX: u32 = 3;

/// Room behind buffers where a test wants to see a write beside them succeed, in bytes.
pub(crate) const SLACK_BYTES: u64 = 80 << 20;

/// Contents that one child of a reference computes, and bytes of the tensors of each; larger ones
/// have a child of their own.
pub(crate) const BATCHED_RUNS_MAX: usize = 12;
pub(crate) const BATCHED_BYTES_MAX: u64 = 80 << 20;
/// How long the kernels of a reference may take on a GPU, in milliseconds.
pub(crate) const REFERENCE_LAUNCH_DEADLINE_MS: u64 = 60_000;
/// Above so many bytes or elements of one tensor, 32-bit arithmetic with a sign goes wrong.
pub(crate) const BIG_ABOVE: u64 = 1 << 31;
/// How many times the floor of a big case a launch may take before a hang there is the kernel's.
pub(crate) const OVERDUE_RATIO: f64 = 100.0;
/// Contents of a window: one is timed, the other keeps a kernel from knowing what comes.
pub(crate) const CONTENTS: usize = 2;
/// Expected values that the host holds at once where they come in tiles, in bytes.
pub(crate) const TILE_BYTES: u64 = 256 << 20;
/// What allocations of a GPU are multiples of, and those of the simulator, in bytes.
pub(crate) const DEVICE_GRAIN: u64 = 2 << 20;
pub(crate) const SIMULATED_GRAIN: u64 = 256;
/// Device memory of the simulator, in bytes: what the runner gives it at most.
pub(crate) const SIMULATED_BYTES_MAX: u64 = 4 << 30;
/// Memory that is left to modules, contexts and whatever else runs, in bytes.
pub(crate) const DEVICE_SPARE_BYTES: u64 = 1 << 30;
pub(crate) const HOST_SPARE_BYTES: u64 = 1 << 30;
/// Room for outputs that a window copies out, in bytes.
pub(crate) const SLOTS_BYTES_MAX: u64 = 4 << 30;
/// Outputs that a window copies out.
pub(crate) const SLOTS_MAX: u32 = 64;
/// Words in the driver's reasons for a lower clock that are events, not a steady state.
pub(crate) const THROTTLE_EVENTS: [&str; 3] = ["thermal", "hw_slowdown", "power_brake"];
/// Tries on a card that works and yet could not serve, and the first wait between them.
pub(crate) const CARD_TRIES_MAX: u32 = 4;
pub(crate) const CARD_WAIT: Duration = Duration::from_secs(3);
/// How often a wait for a GPU looks whether another process gave it back.
pub(crate) const LEASE_POLL: Duration = Duration::from_millis(50);
/// Probes of a card in trouble before it is parked, and the wait before another one.
pub(crate) const HEALTH_TRIES_MAX: u32 = 3;
pub(crate) const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// When a card that is out of service is looked at again, doubled after each look in vain up to the
/// second; and how long anybody waits for one where there is no other.
pub(crate) const PARKED_LOOK: Duration = Duration::from_secs(60);
pub(crate) const PARKED_LOOK_MAX: Duration = Duration::from_secs(600);
pub(crate) const PARKED_MAX: Duration = Duration::from_secs(3_600);
/// How often such a wait looks whether the time has come.
pub(crate) const PARKED_POLL: Duration = Duration::from_secs(1);
/// Memory in which a probe leaves a pattern for another one to look for, in bytes: all that is free
/// but for a small rest.
pub(crate) const PATTERN_BYTES: u64 = u64::MAX;
/// How long a Python may take to import PyTorch.
pub(crate) const PYTHON_START: Duration = Duration::from_secs(180);
/// Limits of PyTorch's server and of each of its windows, which have deadlines besides: generous,
/// since compilers run in them.
pub(crate) const PYTHON_LIMITS: ChildLimits = ChildLimits {
    deadline: PYTHON_START,
    cpu_s: 24 * 3600,
    data_bytes: 64 << 30,
    file_bytes: 8 << 30,
    open_files: 4096,
};
/// Longest path of a Python, in bytes.
pub(crate) const PYTHON_ANSWER_BYTES_MAX: usize = 4096;
/// Folders that an interpreter may name as its own.
pub(crate) const PYTHON_FOLDERS_MAX: usize = 32;
/// Limits of a probe's child.
pub(crate) const PROBE_LIMITS: ChildLimits = ChildLimits {
    deadline: Duration::from_secs(60),
    cpu_s: 60,
    data_bytes: 8 << 30,
    file_bytes: 1 << 20,
    open_files: 128,
};
/// Limits of the compiler's child.
pub(crate) const BUILD_LIMITS: ChildLimits = ChildLimits {
    deadline: Duration::from_secs(60),
    cpu_s: 20,
    data_bytes: 4 << 30,
    file_bytes: 64 << 20,
    open_files: 128,
};
/// Limits of the reference's child.
pub(crate) const REFERENCE_LIMITS: ChildLimits = ChildLimits {
    deadline: Duration::from_secs(120),
    cpu_s: 120,
    data_bytes: 8 << 30,
    file_bytes: 4 << 30,
    open_files: 128,
};
/// Limits of the reference's child where it also compares, with as many threads as there are.
pub(crate) const TILES_LIMITS: ChildLimits = ChildLimits {
    deadline: Duration::from_secs(240),
    cpu_s: 1_800,
    data_bytes: 8 << 30,
    file_bytes: 1 << 20,
    open_files: 128,
};
/// Limits of the candidate's child.
pub(crate) const CANDIDATE_LIMITS: ChildLimits = ChildLimits {
    deadline: Duration::from_secs(60),
    cpu_s: 60,
    data_bytes: 8 << 30,
    file_bytes: 4 << 30,
    open_files: 128,
};
/// Limits of the candidate's child while a tool watches it.
pub(crate) const WATCHED_LIMITS: ChildLimits = ChildLimits {
    deadline: Duration::from_secs(90),
    cpu_s: 180,
    data_bytes: 32 << 30,
    file_bytes: 4 << 30,
    open_files: 1024,
};
/// Calls that a profiler times, the fewest that say something, and launches of all of them: its
/// lines must fit into what is kept of a child's standard error.
pub(crate) const PROFILED_CALLS: u32 = 16;
pub(crate) const PROFILED_CALLS_MIN: u32 = 3;
pub(crate) const PROFILED_LAUNCHES_MAX: u32 = 96;
/// How far an accepted time may be from the profiler's, as a share, and how long a stream may wait
/// between two launches of a call, in nanoseconds.
pub(crate) const PROFILER_TOLERANCE: f64 = 0.05;
pub(crate) const LAUNCH_GAP_NS: f64 = 2_000.0;
/// Calls of a window that looks for a history, and how far the first may be from the last.
pub(crate) const HISTORY_CALLS: u32 = 60;
pub(crate) const HISTORY_RATIO_MAX: f64 = 2.0;
/// How much longer fresh memory may take.
pub(crate) const EVICTION_TIE: f64 = 0.03;
/// The card's rest between two windows of a pair.
pub(crate) const PAIR_GAP: Duration = Duration::from_millis(200);
/// Limits of the comparison's child.
pub(crate) const VERIFY_LIMITS: ChildLimits = ChildLimits {
    deadline: Duration::from_secs(300),
    cpu_s: 1_800,
    data_bytes: 1 << 30,
    file_bytes: 1 << 20,
    open_files: 128,
};
/// Elements of one output that a simulation names, of each kind.
pub(crate) const ELEMENTS_NAMED_MAX: usize = 8;
/// Bytes of each input tensor that its digest is made of; a multiple of every element's size.
pub(crate) const INPUT_DIGEST_BYTES_MAX: u64 = 1 << 20;
