//! Plans: each rule of the grammar, what a plan resolves to, and that no text panics.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Plan;
use crate::device_facts::DeviceFacts;
use crate::launch::{ResolvedStep, Value};
use crate::scope::Scope;
use crate::task::signature::Signature;
use crate::task::tests::softmax;

const GOOD: &str = r#"
plan = 1
precision = "fp32"
domain = ["cols >= 1"]
constraints = ["TILE_M * 512 <= shared_per_block_optin"]
[tunables]
TILE_M = [64, 128]
[[workspace]]
name = "partial"
dtype = "f32"
len = "rows * 4"
[[step]]
memset = "partial"
byte = 7
[[step]]
kernel = "softmax<TILE_M>"
grid = ["ceil_div(rows, TILE_M)"]
block = ["256", "1", "1"]
shared_bytes = "TILE_M * 4"
args = ["x", "y", "partial", "cols"]
"#;

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, &softmax().signature()).map_err(|error| error.to_string())
}

fn resolve(text: &str, rows: i64, cols: i64) -> Result<Vec<ResolvedStep>, String> {
    let plan = parse(text)?;
    let dims = BTreeMap::from([("rows".to_owned(), rows), ("cols".to_owned(), cols)]);
    let scope = Scope::of_dims(&dims)
        .with(&plan.default_tunables())
        .with_device(&DeviceFacts::simulated_h200());
    let resolved = plan.resolve(&scope, &softmax().signature());
    resolved.map(|resolved| resolved.steps).map_err(|error| error.to_string())
}

#[test]
fn a_good_plan_resolves_to_numbers() {
    let steps = resolve(GOOD, 200, 1009).unwrap();
    assert_eq!(steps[0], ResolvedStep::Memset { buffer: "partial".to_owned(), byte: 7 });
    let ResolvedStep::Kernel(launch) = &steps[1] else { panic!("no kernel") };
    assert_eq!((launch.grid, launch.block, launch.shared_bytes), ([4, 1, 1], [256, 1, 1], 256));
    assert_eq!(launch.args[3], Value::Integer(1009));
    assert_eq!(launch.args[2], Value::Buffer("partial".to_owned()));
}

#[test]
fn layout_does_not_change_the_identity() {
    let spaced = GOOD.replace("ceil_div(rows, TILE_M)", "ceil_div(rows,  TILE_M)");
    assert_ne!(spaced, GOOD);
    let tunables = BTreeMap::new();
    let hash = |text: &str| parse(text).unwrap().launch_hash(&tunables);
    assert_eq!(hash(GOOD), hash(&spaced));
    assert_ne!(hash(GOOD), hash(&GOOD.replace("256", "128")));
}

/// Whatever a verdict can depend on is part of its identity; what only declares is not part of a
/// run's.
#[test]
fn every_field_that_decides_changes_the_identity() {
    let tunables = BTreeMap::from([("TILE_M".to_owned(), 64)]);
    let any_family = Signature { family: None, ..softmax().signature() };
    let hashes = |text: &str| {
        let plan = Plan::parse(text, &any_family).unwrap();
        (plan.launch_hash(&tunables), plan.verdict_hash(&tunables))
    };
    let base = hashes(GOOD);
    for (from, to, runs_alike) in [
        ("cols >= 1", "cols >= 2", false),
        ("TILE_M * 512", "TILE_M * 256", false),
        ("byte = 7", "byte = 8", false),
        ("rows * 4", "rows * 8", false),
        ("plan = 1", "plan = 1\nalgorithm = \"fft\"", true),
        ("plan = 1", "plan = 1\ndeterministic = false", true),
    ] {
        let changed = hashes(&GOOD.replacen(from, to, 1));
        assert_eq!(changed.0 == base.0, runs_alike, "{to}");
        assert_ne!(changed.1, base.1, "{to}");
    }
    let other_values = BTreeMap::from([("TILE_M".to_owned(), 128)]);
    assert_ne!(parse(GOOD).unwrap().launch_hash(&other_values), base.0);
    let diagnosed = format!("{GOOD}\n[diagnosis]\nmode = \"repair\"\ndefect = \"tail\"\n");
    assert_eq!(hashes(&diagnosed), base);
}

