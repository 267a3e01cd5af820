//! Tickets: one request each, replies that stay, requests that are given up.

use super::*;
use crate::error::Charge;
use crate::limits::ANSWERED_CALLS_MAX;
use crate::{Poll, Ticket};

#[tokio::test]
async fn a_slow_answer_is_pending_and_then_stays() {
    let late = "HTTP/1.1 200 OK\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"late\"}}]}";
    let server = HttpScript::start(vec![Play::default().wait(2_000).bytes(late)]).unwrap();
    let model = model(&server, true);
    let ticket = model.submit(&request("t", 1, 0)).await.unwrap();
    assert_eq!(ticket.as_str(), "openai:t-1-0");
    let pending = Poll::Pending { next_poll_ms: 1 };
    assert_eq!(model.poll(&ticket).await, Ok(pending));
    let done = complete(&model, &request("t", 1, 0), WAIT_MS).await.unwrap();
    assert_eq!(done.text, "late");
    assert_eq!(model.poll(&ticket).await, Ok(Poll::Done(done)));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_failed_request_is_made_again_and_an_answered_one_is_not() {
    let plays = vec![Play::response(500, &[], ""), Play::chat("a", None), Play::chat("b", None)];
    let server = HttpScript::start(plays).unwrap();
    let model = model(&server, true);
    let asked = request("t", 1, 0);
    assert!(complete(&model, &asked, WAIT_MS).await.is_err());
    for _ in 0..2 {
        assert_eq!(complete(&model, &asked, WAIT_MS).await.unwrap().text, "a");
    }
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn a_request_that_is_given_up_is_dropped() {
    let server = HttpScript::start(vec![Play::events().hold()]).unwrap();
    let model = model(&server, true);
    let ticket = model.submit(&request("t", 1, 0)).await.unwrap();
    assert!(matches!(model.poll(&ticket).await, Ok(Poll::Pending { .. })));
    model.cancel(&ticket).await.unwrap();
    model.cancel(&ticket).await.unwrap();
    let error = model.poll(&ticket).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::UnknownTicket, Charge::Unknown));
}

#[tokio::test]
async fn giving_up_what_is_done_keeps_the_reply() {
    let server = HttpScript::start(vec![Play::chat("a", None)]).unwrap();
    let model = model(&server, true);
    let reply = complete(&model, &request("t", 1, 0), WAIT_MS).await.unwrap();
    let ticket = Ticket::from("openai:t-1-0".to_owned());
    model.cancel(&ticket).await.unwrap();
    assert_eq!(model.poll(&ticket).await, Ok(Poll::Done(reply)));
}

#[tokio::test]
async fn only_the_last_replies_stay() {
    let server = HttpScript::start(vec![Play::chat("a", None)]).unwrap();
    let model = model(&server, true);
    let last = u32::try_from(ANSWERED_CALLS_MAX).unwrap() + 2;
    for seq in 0..=last {
        complete(&model, &request("t", seq, 0), WAIT_MS).await.unwrap();
    }
    for (seq, known) in [(0, false), (1, false), (last - 1, true), (last, true)] {
        let found = model.poll(&Ticket::from(format!("openai:t-{seq}-0"))).await;
        assert_eq!(found.is_ok(), known, "{seq}");
    }
}

#[tokio::test]
async fn an_odd_id_is_asked_all_the_same() {
    let server = HttpScript::start(vec![Play::chat("a", None)]).unwrap();
    let model = model(&server, true);
    let odd = Request { id: "größe\n".to_owned(), ..request("t", 1, 0) };
    assert_eq!(complete(&model, &odd, WAIT_MS).await.unwrap().text, "a");
    let long = Request { id: "x".repeat(2_000), ..request("t", 1, 0) };
    let error = complete(&model, &long, WAIT_MS).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::Refused, Charge::Nothing));
}
