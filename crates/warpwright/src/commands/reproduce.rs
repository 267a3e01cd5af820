//! `reproduce`: somebody's claim, measured again here with fresh seeds.

use fleet::bundle::{Bundle, Checked, Manifest};
use fleet::limits::BUNDLE_BYTES_MAX;
use judge::{Build, Judge, judge_hash};
use pipeline::attempt::Mode;
use pipeline::digest::Digest;
use pipeline::next_step::Ask;
use pipeline::prompt::Prompt;
use pipeline::reply;
use pipeline::reproduction::{
    Circumstances, Conditions, Reproduction, confirms, incomparable, reproduced,
};
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
use crate::{embedded, gpus, terminal, wiring};

/// Reproduces the claim of a bundle.
pub(crate) async fn perform(places: &Places, args: &ReproduceArgs) -> anyhow::Result<Outcome> {
    let bytes = wiring::read_capped(&args.bundle, BUNDLE_BYTES_MAX)?;
    let refused = |why| bad_input(format!("{}: refused: {why}", args.bundle.display()));
    let (bundle, checked) = Bundle::read(&bytes).map_err(refused)?;
    describe(&bundle.manifest);
    warn_of_other_task(&checked);
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
}

/// A stranger's task may have a built-in one's name and ask for less.
fn warn_of_other_task(checked: &Checked) {
    let name = &checked.task.spec.name;
    let Some(files) = embedded::task(name) else { return };
    if wiring::parse_task(files).is_ok_and(|own| own.task.hash != checked.task.hash) {
        terminal::line(&format!(
            "note: the bundle's task `{name}` is not the built-in one of that name; read it"
        ));
    }
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
        let attempt = match self.interrupted().await? {
            Some(attempt) => attempt,
            None => store_attempt(self.store, self.judge, self.bundle, self.subject).await?,
        };
        let purpose = Purpose::Reproduction;
        let against = Some(&self.bundle.manifest.claim.against.baseline);
        let (of_claim, weaknesses) = (None, &[]);
        let aim = Aim { attempt: &attempt.id, purpose, of_claim, weaknesses, against };
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

/// Stores what came of it, and what becomes of the claim where this ledger has it.
pub(crate) async fn settle(
    store: &Store,
    bundle: &Bundle,
    row: &AcceptanceRow,
    found: &Reproduction,
) -> anyhow::Result<Outcome> {
    let (outcome, detail) = in_words(found);
    let own = own_claim(store, &bundle.manifest).await;
    let again = Circumstances::of(&row.process, row.started_us, &store.entries(&row.id).await?);
    let Manifest { process, started_us, .. } = &bundle.manifest;
    let first = Circumstances::of(process, *started_us, &bundle.entries);
    let provisional = own.as_ref().is_some_and(|claim| claim.state == ClaimState::Claimed);
    let becomes = match found {
        Reproduction::NotReproduced(_) => Some(ClaimState::Withdrawn),
        Reproduction::Reproduced { .. } if provisional && confirms(&first, &again) => {
            Some(ClaimState::Confirmed)
        }
        Reproduction::Reproduced { .. } | Reproduction::NotComparable(_) => None,
    };
    let new = NewCheck {
        acceptance: &row.id,
        claim: own.as_ref().map(|claim| &claim.id),
        bundle: Some(&bundle.digest),
        outcome,
        detail: &detail,
        becomes,
    };
    store.record_check(&new).await?;
    let told = told(outcome, &detail).with("acceptance", row.id.to_string());
    let Some(claim) = own else { return Ok(told) };
    let now = store.claim(claim.id.as_str()).await?;
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

/// The claim of the bundle, where this ledger made it: an id alone could be anybody's.
async fn own_claim(store: &Store, manifest: &Manifest) -> Option<ClaimRow> {
    let row = store.claim(&manifest.claim_id).await.ok()?;
    (row.chain_head == manifest.chain_head && row.claim.against == manifest.claim.against)
        .then_some(row)
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
    }
}
