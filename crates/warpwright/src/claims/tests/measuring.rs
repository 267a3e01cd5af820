//! A run's last look at its best kernels, with a script in the judge's place.

use store::{Ended, Purpose};

use super::{Ledger, Script, all, protocol, unhurried};
use crate::claims::carry::Carried;
use crate::claims::measured;

#[tokio::test(flavor = "multi_thread")]
async fn a_measurement_is_told_with_its_tier_and_claims_nothing() {
    let ledger = Ledger::new().await;
    let row = ledger.begin_for(Purpose::Measurement, &protocol(all()).shortened()).await;
    let none = measured::in_words(&ledger.store, &ledger.attempt).await.unwrap();
    assert_eq!(none, None, "it has not ended");
    let (carried, _) = ledger.carry(&row, &Script::default(), &unhurried()).await;
    assert!(matches!(carried.unwrap(), Carried::Ended(_, Ended::Nothing)));
    let said = measured::in_words(&ledger.store, &ledger.attempt).await.unwrap().unwrap();
    assert_eq!(said, "1.500x of PyTorch eager's speed [measured]: one round, no interval");
    assert!(ledger.store.claims().await.unwrap().is_empty());
}
