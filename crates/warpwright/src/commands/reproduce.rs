//! `reproduce`: somebody's claim, measured again here with fresh seeds.

#[cfg(test)]
mod tests;

use fleet::bundle::{Bundle, Checked, Manifest};
use fleet::limits::BUNDLE_BYTES_MAX;
use judge::{Build, Judge, JudgeError, judge_hash};
use pipeline::acceptance::Entry;
use pipeline::attempt::Mode;
use pipeline::digest::Digest;
use pipeline::next_step::Ask;
use pipeline::prompt::Prompt;
use pipeline::reply;
use pipeline::reproduction::{
    Circumstances, Conditions, Reproduction, confirms, incomparable, reproduced,
};
use pipeline::task::Task;
use pipeline::transcript::Usage;
use pipeline::verdict::Verdict;
use store::{
    AcceptanceRow, AttemptRow, CallTarget, CheckOutcome, ClaimRow, ClaimState, NewBuild,
    NewCandidate, NewCheck, NewRun, NewTask, Purpose, Reservation, RunKind, RunState, SettledReply,
    Store,
};

use crate::claims::carry::Carried;
use crate::claims::subject::Subject;
use crate::claims::{self, Aim, Effort, NEEDS_GPU, words};
use crate::cli::ReproduceArgs;
use crate::commands::accept;
use crate::gpus::DeviceSetting;
use crate::outcome::{Exit, Outcome, bad_input};
use crate::settings::model::ModelSetting;
use crate::settings::{Places, RunSettings};
use crate::{admission, embedded, gpus, terminal, wiring};

/// Reproduces the claim of a bundle.
pub(crate) async fn perform(places: &Places, args: &ReproduceArgs) -> anyhow::Result<Outcome> {
    let bytes = wiring::read_capped(&args.bundle, BUNDLE_BYTES_MAX)?;
    let refused = |why| bad_input(format!("{}: refused: {why}", args.bundle.display()));
    let (bundle, checked) = Bundle::read(&bytes).map_err(refused)?;
    describe(&bundle.manifest);
    announce_task(&bundle, &checked.task, args.trust_task)?;
    if gpus::chosen(places, &places.device)?.is_none() {
        return Ok(not_comparable(NEEDS_GPU));
    }
    let Some(judge) = claims::gpu_judge(places)? else { return Ok(not_comparable(NEEDS_GPU)) };
    let Checked { task, candidate } = checked;
    let claimed = claimed_conditions(&bundle.manifest);
    let any = places.toolchain == device::toolchain::Choice::Any;
    let config = judge.config();
    let here = Conditions {
        device_model: config.device.model.clone(),
        toolchain_id: config.toolchain_id.clone(),
        ptx_hash: String::new(),
    };
    if let Some(why) = incomparable(&claimed, &here, any) {
        return Ok(not_comparable(&why));
    }
    let tunables = bundle.manifest.tunables.clone();
    let subject = Subject::built(&judge, task, candidate, tunables, None)?;
    let here = Conditions { ptx_hash: subject.ptx_hash().to_owned(), ..here };
    if claimed.toolchain_id == here.toolchain_id && claimed.ptx_hash != here.ptx_hash {
        return Ok(not_reproduced("the source compiles to another program than the claimed one"));
    }
    let store = wiring::ledger(places).await?;
    let measuring = Measuring { store: &store, judge: &judge, bundle: &bundle, subject: &subject };
    let outcome = measuring.measure(args, (&claimed, &here)).await;
    store.close().await;
    outcome
}

fn describe(manifest: &Manifest) {
    let (short, model) = (manifest.hashes.candidate.short(), &manifest.device_model);
    terminal::line(&format!("claimed for {} (candidate {short}) on {model}:", manifest.task));
    let tier = pipeline::acceptance::Tier::Claimed;
    terminal::line(&format!("  {}", words::headline(&manifest.claim, tier)));
    for weakness in &manifest.claim.weaknesses {
        terminal::line(&format!("  weak task: {weakness}"));
    }
}

