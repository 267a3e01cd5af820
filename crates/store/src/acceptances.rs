//! The life of an acceptance: begun, one entry after the other, ended.
//!
//! Each step is one durable transaction with one event that carries the hash of what it stored, so
//! that an acceptance goes on where a killed process left it.

use pipeline::acceptance::{Claim, Conclusion, Entry, Subject, WindowRecord};
use pipeline::comparison::{Comparison, Suspicion};
use pipeline::digest::Digest;
use pipeline::verdict::Reason;
use serde_json::json;

use crate::error::StoreError;
use crate::limits::ENTRIES_MAX;
use crate::lock::lock_named;
use crate::open::{Store, Work};
use crate::scrubbing;
use crate::tables::{acceptance, attempt, baseline, claim, event, review, run, task};
use crate::{
    AcceptanceId, AcceptanceRow, AcceptanceTimes, AttemptId, ClaimId, Ended, KernelLook,
    NewAcceptance, PilotKey, Purpose, Result, RunId, RunLock,
};

impl Store {
    /// Begins an acceptance of an attempt's candidate.
    ///
    /// # Errors
    /// An unknown attempt, or one without a candidate.
    pub async fn start_acceptance(&self, new: &NewAcceptance<'_>) -> Result<AcceptanceId> {
        let mut work = self.write().await?;
        let bare = attempt::get(work.connection(), new.attempt).await?;
        let variant = bare.variant_id.as_ref().ok_or_else(|| StoreError::Unstorable {
            what: "an acceptance",
            why: format!("attempt {} has no candidate", bare.ask.seq),
        })?;
        let device = match new.card {
            Some(sheet) => task::put_sheet(&mut work, sheet).await?,
            None => task::put_device(&mut work, new.device).await?,
        };
        let id = AcceptanceId::from(work.new_id());
        let protocol = acceptance::insert(&mut work, &id, variant, &device, new).await?;
        let body = json!({
            "acceptance": id.as_str(), "attempt": new.attempt.as_str(), "variant": variant,
            "purpose": new.purpose.name(), "of_claim": new.of_claim.map(ClaimId::as_str),
            "protocol": protocol, "eval_key": new.eval_key, "ptx_hash": new.ptx_hash,
            "cubin_hash": new.cubin_hash, "judge": new.judge_hash,
            "toolchain": new.toolchain_id, "device": device, "process": new.process,
            "seed_hash": seed_hash(new.seed), "started_us": work.now_us,
        });
        event::append(&mut work, &bare.run_id, "acceptance_started", &body).await?;
        work.commit().await?;
        Ok(id)
    }

    /// Lets this process, and no other, look for acceptances of a program for one purpose, begin
    /// one and carry it on, until the lock is dropped.
    ///
    /// # Errors
    /// `RunLocked` with the process that holds it.
    pub fn lock_program(&self, eval_key: &Digest, purpose: Purpose) -> Result<RunLock> {
        lock_named(self.path(), &format!("{}.{eval_key}", purpose.name()))
    }

    /// Stores the next entry without what must not leave; it is on disk when this returns it as it
    /// was stored.
    ///
    /// # Errors
    /// An acceptance that ended, another entry under this number, or one that is none without what
    /// is private in it.
    pub async fn append_entry(
        &self,
        id: &AcceptanceId,
        position: u32,
        entry: &Entry,
    ) -> Result<Entry> {
        let mut work = self.write().await?;
        // Before anything follows from it: a claim says what its entries say.
        let entry = scrubbing::value(&work.scrubber, "an entry", entry)?;
        let row = running(&mut work, id).await?;
        let count = acceptance::entry_count(work.connection(), id).await?;
        if position != count || count >= ENTRIES_MAX {
            let why = format!("entry {position} was given to one with {count}");
            return Err(StoreError::Unstorable { what: "an entry", why });
        }
        let hash = acceptance::insert_entry(&mut work, id, position, &entry).await?;
        keep_pilot(&mut work, &row, &entry).await?;
        let body = json!({
            "acceptance": id.as_str(), "position": position,
            "kind": acceptance::kind_of(&entry), "entry": hash,
        });
        event::append(&mut work, &row.run_id, "acceptance_entry", &body).await?;
        work.commit().await?;
        Ok(entry)
    }

    /// Ends an acceptance. One that was for a claim becomes a claim, or waits for a person.
    ///
    /// # Errors
    /// An acceptance that ended.
    pub async fn end_acceptance(
        &self,
        id: &AcceptanceId,
        conclusion: &Conclusion,
    ) -> Result<Ended> {
        let mut work = self.write().await?;
        let row = running(&mut work, id).await?;
        let hash = acceptance::end(&mut work, id, conclusion).await?;
        let body = json!({
            "acceptance": id.as_str(), "kind": conclusion.verdict.kind.name(),
            "reason": conclusion.verdict.reason.map(Reason::code), "conclusion": hash,
        });
        event::append(&mut work, &row.run_id, "acceptance_ended", &body).await?;
        let ended = match row.purpose {
            Purpose::Claim => follow(&mut work, &row, conclusion).await?,
            Purpose::Measurement | Purpose::Reproduction | Purpose::Recheck => Ended::Nothing,
        };
        work.commit().await?;
        Ok(ended)
    }

    /// The acceptance with this id.
    ///
    /// # Errors
    /// An unknown acceptance.
    pub async fn acceptance(&self, id: &AcceptanceId) -> Result<AcceptanceRow> {
        acceptance::get(&mut *self.read().await?, id).await
    }

