//! `export`: a claim as one file, with everything that a stranger needs to get it too.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use fleet::bundle::{Bundle, Card, Hashes, Manifest, expected_inputs};
use pipeline::acceptance::{Entry, reviewed};
use pipeline::digest::Digest;
use store::{AcceptanceRow, AttemptRow, ClaimRow, ClaimState, Store};

use crate::claims::approval;
use crate::cli::{ExportArgs, ExportFormat};
use crate::outcome::{Outcome, bad_input};
use crate::selector::{self, Selected, What};
use crate::settings::Places;
use crate::{privacy, terminal, wiring};

/// Writes the bundle of a claim.
pub(crate) async fn perform(places: &Places, args: &ExportArgs) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let claim = claim_of(&store, &args.selector).await?;
    if claim.state == ClaimState::Withdrawn {
        return Err(bad_input(format!("claim {} was withdrawn: {}", claim.id, claim.why)));
    }
    approval::hold_to_log(places, &store, &claim.run_id).await?;
    if let Some(why) = approval::withheld(places, &claim) {
        return Err(bad_input(why));
    }
    let bundle = bundle_of(&store, &claim).await?;
    bundle.check().map_err(|why| anyhow::anyhow!("the bundle of claim {}: {why}", claim.id))?;
    let ExportFormat::Bundle = args.format;
    let bytes = bundle.pack(&privacy::scrubber(places)).map_err(bad_input)?;
    write_new(&args.out, &bytes)?;
    terminal::line(&format!(
        "wrote {}: claim {} with its seed; `reproduce` checks it on any machine with a {}",
        args.out.display(),
        claim.id,
        bundle.manifest.device_model
    ));
    Ok(Outcome::done().with("claim", claim.id.to_string()).with("bytes", bytes.len()))
}

/// The claim that a selector means: by its own id, or the newest of a run, task or attempt.
pub(crate) async fn claim_of(store: &Store, text: &str) -> anyhow::Result<ClaimRow> {
    if let Some(claim) = store.claim_unless_run(text).await? {
        return Ok(claim);
    }
    let mut found = claims_of(store, text).await?;
    let none = || bad_input(format!("`{text}` has no claim; `accept {text}` makes one"));
    let standing = found.iter().position(|claim| claim.state != ClaimState::Withdrawn);
    let index = standing.or_else(|| (!found.is_empty()).then_some(0)).ok_or_else(none)?;
    Ok(found.swap_remove(index))
}

/// The claims of the kernels of a run, task or attempt, newest first, whichever run made them.
pub(crate) async fn claims_of(store: &Store, text: &str) -> anyhow::Result<Vec<ClaimRow>> {
    let Selected { run, what } = selector::resolve(store, Some(text)).await?;
    let mut claims = store.claims_of_kernels(&run).await?;
    claims.retain(|it| match &what {
        What::Run => true,
        What::Task(task) => it.claim.task_hash == task.hash,
        What::Attempt(task, seq) => it.is_of(&task.hash, *seq),
    });
    Ok(claims.into_iter().map(|it| it.claim).collect())
}

async fn bundle_of(store: &Store, claim: &ClaimRow) -> anyhow::Result<Bundle> {
    let row = store.acceptance(&claim.acceptance_id).await?;
    let entries = store.entries(&row.id).await?;
    let attempt = store.attempt(&claim.attempt_id).await?;
    let task_files = store.task_files(&claim.task_hash).await?;
    let candidate = attempt.candidate.as_ref().context("a claim of an attempt without a kernel")?;
    let manifest = manifest(store, claim, &row, &attempt, &entries).await?;
    Ok(Bundle {
        manifest,
        entries,
        source: candidate.source.clone(),
        plan: candidate.plan_text.clone(),
        task_files,
        digest: Digest::of_bytes(b""),
    })
}

async fn manifest(
    store: &Store,
    claim: &ClaimRow,
    row: &AcceptanceRow,
    attempt: &AttemptRow,
    entries: &[Entry],
) -> anyhow::Result<Manifest> {
    let task = wiring::parse_task(store.task_files(&claim.task_hash).await?)?.task;
    let seed = store.acceptance_seed(&row.id).await?;
    let inputs = expected_inputs(&task, &wiring::parse_seed(&seed)?);
    let candidate = attempt.candidate.as_ref().context("a claim of an attempt without a kernel")?;
    Ok(Manifest {
        bundle: Manifest::VERSION,
        claim_id: claim.id.to_string(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        task: claim.task_name.clone(),
        claim: claim.claim.clone(),
        conclusion: row.conclusion.clone().context("a claim of an acceptance without an end")?,
        review_note: review_note(store, row, claim, entries).await?,
        protocol: row.protocol.clone(),
        seed,
        inputs: inputs
            .map_err(|why| anyhow::anyhow!("the inputs of {}: {why}", claim.task_name))?,
        tunables: candidate.tunables.clone(),
        hashes: Hashes {
            source: Digest::of_bytes(candidate.source.as_bytes()),
            plan: Digest::of_bytes(candidate.plan_text.as_bytes()),
            candidate: candidate.id.clone(),
            ptx: row.ptx_hash.clone(),
            cubin: row.cubin_hash.clone(),
            task: claim.task_hash.clone(),
            judge: row.judge_hash.clone(),
            toolchain_id: row.toolchain_id.clone(),
            eval_key: row.eval_key.clone(),
        },
        device_model: row.device_model.clone(),
        cards: cards(entries),
        process: row.process.clone(),
        started_us: row.started_us,
        chain_head: claim.chain_head.clone(),
    })
}

/// What a person wrote who let a suspect acceptance pass.
async fn review_note(
    store: &Store,
    row: &AcceptanceRow,
    claim: &ClaimRow,
    entries: &[Entry],
) -> anyhow::Result<Option<String>> {
    let reviews = store.reviews().await?;
    let review = reviews.into_iter().find(|review| review.acceptance_id == row.id);
    let note = review.and_then(|review| review.note);
    let follows =
        |note: &String| reviewed(&row.protocol, entries, note).as_ref() == Some(&claim.claim);
    Ok(note.filter(follows))
}

fn cards(entries: &[Entry]) -> Vec<Card> {
    let mut cards = BTreeSet::new();
    for entry in entries {
        if let Entry::Window(record) = entry
            && let Some(gpu) = &record.gpu
        {
            cards.insert(Card { uuid: gpu.uuid.clone(), driver: gpu.driver.clone() });
        }
    }
    cards.into_iter().collect()
}

/// Never over a file that is there.
fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let failed = |error: std::io::Error| bad_input(format!("{}: {error}", path.display()));
    let mut file = std::fs::File::create_new(path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)
}
