//! Mutated PTX must never panic, whatever it means.

use crate::fixtures::FIXTURES;
use proptest::prelude::*;
use ptx_sim::facts::{ModuleFacts, normalised_text};
use ptx_sim::{Access, BlockSelection, Launch, Machine, Program, Target, syntax};

/// Replaces, deletes, doubles or swaps lines, and changes single bytes.
fn mutate(text: &str, edits: &[(u8, u32, u32)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (kind, at, other) in edits {
        let count = lines.len();
        let (at, other) = (*at as usize % count, *other as usize % count);
        match kind % 5 {
            0 => lines[at] = lines[other].clone(),
            1 => lines.swap(at, other),
            2 => {
                let line = lines[other].clone();
                lines.insert(at, line);
            }
            3 => lines[at] = lines[at].chars().skip(other % 7).collect(),
            _ => {
                // Exchanges one word for one of another line.
                let from = lines[other].split_whitespace().last().unwrap_or("").to_owned();
                let to = lines[at].split_whitespace().last().unwrap_or("").to_owned();
                if !to.is_empty() {
                    lines[at] = lines[at].replace(&to, &from);
                }
            }
        }
    }
    lines.join("\n")
}

fn exercise(text: &str) {
    let _ = normalised_text(text);
    let Ok(module) = syntax::parse(text) else { return };
    for entry in ModuleFacts::of(&module).entries {
        let Ok(program) = Program::decode(&module, &[&entry.name]) else { continue };
        let mut machine = Machine::new(Target::for_arch("sm_80").unwrap());
        let buffer = machine.allocate("b", 4096, Access::ReadWrite).unwrap();
        let param = |bytes: u32| {
            let mut value = buffer.to_le_bytes().to_vec();
            value.resize(bytes as usize, 1);
            value
        };
        let params: Vec<Vec<u8>> =
            entry.params.iter().map(|p| param(p.bytes.min(1 << 16))).collect();
        let launch = Launch {
            kernel: &entry.name,
            grid: [2, 1, 1],
            block: [33, 1, 1],
            shared_bytes: 64,
            params: &params,
            budget: 3000,
            blocks: BlockSelection::All,
            shared_poison: 0xff,
            cooperative: false,
            reversed: false,
            threads: 1,
        };
        let _ = machine.launch(&program, &launch);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn mutated_fixtures_never_panic(
        which in 0..FIXTURES.len(),
        edits in prop::collection::vec(any::<(u8, u32, u32)>(), 1..12),
    ) {
        exercise(&mutate(FIXTURES[which].1, &edits));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[ -~\n]{0,200}", head in any::<bool>()) {
        let head = if head { ".version 9.0\n.target sm_90\n.entry k() {" } else { "" };
        exercise(&format!("{head}{text}"));
    }
}
