//! The state machine of an attempt: what may follow what, and that nothing is lost on the way.

use std::sync::{Arc, Mutex};

use pipeline::attempt::State;
use pipeline::digest::Digest;
use pipeline::verdict::{Reason, Verdict};

use super::fixtures::{
    Ledger, RESERVED, SOURCE, TARGET, advance, ask, diagnostic, facts, open, prompt, reply, report,
    start_run, task_hash,
};
use crate::{Boundary, CallFailure, CallState, Chain, Reservation, Store, StoreError};

#[tokio::test]
async fn only_the_next_step_is_taken_and_only_once() {
    let ledger = Ledger::new().await;
    for (seq, from) in (1..).zip(State::ALL) {
        let id = ledger.bring(seq, from).await;
        let before = ledger.store.attempt(&id).await.unwrap();
        for step in State::ALL {
            let follows = step as u32 == from as u32 + 1;
            let closes = step == State::Closed && from >= State::Replied && from < State::Closed;
            if follows || closes {
                continue;
            }
            let error = advance(&ledger.store, &id, step).await.unwrap_err();
            let named = matches!(error, StoreError::WrongState { seq: found, .. } if found == seq);
            assert!(named, "{from:?} → {step:?}: {error}");
        }
        assert_eq!(ledger.store.attempt(&id).await.unwrap(), before, "{from:?}");
        if from != State::Closed {
            // Raw, because some of these states cannot be closed.
            let closing = "UPDATE attempt SET state = 'closed', kind = 'Correct', detail = ''";
            ledger.sql(&format!("{closing} WHERE id = '{id}'")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_attempt_may_end_early_but_not_before_its_reply() {
    let ledger = Ledger::new().await;
    for (seq, from) in (1..).zip(State::ALL) {
        let id = ledger.bring(seq, from).await;
        let verdict = if from == State::Judged {
            Verdict::correct()
        } else {
            Verdict::failed(Reason::Static, "no")
        };
        let closed = ledger.store.close_attempt(&id, &verdict).await;
        assert_eq!(closed.is_ok(), from >= State::Replied && from < State::Closed, "{from:?}");
    }
}

#[tokio::test]
async fn the_verdict_of_the_judge_stands() {
    let ledger = Ledger::new().await;
    let id = ledger.bring(1, State::Judged).await;
    let other = Verdict::failed(Reason::Mismatch, "other");
    let error = ledger.store.close_attempt(&id, &other).await.unwrap_err();
    assert!(matches!(error, StoreError::Unstorable { .. }), "{error}");
    let odd = Verdict { reason: Some(Reason::Plan), ..Verdict::correct() };
    let error = ledger.store.close_attempt(&id, &odd).await.unwrap_err();
    assert!(error.to_string().contains("Correct/PLAN"), "{error}");
    ledger.store.close_attempt(&id, &Verdict::correct()).await.unwrap();
}

#[tokio::test]
async fn a_seq_is_opened_once_and_needs_its_parent() {
    let ledger = Ledger::new().await;
    ledger.open(1).await;
    let again = open(&ledger.store, &ledger.run, &ask(1)).await.unwrap_err();
    assert!(matches!(again, StoreError::WrongState { seq: 1, .. }), "{again}");
    let orphan = open(&ledger.store, &ledger.run, &ask(3)).await.unwrap_err();
    assert!(matches!(orphan, StoreError::UnknownAttempt { .. }), "{orphan}");
    let nobody = "nobody".to_owned().into();
    let unknown = ledger.store.mark_sent(&nobody).await.unwrap_err();
    assert!(matches!(unknown, StoreError::UnknownAttempt { .. }), "{unknown}");
    let run = open(&ledger.store, &"nobody".to_owned().into(), &ask(1)).await;
    assert!(run.is_err());
}

#[tokio::test]
async fn everything_stored_is_in_the_row() {
    let ledger = Ledger::new().await;
    let id = ledger.bring(1, State::Judged).await;
    let row = ledger.store.attempt(&id).await.unwrap();
    assert_eq!((row.ask, row.state), (ask(1), State::Judged));
    assert_eq!((&row.prompt, row.prompt_hash.clone()), (&prompt(&ask(1)), row.prompt.hash()));
    assert_eq!(row.reply, Some(reply("the reply")));
    assert_eq!((row.call.ticket.as_deref(), row.call.reservation), (None, RESERVED));
    let candidate = row.candidate.unwrap();
    assert_eq!((candidate.source.as_str(), candidate.plan_text.as_str()), (SOURCE, "plan = 1\n"));
    assert_eq!(candidate.tunables["tile"], 64);
    let build = row.build.unwrap();
    assert_eq!((build.facts, build.log.as_str()), (Some(facts()), "1 warning\n"));
    assert_eq!(build.diagnostics, [diagnostic("unused variable")]);
    assert_eq!(build.ptx.as_deref(), Some(&b".version 8.8\n\xff"[..]));
    assert_eq!(build.cubin.as_deref(), Some(&[0x7f, 0x45][..]));
    let judgement = row.judgement.unwrap();
    assert_eq!((judgement.verdict, judgement.report), (Verdict::correct(), Some(report(5e8))));
    assert_eq!(row.verdict, None);
}

#[tokio::test]
async fn a_reopened_ledger_has_the_same_attempt_in_hand() {
    for state in State::ALL {
        let ledger = Ledger::new().await;
        let id = ledger.bring(1, state).await;
        let before = ledger.store.attempt(&id).await.unwrap();
        assert_eq!(before.state, state);
        ledger.store.close().await;
        let again = Store::open(&ledger.path()).await.unwrap();
        let in_hand = again.attempt_in_hand(&ledger.run).await.unwrap();
        assert_eq!(in_hand, Some(before.clone()).filter(|_| state != State::Closed));
        assert_eq!(again.attempt(&id).await.unwrap(), before);
        let chain = again.verify_chain(&ledger.run).await.unwrap();
        assert!(matches!(chain, Chain::Intact { .. }), "{state:?}: {chain:?}");
    }
}

#[tokio::test]
async fn a_failed_or_lost_call_is_followed_by_another() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    let id = ledger.open(1).await.id;
    store.fail_call(&id, CallFailure::unpaid("rate_limited", "429 slow down")).await.unwrap();
    let failed = store.attempt(&id).await.unwrap();
    assert_eq!((failed.state, failed.call.state), (State::Asked, CallState::Failed));
    assert_eq!(failed.call.error.unwrap().1, "429 slow down");
    for result in [
        store.mark_sent(&id).await,
        store.fail_call(&id, CallFailure::unpaid("again", "again")).await,
        store.mark_lost(&id, "c", "m").await,
        store.put_ticket(&id, "t").await,
    ] {
        assert!(matches!(result, Err(StoreError::WrongState { .. })), "{result:?}");
    }
    let reserved = Reservation { tokens: 7, nusd: 9 };
    let second = store.reopen_call(&id, reserved, TARGET).await.unwrap();
    assert_eq!((second.call.try_index, second.call.reservation), (1, reserved));
    assert_eq!(second.prompt, prompt(&ask(1)));
    assert!(store.reopen_call(&id, reserved, TARGET).await.is_err());
    store.mark_sent(&id).await.unwrap();
    store.mark_lost(&id, "deadline", "no reply within 5 ms").await.unwrap();
    let lost = store.attempt(&id).await.unwrap();
    assert_eq!((lost.state, lost.call.state), (State::Asked, CallState::Lost));
    assert_eq!(lost.call.error, Some(("deadline".to_owned(), "no reply within 5 ms".to_owned())));
    let told = "SELECT count(*) FROM event WHERE kind = 'call_lost' AND body LIKE '%within 5 ms%'";
    assert_eq!(ledger.count(told).await, 1);
    let third = store.reopen_call(&id, RESERVED, TARGET).await.unwrap();
    assert_eq!((third.state, third.call.try_index), (State::Asked, 2));
    advance(store, &id, State::Sent).await.unwrap();
    store.fail_call(&id, CallFailure::unpaid("unavailable", "503")).await.unwrap();
    store.reopen_call(&id, RESERVED, TARGET).await.unwrap();
    advance(store, &id, State::Sent).await.unwrap();
    advance(store, &id, State::Replied).await.unwrap();
    let detail = store.attempt_detail(&ledger.run, &task_hash(), 1).await.unwrap();
    let states: Vec<_> = detail.calls.iter().map(|call| call.state).collect();
    use CallState::{Failed, Lost, Settled};
    assert_eq!(states, [Failed, Lost, Failed, Settled]);
    assert!(store.attempt_detail(&ledger.run, &task_hash(), 2).await.is_err());
}

#[tokio::test]
async fn the_hook_sees_each_state_after_it_is_on_disk() {
    let ledger = Ledger::new().await;
    let reader = Store::open_read_only(&ledger.path()).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let store = ledger.another().await.with_boundary_hook(Arc::new(move |state, seq| {
        sink.lock().unwrap().push((state, seq));
    }));
    let boundaries = State::ALL.map(|state| (Boundary::from(state), 1));
    let id = open(&store, &ledger.run, &ask(1)).await.unwrap().id;
    for state in State::ALL.into_iter().skip(1) {
        advance(&store, &id, state).await.unwrap();
        assert_eq!(seen.lock().unwrap().last(), Some(&(Boundary::from(state), 1)));
        assert_eq!(reader.attempt(&id).await.unwrap().state, state);
    }
    assert_eq!(*seen.lock().unwrap(), boundaries);
}

#[tokio::test]
async fn the_ends_of_a_call_are_boundaries_too() {
    let ledger = Ledger::new().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let store = ledger.another().await.with_boundary_hook(Arc::new(move |at, _| {
        sink.lock().unwrap().push(at);
    }));
    let id = open(&store, &ledger.run, &ask(1)).await.unwrap().id;
    store.fail_call(&id, CallFailure::unpaid("c", "m")).await.unwrap();
    store.reopen_call(&id, RESERVED, TARGET).await.unwrap();
    store.mark_sent(&id).await.unwrap();
    store.passed(Boundary::Submitted, 1);
    store.put_ticket(&id, "t").await.unwrap();
    let row = store.attempt(&id).await.unwrap();
    assert_eq!((row.state, row.call.ticket.as_deref()), (State::Sent, Some("t")));
    let twice = store.put_ticket(&id, "t").await.unwrap_err();
    assert!(matches!(twice, StoreError::WrongState { .. }), "{twice}");
    store.mark_lost(&id, "c", "m").await.unwrap();
    use Boundary::{Asked, Failed, Lost, Sent, Submitted, Ticketed};
    assert_eq!(*seen.lock().unwrap(), [Asked, Failed, Asked, Sent, Submitted, Ticketed, Lost]);
    let kinds = ["run_started", "asked", "call_failed", "call_reserved", "sent", "ticket_stored"];
    assert_eq!(ledger.event_kinds().await, [&kinds[..], &["call_lost"]].concat());
}

/// An agent drives several runs on several threads: every future must be free to move.
#[tokio::test]
async fn every_future_may_move_between_threads() {
    fn sendable<T: Send>(_: T) {}
    let ledger = Ledger::new().await;
    let (store, run) = (&ledger.store, &ledger.run);
    let id = ledger.open(1).await.id;
    let key = Digest::of_bytes(b"key");
    sendable(Store::open(store.path()));
    sendable(Store::open_read_only(store.path()));
    sendable(start_run(store));
    sendable(store.resolve_run("@last"));
    sendable(store.reopen_run(run, "{}"));
    sendable(store.put_ticket(&id, "t"));
    sendable(store.run_summary(run));
    sendable(store.verify_chain(run));
    sendable(store.attempt_in_hand(run));
    sendable(store.attempt_detail(run, &task_hash(), 1));
    sendable(store.closed_attempts(run, &key));
    sendable(store.verdict_of_eval_key(&key, "nvrtc"));
    sendable(store.danger(&key));
    sendable(open(store, run, &ask(1)));
    for state in State::ALL {
        sendable(advance(store, &id, state));
    }
}

#[tokio::test]
async fn what_was_read_before_and_what_is_new_make_the_whole_attempt() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    let mut known = ledger.open(1).await;
    let id = known.id.clone();
    // Another try first: its call is another one, and the question is the same.
    store.mark_sent(&id).await.unwrap();
    store.mark_lost(&id, "deadline", "late").await.unwrap();
    store.reopen_call(&id, RESERVED, TARGET).await.unwrap();
    for step in State::ALL {
        if step != State::Asked {
            advance(store, &id, step).await.unwrap();
        }
        let again = store.attempt_again(&known).await.unwrap();
        assert_eq!(again, store.attempt(&id).await.unwrap(), "{step:?}");
        known = again;
    }
    assert!(known.reply.is_some() && known.build.is_some() && known.judgement.is_some());
}
