//! Who of a run's looks has which card. Where a card goes out of service while a look waits for it,
//! and another one is idle, the look goes on there from its last stored step; else it waits until
//! the card is back. A look changes cards only so often: its kernel may be what harms them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use judge::CancelFlag;

use crate::limits::{LANE_CHANGES_MAX, LANE_POLL_MS};

/// True for a card that is in service.
pub(crate) type InService = Arc<dyn Fn(usize) -> bool + Send + Sync>;

/// Cards by their numbers.
pub(crate) struct Lanes {
    /// Those that nobody uses; whichever was given back first is the next.
    free: Mutex<Vec<usize>>,
    in_service: InService,
}

impl Lanes {
    pub(crate) fn new(count: usize, in_service: InService) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new((0..count).collect()), in_service })
    }

    /// One that nobody uses and that is in service.
    fn take_in_service(&self) -> Option<usize> {
        let mut free = self.free();
        let at = free.iter().position(|lane| (self.in_service)(*lane))?;
        Some(free.remove(at))
    }

    /// One that nobody uses: in service if there is one.
    fn take(&self) -> Option<usize> {
        self.take_in_service().or_else(|| {
            let mut free = self.free();
            (!free.is_empty()).then(|| free.remove(0))
        })
    }

    /// Takes one for a look that is still under way; true where there was one.
    fn take_for(&self, next: &Mutex<Next>) -> bool {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = if *next == Next::Open { self.take_in_service() } else { None };
        if let Some(lane) = taken {
            *next = Next::Taken(lane);
        }
        taken.is_some()
    }

    fn give_back(&self, lane: usize) {
        self.free().push(lane);
    }

    /// Performs a look on a card, and on another one where the first went out of service and the
    /// look says that it was stopped; `None` where all are taken. `stop` is the whole run's.
    pub(crate) async fn perform<T, F>(
        self: &Arc<Self>,
        stop: &CancelFlag,
        was_stopped: impl Fn(&T) -> bool,
        look: impl Fn(usize, CancelFlag) -> F,
    ) -> Option<T>
    where
        F: Future<Output = T>,
    {
        let mut lane = self.take()?;
        let mut changes = 0;
        loop {
            let watch = self.watch(lane, changes < LANE_CHANGES_MAX, stop);
            let done = look(lane, watch.flag.clone()).await;
            let next = watch.end();
            self.give_back(lane);
            match next {
                Some(next) if was_stopped(&done) && !stop.is_cancelled() => lane = next,
                Some(next) => {
                    self.give_back(next);
                    return Some(done);
                }
                None => return Some(done),
            }
            changes += 1;
        }
    }

    /// Looks after a card beside the look, which keeps its thread.
    fn watch(self: &Arc<Self>, lane: usize, may_change: bool, stop: &CancelFlag) -> Watch {
        let (flag, next) = (CancelFlag::new(), Arc::new(Mutex::new(Next::Open)));
        let (lanes, stop) = (Arc::clone(self), stop.clone());
        let (own, found) = (flag.clone(), Arc::clone(&next));
        let task = tokio::spawn(async move {
            while !own.is_cancelled() {
                tokio::time::sleep(Duration::from_millis(LANE_POLL_MS)).await;
                let goes_on = || may_change && !(lanes.in_service)(lane) && lanes.take_for(&found);
                if stop.is_cancelled() || goes_on() {
                    own.cancel();
                }
            }
        });
        Watch { flag, next, task }
    }

    /// A poisoned lock only means that another task panicked while it held plain numbers.
    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a look goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// On its card.
    Open,
    /// On this one, which was taken for it.
    Taken(usize),
    /// Nowhere: it has ended.
    Ended,
}

