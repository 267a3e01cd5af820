//! What a run did when, told by its events; and what surveys measured.

use pipeline::attempt::State;
use pipeline::baseline::BaselineId;
use pipeline::digest::Digest;
use pipeline::lanes::Span;
use pipeline::next_step::SearchEnd;
use pipeline::report::Stage;
use pipeline::timing::Spread;
use pipeline::verdict::{Reason, Verdict};

use super::fixtures::{
    Ledger, RESERVED, SETTINGS, TARGET, advance, ask, files, open, report, start_run, task_hash,
};
use crate::{CallFailure, CallState, Clock, NewJudgement, NewTask, Store, SurveyKey};

#[tokio::test]
async fn spans_begin_where_the_last_beginning_is() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::scripted(5_000_000);
    let store = Store::open_with(&folder.path().join("ledger.db"), clock).await.unwrap();
    let run = start_run(&store).await;
    let first = open(&store, &run, &ask(1)).await.unwrap().id;
    advance(&store, &first, State::Sent).await.unwrap();
    store.fail_call(&first, CallFailure::unpaid("rate", "too many")).await.unwrap();
    store.reopen_call(&first, RESERVED, TARGET).await.unwrap();
    for state in [State::Sent, State::Replied, State::Parsed, State::Built] {
        advance(&store, &first, state).await.unwrap();
    }
    // Killed here, and gone on with later: the time between was nobody's.
    let before = store.chronicle(&run).await.unwrap();
    assert!(before.judged.is_empty(), "no verdict yet");
    store.reopen_run(&run, SETTINGS).await.unwrap();
    for state in [State::Judged, State::Closed] {
        advance(&store, &first, state).await.unwrap();
    }
    let second = open(&store, &run, &ask(2)).await.unwrap().id;
    advance(&store, &second, State::Sent).await.unwrap();
    store.mark_lost(&second, "lost", "nobody knows").await.unwrap();

    let found = store.chronicle(&run).await.unwrap();
    let states: Vec<_> = found.calls.iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::Failed, CallState::Settled, CallState::Lost]);
    let lengths: Vec<_> = found.calls.iter().map(|call| call.span().map(Span::length_us)).collect();
    assert_eq!(lengths, [Some(1_000), Some(1_000), None]);
    assert_eq!(found.calls[0].error_class.as_deref(), Some("rate"));
    let booked: Vec<_> = found.calls.iter().map(|call| call.booked_nusd()).collect();
    assert_eq!(booked, [0, 321, 500]);
    let [judged] = &found.judged[..] else { panic!("{:?}", found.judged) };
    assert_eq!((judged.seq, &judged.task), (1, &task_hash()));
    assert_eq!(judged.span.length_us(), 1_000, "from the reopening, not from the build");
    assert!(found.accepted.is_empty());
}

#[tokio::test]
async fn a_promotion_is_told_from_the_search_before_it() {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Judged).await;
    let verdict = Verdict::failed(Reason::Shape, "at a hidden shape");
    let new = NewJudgement {
        stage: Stage::Promote,
        eval_key: None,
        verdict: &verdict,
        report: Some(&report(1.0)),
        from_cache: false,
        danger: None,
    };
    ledger.store.record_promotion(&attempt, &new).await.unwrap();
    let judged = ledger.store.chronicle(&ledger.run).await.unwrap().judged;
    let found: Vec<_> = judged.iter().map(|it| (it.seq, it.promotes)).collect();
    assert_eq!(found, [(1, false), (1, true)]);
}

#[tokio::test]
async fn the_books_of_single_calls_add_up_to_those_of_the_run() {
    let ledger = Ledger::new().await;
    ledger.bring(1, State::Closed).await;
    ledger.bring(2, State::Sent).await;
    let found = ledger.store.chronicle(&ledger.run).await.unwrap();
    let booked: i64 = found.calls.iter().map(|call| call.booked_nusd()).sum();
    assert_eq!(booked, ledger.store.bookings(&ledger.run).await.unwrap().total().nusd);
    assert_eq!(booked, 321 + 500);
}

#[tokio::test]
async fn the_first_time_of_a_baseline_stays_under_its_whole_key() {
    let ledger = Ledger::new().await;
    let (hash, files) = (task_hash(), files());
    let task = NewTask { hash: &hash, name: "sum", files: &files };
    let eager = BaselineId::from_name("eager-strict").unwrap();
    let compiled = BaselineId::from_name("compile-strict").unwrap();
    let key = SurveyKey {
        task: &hash,
        baseline: &eager,
        device_model: "H200",
        driver: "580.1",
        framework: "torch 2.9",
        judge_hash: "judge",
        toolchain_id: "nvrtc",
    };
    let spread =
        |median_ns| Spread { median_ns, p10_ns: 1.0, p90_ns: 9.0, samples: 30, dropped: 1 };
    for median_ns in [5.0, 7.0] {
        ledger.store.put_survey_time(&task, &key, &spread(median_ns)).await.unwrap();
        assert_eq!(ledger.store.survey_time(&key).await.unwrap(), Some(spread(5.0)));
    }
    let other = Digest::of_bytes(b"other");
    for key in [
        SurveyKey { task: &other, ..key },
        SurveyKey { baseline: &compiled, ..key },
        SurveyKey { device_model: "H100", ..key },
        SurveyKey { driver: "590.1", ..key },
        SurveyKey { framework: "torch 3.0", ..key },
        SurveyKey { judge_hash: "stricter", ..key },
        SurveyKey { toolchain_id: "newer", ..key },
    ] {
        assert_eq!(ledger.store.survey_time(&key).await.unwrap(), None, "{key:?}");
    }
    // Of each baseline the newest, whatever driver or framework it was.
    for (key, median_ns) in [
        (SurveyKey { driver: "590.1", ..key }, 6.0),
        (SurveyKey { baseline: &compiled, ..key }, 3.0),
        (SurveyKey { device_model: "H100", ..key }, 1.0),
        (SurveyKey { judge_hash: "stricter", ..key }, 1.0),
    ] {
        ledger.store.put_survey_time(&task, &key, &spread(median_ns)).await.unwrap();
    }
    let times = async |task, device| {
        ledger.store.survey_times(task, device, "judge", "nvrtc").await.unwrap()
    };
    let both = [("compile-strict".to_owned(), 3.0), ("eager-strict".to_owned(), 6.0)];
    assert_eq!(times(&hash, "H200").await, both);
    assert_eq!(times(&other, "H200").await, []);
    assert_eq!(times(&hash, "simulated").await, []);
}

#[tokio::test]
async fn the_end_of_a_search_is_what_was_noted_last() {
    let ledger = Ledger::new().await;
    let (store, run, task) = (&ledger.store, &ledger.run, task_hash());
    assert_eq!(store.search_ends(run).await.unwrap(), []);
    for end in [SearchEnd::Plateau, SearchEnd::TargetReached] {
        store.note_search_ended(run, &task, end).await.unwrap();
        assert_eq!(store.search_ends(run).await.unwrap(), [(task.clone(), end)]);
    }
    assert_eq!(store.searches_over(run).await.unwrap(), std::slice::from_ref(&task));
    // It was taken up again, and ended again.
    ledger.open(1).await;
    assert_eq!(store.searches_over(run).await.unwrap(), []);
    store.note_search_ended(run, &task, SearchEnd::Plateau).await.unwrap();
    assert_eq!(store.searches_over(run).await.unwrap(), [task]);
}
