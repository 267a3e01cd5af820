//! What a child process reports: a confined one may have been taken over.

use sandbox::wire::{BaselineReport, BuildReport, ProbeReport, RunReport, VerifyReport};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A report of any kind: what is read is the same when it is written and read again.
pub(crate) fn report(bytes: &[u8]) {
    round_trip::<BuildReport>(bytes);
    round_trip::<RunReport>(bytes);
    round_trip::<VerifyReport>(bytes);
    round_trip::<ProbeReport>(bytes);
    round_trip::<BaselineReport>(bytes);
}

fn round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(report) = serde_json::from_slice::<T>(bytes) else { return };
    let Ok(text) = serde_json::to_string(&report) else { panic!("it cannot be written") };
    let again = serde_json::from_str::<T>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&again).ok(), Some(text));
}