#[test]
fn sixty_four_tunables_are_counted_without_overflow() {
    let many: String = (0..64).map(|i| format!("T_{i} = [1, 2]\n")).collect();
    let text = GOOD.replacen("TILE_M = [64, 128]\n", &format!("TILE_M = [64, 128]\n{many}"), 1);
    assert!(parse(&text).unwrap_err().contains("tunables; at most 8"));
}

#[test]
fn every_violation_says_how_to_mend_it() {
    let many_steps = GOOD.to_owned() + &"[[step]]\nmemset = \"y\"\n".repeat(40);
    for (from, to, part) in [
        ("plan = 1", "plan = 3", "write `plan = 1`"),
        ("plan = 1", "plan = 1\nfoo = 2", "unknown field `foo`"),
        ("plan = 1", "plan = 1\nalgorithm = \"fft\"", "no `softmax` is computed by `fft`"),
        ("\"fp32\"", "\"tf32\"", "`tf32` is not admitted here; the task admits fp32"),
        (
            "domain = [",
            "in_place = [\"x\"]\ndomain = [",
            "`x` may not be overwritten; the task allows none",
        ),
        ("TILE_M = [64, 128]", "TILE = [64]", "tunable `TILE`"),
        ("[64, 128]", "[]", "needs at least one value"),
        ("[64, 128]", "[99999999999]", "must fit in a C int"),
        ("name = \"partial\"", "name = \"x\"", "the name is taken"),
        ("name = \"partial\"", "name = \"P\"", "use lower-case letters"),
        ("memset = \"partial\"", "memset = \"x\"", "only outputs and workspaces"),
        ("[[step]]", "[[prepare]]\nmemset = \"y\"\n[[step]]", "prepare writes only prepared"),
        ("byte = 7", "byte = 300", "`byte` must be in 0..=255"),
        ("byte = 7", "grid = [\"1\"]", "a memset step has only"),
        ("kernel = \"softmax<TILE_M>\"", "", "needs either `kernel"),
        ("softmax<TILE_M>", "softmax<TILE_M>(); evil", "is no kernel name"),
        ("softmax<TILE_M>", "a b", "is no kernel name"),
        ("softmax<TILE_M>", "", "is no kernel name"),
        ("grid = [\"ceil_div(rows, TILE_M)\"]", "", "`grid` is missing"),
        ("[\"256\", \"1\", \"1\"]", "[]", "one to three expressions"),
        ("\"cols\"]", "\"colz\"]", "`colz` is unknown; buffers are x, y, partial"),
        ("\"cols\"]", "\"cols / 2\"]", "use // (rounds down)"),
        ("\"cols\"]", "\"rows > 2\"]", "not an integer"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let message = resolve(&text, 200, 1009).expect_err(to);
        assert!(message.contains(part), "{from} → {to}: {message}");
    }
    assert!(parse(&many_steps).unwrap_err().contains("at most 32"));
    assert!(
        parse("plan = 1\nprecision = \"fp32\"").unwrap_err().contains("no [[step]] with a kernel")
    );
    assert!(parse(&"#".repeat(70_000)).unwrap_err().contains("at most 65536"));
}

/// What host code, timers, flags or rules would need has no field: it cannot be asked for.
#[test]
fn a_plan_has_no_words_for_the_host() {
    let of_plan = ["stream", "threads", "persisting_l2_bytes", "allow_tf32", "environment", "seed"];
    let of_rules = ["tolerance", "task", "baseline", "expected", "samples", "library", "host_code"];
    for field in of_plan.into_iter().chain(of_rules) {
        let message = parse(&GOOD.replacen("plan = 1", &format!("plan = 1\n{field} = 1"), 1));
        assert!(message.unwrap_err().contains(&format!("unknown field `{field}`")), "{field}");
    }
    for field in ["stream", "event", "access_policy", "launch_from_device", "callback"] {
        let message = parse(&GOOD.replacen("block = [", &format!("{field} = 1\nblock = ["), 1));
        assert!(message.unwrap_err().contains(&format!("unknown field `{field}`")), "{field}");
    }
}

#[test]
fn values_are_checked_at_the_shape() {
    for (from, to, part) in [
        ("ceil_div(rows, TILE_M)", "rows - 200", "is 0; it must be in 1..="),
        ("ceil_div(rows, TILE_M)", "0 - rows", "is -200"),
        ("ceil_div(rows, TILE_M)", "rows * 99999999999", "it must be in"),
        ("\"256\", \"1\"", "\"256\", \"8\"", "2048 threads"),
        ("\"256\", \"1\"", "\"2048\", \"1\"", "1..=1024"),
        ("rows * 4", "rows * 4000000000", "at most 17179869184"),
        ("rows * 4", "rows - rows", "is 0"),
        ("TILE_M * 4", "TILE_M * 400000", "0..=1048576"),
        ("cols >= 1", "cols % 4 == 0", "outside the plan's domain"),
        ("TILE_M * 512", "TILE_M * 5120000", "the constraint"),
        ("rows * 4", "rows * 9223372036854775807 * rows", "not an i64"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let message = resolve(&GOOD.replacen(from, to, 1), 200, 1009).expect_err(to);
        assert!(message.contains(part), "{from} → {to}: {message}");
    }
}

#[test]
fn a_diagnosis_is_kept_when_it_is_in_the_list_and_never_rejected() {
    let with = |cause: &str| {
        format!("{GOOD}\n[diagnosis]\nmode = \"repair\"\ndefect = \"{cause}\"\nchange = \"x\"\n")
    };
    assert_eq!(parse(&with("tail")).unwrap().diagnosis.unwrap().cause, "tail");
    assert_eq!(parse(&with("vibes")).unwrap().diagnosis, None);
    assert_eq!(
        parse(&GOOD.replacen("plan = 1", "plan = 1\ndiagnosis = 3", 1)).unwrap().diagnosis,
        None
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn mutated_plans_never_panic(at in 0usize..600, with in "[\\[\\]\"=a-z0-9\n{}<>.-]{0,6}") {
        let at = GOOD.floor_char_boundary(at.min(GOOD.len()));
        let text = format!("{}{with}{}", &GOOD[..at], &GOOD[at..]);
        let _ = resolve(&text, 3, 5);
    }
}

#[test]
fn what_outlives_a_call_or_starts_early_is_held_to_its_rules() {
    let kept = "[[workspace]]\nname = \"kept\"\ndtype = \"f32\"\nlen = \"1\"\n\
                lifetime = \"prepared\"\n[[workspace]]";
    let mapped = "[[tensor_map]]\nname = \"m\"\ntensor = \"x\"\ndims = [\"cols\"]\nbox = \
                  [\"32\"]\n[[prepare]]\nkernel = \"p\"\ngrid = [\"1\"]\nblock = [\"1\"]\nargs \
                  = [\"m\"]\n[[step]]";
    let prepared = "len = \"1\"\nlifetime = \"prepared\"";
    for (from, to, part) in [
        ("[[workspace]]", kept, "no [[prepare]] step writes it"),
        ("len = \"rows * 4\"", prepared, "`partial` is prepared: only [[prepare]] steps"),
        ("[[step]]", mapped, "prepare may not touch `x`, only weights"),
        ("block = [", "pdl = true\nblock = [", "`pdl` needs a kernel step right before it"),
    ] {
        let message = parse(&GOOD.replacen(from, to, 1)).expect_err(to);
        assert!(message.contains(part), "{from} → {to}: {message}");
    }
}
