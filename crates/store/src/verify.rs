//! Whether anybody changed something: chains of events, and every row that wrote itself into one.
//!
//! [`RULES`] says for each kind of event which columns it vouches for; [`COUNTS`] says how many
//! rows there may be. Artifacts are checked against their hashes.

mod kept;

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::acceptances::seed_hash;
use crate::limits::EVENTS_AT_ONCE;
use crate::open::Store;
use crate::tables::{acceptance, artifact, baseline, event, task, window};
use crate::{AcceptanceId, Chain, Misfit, Result, RunId, StoreError};

/// The rows that an event of one kind vouches for.
struct Rule {
    kind: &'static str,
    /// Field of the event's body that names the row.
    key: &'static str,
    /// One row with one JSON object, whose fields are those of the body.
    row: &'static str,
}

/// `$1` is the key, `$2` the body, for rows that have a key of two parts.
const RULES: &[Rule] = &[
    Rule {
        kind: "replied",
        key: "call",
        row: "SELECT json_object('reply', reply, 'cost_nusd', cost_nusd, 'model', reply_model,
              'finish_reason', finish_reason) FROM call WHERE id = $1",
    },
    Rule {
        kind: "parsed",
        key: "attempt",
        row: "SELECT json_object('candidate', candidate_id, 'variant', variant_id, 'plan', plan,
              'source', (SELECT source FROM candidate WHERE candidate.id = candidate_id))
              FROM attempt WHERE id = $1",
    },
    Rule {
        kind: "built",
        key: "attempt",
        row: "SELECT json_object('build', id, 'facts', facts, 'diagnostics', diagnostics,
              'log', log, 'ptx', ptx, 'cubin', cubin, 'confinement', confinement)
              FROM build WHERE attempt_id = $1",
    },
    Rule { kind: "judged", key: "attempt", row: JUDGED },
    Rule { kind: "promoted", key: "attempt", row: JUDGED },
    Rule {
        kind: "closed",
        key: "attempt",
        row: "SELECT json_object('verdict', json_object('kind', kind, 'reason', reason,
              'detail', detail)) FROM attempt WHERE id = $1",
    },
    Rule {
        kind: "acceptance_started",
        key: "acceptance",
        row: "SELECT json_object('attempt', attempt_id, 'variant', variant_id, 'purpose', purpose,
              'of_claim', of_claim, 'protocol', protocol, 'eval_key', eval_key,
              'ptx_hash', ptx_hash, 'cubin_hash', cubin_hash, 'judge', judge_hash,
              'toolchain', toolchain_id, 'device', device_id,
              'process', process, 'started_us', started_us) FROM acceptance WHERE id = $1",
    },
    Rule {
        kind: "acceptance_entry",
        key: "acceptance",
        row: "SELECT json_object('kind', kind, 'entry', entry) FROM acceptance_entry
              WHERE acceptance_id = $1 AND position = json_extract($2, '$.position')",
    },
    Rule {
        kind: "acceptance_ended",
        key: "acceptance",
        row: "SELECT json_object('kind', kind, 'reason', reason, 'conclusion', conclusion)
              FROM acceptance WHERE id = $1",
    },
    Rule {
        kind: "claimed",
        key: "claim",
        row: "SELECT json_object('acceptance', acceptance_id, 'hash', claim,
              'chain_head', chain_head, 'baseline', baseline, 'interval', interval,
              'baseline_set', baseline_set) FROM claim WHERE id = $1",
    },
    Rule {
        kind: "claim_checked",
        key: "acceptance",
        row: "SELECT json_object('claim', claim_id, 'bundle', bundle, 'outcome', outcome,
              'detail', detail) FROM claim_check WHERE acceptance_id = $1",
    },
    Rule {
        kind: "review_opened",
        key: "acceptance",
        row: "SELECT json_object('suspicion', suspicion, 'detail', detail)
              FROM review WHERE acceptance_id = $1",
    },
    Rule {
        kind: "review_decided",
        key: "acceptance",
        row: "SELECT json_object('decision', decision, 'note', note, 'reviewer', reviewer,
              'decided_us', decided_us) FROM review WHERE acceptance_id = $1",
    },
    Rule {
        kind: "claim_reviewed",
        key: "claim",
        row: "SELECT json_object('decision', decision, 'reason', reason, 'reviewer', reviewer,
              'decided_us', decided_us, 'hash', (SELECT claim FROM claim WHERE id = claim_id))
              FROM approval WHERE claim_id = $1 AND position = json_extract($2, '$.position')",
    },
    Rule { kind: "card_reserved", key: "card", row: CARD },
    Rule { kind: "card_released", key: "card", row: CARD },
    Rule {
        kind: "told",
        key: "run",
        row: "SELECT json_object('task', task_hash, 'said', json(said), 'teller', teller,
              'told_us', told_us)
              FROM tell WHERE run_id = $1 AND position = json_extract($2, '$.position')",
    },
];

