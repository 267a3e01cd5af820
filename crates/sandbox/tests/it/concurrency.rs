//! Several threads at once: children are started while memories are mapped, written and sealed.

use std::time::Duration;

use sandbox::Memfd;

use crate::{PATIENCE, run_script};

/// A child that was forked but has not executed yet must not keep a memory of ours busy.
#[test]
fn memories_can_be_sealed_while_others_start_children() {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..20).for_each(|_| drop(run_script("exit_3", PATIENCE))));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..400u32 {
                    let mut memory = Memfd::create("memory", 1 << 16).unwrap();
                    memory.map_mut().unwrap().fill(round as u8);
                    std::thread::sleep(Duration::from_micros(100));
                    memory.seal_write().unwrap();
                    assert!(memory.map().unwrap().iter().all(|byte| *byte == round as u8));
                }
            });
        }
    });
}
