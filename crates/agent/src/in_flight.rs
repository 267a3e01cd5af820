//! Programs that are judged right now: attempts at the same program take turns, so that only the
//! first runs it and the others find its verdict in the ledger.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pipeline::digest::Digest;
use tokio::sync::OwnedMutexGuard;

type Turn = tokio::sync::Mutex<()>;

/// The turns of the programs that somebody has in hand.
#[derive(Debug, Default)]
pub struct InFlight {
    turns: Mutex<HashMap<Digest, Weak<Turn>>>,
}

impl InFlight {
    /// Waits until no other attempt has this program in hand; the turn ends when the guard is
    /// dropped.
    pub(crate) async fn turn(&self, program: &Digest) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(program).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::new(Turn::default());
                turns.insert(program.clone(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use pipeline::digest::Digest;
    use tokio::task::yield_now;

    use super::InFlight;

    #[tokio::test]
    async fn the_same_program_waits_and_another_does_not() {
        let in_flight = std::sync::Arc::new(InFlight::default());
        let [first, other] = [b"first", b"other"].map(|text| Digest::of_bytes(text));
        let held = in_flight.turn(&first).await;
        drop(in_flight.turn(&other).await);
        let waiting = tokio::spawn({
            let (in_flight, first) = (in_flight.clone(), first.clone());
            async move { drop(in_flight.turn(&first).await) }
        });
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!waiting.is_finished());
        drop(held);
        waiting.await.unwrap();
        drop(in_flight.turn(&first).await);
        assert_eq!(in_flight.turns.lock().unwrap().len(), 1);
    }
}