/// What an event of an older program says nothing of, and nothing may stand in the row for.
const EMPTY_WHERE_UNSTATED: &[&str] = &["reviewer", "confinement"];

const CARD: &str = "SELECT json_object('attempt', attempt_id, 'stage', stage,
    'reserved_us', reserved_us, 'used_us', used_us) FROM card_time WHERE id = $1";

const JUDGED: &str = "SELECT json_object('eval_key', eval_key, 'report', report,
    'verdict', json_object('kind', kind, 'reason', reason, 'detail', detail)) FROM evaluation
    WHERE attempt_id = $1 AND stage = json_extract($2, '$.stage')";

/// How many rows of a run there may be: as many as events of these kinds.
const COUNTS: &[(&[&str], &str)] = &[
    (&["parsed"], "SELECT count(*) FROM attempt WHERE run_id = $1 AND candidate_id IS NOT NULL"),
    (&["closed"], "SELECT count(*) FROM attempt WHERE run_id = $1 AND state = 'closed'"),
    (
        &["built"],
        "SELECT count(*) FROM build JOIN attempt ON attempt.id = attempt_id
                  WHERE run_id = $1",
    ),
    (
        &["judged", "promoted"],
        "SELECT count(*) FROM evaluation JOIN attempt
                               ON attempt.id = attempt_id WHERE run_id = $1",
    ),
    (
        &["acceptance_started"],
        "SELECT count(*) FROM acceptance JOIN attempt
                               ON attempt.id = attempt_id WHERE run_id = $1",
    ),
    (
        &["acceptance_ended"],
        "SELECT count(*) FROM acceptance JOIN attempt
                             ON attempt.id = attempt_id
                             WHERE run_id = $1 AND acceptance.state = 'ended'",
    ),
    (
        &["acceptance_entry"],
        "SELECT count(*) FROM acceptance_entry JOIN acceptance
                             ON acceptance.id = acceptance_id JOIN attempt
                             ON attempt.id = attempt_id WHERE run_id = $1",
    ),
    (
        &["claimed"],
        "SELECT count(*) FROM claim JOIN acceptance ON acceptance.id = acceptance_id
                    JOIN attempt ON attempt.id = attempt_id WHERE run_id = $1",
    ),
    (
        &["claim_checked"],
        "SELECT count(*) FROM claim_check JOIN acceptance
                          ON acceptance.id = acceptance_id JOIN attempt
                          ON attempt.id = attempt_id WHERE run_id = $1",
    ),
    (
        &["review_opened"],
        "SELECT count(*) FROM review JOIN acceptance
                          ON acceptance.id = acceptance_id JOIN attempt
                          ON attempt.id = attempt_id WHERE run_id = $1",
    ),
    (
        &["review_decided"],
        "SELECT count(*) FROM review JOIN acceptance
                           ON acceptance.id = acceptance_id JOIN attempt
                           ON attempt.id = attempt_id
                           WHERE run_id = $1 AND decision IS NOT NULL",
    ),
    (
        &["card_reserved"],
        "SELECT count(*) FROM card_time JOIN attempt ON attempt.id = attempt_id WHERE run_id = $1",
    ),
    (
        &["card_released"],
        "SELECT count(*) FROM card_time JOIN attempt ON attempt.id = attempt_id
                             WHERE run_id = $1 AND used_us IS NOT NULL",
    ),
    (&["told"], "SELECT count(*) FROM tell WHERE run_id = $1"),
    (
        &["claim_reviewed"],
        "SELECT count(*) FROM approval JOIN claim ON claim.id = claim_id
                           JOIN acceptance ON acceptance.id = claim.acceptance_id
                           JOIN attempt ON attempt.id = attempt_id WHERE run_id = $1",
    ),
];

