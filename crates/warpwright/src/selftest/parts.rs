//! The parts of the self-test, in the order in which they run.

#[cfg(feature = "judge-mutation")]
use super::cut_sets;
use super::{
    Bench, baselines, calibration, catalogue, clock, confinement, cost, devices, hostile, kernels,
    loops, memory, night, null, sanitizer,
};

/// A part of the self-test.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// True when the simulator can run it too.
    pub(crate) simulated: bool,
    /// True for what is about the judge and not about one card: rows of other cards of the model
    /// count, so that a campaign may take several machines.
    pub(crate) any_card: bool,
    pub(super) run: fn(&mut Bench<'_>) -> anyhow::Result<()>,
}

/// The parts in the order in which they run.
pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "hardware",
        about: "what each card is and can do",
        simulated: false,
        any_card: false,
        run: devices::hardware,
    },
    Part {
        name: "conformance",
        about: "the suite that every device must pass, each test in a process of its own",
        simulated: false,
        any_card: false,
        run: devices::conformance,
    },
    Part {
        name: "wrong-kernels",
        about: "every task's wrong kernels: the GPU and the simulator give the expected verdict",
        simulated: false,
        any_card: false,
        run: devices::wrong_kernels,
    },
    Part {
        name: "catalogue",
        about: "known cheats are rejected as they must be, honest tricks are accepted",
        simulated: true,
        any_card: true,
        run: catalogue::run,
    },
    #[cfg(feature = "judge-mutation")]
    Part {
        name: "cut-sets",
        about: "attacks succeed without the defences of their sets, and fail with any one of them",
        simulated: true,
        any_card: true,
        run: cut_sets::run,
    },
    Part {
        name: "confinement",
        about: "what children reach and what holding them costs; on a GPU each level and each tool",
        simulated: true,
        any_card: false,
        run: confinement::run,
    },
    Part {
        name: "kernels",
        about: "a naive and a good kernel for each task: verdict, times, share of the floor",
        simulated: false,
        any_card: false,
        run: kernels::run,
    },
    Part {
        name: "features",
        about: "tensor maps, clusters, cooperative and dependent launches, workspaces, prepare",
        simulated: false,
        any_card: false,
        run: hostile::features,
    },
    Part {
        name: "loop",
        about: "whole runs with recorded replies, and what their ledgers say",
        simulated: false,
        any_card: false,
        run: loops::run,
    },
    Part {
        name: "night",
        about: "a run over all tasks with hangs, faults and failing calls: every best is measured",
        simulated: false,
        any_card: false,
        run: night::run,
    },
    Part {
        name: "hostile",
        about: "kernels that hang, fault, corrupt or exhaust: survived, told, the next one runs",
        simulated: false,
        any_card: false,
        run: hostile::run,
    },
    Part {
        name: "endurance",
        about: "100 hanging and faulting kernels in a row leave the card healthy",
        simulated: false,
        any_card: false,
        run: hostile::endurance,
    },
    Part {
        name: "memory",
        about: "what gives way where memory is short, and tensors beyond 2^31",
        simulated: false,
        any_card: false,
        run: memory::run,
    },
    Part {
        name: "evaluate-cost",
        about: "wall time of one search-stage evaluation, build included, reference cached",
        simulated: false,
        any_card: false,
        run: cost::run,
    },
    Part {
        name: "clock",
        about: "times by events against ncu's gpu__time_duration",
        simulated: false,
        any_card: false,
        run: clock::run,
    },
    Part {
        name: "protocol",
        about: "the same product and the same copy, timed by the runner and by Python, within 1 %",
        simulated: false,
        any_card: false,
        run: baselines::protocol,
    },
    Part {
        name: "fairness",
        about: "PyTorch's times depend on the flags that were asked for, not on what ran before",
        simulated: false,
        any_card: false,
        run: baselines::fairness,
    },
    Part {
        name: "calibration",
        about: "naive kernels, PyTorch and cuBLAS against the gates: strict inside, TF32 outside",
        simulated: false,
        any_card: false,
        run: calibration::run,
    },
    Part {
        name: "sanitizer",
        about: "compute-sanitizer over the confined child finds what is there, and nothing else",
        simulated: false,
        any_card: false,
        run: sanitizer::run,
    },
    Part {
        name: "null",
        about: "a kernel against itself is the same, one that does 5 % more slower, disturbed void",
        simulated: false,
        any_card: true,
        run: null::campaign,
    },
    Part {
        name: "several-gpus",
        about: "all kernels over all cards at once: each card is used, verdicts are the same",
        simulated: false,
        any_card: false,
        run: devices::several,
    },
];
