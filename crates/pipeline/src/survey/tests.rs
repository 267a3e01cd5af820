use proptest::prelude::*;

use super::{Advice, Found, Pot, Survey, Times, Weight, floor_ns, survey};
use crate::baseline::BaselineId;
use crate::device_facts::DeviceFacts;
use crate::hardware::{Ceilings, GemmRates, HardwareSheet, Rate, SHEET_VERSION};
use crate::task::spec::Precision;

const POT: Pot = Pot { attempts_each: 10, attempts: None, money: None };

fn eager() -> BaselineId {
    BaselineId::from_name("eager-strict").unwrap()
}

/// Admitted, timed, with a floor of 100 ns.
fn timed(weight: f64, ns: f64) -> Found {
    let compiled = BaselineId::from_name("compile-strict").unwrap();
    Found {
        weight: Weight::Share(weight),
        admission: Ok(Vec::new()),
        times: Times::Taken {
            baselines: vec![(eager(), 2.0 * ns), (compiled, ns)],
            missing: Vec::new(),
            floor_ns: Ok(100.0),
        },
    }
}

fn untimed(weight: f64) -> Found {
    let times = Times::NotAvailable("no GPU".to_owned());
    Found { weight: Weight::Share(weight), admission: Ok(Vec::new()), times }
}

fn attempts(survey: &Survey) -> Vec<u64> {
    survey.rows.iter().map(|row| row.allotment.attempts).collect()
}

#[test]
fn the_strongest_baseline_gives_the_distance_and_headroom_gives_the_allotment() {
    let found = [timed(3.0, 200.0), timed(1.0, 400.0), timed(4.0, 101.0)];
    let pot = Pot { money: Some(1_000), ..POT };
    let survey = survey(&found, pot);
    let first = &survey.rows[0];
    assert_eq!(
        first.strongest.as_ref().map(|(id, ns)| (id.name(), *ns)),
        Some(("compile-strict".to_owned(), 200.0))
    );
    assert_eq!((first.share, first.distance), (Some(0.375), Some(2.0)));
    let whole = first.gain_of_whole.unwrap();
    assert!((whole - 1.0 / (1.0 - 0.375 / 2.0)).abs() < 1e-12);
    // 3/8 of the time at most halved saves 3/16, 1/8 at most quartered saves 3/32: two to one.
    assert_eq!(attempts(&survey), [13, 7, 0]);
    let money: Vec<_> = survey.rows.iter().map(|row| row.allotment.money).collect();
    assert_eq!(money, [Some(667), Some(333), Some(0)]);
    assert!(matches!(&survey.rows[2].advice, Advice::Skip(why) if why.contains("1.01 times")));
    let best = survey.gain_of_whole.unwrap();
    assert!((best - 1.0 / (1.0 - 3.0 / 16.0 - 3.0 / 32.0)).abs() < 1e-12);
}

#[test]
fn what_is_to_be_mended_is_named() {
    let refused = Found { admission: Err("golden is off".to_owned()), ..timed(1.0, 300.0) };
    let taken = |missing: &[&str], floor_ns| Times::Taken {
        baselines: Vec::new(),
        missing: missing.iter().map(|text| (*text).to_owned()).collect(),
        floor_ns,
    };
    let of = |times| Found { times, ..timed(1.0, 300.0) };
    let roofless = of(Times::Taken {
        baselines: vec![(eager(), 300.0)],
        missing: Vec::new(),
        floor_ns: Err("the card has no ceilings".to_owned()),
    });
    for (found, part) in [
        (refused, "not admitted: golden is off"),
        (of(taken(&[], Ok(100.0))), "baseline missing: the task names none"),
        (of(taken(&["PyTorch eager: no CUDA"], Ok(1.0))), "baseline missing: PyTorch eager: no"),
        (roofless, "roofline unknown: the card has no ceilings"),
    ] {
        let survey = survey(&[found.clone(), timed(1.0, 200.0)], POT);
        let Advice::Fix(why) = &survey.rows[0].advice else { panic!("{:?}", survey.rows[0]) };
        assert!(why.contains(part), "{why}");
        assert_eq!(attempts(&survey), [0, 10], "{found:?}");
        // It keeps its part of the whole's time: mending it is not what the others gain by.
        assert_eq!(survey.rows[1].share, Some(0.5));
    }
}

#[test]
fn without_a_gpu_all_that_is_admitted_is_allotted_equally() {
    let refused = Found { admission: Err("x".to_owned()), ..untimed(1.0) };
    let found = [untimed(5.0), untimed(1.0), refused];
    let survey = survey(&found, Pot { attempts: Some(7), money: Some(9), ..POT });
    assert_eq!(attempts(&survey), [4, 3, 0]);
    assert_eq!(survey.gain_of_whole, None);
    let first = &survey.rows[0];
    assert_eq!((first.distance, first.gain_of_whole, &first.strongest), (None, None, &None));
    assert!((first.share.unwrap() - 5.0 / 7.0).abs() < 1e-12);
}

