//! The GPUs of this machine: one exclusive lease each, health after trouble, quarantine.
//!
//! A lease is a slot of this process and a lock on a file that is named by the card's UUID, so that
//! two processes of any kind never use one card at once. Nothing here talks to a driver: children
//! do. Start at [`GpuPool::lease`].

mod parking;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use parking::Parking;
use pipeline::hardware::HardwareSheet;
use pipeline::report::GpuState;
use rustix::fs::{FlockOperation, OFlags, flock};
use sandbox::wire::{ProbeReport, ProbeRequest, Slice};
use sandbox::{CancelFlag, ChildKind, Memfd};

use crate::children::ChildEnd;
use crate::limits::{HEALTH_TRIES_MAX, HEALTH_WAIT, LEASE_POLL, PARKED_POLL, PROBE_LIMITS};
use crate::on_card::wait_unless_cancelled;
use crate::{Judge, JudgeError};

/// The GPUs that a judge may use, all of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuConfig {
    pub sheets: Vec<HardwareSheet>,
    /// Where the lock files are; the same folder for every process of this machine.
    pub lock_folder: PathBuf,
    /// How long the kernels of one run of a candidate may take before they count as hung.
    pub launch_deadline_ms: u64,
    /// Variables that a child needs to find the driver.
    pub environment: Vec<(String, String)>,
    /// Sealed inputs and expected outputs that are kept in memory, in bytes.
    pub case_cache_bytes_max: u64,
}

/// Endings of the files whose locks are a card and the first place in its queue.
const CARD: &str = "lock";
const QUEUE: &str = "queue";

/// Which cards are in use, and which are out of service.
#[derive(Debug)]
pub(crate) struct GpuPool {
    slots: Mutex<Vec<Slot>>,
    freed: Condvar,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Leased,
    Parked(Parking),
}

/// One card, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pool: &'a GpuPool,
    index: usize,
    pub(crate) sheet: &'a HardwareSheet,
    pub(crate) config: &'a GpuConfig,
    /// Locked; the lock ends with it.
    file: Option<File>,
}

impl GpuPool {
    pub(crate) fn new(count: usize) -> Self {
        Self { slots: Mutex::new(vec![Slot::Free; count]), freed: Condvar::new() }
    }

    /// Waits for a card: any, or the one with an index.
    ///
    /// # Errors
    /// Every such card is parked, a lock file cannot be made, or the wait was cancelled.
    pub(crate) fn lease<'a>(
        &'a self,
        config: &'a GpuConfig,
        only: Option<usize>,
        cancel: &CancelFlag,
    ) -> Result<Lease<'a>, JudgeError> {
        let mut slots = self.slots();
        let wanted = |index: &usize| only.is_none_or(|only| only == *index);
        // Whoever stands first in a card's queue is its next holder, so that threads of one
        // process, which hear at once that it is free, don't keep other processes out.
        let mut places: BTreeMap<usize, File> = BTreeMap::new();
        loop {
            if cancel.is_cancelled() {
                return Err(JudgeError::Cancelled);
            }
            let mut chosen = (0..slots.len()).filter(wanted);
            if chosen.all(|index| matches!(slots[index], Slot::Parked(_))) {
                return Err(JudgeError::NotAvailable(all_parked(&slots)));
            }
            for index in (0..slots.len()).filter(wanted) {
                if let Entry::Vacant(place) = places.entry(index)
                    && let Some(file) = lock_of(config, index, QUEUE)?
                {
                    place.insert(file);
                }
                if slots[index] == Slot::Free
                    && places.contains_key(&index)
                    && let Some(file) = lock_of(config, index, CARD)?
                {
                    slots[index] = Slot::Leased;
                    let sheet = &config.sheets[index];
                    return Ok(Lease { pool: self, index, sheet, config, file: Some(file) });
                }
            }
            let waited = self.freed.wait_timeout(slots, LEASE_POLL);
            slots = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Cards that are out of service, with the reason.
    pub(crate) fn parked(&self, config: &GpuConfig) -> Vec<(String, String)> {
        let slots = self.slots();
        let pairs = slots.iter().zip(&config.sheets).filter_map(|(slot, sheet)| match slot {
            Slot::Parked(parking) => Some((sheet.uuid.clone(), parking.why.clone())),
            Slot::Free | Slot::Leased => None,
        });
        pairs.collect()
    }

    /// A poisoned lock only means that another evaluation panicked while it held plain words.
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    /// Takes the card out of service until a look at it finds it healthy.
    pub(crate) fn park(&self, why: &str) {
        self.park_as(Parking::new(why, Instant::now()));
    }

    fn park_as(&self, parking: Parking) {
        self.pool.slots()[self.index] = Slot::Parked(parking);
    }

    /// The environment of a child on this card.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let own = [
            ("CUDA_VISIBLE_DEVICES", self.sheet.uuid.as_str()),
            // Everything is loaded before the first launch is timed.
            ("CUDA_MODULE_LOADING", "EAGER"),
            // Nothing that a candidate causes is kept on a disk.
            ("CUDA_CACHE_DISABLE", "1"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.config.environment.iter().cloned().chain(own).collect()
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // Whoever is told that the card is free must find its lock free.
        drop(self.file.take());
        let mut slots = self.pool.slots();
        if slots[self.index] == Slot::Leased {
            slots[self.index] = Slot::Free;
        }
        self.pool.freed.notify_all();
    }
}

