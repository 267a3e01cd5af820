//! What a window is without some defences, as careless harnesses take it; with all of them, nothing
//! here changes anything. Only tests of the judge have defences off.

use pipeline::defence::Defence;
use pipeline::timing::{Operation, Window};
use sandbox::wire::Leniency;

use super::WindowKind;
use super::timed::Contents;
use crate::JudgePolicy;

/// Without B every call finds the contents of the first one.
pub(super) fn contents(policy: JudgePolicy, contents: Contents) -> Contents {
    match policy.has(Defence::B) {
        true => contents,
        false => std::array::from_fn(|_| contents[0].clone()),
    }
}

/// Without A nothing is overwritten; without B all calls are of one module on one buffer set;
/// without G nothing holds the stream or empties the cache.
pub(super) fn window(policy: JudgePolicy, kind: WindowKind, mut window: Window) -> Window {
    // The others have rules of their own, and belong to defences of their own.
    if !matches!(kind, WindowKind::Search | WindowKind::Accept { .. } | WindowKind::Paired) {
        return window;
    }
    let left_out = |operation: &Operation| match operation {
        Operation::Poison | Operation::ScrubShared => !policy.has(Defence::A),
        Operation::ResetModule => !policy.has(Defence::B),
        Operation::FlushCache | Operation::CloseGate => !policy.has(Defence::G),
        Operation::OpenGate => !policy.has(Defence::G),
        Operation::Refill | Operation::StartEvent | Operation::Plan => false,
        Operation::StopEvent | Operation::HashOutputs | Operation::Wait => false,
    };
    window.cold_operations.retain(|operation| !left_out(operation));
    window.warm_operations.retain(|operation| !left_out(operation));
    if !policy.has(Defence::B) {
        window.sets = 1;
        window.cold_samples.iter_mut().for_each(|sample| sample.set = 0);
    }
    window
}

/// What is forgiven of an output of a slot: without C all but the first slot is believed, without
/// F what careless harnesses forgive, of the main output alone.
pub(super) fn leniency(policy: JudgePolicy, is_first: bool, output: usize) -> Leniency {
    let careless = !policy.has(Defence::F);
    if !policy.has(Defence::C) && !is_first || careless && output > 0 {
        return Leniency::Everything;
    }
    if careless { Leniency::Tolerance } else { Leniency::None }
}

#[cfg(test)]
mod tests {
    use pipeline::timing::{COLD, Operation, WARM, Window};
    use sandbox::wire::Leniency;

    use super::{WindowKind, leniency, window};
    use crate::JudgePolicy;

    #[test]
    fn a_judge_with_its_defences_leaves_nothing_out() {
        let full = Window::search(1 << 20, 60 << 20, [1, 2]);
        let same = window(JudgePolicy::all(), WindowKind::Search, full.clone());
        assert_eq!(same, full);
        assert_eq!((full.cold_operations, full.warm_operations), (COLD.to_vec(), WARM.to_vec()));
        assert_eq!(leniency(JudgePolicy::all(), false, 1), Leniency::None);
    }

    #[cfg(feature = "judge-mutation")]
    #[test]
    fn each_defence_that_is_off_leaves_its_part_out() {
        use pipeline::defence::Defence;

        let full = Window::search(1 << 20, 60 << 20, [1, 2]);
        for (off, gone) in [
            (Defence::A, vec![Operation::Poison, Operation::ScrubShared]),
            (Defence::B, vec![Operation::ResetModule]),
            (Defence::G, vec![Operation::FlushCache, Operation::CloseGate, Operation::OpenGate]),
            (Defence::C, vec![]),
        ] {
            let careless = window(JudgePolicy::without(&[off]), WindowKind::Search, full.clone());
            let left = |it: &&Operation| !careless.cold_operations.contains(it);
            let found: Vec<_> = full.cold_operations.iter().filter(left).copied().collect();
            assert!(found.iter().all(|it| gone.contains(it)), "{off:?}: {found:?}");
            assert_eq!(found.len(), gone.len(), "{off:?}");
            assert_eq!(careless.sets == 1, off == Defence::B);
        }
        let (without_c, without_f) = (JudgePolicy::without(&[Defence::C]), [Defence::F]);
        assert_eq!(leniency(without_c, true, 0), Leniency::None);
        assert_eq!(leniency(without_c, false, 0), Leniency::Everything);
        let without_f = JudgePolicy::without(&without_f);
        assert_eq!(leniency(without_f, true, 0), Leniency::Tolerance);
        assert_eq!(leniency(without_f, true, 1), Leniency::Everything);
    }
}
