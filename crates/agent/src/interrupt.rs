//! Asking a run to stop: by a person, or because its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use judge::CancelFlag;
use tokio::sync::watch;

/// Asks a run to stop: once after the step in hand, where the reply to a question that was sent
/// belongs to its step; twice at once. Either way `resume` goes on from what is stored.
#[derive(Clone, Debug)]
pub struct Interrupt {
    requests: Arc<watch::Sender<u32>>,
    /// The request that ends an attempt after its step in hand.
    ends_attempts: u32,
    cancel: CancelFlag,
    time_is_over: Arc<AtomicBool>,
    cards_are_spent: Arc<AtomicBool>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self {
            requests: Arc::new(watch::Sender::new(0)),
            ends_attempts: 1,
            cancel: CancelFlag::default(),
            time_is_over: Arc::default(),
            cards_are_spent: Arc::default(),
        }
    }
}

impl Interrupt {
    /// One whose first request only means that nothing new is begun.
    #[must_use]
    pub fn patient() -> Self {
        Self { ends_attempts: 2, ..Self::default() }
    }

    /// Asks to stop; a second time ends what is running or waited for.
    pub fn request(&self) {
        self.requests.send_modify(|requests| *requests = requests.saturating_add(1));
        if *self.requests.borrow() > 1 {
            self.cancel.cancel();
        }
    }

    /// True once a stop was asked for.
    #[must_use]
    pub fn was_requested(&self) -> bool {
        *self.requests.borrow() > 0
    }

    /// True once attempts must end after their step in hand.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.requests.borrow() >= self.ends_attempts
    }

    /// Ends what is running or waited for because the run's time is over.
    pub(crate) fn expire(&self) {
        self.time_is_over.store(true, Ordering::SeqCst);
        self.requests.send_modify(|requests| *requests = requests.saturating_add(2));
        self.cancel.cancel();
    }

    /// Notes that the run stops for want of GPU-seconds.
    pub(crate) fn note_cards_spent(&self) {
        self.cards_are_spent.store(true, Ordering::SeqCst);
    }

    /// Ends what is running or waited for because it would use more GPU-seconds than there are.
    pub fn expire_cards(&self) {
        self.note_cards_spent();
        self.requests.send_modify(|requests| *requests = requests.saturating_add(2));
        self.cancel.cancel();
    }

    /// True once the run stops for want of GPU-seconds.
    pub(crate) fn are_cards_spent(&self) -> bool {
        self.cards_are_spent.load(Ordering::SeqCst)
    }

    /// True once the run's time is over.
    pub(crate) fn is_time_over(&self) -> bool {
        self.time_is_over.load(Ordering::SeqCst)
    }

    /// Returns once a stop was asked for.
    pub(crate) async fn first_request(&self) {
        self.reached(1).await;
    }

    /// Returns once attempts must end after their step in hand.
    pub(crate) async fn requested(&self) {
        self.reached(self.ends_attempts).await;
    }

    /// Returns once a stop was asked for a second time.
    pub(crate) async fn at_once(&self) {
        self.reached(2).await;
    }

    async fn reached(&self, wanted: u32) {
        let mut requests = self.requests.subscribe();
        // The sender is in `self`, so that the channel cannot close meanwhile.
        let _ = requests.wait_for(|requests| *requests >= wanted).await;
    }

    /// The flag that children watch.
    #[must_use]
    pub fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone()
    }
}
