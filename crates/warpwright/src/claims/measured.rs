//! The shorter look at a best kernel: one round beside a baseline, in words.

use store::{AttemptId, KernelLook, Purpose, Store};

use crate::claims::words;

/// The newest measurement of an attempt in words; `None` where there is none.
pub(crate) async fn in_words(store: &Store, attempt: &AttemptId) -> anyhow::Result<Option<String>> {
    let rows = store.looks_at(attempt).await?;
    let of_row = |row: &KernelLook| match row.purpose {
        Purpose::Measurement if row.attempt_id != *attempt => None,
        Purpose::Measurement => Some(words::measured(row.conclusion.as_ref()?)),
        Purpose::Claim | Purpose::Reproduction | Purpose::Recheck => None,
    };
    Ok(rows.iter().rev().find_map(of_row))
}