/// Fields of a body that hold the hash of an artifact.
const ARTIFACTS: [&str; 14] = [
    "reply",
    "source",
    "plan",
    "facts",
    "diagnostics",
    "log",
    "ptx",
    "cubin",
    "report",
    "protocol",
    "entry",
    "conclusion",
    "hash",
    "http_log",
];

impl Store {
    /// Follows the chain of a run, and compares every row that is written into it with its event.
    ///
    /// # Errors
    /// An unknown run; what does not fit is a value.
    pub async fn verify_run(&self, id: &RunId) -> Result<std::result::Result<Chain, Misfit>> {
        let mut tx = self.read().await?;
        let chain = event::verify(&mut tx, id).await?;
        if let Chain::Broken { seq } = chain {
            let what = format!("event {seq} was changed or is missing");
            return Ok(Err(Misfit { run: id.clone(), seq: Some(seq), what }));
        }
        let mut counts = BTreeMap::new();
        let mut states = BTreeMap::new();
        let mut seq = 0;
        loop {
            let page = event::bodies(&mut tx, id, seq).await?;
            for (kind, body) in &page {
                seq += 1;
                *counts.entry(kind.clone()).or_insert(0i64) += 1;
                let Ok(parsed) = serde_json::from_str::<Value>(body) else {
                    let what = format!("event {seq} does not read");
                    return Ok(Err(Misfit { run: id.clone(), seq: Some(seq), what }));
                };
                if kind == "claim_changed" || kind == "claimed" {
                    let text = |field: &str| parsed[field].as_str().map(str::to_owned);
                    let state = text("state").unwrap_or_else(|| "claimed".to_owned());
                    let why = text("why").unwrap_or_default();
                    states.insert(text("claim").unwrap_or_default(), (state, why));
                }
                if let Some(what) = misfit(&mut tx, kind, &parsed, body).await? {
                    return Ok(Err(Misfit { run: id.clone(), seq: Some(seq), what }));
                }
            }
            if (page.len() as i64) < EVENTS_AT_ONCE {
                break;
            }
        }
        let stray = stray_rows(&mut tx, id, &counts).await?;
        let what = match stray {
            Some(what) => Some(what),
            None => changed_state(&mut tx, &states).await?,
        };
        let what = match what {
            Some(what) => Some(what),
            None => stray_pilot(&mut tx, id).await?,
        };
        Ok(match what {
            Some(what) => Err(Misfit { run: id.clone(), seq: None, what }),
            None => Ok(chain),
        })
    }
}

/// What of the rows that an event vouches for does not fit it.
async fn misfit(
    connection: &mut SqliteConnection,
    kind: &str,
    body: &Value,
    text: &str,
) -> Result<Option<String>> {
    if let Some(rule) = RULES.iter().find(|rule| rule.kind == kind) {
        let key = body[rule.key].as_str().unwrap_or_default();
        // As bytes: a text may hold some that are none.
        let row: Option<Vec<u8>> = sqlx::query_scalar(rule.row)
            .bind(key)
            .bind(text)
            .fetch_optional(&mut *connection)
            .await?;
        let Some(row) = row else { return Ok(Some(format!("the row of `{kind}` is missing"))) };
        let Ok(row) = serde_json::from_slice::<BTreeMap<String, Value>>(&row) else {
            return Ok(Some(format!("the row of {kind} {key} does not read")));
        };
        // An event of an older program may say less; the chain keeps it from losing a field.
        let differs = row.iter().find(|(field, value)| match body.get(field.as_str()) {
            Some(stated) => stated != *value,
            None => EMPTY_WHERE_UNSTATED.contains(&field.as_str()) && !value.is_null(),
        });
        if let Some((field, _)) = differs {
            return Ok(Some(format!("`{field}` of {kind} {key} is not what its event says")));
        }
    }
    for field in ARTIFACTS {
        if let Some(hash) = body[field].as_str().filter(|hash| hash.len() == 64)
            && let Err(error) = artifact::get(connection, hash).await
        {
            return damage(error).map(Some);
        }
    }
    match kind {
        "acceptance_started" => match changed_seed(connection, body).await? {
            Some(what) => Ok(Some(what)),
            None => changed_device(connection, body).await,
        },
        "acceptance_entry" => changed_window(connection, body).await,
        "judged" | "promoted" => kept::changed_score(connection, body).await,
        _ => Ok(None),
    }
}

