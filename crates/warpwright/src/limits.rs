//! Every cap of the program in one place.

/// How long a panic may take to be told.
pub(crate) const PANIC_SECONDS: u32 = 10;
/// Threads that run tasks; what takes long is done by others.
pub(crate) const WORKER_THREADS: usize = 2;
/// Threads that judge, build and wait; further work waits for one of them.
pub(crate) const BLOCKING_THREADS_MAX: usize = 256;
/// Threads without which a run may stand still: those above, the ledger's connections, some that
/// judge, and as many again.
pub(crate) const THREADS_MIN: usize = 32;
/// Memory that one thread takes: its stack, the one for signals, and their guards.
pub(crate) const THREAD_BYTES: u64 = (2 << 20) + (64 << 10);
/// Largest task file that is read, in bytes.
pub(crate) const TASK_FILE_BYTES_MAX: u64 = 4 << 20;
/// Files of one task folder.
pub(crate) const TASK_FILES_MAX: usize = 256;
/// Largest prompt file that is read, in bytes.
pub(crate) const PROMPT_FILE_BYTES_MAX: u64 = 256 << 10;
/// Largest settings or run file that is read, in bytes.
pub(crate) const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// Largest key file that is read, in bytes.
pub(crate) const KEY_BYTES_MAX: u64 = 64 << 10;
/// Longest reason and longest name that go with a decision, in bytes.
pub(crate) const REASON_BYTES_MAX: usize = 1_000;
pub(crate) const REVIEWER_BYTES_MAX: usize = 100;
/// Kernels that one call of `evaluate` judges.
pub(crate) const KERNELS_MAX: u32 = 100_000;
/// Longest line of JSON with a kernel, in bytes: a reply with every character escaped.
pub(crate) const KERNEL_LINE_BYTES_MAX: usize = 4 << 20;
/// Runs that `status` lists.
pub(crate) const RUNS_LISTED_MAX: usize = 30;
/// Tasks of which each has a live line of its own; with more, only the one in hand has.
pub(crate) const LIVE_TASKS_MAX: usize = 8;
/// Longest time between two drawings of the live lines, in milliseconds.
pub(crate) const LIVE_TICK_MS: u64 = 250;
/// Longest line of a table, in characters, before its last column is cut.
pub(crate) const LINE_CHARS_MAX: usize = 160;
/// Warp instructions that a person may grant one simulated launch.
pub(crate) const SIMULATED_LAUNCH_BUDGET_MAX: u64 = 100_000_000_000;
/// Seconds that a person may grant a simulation.
pub(crate) const SIMULATED_DEADLINE_S_MAX: u64 = 24 * 3600;
/// Bytes of all buffers of a simulation together.
pub(crate) const SIMULATED_BYTES_MAX: u64 = 1 << 30;
/// Buffers and scalars that a simulation may be given.
pub(crate) const SIMULATED_ARGUMENTS_MAX: usize = 64;
/// Elements of a buffer that are printed.
pub(crate) const PRINTED_ELEMENTS_MAX: u64 = 1 << 16;
/// Longest header of a .npy file, in bytes.
pub(crate) const NPY_HEADER_BYTES_MAX: usize = 1 << 16;
/// Sealed inputs and expected outputs kept in memory for a GPU, in bytes: at least and at most.
pub(crate) const CASE_CACHE_BYTES_MIN: u64 = 1 << 30;
pub(crate) const CASE_CACHE_BYTES_MAX: u64 = 16 << 30;
/// Longest file of the self-test's rows, in bytes.
pub(crate) const SELFTEST_ROWS_BYTES_MAX: u64 = 16 << 20;
/// Longest answer of a PyTorch program that is read, in bytes.
pub(crate) const LOAD_INLINE_OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Longest wait for Python to say its version or to parse a file, in milliseconds.
pub(crate) const PYTHON_DEADLINE_MS: u64 = 20_000;
/// Longest page of the profiler that is read, in bytes.
pub(crate) const PROFILER_OUTPUT_BYTES_MAX: usize = 16 << 20;
/// Longest hardware sheet that is read, in bytes.
pub(crate) const SHEET_BYTES_MAX: u64 = 64 << 10;
/// Newest runs on one device in which a new run looks for kernels to start from.
pub(crate) const RUNS_SEARCHED_MAX: usize = 50;
/// Attempts of one run that are under way at once.
pub(crate) const IN_FLIGHT_MAX: usize = 64;
/// The same where models may have more calls open than that.
pub(crate) const IN_FLIGHT_BATCHED_MAX: usize = 1_024;
/// The same of one task, as far as a person may ask for it.
pub(crate) const IN_FLIGHT_PER_TASK_MAX: u32 = 64;
/// Calls that one model may have open, as far as a person may ask for it.
pub(crate) const CALLS_AT_ONCE_MAX: u32 = 1_024;
/// Events that wait to be told to a program, programs that are told at once, and how long one may
/// take, in milliseconds.
pub(crate) const NOTICES_WAITING_MAX: usize = 64;
pub(crate) const NOTIFY_RUNNING_MAX: usize = 4;
pub(crate) const NOTIFY_DEADLINE_MS: u64 = 30_000;
/// Time between two looks at programs that run, in milliseconds.
pub(crate) const NOTIFY_POLL_MS: u64 = 20;
/// Longest text of an event, in bytes.
pub(crate) const NOTICE_TEXT_BYTES_MAX: usize = 4_000;
/// Arguments of such a program.
pub(crate) const NOTIFY_ARGUMENTS_MAX: usize = 64;
/// Size of a background run's log from which a new one is begun, in bytes; one older is kept.
pub(crate) const LOG_BYTES_MAX: u64 = 16 << 20;
/// What is shown of the log of a run that did not begin, in bytes.
pub(crate) const LOG_SHOWN_BYTES_MAX: usize = 16 << 10;
/// Longest line that a run says of itself once it has begun, in bytes.
pub(crate) const BEGUN_LINE_BYTES_MAX: u64 = 64 << 10;
/// Time between two looks of `status --follow` and of `stop`, in milliseconds.
pub(crate) const FOLLOW_POLL_MS: u64 = 500;
/// Looks that find nobody who drives a run before it counts as dead.
pub(crate) const FOLLOW_DEAD_LOOKS: u32 = 3;
/// What was told that `status` shows, newest last.
pub(crate) const TELLS_SHOWN_MAX: usize = 20;
/// Lanes of a report's time line, and columns of each.
pub(crate) const LANES_MAX: usize = 40;
pub(crate) const LANE_COLUMNS: usize = 120;
/// Attempts of one task that a page lists, the last ones.
pub(crate) const PAGE_ATTEMPTS_MAX: usize = 100;
/// Kernels and plans on one page together, in bytes; those beyond are named.
pub(crate) const PAGE_CODE_BYTES_MAX: usize = 1 << 20;
/// Names of tasks that `status` puts into one line.
pub(crate) const TASK_NAMES_MAX: usize = 12;
/// Age of a price list, in days, from which on a run warns.
pub(crate) const PRICE_DAYS_MAX: i64 = 90;
/// How often a look at a kernel goes on on another card, and how often it is seen whether its card
/// is out of service, in milliseconds.
pub(crate) const LANE_CHANGES_MAX: u32 = 2;
pub(crate) const LANE_POLL_MS: u64 = 200;
/// Greatest weight of an operator.
pub(crate) const WEIGHT_MAX: f64 = 1e6;
/// Files that this process must be allowed to have open at once: connections to the ledger and to
/// models, and a few for each child that is at work.
pub(crate) const FILES_MIN: u64 = 256;
/// Longest name of a variable that holds a key, in bytes.
pub(crate) const VARIABLE_BYTES_MAX: usize = 64;
