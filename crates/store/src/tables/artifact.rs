//! Table `artifact`: texts and binaries by the hash of their content, each stored once.

use pipeline::digest::Digest;
use sqlx::SqliteConnection;

use crate::Result;
use crate::error::StoreError;
use crate::limits::{ARTIFACT_BYTES_MAX, RAW_BYTES_MAX, ZSTD_LEVEL};
use crate::open::Work;

/// Stores `bytes` unless they are there already; returns their hash.
pub(crate) async fn put(work: &mut Work, bytes: &[u8]) -> Result<Digest> {
    let hash = Digest::of_bytes(bytes);
    let query = "SELECT count(*) FROM artifact WHERE hash = $1";
    let known: i64 =
        sqlx::query_scalar(query).bind(hash.as_str()).fetch_one(work.connection()).await?;
    if known == 0 {
        insert(work, &hash, bytes).await?;
    }
    Ok(hash)
}

async fn insert(work: &mut Work, hash: &Digest, bytes: &[u8]) -> Result<()> {
    let unstorable = |why| StoreError::Unstorable { what: "an artifact", why };
    if bytes.len() > ARTIFACT_BYTES_MAX {
        let why = format!("{} bytes; at most {ARTIFACT_BYTES_MAX} are kept", bytes.len());
        return Err(unstorable(why));
    }
    let (codec, stored) = if bytes.len() <= RAW_BYTES_MAX {
        ("raw", bytes.to_vec())
    } else {
        let packed = zstd::bulk::compress(bytes, ZSTD_LEVEL);
        ("zstd", packed.map_err(|error| unstorable(error.to_string()))?)
    };
    let size = i64::try_from(bytes.len()).map_err(|error| unstorable(error.to_string()))?;
    let query = "INSERT INTO artifact (hash, codec, bytes, size_bytes, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6)";
    sqlx::query(query)
        .bind(hash.as_str())
        .bind(codec)
        .bind(stored)
        .bind(size)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// As [`put`], for something that may be absent.
pub(crate) async fn put_optional(work: &mut Work, bytes: Option<&[u8]>) -> Result<Option<Digest>> {
    match bytes {
        Some(bytes) => put(work, bytes).await.map(Some),
        None => Ok(None),
    }
}

/// Reads an artifact and checks that it is what its hash says.
pub(crate) async fn get(connection: &mut SqliteConnection, hash: &str) -> Result<Vec<u8>> {
    let query = "SELECT codec, bytes, size_bytes FROM artifact WHERE hash = $1";
    let row: Option<(String, Vec<u8>, i64)> =
        sqlx::query_as(query).bind(hash).fetch_optional(connection).await?;
    let damaged = |why: &str| StoreError::damaged(format!("artifact {hash} {why}"));
    let (codec, stored, size) = row.ok_or_else(|| damaged("is missing"))?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let bytes = match codec.as_str() {
        "raw" => stored,
        "zstd" if size <= ARTIFACT_BYTES_MAX => zstd::bulk::decompress(&stored, size)
            .map_err(|error| damaged(&format!("does not unpack: {error}")))?,
        _ => return Err(damaged("has an unknown codec or size")),
    };
    if Digest::of_bytes(&bytes).as_str() == hash {
        Ok(bytes)
    } else {
        Err(damaged("does not have its hash"))
    }
}

/// As [`get`], for one that may be absent.
pub(crate) async fn optional(
    connection: &mut SqliteConnection,
    hash: Option<&str>,
) -> Result<Option<Vec<u8>>> {
    match hash {
        Some(hash) => get(connection, hash).await.map(Some),
        None => Ok(None),
    }
}

/// As [`get`], for a text.
pub(crate) async fn text(connection: &mut SqliteConnection, hash: &str) -> Result<String> {
    let bytes = get(connection, hash).await?;
    String::from_utf8(bytes)
        .map_err(|_| StoreError::damaged(format!("artifact {hash} is not UTF-8 text")))
}

/// As [`text`], for one that may be absent.
pub(crate) async fn optional_text(
    connection: &mut SqliteConnection,
    hash: Option<&str>,
) -> Result<Option<String>> {
    match hash {
        Some(hash) => text(connection, hash).await.map(Some),
        None => Ok(None),
    }
}
