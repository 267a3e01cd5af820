//! Cards out of service: when they are looked at again, and how they come back.

use std::time::Instant;

use sandbox::CancelFlag;

use super::{CARD, GpuConfig, GpuPool, Lease, Slot, lock_of};
use crate::limits::{PARKED_LOOK, PARKED_LOOK_MAX, PARKED_MAX};
use crate::{Judge, JudgeError};

/// A card that is out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parking {
    pub(super) why: String,
    since: Instant,
    /// When it is looked at again, and how often it was.
    look_at: Instant,
    looks: u32,
}

impl Parking {
    pub(super) fn new(why: &str, now: Instant) -> Self {
        Self { why: why.to_owned(), since: now, look_at: now + PARKED_LOOK, looks: 0 }
    }

    /// The same after another look in vain: the next one comes after twice the time.
    pub(super) fn again(self, why: &str, now: Instant) -> Self {
        let looks = self.looks.saturating_add(1);
        let wait = PARKED_LOOK.saturating_mul(1 << looks.min(16)).min(PARKED_LOOK_MAX);
        Self { why: why.to_owned(), look_at: now + wait, looks, ..self }
    }
}

impl GpuPool {
    /// A card out of service that is to be looked at again by `now`, for whoever looks.
    ///
    /// # Errors
    /// A lock file cannot be made.
    pub(super) fn due<'a>(
        &'a self,
        config: &'a GpuConfig,
        now: Instant,
    ) -> Result<Option<(Lease<'a>, Parking)>, JudgeError> {
        let mut slots = self.slots();
        for (index, slot) in slots.iter_mut().enumerate() {
            let Slot::Parked(parking) = &*slot else { continue };
            if parking.look_at > now {
                continue;
            }
            let parking = parking.clone();
            // Another process works with it just now: it is looked at later.
            let Some(file) = lock_of(config, index, CARD)? else {
                *slot = Slot::Parked(parking.clone().again(&parking.why, now));
                continue;
            };
            *slot = Slot::Leased;
            let sheet = &config.sheets[index];
            let lease = Lease { pool: self, index, sheet, config, file: Some(file) };
            return Ok(Some((lease, parking)));
        }
        Ok(None)
    }

    /// True while a card that is out of service may come back.
    pub(super) fn may_come_back(&self, now: Instant) -> bool {
        let waits = |slot: &Slot| match slot {
            Slot::Parked(parking) => now.saturating_duration_since(parking.since) < PARKED_MAX,
            Slot::Free | Slot::Leased => false,
        };
        self.slots().iter().any(waits)
    }
}

impl Judge {
    /// Takes cards that are healthy again back into service.
    pub(super) fn look_at_parked(
        &self,
        config: &GpuConfig,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        while let Some((lease, parking)) = self.pool.due(config, Instant::now())? {
            let found = self.health_once(&lease, cancel);
            match &found {
                Ok(None) => {}
                Ok(Some(why)) => {
                    let why = format!("{}: {why}", lease.sheet.uuid);
                    lease.park_as(parking.again(&why, Instant::now()));
                }
                Err(_) => lease.park_as(parking),
            }
            found?;
        }
        Ok(())
    }
}
