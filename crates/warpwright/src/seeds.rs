//! The secret seed of a run: drawn, read and written.

use anyhow::Context;
use judge::RunSeed;
use store::{RunId, Store};

use crate::outcome::bad_input;

/// The run's secret seed, as it is stored: 64 hexadecimal digits in JSON.
pub(crate) async fn stored_seed(store: &Store, run: &RunId) -> anyhow::Result<RunSeed> {
    let json = store.secret_seeds(run).await?.context("the run has no seed in the ledger")?;
    let text: String = serde_json::from_str(&json)?;
    parse_seed(&text)
}

/// Reads 64 hexadecimal digits.
pub(crate) fn parse_seed(text: &str) -> anyhow::Result<RunSeed> {
    let wrong = || bad_input("a seed is 64 hexadecimal digits");
    let mut seed = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return Err(wrong());
    }
    for (i, byte) in seed.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
    }
    Ok(RunSeed(seed))
}

/// A seed from the operating system's entropy.
pub(crate) fn fresh_seed() -> anyhow::Result<RunSeed> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("no entropy: {error}"))?;
    Ok(RunSeed(seed))
}

/// The seed as 64 hexadecimal digits.
pub(crate) fn seed_text(seed: &RunSeed) -> String {
    seed.0.iter().map(|byte| format!("{byte:02x}")).collect()
}