fn all_parked(slots: &[Slot]) -> String {
    let whys = slots.iter().filter_map(|slot| match slot {
        Slot::Parked(parking) => Some(parking.why.as_str()),
        Slot::Free | Slot::Leased => None,
    });
    let whys: Vec<_> = whys.collect();
    if whys.is_empty() {
        return "no GPU is given to this judge".to_owned();
    }
    format!("every GPU is out of service: {}; --device sim needs none", whys.join("; "))
}

/// The first card that nobody has just now, or the first: for what needs one card throughout.
///
/// # Errors
/// A lock file cannot be made, or there is no card.
pub fn free_card(config: &GpuConfig) -> Result<&HardwareSheet, JudgeError> {
    for (index, sheet) in config.sheets.iter().enumerate() {
        if lock_of(config, index, CARD)?.is_some() {
            return Ok(sheet);
        }
    }
    config.sheets.first().ok_or_else(|| JudgeError::NotAvailable(all_parked(&[])))
}

/// A lock of a card; `None` while somebody else holds it.
fn lock_of(config: &GpuConfig, index: usize, kind: &str) -> Result<Option<File>, JudgeError> {
    let name = format!("warpwright-{}.{kind}", config.sheets[index].uuid);
    let path = config.lock_folder.join(name);
    let failed = |error: std::io::Error| {
        JudgeError::NotAvailable(format!("lock file {}: {error}", path.display()))
    };
    // Another user's processes lock the same file, so everybody may open it.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = |create| {
        let mut options = OpenOptions::new();
        options.read(true).create_new(create).write(create);
        options.custom_flags(flags.bits() as i32).open(&path)
    };
    let made = || {
        let file = open(true)?;
        // Whatever the umask says.
        file.set_permissions(Permissions::from_mode(0o666))?;
        Ok(file)
    };
    let file = open(false).or_else(|_| made()).or_else(|_: std::io::Error| open(false));
    let file = file.map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::other("it is not a file")));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}

/// What an evaluation must say of the card's state; `None` when nobody is known to have used it.
pub(crate) fn interference(before: Option<&GpuState>, after: Option<&GpuState>) -> Option<String> {
    let states = [before, after].into_iter().flatten();
    let foreign = states.filter_map(|state| state.foreign_processes).max();
    match foreign {
        Some(count) if count > 0 => {
            Some(format!("{count} other process(es) used the GPU: its time is not taken"))
        }
        Some(_) | None => None,
    }
}

