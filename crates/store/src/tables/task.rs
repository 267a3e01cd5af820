//! Tables `task` and `device`: what a run works on and for.

use std::collections::BTreeMap;

use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::hardware::HardwareSheet;
use sqlx::SqliteConnection;

use super::{artifact, of_json, to_json};
use crate::error::StoreError;
use crate::open::Work;
use crate::{NewTask, Result};

/// Stores a task unless it is there already.
pub(crate) async fn put(work: &mut Work, task: &NewTask<'_>) -> Result<()> {
    let files = artifact::put(work, &pack(task.files)).await?;
    let query = "INSERT INTO task (hash, name, files, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hash) DO NOTHING";
    sqlx::query(query)
        .bind(task.hash.as_str())
        .bind(task.name)
        .bind(files.as_str())
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// The files of a task.
pub(crate) async fn files(
    connection: &mut SqliteConnection,
    hash: &Digest,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let query = "SELECT files FROM task WHERE hash = $1";
    let files: Option<String> =
        sqlx::query_scalar(query).bind(hash.as_str()).fetch_optional(&mut *connection).await?;
    let files = files.ok_or_else(|| StoreError::UnknownTask { hash: hash.to_string() })?;
    let packed = artifact::get(connection, &files).await?;
    unpack(&packed).ok_or_else(|| StoreError::damaged(format!("files of task {hash}")))
}

/// Stores a device unless it is there already; returns its id, the hash of its facts.
pub(crate) async fn put_device(work: &mut Work, facts: &DeviceFacts) -> Result<String> {
    let sheet = to_json("the device", facts)?;
    let id = Digest::of_parts("device", &[sheet.as_bytes()]);
    let query = "INSERT INTO device (id, model, sheet, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(&facts.model)
        .bind(sheet)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(id.to_string())
}

/// Stores what is known of one card unless it is there already; returns its id.
pub(crate) async fn put_sheet(work: &mut Work, sheet: &HardwareSheet) -> Result<String> {
    let json = to_json("the hardware sheet", sheet)?;
    let id = Digest::of_parts("gpu", &[json.as_bytes()]);
    let query = "INSERT INTO device (id, uuid, model, driver, sheet, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(&sheet.uuid)
        .bind(&sheet.facts.model)
        .bind(&sheet.driver)
        .bind(json)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(id.to_string())
}

/// True when a device's sheet has the hash that is its id, and its model is the sheet's.
pub(crate) async fn device_fits(connection: &mut SqliteConnection, id: &str) -> Result<bool> {
    let query = "SELECT model, sheet FROM device WHERE id = $1";
    let row: Option<(String, String)> =
        sqlx::query_as(query).bind(id).fetch_optional(connection).await?;
    let Some((model, json)) = row else { return Ok(false) };
    let hash = |kind| Digest::of_parts(kind, &[json.as_bytes()]);
    if hash("device").as_str() == id {
        return Ok(of_json::<DeviceFacts>("a device", &json)?.model == model);
    }
    let own = hash("gpu").as_str() == id;
    Ok(own && of_json::<HardwareSheet>("a hardware sheet", &json)?.facts.model == model)
}

/// The model of a stored device.
pub(crate) async fn device_model(connection: &mut SqliteConnection, id: &str) -> Result<String> {
    let query = "SELECT model FROM device WHERE id = $1";
    let model: Option<String> =
        sqlx::query_scalar(query).bind(id).fetch_optional(connection).await?;
    model.ok_or_else(|| StoreError::damaged(format!("device {id} is missing")))
}

/// Name and content of each file, each with its length in front.
fn pack(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut packed = Vec::new();
    for part in files.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes.as_slice()]) {
        packed.extend_from_slice(&(part.len() as u64).to_le_bytes());
        packed.extend_from_slice(part);
    }
    packed
}

fn unpack(mut packed: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    while !packed.is_empty() {
        let name = String::from_utf8(take_part(&mut packed)?).ok()?;
        files.insert(name, take_part(&mut packed)?);
    }
    Some(files)
}

fn take_part(packed: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = packed.split_first_chunk::<8>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *packed = rest;
    Some(part.to_vec())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{pack, unpack};

    #[test]
    fn packed_files_come_back_and_cut_ones_do_not() {
        let files = BTreeMap::from([
            ("task.toml".to_owned(), b"x = 1\n".to_vec()),
            ("wrong/a.cu".to_owned(), vec![0, 159, 255]),
            ("README.md".to_owned(), Vec::new()),
        ]);
        let packed = pack(&files);
        assert_eq!(unpack(&packed), Some(files));
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
        assert_eq!(unpack(&[]), Some(BTreeMap::new()));
    }
}
