use std::path::Path;

use pipeline::acceptance::{Entry, Found, Subject, Timed, WindowRecord};
use pipeline::baseline::BaselineId;
use pipeline::build::BuildFacts;
use pipeline::launch::{Launch, ResolvedPlan, ResolvedStep};
use pipeline::timing::Spread;

use super::{
    Accepted, accepted, agreement, per_call_ns, profiled_kernels, profiler_times, profiler_words,
};

#[test]
fn times_are_read_from_the_page_of_details() {
    let page = "==PROF== Connected\n\
                \"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\
                \"0\",\"ww_copy\",\"gpu__time_duration.sum\",\"ns\",\"5,250\"\n\
                \"0\",\"ww_copy\",\"sm__cycles.sum\",\"cycle\",\"77\"\n\
                \"1\",\"ww_fma\",\"gpu__time_duration.sum\",\"ns\",\"1,234,500\"\n";
    assert_eq!(profiler_times(page), [5_250.0, 1_234_500.0]);
    // One launch that was not measured, and nobody knows any more which belong together.
    for unknown in ["nan", "inf", "n/a", "0", ""] {
        assert_eq!(profiler_times(&page.replace("5,250", unknown)), [0.0; 0], "{unknown}");
    }
    assert_eq!(profiler_times("==ERROR== no permission\n"), [0.0; 0]);
    assert_eq!(profiler_times(&page.replace("\"ns\"", "\"us\"")), [0.0; 0]);
}

#[test]
fn only_the_kernels_of_a_call_are_profiled() {
    let words = profiler_words(Path::new("/opt/ncu"), &["_Z1av".to_owned(), "b".to_owned()]);
    assert_eq!(words.first().map(String::as_str), Some("/opt/ncu"));
    assert_eq!(words.last().map(String::as_str), Some("regex:^(_Z1av|b)$"));
}

#[test]
fn a_call_is_the_sum_of_its_launches_and_the_first_one_warms_up() {
    let of_two = [900.0, 90.0, 100.0, 10.0, 102.0, 10.0, 98.0, 10.0];
    for (times, launches, expected) in [
        (&of_two[..], 2, Some(110.0)),
        (&of_two[..7], 2, None),
        (&of_two[..6], 2, None),
        (&of_two[..4], 1, Some(90.0)),
        (&[], 1, None),
    ] {
        assert_eq!(per_call_ns(times, launches), expected, "{times:?}");
    }
}

#[test]
fn clocks_that_are_apart_are_for_a_person_to_look_at() {
    let word = |own_ns, held_back, profiled_ns, launches| match agreement(
        &Accepted { median_ns: own_ns, held_back },
        profiled_ns,
        launches,
    ) {
        Found::Clean => "clean",
        Found::Audits { detail } => {
            assert!(detail.contains("by the windows' events") && detail.contains("by ncu"));
            "audits"
        }
        Found::Notes { .. } => "notes",
        Found::Fails { .. } | Found::NotAvailable { .. } => "something else",
    };
    for (own_ns, held_back, profiled_ns, launches, expected) in [
        (104_000.0, false, 100_000.0, 1, "clean"),
        (96_000.0, false, 100_000.0, 1, "clean"),
        (106_000.0, false, 100_000.0, 1, "audits"),
        (94_000.0, false, 100_000.0, 1, "audits"),
        // Two launches with a pause between them.
        (106_000.0, false, 100_000.0, 2, "clean"),
        (108_000.0, false, 100_000.0, 2, "audits"),
        // Kernels that take longer by themselves than all of the call.
        (94_000.0, false, 100_000.0, 2, "audits"),
        (96_000.0, false, 100_000.0, 2, "clean"),
        // A power cap makes the windows longer, never shorter.
        (130_000.0, true, 100_000.0, 1, "notes"),
        (90_000.0, true, 100_000.0, 1, "audits"),
        (6_000.0, false, 5_000.0, 1, "notes"),
    ] {
        assert_eq!(word(own_ns, held_back, profiled_ns, launches), expected, "{own_ns}");
    }
}

fn facts() -> BuildFacts {
    BuildFacts {
        entries: Vec::new(),
        lowered_names: Vec::new(),
        externs: Vec::new(),
        static_bytes: 0,
        special_registers: Vec::new(),
        mma_types: Vec::new(),
        cache_hints: Vec::new(),
        ptx_hash: String::new(),
        cubin_hash: String::new(),
    }
}

fn kernel(name: &str) -> ResolvedStep {
    ResolvedStep::Kernel(Launch {
        kernel: name.to_owned(),
        grid: [1; 3],
        block: [1; 3],
        cluster: [1; 3],
        shared_bytes: 0,
        cooperative: false,
        pdl: false,
        args: Vec::new(),
    })
}

#[test]
fn plans_whose_calls_the_profiler_cannot_see_whole_are_left_out() {
    let names = [("a<1>", "_Z1aILi1EEvv"), ("b", "b")];
    let facts = BuildFacts {
        lowered_names: names.map(|(name, lowered)| (name.to_owned(), lowered.to_owned())).to_vec(),
        ..facts()
    };
    let plan = |prepare: Vec<ResolvedStep>, steps: Vec<ResolvedStep>| ResolvedPlan {
        workspaces: Vec::new(),
        tensor_maps: Vec::new(),
        prepare,
        steps,
    };
    let memset = || ResolvedStep::Memset { buffer: "y".to_owned(), byte: 0 };
    for (plan, expected) in [
        (plan(Vec::new(), vec![kernel("a<1>"), kernel("b"), kernel("b")]), Some(2)),
        (plan(vec![kernel("b")], vec![kernel("a<1>")]), Some(1)),
        (plan(vec![kernel("b")], vec![kernel("b")]), None),
        (plan(Vec::new(), vec![memset(), kernel("b")]), None),
        (plan(Vec::new(), vec![kernel("unknown")]), None),
    ] {
        assert_eq!(profiled_kernels(&facts, &plan).ok().map(|names| names.len()), expected);
    }
}

fn window(subject: Subject, ns: Option<f64>, ungated: bool) -> Entry {
    let spread = |ns| Spread { median_ns: ns, p10_ns: ns, p90_ns: ns, samples: 50, dropped: 0 };
    let measured = |ns| Timed::Measured { cold: spread(ns), warm: None, suspicion: None };
    let begun = WindowRecord::begun("headline", subject, 1, 0);
    let timed = ns.map_or_else(|| Timed::Void("disturbed".to_owned()), measured);
    Entry::Window(WindowRecord { timed, ungated, ..begun })
}

#[test]
fn what_is_held_against_the_profiler_are_the_candidates_own_windows() {
    let own = |ns| window(Subject::Candidate, ns, false);
    let other = BaselineId::from_name("eager-strict").unwrap();
    let entries = [
        own(Some(90.0)),
        own(None),
        own(Some(110.0)),
        window(Subject::Baseline(other), Some(1.0), false),
    ];
    let found = accepted(&entries, "headline").unwrap();
    assert_eq!(found, Accepted { median_ns: 100.0, held_back: false });
    assert!(accepted(&entries, "small").is_err());
    assert!(accepted(&[own(None)], "headline").is_err());
    assert!(accepted(&[window(Subject::Candidate, Some(1.0), true)], "headline").is_err());
}