impl Judge {
    /// A card for one child, where this judge has cards. While all are out of service it waits, for
    /// an hour at most, until one has come back.
    pub(crate) fn lease(&self, cancel: &CancelFlag) -> Result<Option<Lease<'_>>, JudgeError> {
        let Some(config) = self.config.gpus.as_ref() else { return Ok(None) };
        loop {
            self.look_at_parked(config, cancel)?;
            match self.pool.lease(config, None, cancel) {
                Err(JudgeError::NotAvailable(_)) if self.pool.may_come_back(Instant::now()) => {
                    wait_unless_cancelled(PARKED_POLL, cancel)?;
                }
                other => return other.map(Some),
            }
        }
    }

    /// Cards that are out of service since they failed a health probe, with the reason.
    #[must_use]
    pub fn parked_gpus(&self) -> Vec<(String, String)> {
        self.config.gpus.as_ref().map_or_else(Vec::new, |config| self.pool.parked(config))
    }

    /// After a fault, a kill or a timeout: true when the card works, else it is parked.
    pub(crate) fn check_health(
        &self,
        lease: &Lease<'_>,
        cancel: &CancelFlag,
    ) -> Result<bool, JudgeError> {
        let mut last = "no answer".to_owned();
        for attempt in 0..HEALTH_TRIES_MAX {
            if attempt > 0 {
                // The driver may still be clearing up after the process that was killed.
                wait_unless_cancelled(HEALTH_WAIT, cancel)?;
            }
            match self.health_once(lease, cancel)? {
                None => return Ok(true),
                Some(why) => last = why,
            }
        }
        lease.park(&format!("{}: {last}", lease.sheet.uuid));
        Ok(false)
    }

    fn health_once(
        &self,
        lease: &Lease<'_>,
        cancel: &CancelFlag,
    ) -> Result<Option<String>, JudgeError> {
        let harness = self.harness(cancel)?;
        let slice = Slice { bulk: 0, offset: 0, bytes: harness.bytes() as u64 };
        let request = ProbeRequest::Health { harness: slice };
        match self.probe(&request, &[&*harness], lease, cancel) {
            Ok(ProbeReport::Health(found)) => Ok(found),
            Ok(_) => Ok(Some("the probe answered something else".to_owned())),
            Err(JudgeError::Cancelled) => Err(JudgeError::Cancelled),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// One probe on a leased card.
    pub(crate) fn probe(
        &self,
        request: &ProbeRequest,
        bulk: &[&Memfd],
        lease: &Lease<'_>,
        cancel: &CancelFlag,
    ) -> Result<ProbeReport, JudgeError> {
        let kind = ChildKind::Probe;
        let end = self.call(kind, request, bulk, &PROBE_LIMITS, Some(lease), cancel)?;
        reported(end)
    }

    /// The cubin of the program's own kernels, compiled once.
    pub(crate) fn harness(&self, cancel: &CancelFlag) -> Result<Arc<Memfd>, JudgeError> {
        if let Some(found) = &*crate::cases::lock(&self.harness) {
            return Ok(Arc::clone(found));
        }
        let build = self.compile_harness(cancel)?;
        if let Some(verdict) = &build.verdict {
            let why = format!("the harness did not compile: {verdict}: {}", verdict.detail);
            return Err(JudgeError::Child { child: "build", why });
        }
        let cubin = Arc::new(sealed("harness", &build.cubin)?);
        *crate::cases::lock(&self.harness) = Some(Arc::clone(&cubin));
        Ok(cubin)
    }
}

/// Bytes in a memory that nobody can write any more.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> Result<Memfd, JudgeError> {
    let mut memfd = Memfd::create(name, bytes.len().max(1))?;
    memfd.fill(0, bytes)?;
    memfd.seal_write()?;
    Ok(memfd)
}

/// A probe's report; any other end means that the driver or the card does not work.
pub(crate) fn reported(end: ChildEnd<ProbeReport>) -> Result<ProbeReport, JudgeError> {
    let failed = |how: &str| {
        JudgeError::NotAvailable(format!("a probe of the NVIDIA driver {how}; try --device sim"))
    };
    match end {
        ChildEnd::Reported(report) => Ok(report),
        ChildEnd::TimedOut(_) => Err(failed("did not answer in time")),
        ChildEnd::Crashed(why) | ChildEnd::Killed(why) => Err(failed(&format!("died: {why}"))),
        ChildEnd::Broken(why) => Err(failed(&format!("failed: {why}"))),
    }
}

#[cfg(test)]
mod tests;