/// Damage in words; other errors stay errors.
fn damage(error: StoreError) -> Result<String> {
    match error {
        StoreError::Damaged { what, .. } => Ok(what),
        other => Err(other),
    }
}

async fn changed_seed(connection: &mut SqliteConnection, body: &Value) -> Result<Option<String>> {
    let id = AcceptanceId::from(body["acceptance"].as_str().unwrap_or_default().to_owned());
    let seed = match acceptance::seed(connection, &id).await {
        Ok(seed) => seed,
        Err(error) => return damage(error).map(Some),
    };
    let same = body["seed_hash"].as_str() == Some(seed_hash(&seed).as_str());
    Ok((!same).then(|| format!("the seed of acceptance {id} is not the one it began with")))
}

/// The id of a device is a hash over its sheet; its model decides what is compared.
async fn changed_device(connection: &mut SqliteConnection, body: &Value) -> Result<Option<String>> {
    let id = body["device"].as_str().unwrap_or_default();
    let fits = task::device_fits(connection, id).await?;
    Ok((!fits).then(|| format!("device {id} is not the one that it was measured on")))
}

async fn changed_window(connection: &mut SqliteConnection, body: &Value) -> Result<Option<String>> {
    let id = body["acceptance"].as_str().unwrap_or_default();
    let position = body["position"].as_i64().unwrap_or_default();
    let entry = artifact::text(connection, body["entry"].as_str().unwrap_or_default()).await?;
    let fits = window::fits(connection, id, position, &entry).await?;
    Ok((!fits).then(|| format!("the window of entry {position} of acceptance {id} was changed")))
}

/// Rows that no event knows, or that are gone.
async fn stray_rows(
    connection: &mut SqliteConnection,
    id: &RunId,
    counts: &BTreeMap<String, i64>,
) -> Result<Option<String>> {
    if let Some(what) = kept::changed_sums(connection, id).await? {
        return Ok(Some(what));
    }
    for (kinds, query) in COUNTS {
        let events: i64 = kinds.iter().filter_map(|kind| counts.get(*kind)).sum();
        let rows: i64 =
            sqlx::query_scalar(*query).bind(id.as_str()).fetch_one(&mut *connection).await?;
        if rows != events {
            let kinds = kinds.join("/");
            return Ok(Some(format!("{rows} rows stand against {events} events `{kinds}`")));
        }
    }
    kept::changed_task_sums(connection, id).await
}

/// A claim whose state, or the reason for it, is not the one that the last event gave it.
async fn changed_state(
    connection: &mut SqliteConnection,
    states: &BTreeMap<String, (String, String)>,
) -> Result<Option<String>> {
    for (id, (state, why)) in states {
        let query = "SELECT state, why FROM claim WHERE id = $1";
        let found: Option<(String, String)> =
            sqlx::query_as(AssertSqlSafe(query)).bind(id).fetch_optional(&mut *connection).await?;
        let (found, reason) = found.unwrap_or_default();
        if found != *state {
            return Ok(Some(format!("claim {id} is {found}, and its last event says {state}")));
        }
        if reason != *why {
            return Ok(Some(format!("`why` of claim {id} is not what its last event says")));
        }
    }
    Ok(None)
}

/// A pilot of the run's tasks, kept for later acceptances, that no acceptance made.
async fn stray_pilot(connection: &mut SqliteConnection, id: &RunId) -> Result<Option<String>> {
    baseline::stray(connection, id).await.or_else(|error| damage(error).map(Some))
}
