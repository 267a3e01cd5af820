//! The gate: argument kinds, counts and widths, and everything a module may not contain.

use std::collections::BTreeMap;

use super::{Integers, check_values, gate};
use crate::build::{BuildFacts, EntryFacts, ParamFacts, ParamKind, SpecialRegister};
use crate::device_facts::DeviceFacts;
use crate::plan::Plan;
use crate::scope::Scope;
use crate::task::Task;
use crate::task::tests::{softmax, task_files};

fn plan_text(args: &str) -> String {
    format!(
        "plan = 1\nprecision = \"fp32\"\n[[step]]\nkernel = \"softmax\"\ngrid = [\"rows\"]\n\
         block = [\"32\"]\nargs = [{args}]\n"
    )
}

fn params(kinds: &str) -> Vec<ParamFacts> {
    kinds
        .split_whitespace()
        .map(|kind| match kind {
            "ptr" => ParamFacts { width: 8, kind: ParamKind::Integer },
            "i32" => ParamFacts { width: 4, kind: ParamKind::Integer },
            "i8" => ParamFacts { width: 1, kind: ParamKind::Integer },
            "f32" => ParamFacts { width: 4, kind: ParamKind::Float },
            "map" => ParamFacts { width: 128, kind: ParamKind::Bytes { align: 64 } },
            other => panic!("{other}"),
        })
        .collect()
}

fn facts(kinds: &str) -> BuildFacts {
    BuildFacts {
        entries: vec![EntryFacts {
            name: "softmax".to_owned(),
            params: params(kinds),
            registers: 32,
            spill_bytes: 0,
            static_shared_bytes: 0,
            max_threads: Some(64),
        }],
        lowered_names: vec![("softmax".to_owned(), "softmax".to_owned())],
        externs: Vec::new(),
        static_bytes: 0,
        special_registers: Vec::new(),
        mma_types: Vec::new(),
        cache_hints: Vec::new(),
        ptx_hash: "p".to_owned(),
        cubin_hash: "c".to_owned(),
    }
}

/// The shipped task with a float scalar added.
fn task_with_scalar() -> Task {
    let mut files = task_files("softmax_rows");
    let text = String::from_utf8(files["task.toml"].clone()).unwrap();
    let scalar = "[[scalar]]\nname = \"eps\"\ndtype = \"f32\"\nvalue = 0.5\n\n[[output]]";
    files.insert("task.toml".to_owned(), text.replacen("[[output]]", scalar, 1).into_bytes());
    Task::from_files(&files).unwrap()
}

fn first(facts: &BuildFacts, args: &str, task: &Task) -> String {
    let plan = Plan::parse(&plan_text(args), &task.signature()).unwrap();
    gate(facts, &plan, task)
        .first()
        .map_or("passes".to_owned(), |r| r.verdict().to_string() + " " + &r.message)
}

#[test]
fn arguments_must_match_the_kernel() {
    let task = task_with_scalar();
    for (kinds, args, part) in [
        ("ptr ptr i32", "\"x\", \"y\", \"cols\"", "passes"),
        ("ptr ptr ptr", "\"x\", \"y\", \"cols\"", "passes"),
        ("ptr ptr f32", "\"x\", \"y\", \"eps\"", "passes"),
        (
            "ptr ptr i32",
            "\"x\", \"y\"",
            "PLAN kernel step 1 (`softmax`): the kernel has 3 parameters, the plan gives 2",
        ),
        (
            "ptr ptr i32",
            "\"x\", \"cols\", \"y\"",
            "argument 3: the kernel takes a 32-bit integer, the plan gives the pointer of `y`",
        ),
        (
            "ptr ptr f32",
            "\"x\", \"y\", \"cols\"",
            "a 32-bit float, the plan gives the integer `cols`; float parameters take only eps",
        ),
        ("ptr ptr i32", "\"x\", \"y\", \"eps\"", "the plan gives the float scalar `eps`"),
        ("ptr ptr map", "\"x\", \"y\", \"cols\"", "a struct of 128 bytes aligned to 64"),
    ] {
        let message = first(&facts(kinds), args, &task);
        assert!(message.contains(part), "{kinds}: {message}");
    }
}

#[test]
fn what_a_module_may_not_contain() {
    let task = softmax();
    let args = "\"x\", \"y\", \"cols\"";
    let changed = |change: &dyn Fn(&mut BuildFacts)| {
        let mut facts = facts("ptr ptr i32");
        change(&mut facts);
        first(&facts, args, &task)
    };
    let register =
        |name: &str| SpecialRegister { name: name.to_owned(), origin: "softmax".to_owned() };
    for (message, part) in [
        (
            changed(&|f| f.externs.push("vprintf".to_owned())),
            "Rejected/STATIC the module calls vprintf",
        ),
        (changed(&|f| f.static_bytes = 65 << 20), "module variables take 68157440 bytes"),
        (changed(&|f| f.special_registers.push(register("%gridid"))), "reads %gridid"),
        (changed(&|f| f.special_registers.push(register("%envreg1"))), "reads %envreg1"),
        (changed(&|f| f.special_registers.push(register("%clock64"))), "passes"),
        (
            changed(&|f| {
                f.entries.push(EntryFacts { name: "ghost".to_owned(), ..f.entries[0].clone() })
            }),
            "the entry `ghost` that no step launches",
        ),
        (
            changed(&|f| f.lowered_names.clear()),
            "Malformed/PLAN no kernel `softmax`; the module has `softmax`",
        ),
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn values_must_fit_their_parameter() {
    let task = softmax();
    let resolve = |args: &str, cols: i64| {
        let dims = BTreeMap::from([("rows".to_owned(), 4), ("cols".to_owned(), cols)]);
        let plan = Plan::parse(&plan_text(args), &task.signature()).unwrap();
        let scope = Scope::of_dims(&dims).with_device(&DeviceFacts::simulated_h200());
        plan.resolve(&scope, &task.signature()).unwrap()
    };
    let check = |kinds: &str, args: &str, cols| {
        check_values(&facts(kinds), &resolve(args, cols), Integers::NonNegative)
    };
    let args = "\"x\", \"y\", \"cols\"";
    assert_eq!(check("ptr ptr i32", args, 1 << 30), Ok(()));
    assert!(check("ptr ptr i32", args, 1 << 31).unwrap_err().contains("0..=2147483647"));
    assert!(check("ptr ptr i8", args, 128).unwrap_err().contains("0..=127"));
    assert!(
        check("ptr ptr i32", "\"x\", \"y\", \"0 - cols\"", 4)
            .unwrap_err()
            .contains("-4 does not fit")
    );
    assert_eq!(check("ptr ptr ptr", "\"x\", \"y\", \"0 - cols\"", 4), Ok(()));
}
