use std::cell::RefCell;

use pipeline::baseline::BaselineId;
use pipeline::timing::Spread;
use store::Store;

use super::look::{PartKey, Timed, timed};
use crate::wiring;

const KEY: PartKey<'_> = PartKey {
    device_model: "H200",
    driver: "580.1",
    framework: "torch 2.9",
    toolchain_id: "nvrtc",
};

fn baselines() -> Vec<BaselineId> {
    let names = ["eager-strict", "compile-strict", "vendor-strict"];
    names.map(|name| BaselineId::from_name(name).unwrap()).to_vec()
}

/// Surveys once; says what was timed for it.
async fn survey(store: &Store, key: PartKey<'_>, broken: &str) -> (Timed, Vec<String>) {
    let loaded = wiring::load_task("gelu").unwrap();
    let asked = RefCell::new(Vec::new());
    let time = |baseline: &BaselineId| {
        asked.borrow_mut().push(baseline.name());
        let spread = |median_ns| Spread {
            median_ns,
            p10_ns: median_ns,
            p90_ns: median_ns,
            samples: 30,
            dropped: 0,
        };
        let count = asked.borrow().len() as f64;
        Ok(match baseline.name() == broken {
            true => Err("it did not end".to_owned()),
            false => Ok(spread(1_000.0 * count)),
        })
    };
    let found = timed(store, &loaded, key, &baselines(), &time).await.unwrap();
    (found, asked.into_inner())
}

#[tokio::test]
async fn a_second_survey_times_only_what_has_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("ledger.db")).await.unwrap();
    let all = ["eager-strict", "compile-strict", "vendor-strict"];
    let (first, asked) = survey(&store, KEY, "compile-strict").await;
    assert_eq!((asked, first.now), (all.map(str::to_owned).to_vec(), 2));
    assert_eq!(first.missing, ["torch.compile: it did not end"]);
    let (second, asked) = survey(&store, KEY, "").await;
    assert_eq!((asked, second.now), (vec!["compile-strict".to_owned()], 1));
    let (third, asked) = survey(&store, KEY, "eager-strict").await;
    assert!(asked.is_empty() && third.now == 0 && third.missing.is_empty(), "{third:?}");
    assert_eq!(third.baselines, second.baselines);
    // Another framework says nothing of the vendor's library, and another driver of everything.
    let other = PartKey { framework: "torch 3.0", ..KEY };
    let (_, asked) = survey(&store, other, "").await;
    assert_eq!(asked, all[..2].iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    let (_, asked) = survey(&store, PartKey { driver: "590.1", ..KEY }, "").await;
    assert_eq!(asked.len(), 3);
    store.close().await;
}