#[test]
fn calls_become_shares_by_the_time_of_the_strongest_baseline() {
    let calls = |calls, found: Found| Found { weight: Weight::Calls(calls), ..found };
    let found = [calls(10.0, timed(0.0, 200.0)), calls(5.0, timed(0.0, 1_200.0))];
    let shares: Vec<_> = survey(&found, POT).rows.iter().map(|row| row.share).collect();
    assert_eq!(shares, [Some(0.25), Some(0.75)]);
    let nobody = [calls(10.0, untimed(0.0)), calls(5.0, untimed(0.0))];
    let survey = survey(&nobody, POT);
    assert!(survey.rows.iter().all(|row| row.share.is_none() && row.advice == Advice::Spend));
    assert_eq!(attempts(&survey), [10, 10]);
}

#[test]
fn too_small_a_budget_leaves_the_least_promising_out() {
    let found = [timed(1.0, 150.0), timed(1.0, 900.0), timed(1.0, 300.0)];
    let survey = survey(&found, Pot { attempts: Some(2), money: Some(10), ..POT });
    assert_eq!(attempts(&survey), [0, 1, 1]);
    assert!(matches!(&survey.rows[0].advice, Advice::Skip(why) if why.contains("2 attempts")));
    assert_eq!(survey.rows[0].allotment.money, Some(0));
}

/// A card that moves 4 TB/s and computes 60 TFLOP/s, 400 on TF32, 700 on fp16.
fn sheet() -> HardwareSheet {
    let rate = |median| Rate { median, low: median, high: median, samples: 9 };
    HardwareSheet {
        version: SHEET_VERSION,
        uuid: "GPU-1".to_owned(),
        driver: "580.1".to_owned(),
        cuda_version: 13000,
        facts: DeviceFacts::simulated_h200(),
        ceilings: Some(Ceilings {
            copy_bytes_per_s: rate(4e12),
            read_bytes_per_s: rate(3.9e12),
            write_bytes_per_s: rate(5e12),
            l2_read_bytes_per_s: rate(8e12),
            fp32_flops_per_s: rate(60e12),
            launch_ns: 2e3,
            event_pair_ns: 1e3,
            sm_clock_hz: 1.9e9,
            memory_scrubbed: true,
            gemm: Some(GemmRates {
                fp32: rate(50e12),
                tf32: rate(400e12),
                fp16: rate(700e12),
                bf16: rate(600e12),
                int8: Ok(rate(1400e12)),
                fp8: Err("none".to_owned()),
            }),
        }),
    }
}

#[test]
fn the_floor_is_that_of_the_class_that_may_be_fastest() {
    let sheet = sheet();
    let mut spec = crate::task::tests::softmax().spec;
    let elements: f64 =
        ["rows", "cols"].map(|dim| spec.headline().unwrap().dims[dim] as f64).iter().product();
    let close = |spec: &_, expected: f64| {
        let found = floor_ns(&sheet, spec).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, expected {expected}");
    };
    spec.classes = vec![Precision::Fp32];
    close(&spec, 8.0 * elements / 4e3);
    // Bound by arithmetic: fp32 on three products of TF32, fp16 on its own instructions.
    spec.roofline.flops.insert(Precision::Fp32, "10000 * rows * cols".to_owned());
    close(&spec, 1e4 * elements / (400e3 / 3.0));
    spec.roofline.flops.insert(Precision::Fp16, "10000 * rows * cols".to_owned());
    spec.classes.push(Precision::Fp16);
    close(&spec, 1e4 * elements / 700e3);
    let unmeasured = HardwareSheet { ceilings: None, ..sheet.clone() };
    assert!(floor_ns(&unmeasured, &spec).unwrap_err().contains("hardware probe"));
    spec.cases.clear();
    assert_eq!(floor_ns(&sheet, &spec), Err("the task has no headline".to_owned()));
}

fn anything() -> impl Strategy<Value = Vec<Found>> {
    let one =
        (0..4_u32, 0.0..10.0_f64, 50.0..1_000.0_f64).prop_map(|(kind, weight, ns)| match kind {
            0 => untimed(weight),
            1 => Found { admission: Err("no".to_owned()), ..timed(weight, ns) },
            2 => Found { weight: Weight::Calls(weight), ..timed(weight, ns) },
            _ => timed(weight, ns),
        });
    prop::collection::vec(one, 0..30)
}

proptest! {
    #[test]
    fn only_what_is_worth_it_is_given_anything_and_sums_are_exact(
        found in anything(), total in 1..500_u64, money in 0..1_000_000_u64
    ) {
        let survey = survey(&found, Pot { attempts: Some(total), money: Some(money), ..POT });
        for row in &survey.rows {
            prop_assert_eq!(row.advice == Advice::Spend, row.allotment.attempts > 0);
            prop_assert!(row.allotment.attempts > 0 || row.allotment.money == Some(0));
            prop_assert!(row.gain_of_whole.is_none_or(|gain| gain >= 1.0));
        }
        let spent = survey.rows.iter().any(|row| row.advice == Advice::Spend);
        let given: u64 = attempts(&survey).iter().sum();
        prop_assert_eq!(given, if spent { total } else { 0 });
        let paid: u64 = survey.rows.iter().filter_map(|row| row.allotment.money).sum();
        prop_assert_eq!(paid, if spent { money } else { 0 });
        let shares: f64 = survey.rows.iter().filter_map(|row| row.share).sum();
        prop_assert!(shares < 1.0 + 1e-9);
    }
}
