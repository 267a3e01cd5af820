//! Cut sets: with all defences of an entry's set off it is judged correct, so it is a real attack;
//! with any single one of them on again it is rejected, so that one works alone.

use std::collections::BTreeMap;

use judge::catalogue::{Catalogue, Code, Entry, Stage};
use judge::{CancelFlag, Judge, JudgePolicy, RunSeed};
use pipeline::defence::Defence;

use crate::catalogue::{catalogue, each, on_simulator};
use crate::task_files::judge_with;

/// An entry under a judge with some defences off, and what must come of it.
struct Attack<'a> {
    entry: &'a Entry,
    off: Vec<Defence>,
    passes: bool,
}

fn attacks(catalogue: &Catalogue) -> Vec<Attack<'_>> {
    let mut attacks = Vec::new();
    for entry in catalogue.entries.iter().filter(on_simulator) {
        // The simulator takes no times, so what only a time can show shows itself on a GPU.
        if entry.cut_set.is_empty() || entry.cut_on_gpu {
            continue;
        }
        attacks.push(Attack { entry, off: entry.cut_set.clone(), passes: true });
        for on in &entry.cut_set {
            let off = entry.cut_set.iter().copied().filter(|defence| defence != on).collect();
            attacks.push(Attack { entry, off, passes: false });
        }
    }
    attacks
}

/// What is wrong with the outcome of an attack, in words.
fn complaint(catalogue: &Catalogue, judges: &Judges, attack: &Attack<'_>) -> Option<String> {
    let Attack { entry, off, passes } = attack;
    let started = std::time::Instant::now();
    // What the static gate lets through must also run.
    let last = entry.stage.max(Stage::Search);
    let (seed, cancel) = (RunSeed([6; 32]), CancelFlag::default());
    let judge = &judges[off];
    let ended = catalogue.run_to(entry, last, judge, &seed, &cancel).unwrap();
    let passed = matches!(ended.code, Code::Pass | Code::NoGain);
    let (name, code, stage) = (&entry.name, ended.code, ended.stage.name());
    let said = format!("{name} without {off:?}: {code} ({stage}): {}", ended.detail);
    eprintln!(
        "{}{said}, {} ms",
        if passed == *passes { "" } else { "NOT " },
        started.elapsed().as_millis()
    );
    (passed != *passes).then_some(said)
}

type Judges = BTreeMap<Vec<Defence>, Judge>;

#[test]
fn each_defence_of_a_cut_set_works_alone_and_without_all_of_them_the_attack_succeeds() {
    let catalogue = catalogue();
    let attacks = attacks(&catalogue);
    let judges: Judges = attacks
        .iter()
        .map(|attack| (attack.off.clone(), judge_with(JudgePolicy::without(&attack.off))))
        .collect();
    let complaints = each(&attacks, |attack| complaint(&catalogue, &judges, attack));
    let complaints: Vec<String> = complaints.into_iter().flatten().collect();
    assert!(attacks.len() >= 100, "{}", attacks.len());
    assert!(complaints.is_empty(), "{complaints:#?}");
}
