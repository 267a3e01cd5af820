//! Table `window`: the windows among the entries of an acceptance, to be asked for by SQL.

use pipeline::acceptance::{Entry, Subject, Timed, WindowRecord};
use pipeline::timing::Sample;
use sqlx::SqliteConnection;

use super::{of_json, to_json};
use crate::open::Work;
use crate::{AcceptanceId, Result};

/// A window as its columns say it.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub(crate) struct Columns {
    case: String,
    subject: String,
    round: u32,
    position: u32,
    median_ns: Option<f64>,
    samples: Vec<u8>,
    clocks: Vec<u8>,
    flags_before: String,
    flags_after: String,
    void_reason: Option<String>,
}

impl Columns {
    pub(crate) fn of(record: &WindowRecord) -> Result<Self> {
        let gpu = record.gpu.as_ref();
        let samples = || gpu.into_iter().flat_map(|gpu| gpu.cold.iter().chain(&gpu.warm));
        let words = |word: &dyn Fn(&Sample) -> u64| -> Vec<u8> {
            samples().flat_map(|sample| word(sample).to_le_bytes()).collect()
        };
        Ok(Self {
            case: record.case.clone(),
            subject: subject_name(&record.subject),
            round: record.round,
            position: record.position,
            median_ns: record.median_ns(),
            samples: words(&|sample| sample.elapsed_ns),
            clocks: words(&|sample| sample.sm_clock_hz as u64),
            flags_before: to_json("flags", &record.flags_before)?,
            flags_after: to_json("flags", &record.flags_after)?,
            void_reason: match &record.timed {
                Timed::Void(why) => Some(why.clone()),
                Timed::Measured { .. } | Timed::Failed(_) | Timed::NotAvailable(_) => None,
            },
        })
    }
}

fn subject_name(subject: &Subject) -> String {
    match subject {
        Subject::Candidate => "candidate".to_owned(),
        Subject::Baseline(id) => id.to_string(),
    }
}

pub(crate) async fn insert(
    work: &mut Work,
    acceptance: &AcceptanceId,
    entry_position: u32,
    record: &WindowRecord,
) -> Result<()> {
    let columns = Columns::of(record)?;
    let query = r#"INSERT INTO window
                   (acceptance_id, entry_position, "case", subject, round, position, median_ns,
                    samples, clocks, flags_before, flags_after, void_reason, origin)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"#;
    sqlx::query(query)
        .bind(acceptance.as_str())
        .bind(entry_position)
        .bind(columns.case)
        .bind(columns.subject)
        .bind(columns.round)
        .bind(columns.position)
        .bind(columns.median_ns)
        .bind(columns.samples)
        .bind(columns.clocks)
        .bind(columns.flags_before)
        .bind(columns.flags_after)
        .bind(columns.void_reason)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// True when the row of a window says what its entry, JSON, says; also for entries that are none
/// and have no row.
pub(crate) async fn fits(
    connection: &mut SqliteConnection,
    acceptance: &str,
    entry_position: i64,
    entry_json: &str,
) -> Result<bool> {
    let wanted = match of_json::<Entry>("an entry", entry_json)? {
        Entry::Window(record) => Some(Columns::of(&record)?),
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Checked { .. } | Entry::Pilot(_) => None,
    };
    let query = r#"SELECT "case", subject, round, position, median_ns, samples, clocks,
                   flags_before, flags_after, void_reason
                   FROM window WHERE acceptance_id = $1 AND entry_position = $2"#;
    let found: Option<Columns> = sqlx::query_as(query)
        .bind(acceptance)
        .bind(entry_position)
        .fetch_optional(connection)
        .await?;
    Ok(found == wanted)
}