/// Says which code of a stranger will run as the user; a task that this program does not ship
/// needs the user's word first.
fn announce_task(bundle: &Bundle, task: &Task, trusted: bool) -> anyhow::Result<()> {
    let name = &task.spec.name;
    terminal::line(&format!("the bundle brings its own task `{name}` (sha256 {})", task.hash));
    if let Some(module) = &task.module {
        let hash = Digest::of_bytes(module.as_bytes());
        terminal::line(&format!("  its reference.py (sha256 {hash}) runs as you, unconfined"));
    }
    let shipped = embedded::task(name);
    if shipped.as_ref() == Some(&bundle.task_files) {
        terminal::line("  byte for byte the task that this program ships");
        return Ok(());
    }
    if shipped.is_some() {
        terminal::line(&format!("  it is not the built-in `{name}`: it may ask for less"));
    }
    if trusted {
        return Ok(());
    }
    Err(bad_input(format!(
        "the bundle's task `{name}` is not one that this program ships, and a reference.py in it \
         would run as you; read it (`tar --zstd -xf FILE`), then add --trust-task"
    )))
}

fn claimed_conditions(manifest: &Manifest) -> Conditions {
    Conditions {
        device_model: manifest.device_model.clone(),
        toolchain_id: manifest.hashes.toolchain_id.clone(),
        ptx_hash: manifest.hashes.ptx.clone(),
    }
}

pub(crate) fn not_comparable(why: &str) -> Outcome {
    terminal::line(&format!("NOT COMPARABLE: {why}"));
    Outcome::ended(Exit::NotAvailable, why).with("outcome", CheckOutcome::NotComparable.name())
}

fn not_reproduced(why: &str) -> Outcome {
    terminal::line(&format!("NOT REPRODUCED: {why}"));
    Outcome::ended(Exit::NotReproduced, why).with("outcome", CheckOutcome::NotReproduced.name())
}

/// One reproduction on this machine.
struct Measuring<'a> {
    store: &'a Store,
    judge: &'a Judge,
    bundle: &'a Bundle,
    subject: &'a Subject,
}

impl Measuring<'_> {
    async fn measure(
        &self,
        args: &ReproduceArgs,
        (claimed, here): (&Conditions, &Conditions),
    ) -> anyhow::Result<Outcome> {
        let purpose = Purpose::Reproduction;
        let weaknesses = self.weaknesses().await?;
        let _lock = self.store.lock_program(&self.subject.eval_key, purpose)?;
        let attempt = match self.interrupted().await? {
            Some(attempt) => attempt,
            None => store_attempt(self.store, self.judge, self.bundle, self.subject).await?,
        };
        let against = Some(&self.bundle.manifest.claim.against.baseline);
        let (of_claim, weaknesses) = (None, &weaknesses[..]);
        let aim = Aim { attempt: &attempt.id, purpose, of_claim, weaknesses, against, named: "" };
        let protocol = &self.bundle.manifest.protocol;
        let effort = Effort { rounds_max: protocol.rounds_max, confidence: protocol.confidence };
        let pace = accept::pace(args.deadline);
        let taken = claims::take(self.store, self.judge, self.subject, aim, effort, &pace);
        let (row, carried) = taken.await?;
        let conclusion = match carried {
            Carried::Ended(conclusion, _) => conclusion,
            Carried::Deadline(_) | Carried::Interrupted(_) => {
                return accept::told(self.store, &row, &carried).await;
            }
        };
        let manifest = &self.bundle.manifest;
        let found = reproduced((&manifest.claim, claimed), (&conclusion, here));
        self.store.close_attempt(&attempt.id, &conclusion.verdict).await?;
        let state = RunState::Finished;
        self.store.finish_run(&attempt.run_id, state, "the bundle was measured").await?;
        settle(self.store, self.bundle, &row, &found).await
    }

    /// What the bundle's task leaves open, proven here, whatever the claim says of it.
    async fn weaknesses(&self) -> anyhow::Result<Vec<String>> {
        let loaded = wiring::parse_task(self.bundle.task_files.clone())?;
        let found = admission::weaknesses(self.store, self.judge, &loaded).await;
        let found = found.map_err(refused_task)?;
        for line in weakness_lines(&self.bundle.manifest.claim.weaknesses, &found) {
            terminal::line(&line);
        }
        Ok(found)
    }

    /// The attempt of a reproduction of the same program that was interrupted.
    async fn interrupted(&self) -> anyhow::Result<Option<AttemptRow>> {
        let rows = self.store.acceptances_of_key(&self.subject.eval_key).await?;
        let toolchain = &self.judge.config().toolchain_id;
        let open = rows.into_iter().find(|row| {
            row.purpose == Purpose::Reproduction
                && row.conclusion.is_none()
                && row.toolchain_id == *toolchain
        });
        match open {
            Some(row) => Ok(Some(self.store.attempt(&row.attempt_id).await?)),
            None => Ok(None),
        }
    }
}

