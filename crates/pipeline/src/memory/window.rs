//! A window where memory is short.

use super::Rung;
use crate::timing::{SETS_MIN, SampleSpec, Window};

impl Window {
    /// The same window where memory is short: on no more than two sets, contents on the host.
    #[must_use]
    pub fn short_of_memory(self, rung: Rung) -> Self {
        let masters_on_host = rung >= Rung::MastersOnHost;
        if rung < Rung::TwoSets || self.sets <= SETS_MIN {
            return Self { masters_on_host, ..self };
        }
        let moved = |spec: SampleSpec| SampleSpec { set: spec.set % SETS_MIN, ..spec };
        let cold_samples = self.cold_samples.into_iter().map(moved).collect();
        Self { sets: SETS_MIN, masters_on_host, cold_samples, ..self }
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::Rung;
    use crate::timing::Window;

    #[test]
    fn where_memory_is_short_two_sets_and_masters_on_the_host_are_enough() {
        let whole = Window::search(1 << 20, 60 << 20, [1, 2]);
        assert!(whole.sets > 2 && !whole.masters_on_host);
        for (rung, sets, masters_on_host) in [
            (Rung::Everything, whole.sets, false),
            (Rung::ReferenceInTiles, whole.sets, false),
            (Rung::MastersOnHost, whole.sets, true),
            (Rung::TwoSets, 2, true),
            (Rung::SmallerShape, 2, true),
        ] {
            let window = whole.clone().short_of_memory(rung);
            assert_eq!((window.sets, window.masters_on_host), (sets, masters_on_host), "{rung}");
            assert!(window.cold_samples.iter().all(|sample| sample.set < sets));
            let contents = |window: &Window| {
                window.cold_samples.iter().map(|sample| sample.content).collect::<Vec<_>>()
            };
            assert_eq!(contents(&window), contents(&whole));
        }
    }
}