struct Watch {
    /// What the look's children watch.
    flag: CancelFlag,
    next: Arc<Mutex<Next>>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// Nothing is taken after this.
    fn end(self) -> Option<usize> {
        self.task.abort();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *next, Next::Ended) {
            Next::Taken(lane) => Some(lane),
            Next::Open | Next::Ended => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use judge::CancelFlag;

    use super::Lanes;
    use crate::limits::LANE_CHANGES_MAX;

    /// Cards of which each can be taken out of service.
    struct Cards {
        lanes: Arc<Lanes>,
        parked: Arc<Mutex<Vec<usize>>>,
    }

    fn cards(count: usize, parked: &[usize]) -> Cards {
        let parked = Arc::new(Mutex::new(parked.to_vec()));
        let known = Arc::clone(&parked);
        let in_service = move |lane: usize| !known.lock().unwrap().contains(&lane);
        Cards { lanes: Lanes::new(count, Arc::new(in_service)), parked }
    }

    /// Waits until it is stopped, as for a card that is out of service.
    async fn wait(flag: CancelFlag) {
        while !flag.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[derive(Clone, Debug, PartialEq)]
    enum End {
        On(usize),
        Stopped,
    }

    /// A look whose card goes out of service under it where it is one of `fail`.
    async fn look(cards: &Cards, fail: &[usize], stop: &CancelFlag) -> (Option<End>, Vec<usize>) {
        let seen = Mutex::new(Vec::new());
        let done = cards
            .lanes
            .perform(
                stop,
                |done| *done == End::Stopped,
                |lane, flag| {
                    seen.lock().unwrap().push(lane);
                    let parked = Arc::clone(&cards.parked);
                    async move {
                        if !fail.contains(&lane) {
                            return End::On(lane);
                        }
                        parked.lock().unwrap().push(lane);
                        wait(flag).await;
                        End::Stopped
                    }
                },
            )
            .await;
        (done, seen.into_inner().unwrap())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_look_goes_on_on_an_idle_card_that_is_in_service_and_so_often_only() {
        let go = CancelFlag::new();
        for (count, parked, fail, wanted) in [
            (2, &[][..], &[][..], &[0][..]),
            (2, &[0], &[], &[1]),
            (2, &[], &[0], &[0, 1]),
            (3, &[1], &[0], &[0, 2]),
            // All are out of service: it waits for the one that it has.
            (2, &[0, 1], &[], &[0]),
        ] {
            let cards = cards(count, parked);
            let (done, seen) = look(&cards, fail, &go).await;
            let last = End::On(*wanted.last().unwrap());
            assert_eq!((done, seen.as_slice()), (Some(last), wanted), "{parked:?} {fail:?}");
            assert_eq!(cards.lanes.free().len(), count, "all are given back");
        }
        // What harms each card it gets does not get them all.
        let (many, stop) = (cards(8, &[]), CancelFlag::new());
        let ends = stop.clone();
        let parked = Arc::clone(&many.parked);
        tokio::spawn(async move {
            while parked.lock().unwrap().len() <= LANE_CHANGES_MAX as usize {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ends.cancel();
        });
        let (done, seen) = look(&many, &[0, 1, 2, 3, 4, 5, 6, 7], &stop).await;
        assert_eq!((done, seen), (Some(End::Stopped), vec![0, 1, 2]));
        assert_eq!(many.lanes.free().len(), 8);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_has_no_idle_card_waits_until_one_is_given_back() {
        let cards = Arc::new(cards(2, &[]));
        let (go, held) = (CancelFlag::new(), CancelFlag::new());
        let begun = Arc::new(AtomicUsize::new(0));
        let (other, until, count) = (Arc::clone(&cards), held.clone(), Arc::clone(&begun));
        let holder = tokio::spawn(async move {
            let hold = |lane, _| {
                count.fetch_add(1, Ordering::SeqCst);
                let until = until.clone();
                async move {
                    wait(until).await;
                    lane
                }
            };
            other.lanes.perform(&CancelFlag::new(), |_| false, hold).await
        });
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let freed = held.clone();
        let parked = Arc::clone(&cards.parked);
        tokio::spawn(async move {
            while parked.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            freed.cancel();
        });
        let (done, seen) = look(&cards, &[1], &go).await;
        assert_eq!((done, seen), (Some(End::On(0)), vec![1, 0]));
        assert_eq!(holder.await.unwrap(), Some(0));
        let none = super::Lanes::new(0, Arc::new(|_| true));
        assert_eq!(none.perform(&go, |_| false, async |lane, _| lane).await, None);
    }
}