/// A task that nothing can be judged by makes a bundle that nothing can be told by.
fn refused_task(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<JudgeError>() {
        Ok(JudgeError::Refused(why)) => bad_input(why),
        Ok(reference @ JudgeError::Reference { .. }) => bad_input(reference),
        Ok(other) => other.into(),
        Err(other) => other,
    }
}

/// What is found open in a task here, held against what its claim says.
fn weakness_lines(claimed: &[String], found: &[String]) -> Vec<String> {
    let line = |weakness: &String| {
        let silent =
            if claimed.contains(weakness) { "" } else { ", and the claim does not say so" };
        format!("weak task, found here{silent}: {weakness}")
    };
    found.iter().map(line).collect()
}

/// Stores what came of it, and what becomes of the claim where this ledger has it.
pub(crate) async fn settle(
    store: &Store,
    bundle: &Bundle,
    row: &AcceptanceRow,
    found: &Reproduction,
) -> anyhow::Result<Outcome> {
    let (outcome, detail) = in_words(found);
    let own = own_claim(store, bundle).await?;
    let becomes = match &own {
        Some(own) if own.first.eval_key == row.eval_key => own.becomes(store, row, found).await?,
        // Another program, judge or compiler says nothing about the one that was claimed.
        Some(_) | None => None,
    };
    let new = NewCheck {
        acceptance: &row.id,
        claim: own.as_ref().map(|own| &own.claim.id),
        bundle: Some(&bundle.digest),
        outcome,
        detail: &detail,
        becomes,
    };
    store.record_check(&new).await?;
    let told = told(outcome, &detail).with("acceptance", row.id.to_string());
    let Some(own) = own else { return Ok(told) };
    let now = store.claim(own.claim.id.as_str()).await?;
    terminal::line(&words::of_row(&now));
    Ok(told.with("claim", words::as_json(&now)))
}

/// An outcome with its reason or its numbers.
fn in_words(found: &Reproduction) -> (CheckOutcome, String) {
    match found {
        Reproduction::Reproduced { claimed, found } => {
            let detail = format!("{claimed:.3}x was claimed, {found:.3}x was found");
            (CheckOutcome::Reproduced, detail)
        }
        Reproduction::NotReproduced(why) => (CheckOutcome::NotReproduced, why.clone()),
        Reproduction::NotComparable(why) => (CheckOutcome::NotComparable, why.clone()),
    }
}

fn told(outcome: CheckOutcome, detail: &str) -> Outcome {
    match outcome {
        CheckOutcome::NotReproduced => not_reproduced(detail),
        CheckOutcome::NotComparable => not_comparable(detail),
        CheckOutcome::Reproduced
        | CheckOutcome::Holds
        | CheckOutcome::Weaker
        | CheckOutcome::Lost => {
            terminal::line(&format!("REPRODUCED: {detail}"));
            Outcome::done().with("outcome", outcome.name())
        }
    }
}

/// A claim of this ledger and the acceptance behind it, as they stand in the ledger.
struct Own {
    claim: ClaimRow,
    first: AcceptanceRow,
    entries: Vec<Entry>,
}

impl Own {
    /// What becomes of the claim; only the ledger says where and when it was made.
    async fn becomes(
        &self,
        store: &Store,
        row: &AcceptanceRow,
        found: &Reproduction,
    ) -> anyhow::Result<Option<ClaimState>> {
        let AcceptanceRow { process, started_us, .. } = &self.first;
        let first = Circumstances::of(process, *started_us, &self.entries);
        let entries = store.entries(&row.id).await?;
        let again = Circumstances::of(&row.process, row.started_us, &entries);
        let provisional = self.claim.state == ClaimState::Claimed;
        Ok(match found {
            Reproduction::NotReproduced(_) => Some(ClaimState::Withdrawn),
            Reproduction::Reproduced { .. } if provisional && confirms(&first, &again) => {
                Some(ClaimState::Confirmed)
            }
            Reproduction::Reproduced { .. } | Reproduction::NotComparable(_) => None,
        })
    }
}

