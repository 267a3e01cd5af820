//! Cards that go out of service and come back: told once each.

use llm::Llm;
use pipeline::notice::Notice;

use crate::engine::Engine;

impl<L: Llm + Sync> Engine<L> {
    /// Notices which cards were parked, or taken back into service, since the last look.
    pub(crate) fn note_cards(&self) {
        let now = self.judge.parked_gpus();
        let before = self.here.note_parked(now.clone());
        for notice in changes(&before, &now) {
            self.notice(&notice);
        }
    }
}

/// What changed between two looks at the cards out of service, each with its reason.
fn changes(before: &[(String, String)], now: &[(String, String)]) -> Vec<Notice> {
    let has = |all: &[(String, String)], gpu: &str| all.iter().any(|(other, _)| other == gpu);
    let parked = now.iter().filter(|(gpu, _)| !has(before, gpu));
    let parked = parked.map(|(gpu, why)| Notice::GpuParked { gpu: gpu.clone(), why: why.clone() });
    let back = before.iter().filter(|(gpu, _)| !has(now, gpu));
    let back = back.map(|(gpu, _)| Notice::GpuUnparked { gpu: gpu.clone() });
    parked.chain(back).collect()
}

#[cfg(test)]
mod tests {
    use pipeline::notice::Notice;

    use super::changes;

    #[test]
    fn each_card_is_told_of_once_when_it_goes_and_once_when_it_is_back() {
        let card = |gpu: &str, why: &str| (gpu.to_owned(), why.to_owned());
        let (one, worse, other) = (card("a", "hot"), card("a", "hotter"), card("b", "lost"));
        let parked = Notice::GpuParked { gpu: "a".to_owned(), why: "hot".to_owned() };
        let back = Notice::GpuUnparked { gpu: "a".to_owned() };
        for (before, now, wanted) in [
            (vec![], vec![one.clone()], vec![parked]),
            (vec![one.clone()], vec![worse], vec![]),
            (vec![one, other.clone()], vec![other], vec![back]),
        ] {
            assert_eq!(changes(&before, &now), wanted);
        }
    }
}
