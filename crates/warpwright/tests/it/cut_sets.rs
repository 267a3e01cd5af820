//! Cut sets: with all defences of an entry's set off it is judged correct, so it is a real attack;
//! with any single one of them on again it is rejected, so that one works alone.

use judge::{CancelFlag, RunSeed};
use pipeline::task::spec::Place;

use crate::catalogue::{catalogue, each};
use crate::task_files::judge;

#[test]
fn each_defence_of_a_cut_set_works_alone_and_without_all_of_them_the_attack_succeeds() {
    let (catalogue, judge) = (catalogue(), judge());
    let attacks = catalogue.attacks(Place::Sim);
    let (seed, cancel) = (RunSeed([6; 32]), CancelFlag::default());
    let complaints = each(&attacks, |attack| {
        let started = std::time::Instant::now();
        let end = catalogue.attack(attack, &judge, &seed, &cancel).unwrap();
        let said = format!("{}: {}", attack.name(), end.said);
        eprintln!("{said}, {} ms", started.elapsed().as_millis());
        (!end.as_expected).then_some(said)
    });
    let complaints: Vec<String> = complaints.into_iter().flatten().collect();
    assert!(attacks.len() >= 100, "{}", attacks.len());
    assert!(complaints.is_empty(), "{complaints:#?}");
}