/// The claim of the bundle, where this ledger made it and everything that it follows from is in
/// both: an id, and whatever else a manifest says of itself, could be anybody's.
async fn own_claim(store: &Store, bundle: &Bundle) -> anyhow::Result<Option<Own>> {
    let manifest = &bundle.manifest;
    let Ok(claim) = store.claim(&manifest.claim_id).await else { return Ok(None) };
    let first = store.acceptance(&claim.acceptance_id).await?;
    let entries = store.entries(&first.id).await?;
    let same = claim.id.as_str() == manifest.claim_id
        && claim.chain_head == manifest.chain_head
        && first.eval_key == manifest.hashes.eval_key
        && store.acceptance_seed(&first.id).await? == manifest.seed
        && claim.claim == manifest.claim
        && entries == bundle.entries;
    Ok(same.then_some(Own { claim, first, entries }))
}

/// Stores the bundle's kernel as an attempt of a run of its own, up to its build.
async fn store_attempt(
    store: &Store,
    judge: &Judge,
    bundle: &Bundle,
    subject: &Subject,
) -> anyhow::Result<AttemptRow> {
    let task = NewTask::of(&subject.task, &bundle.task_files);
    let name = &subject.task.spec.name;
    let settings = RunSettings::simple(name, ModelSetting::Lines, 1, DeviceSetting::Auto);
    let config = judge.config();
    let secret = serde_json::to_string(&wiring::seed_text(&wiring::fresh_seed()?))?;
    let run = store
        .start_run(&NewRun {
            kind: RunKind::Manual,
            settings_json: &settings.to_json()?,
            secret_seeds_json: &secret,
            judge_hash: judge_hash().as_str(),
            toolchain_id: &config.toolchain_id,
            prompts_hash: Digest::of_bytes(b"").as_str(),
            tasks: &[task],
            device: &config.device,
            gpus: config.gpus.as_ref().map_or(&[][..], |gpus| &gpus.sheets),
        })
        .await?;
    let ask = Ask { seq: 1, mode: Mode::First, parent: None, subset_notice: false };
    let prompt = Prompt { mode: ask.mode, messages: Vec::new() };
    let target = CallTarget { provider: "bundle", model: "a stranger", price_json: "\"Free\"" };
    let nothing = Reservation::default();
    let id = store.open_attempt(&run, task.hash, &ask, &prompt, nothing, target).await?.id;
    store.mark_sent(&id).await?;
    store.settle_reply(&id, &settled(bundle)).await?;
    let candidate = subject.candidate.id();
    let new = NewCandidate {
        id: &candidate,
        source: &subject.candidate.source,
        plan_text: &subject.candidate.plan_text,
        tunables: &subject.tunables,
    };
    store.record_parsed(&id, &new).await?;
    store.record_built(&id, &built(&subject.build)).await?;
    Ok(store.attempt(&id).await?)
}

fn settled(bundle: &Bundle) -> SettledReply {
    SettledReply {
        text: reply::compose(&bundle.source, &bundle.plan),
        usage: Some(Usage::default()),
        finish_reason: "stop".to_owned(),
        model: format!("bundle {}", bundle.digest.short()),
        latency_ms: 0,
        cost_nusd: Some(0),
        drift: false,
        reasoning: String::new(),
        http_log: String::new(),
    }
}

fn built(build: &Build) -> NewBuild<'_> {
    let verdict: Option<&Verdict> = build.verdict.as_ref();
    NewBuild {
        id: &build.id,
        facts: build.facts.as_ref(),
        diagnostics: &build.diagnostics,
        log: &build.log,
        ptx: Some(&build.ptx),
        cubin: Some(&build.cubin),
        verdict,
        held: build.held.as_ref(),
    }
}