    /// The acceptances of a program under one judge, oldest first, whichever run had it.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn acceptances_of_key(&self, key: &Digest) -> Result<Vec<AcceptanceRow>> {
        acceptance::of_key(&mut *self.read().await?, key).await
    }

    /// The acceptances of a run in short, oldest first.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn acceptances_of_run(&self, run: &RunId) -> Result<Vec<AcceptanceTimes>> {
        acceptance::times_of_run(&mut *self.read().await?, run).await
    }

    /// The acceptances of the kernel of an attempt, oldest first: those of equal programs too,
    /// whichever run had them, as only a measurement belongs to its attempt.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn looks_at(&self, attempt: &AttemptId) -> Result<Vec<KernelLook>> {
        acceptance::looks_at(&mut *self.read().await?, attempt).await
    }

    /// The id of an attempt that is named by its number.
    ///
    /// # Errors
    /// An unknown attempt.
    pub async fn attempt_id(&self, run: &RunId, task: &Digest, seq: u32) -> Result<AttemptId> {
        attempt::id_of_seq(&mut *self.read().await?, run, task, seq).await
    }

    /// The newest acceptances on a model of card that ended with a conclusion about times, newest
    /// first, so many of each purpose.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn acceptance_times(&self, device_model: &str) -> Result<Vec<AcceptanceTimes>> {
        acceptance::times_on(&mut *self.read().await?, device_model).await
    }

    /// The entries of an acceptance, in their order.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn entries(&self, id: &AcceptanceId) -> Result<Vec<Entry>> {
        acceptance::entries(&mut *self.read().await?, id).await
    }

    /// The secret of an acceptance, 64 hexadecimal digits, for whoever carries it on; never to be
    /// shown before its claim.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn acceptance_seed(&self, id: &AcceptanceId) -> Result<String> {
        acceptance::seed(&mut *self.read().await?, id).await
    }

    /// A pilot that an earlier acceptance made.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn pilot(&self, key: &PilotKey<'_>) -> Result<Option<WindowRecord>> {
        baseline::get(&mut *self.read().await?, key).await
    }
}

/// What an event says of a secret: enough to notice that it was changed, no more.
pub(crate) fn seed_hash(seed: &str) -> Digest {
    Digest::of_parts("acceptance-seed", &[seed.as_bytes()])
}

async fn running(work: &mut Work, id: &AcceptanceId) -> Result<AcceptanceRow> {
    let row = acceptance::get(work.connection(), id).await?;
    match row.conclusion {
        None => Ok(row),
        Some(_) => {
            let why = format!("{id} has ended");
            Err(StoreError::Unstorable { what: "a step of an acceptance", why })
        }
    }
}

/// A measured pilot is used by later acceptances too.
async fn keep_pilot(work: &mut Work, row: &AcceptanceRow, entry: &Entry) -> Result<()> {
    let Entry::Pilot(record) = entry else { return Ok(()) };
    let Subject::Baseline(baseline) = &record.subject else { return Ok(()) };
    if record.median_ns().is_none() {
        return Ok(());
    }
    let task = attempt::get(work.connection(), &row.attempt_id).await?.task_hash;
    let key = PilotKey {
        task: &task,
        case: &record.case,
        baseline,
        device_model: &row.device_model,
        framework: &framework(&record.versions),
        judge_hash: &row.judge_hash,
    };
    baseline::put(work, &key, record).await
}

/// Versions as one text, whatever their order.
#[must_use]
pub fn framework(versions: &[(String, String)]) -> String {
    let mut parts: Vec<_> =
        versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    parts.sort();
    parts.join(", ")
}

/// Makes a claim of an end, or has a person look.
async fn follow(work: &mut Work, row: &AcceptanceRow, conclusion: &Conclusion) -> Result<Ended> {
    if let Some(claimed) = &conclusion.claim {
        return Ok(Ended::Claimed(make_claim(work, row, claimed).await?));
    }
    let Some(Comparison::Suspect(suspicion)) = conclusion.comparison else {
        return Ok(Ended::Nothing);
    };
    let name = suspicion_name(suspicion);
    review::insert(work, &row.id, name, &conclusion.cause).await?;
    let body = json!({
        "acceptance": row.id.as_str(), "suspicion": name, "detail": conclusion.cause,
    });
    event::append(work, &row.run_id, "review_opened", &body).await?;
    Ok(Ended::Waits)
}

/// Stores a claim with its event.
pub(crate) async fn make_claim(
    work: &mut Work,
    row: &AcceptanceRow,
    claimed: &Claim,
) -> Result<ClaimId> {
    let id = ClaimId::from(work.new_id());
    let (_, head) = run::event_head(work.connection(), &row.run_id).await?;
    let hash = claim::insert(work, &id, &row.id, claimed, &head).await?;
    let body = json!({
        "claim": id.as_str(), "acceptance": row.id.as_str(), "hash": hash, "chain_head": head,
        "baseline": claimed.against.baseline.to_string(),
        "interval": claim::interval(claimed)?, "baseline_set": claim::baseline_set(claimed),
    });
    event::append(work, &row.run_id, "claimed", &body).await?;
    Ok(id)
}

fn suspicion_name(suspicion: Suspicion) -> &'static str {
    match suspicion {
        Suspicion::Physics => "PHYSICS",
        Suspicion::Audit => "AUDIT",
    }
}
