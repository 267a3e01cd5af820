//! The batch lane: what leaves together, what comes of each request, and that nothing is run twice.

mod lines;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::conformance::{BatchRules, BatchScript, Begin, Line};
use crate::error::Charge;
use crate::openai::batch::is_interactive;
use crate::{BatchModel, BatchSettings, Poll, Ticket};

const BATCH_PRICE: Price = Price::PerMillionTokens {
    input_nusd: 500_000,
    cached_input_nusd: 250_000,
    output_nusd: 1_000_000,
};

struct World {
    script: Arc<BatchScript>,
    server: HttpScript,
}

impl World {
    fn new(rules: BatchRules) -> Self {
        let script = Arc::new(BatchScript::new(rules));
        let player = script.clone();
        let server = HttpScript::respond(move |asked| player.play(asked)).unwrap();
        Self { script, server }
    }

    fn model(&self) -> BatchModel {
        self.model_with(|_| {})
    }

    fn model_with(&self, change: impl FnOnce(&mut BatchSettings)) -> BatchModel {
        let mut batch = BatchSettings {
            price: BATCH_PRICE,
            collect_ms: 20,
            requests_max: 100,
            poll_ms: 5,
            deadline_ms: None,
        };
        change(&mut batch);
        BatchModel::new(settings(&self.server.base_url(), true), batch).unwrap()
    }

    fn count(&self, method: &str, path: &str) -> usize {
        let is = |asked: &&Asked| asked.method == method && asked.path.starts_with(path);
        self.server.asked().iter().filter(is).count()
    }
}

/// An id as the ledger makes them, of this moment.
fn fresh_id(n: u32) -> String {
    let ms = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap() + 1_000;
    format!("{:08x}-{:04x}-7000-8000-{n:012}", ms >> 16, ms & 0xffff)
}

fn fresh(n: u32) -> Request {
    Request { id: fresh_id(n), ..request("t", n, 0) }
}

async fn wait(model: &BatchModel, ticket: &Ticket) -> Result<Reply, LlmError> {
    crate::wait_for(model, ticket, Some(WAIT_MS)).await
}

/// One poll of what is not answered, and a moment for what runs beside it.
async fn look(model: &BatchModel, ticket: &Ticket) {
    assert!(matches!(model.poll(ticket).await, Ok(Poll::Pending { .. })));
    tokio::time::sleep(Duration::from_millis(2)).await;
}

fn recorded(id: &str, _: &Value) -> Line {
    let parts: Vec<&str> = id.split('-').collect();
    let [_, seq, try_index] = parts[..] else { return Line::Unsaid };
    let entries: Vec<_> =
        script().into_iter().filter(|entry| entry.seq.to_string() == seq).collect();
    let index = try_index.parse::<usize>().unwrap();
    match entries.get(index).or(entries.last()) {
        Some(entry) if entry.error.is_some() => Line::Status {
            status: 429,
            body: json!({ "error": { "message": "rate limited", "code": 429 } }),
        },
        Some(entry) => Line::Chat { text: entry.reply.clone(), usage: entry.usage },
        None => Line::Status { status: 404, body: json!({ "error": { "message": "nothing" } }) },
    }
}

#[tokio::test]
async fn passes_the_suite_of_every_provider() {
    let world = World::new(BatchRules { answer: Box::new(recorded), ..BatchRules::default() });
    let abilities = Abilities { recorded: false, failure: ErrorClass::RateLimited };
    check(|| world.model(), abilities).await.unwrap();
    assert!(world.script.runs().values().all(|runs| *runs == 1), "{:?}", world.script.runs());
}

#[tokio::test]
async fn requests_leave_together_and_are_answered_at_the_batch_price() {
    let world = World::new(BatchRules::default());
    let model = world.model();
    let asked: Vec<_> = (1..=3).map(fresh).collect();
    let mut tickets = Vec::new();
    for request in &asked {
        tickets.push(model.submit(request).await.unwrap());
    }
    for ticket in &tickets {
        let reply = wait(&model, ticket).await.unwrap();
        assert_eq!(reply.text, "a batch's reply");
        assert_eq!(reply.cost_nusd, BATCH_PRICE.cost_nusd(Usage::of(10, 20)));
        assert!(reply.http_log.contains("batch_1"), "{}", reply.http_log);
    }
    let ids: Vec<_> = asked.iter().map(|request| request.id.clone()).collect();
    assert_eq!(world.script.batches(), [ids]);
    // Ids of this moment cannot be in an older batch, so that no list was needed.
    assert_eq!((world.count("POST", "/v1/files"), world.count("GET", "/v1/batches?")), (1, 0));
    let file = world.server.asked().into_iter().find(|it| it.path == "/v1/files").unwrap();
    let text = String::from_utf8_lossy(&file.body).into_owned();
    assert!(text.contains(r#""stream":false"#) && text.contains(r#""purpose""#), "{text}");
    assert!(!text.contains(KEY) && file.header("authorization").is_some());
    let info = model.describe();
    assert_eq!((info.price, info.provider.as_str()), (BATCH_PRICE, "openai-batch"));
}

#[tokio::test]
async fn a_batch_is_full_by_count_and_the_rest_leaves_in_the_next() {
    let world = World::new(BatchRules::default());
    let model = world.model_with(|batch| batch.requests_max = 2);
    let mut tickets = Vec::new();
    for n in 1..=5 {
        tickets.push(model.submit(&fresh(n)).await.unwrap());
    }
    for ticket in &tickets {
        wait(&model, ticket).await.unwrap();
    }
    let sizes: Vec<_> = world.script.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 1]);
    assert_eq!(world.script.runs().len(), 5);
}

#[tokio::test]
async fn a_file_has_a_cap_and_so_has_a_request() {
    let world = World::new(BatchRules::default());
    let model = world.model();
    let mut large = fresh(1);
    large.prompt.messages[1].content = "x".repeat(crate::limits::BATCH_FILE_BYTES_MAX);
    let error = model.submit(&large).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::Refused, Charge::Nothing));
    let odd = Request { id: "with space".to_owned(), ..fresh(2) };
    assert_eq!(model.submit(&odd).await.unwrap_err().class(), ErrorClass::Refused);
    // Two that fit alone and not together are two files.
    let half = crate::limits::BATCH_FILE_BYTES_MAX / 2 + 1_000;
    let mut tickets = Vec::new();
    for n in 3..=4 {
        let mut large = fresh(n);
        large.prompt.messages[1].content = "x".repeat(half);
        tickets.push(model.submit(&large).await.unwrap());
    }
    for ticket in &tickets {
        wait(&model, ticket).await.unwrap();
    }
    assert_eq!(world.script.batches().len(), 2);
}

#[tokio::test]
async fn a_batch_that_fails_as_a_whole_says_why_to_whom_it_concerns() {
    let line = json!([{ "code": "invalid_request", "message": "no such field", "line": 2 }]);
    let general = json!([{ "code": "model_not_found", "message": "no model" }]);
    let queue = json!([{ "code": "token_limit_exceeded", "message": "queue is full" }]);
    use ErrorClass::{RateLimited, Refused, Unavailable};
    for (errors, classes) in [
        (line, [Unavailable, Refused]),
        (general, [Refused, Refused]),
        (queue, [RateLimited, RateLimited]),
        (json!([]), [Unavailable, Unavailable]),
    ] {
        let text = errors.to_string();
        let world = World::new(BatchRules { end: "failed", errors, ..BatchRules::default() });
        let model = world.model();
        let mut tickets = Vec::new();
        for n in 1..=2 {
            tickets.push(model.submit(&fresh(n)).await.unwrap());
        }
        for (ticket, class) in tickets.iter().zip(classes) {
            let error = wait(&model, ticket).await.unwrap_err();
            let found = (error.class(), error.charge());
            assert_eq!(found, (class, Charge::Nothing), "{text}: {error}");
        }
        assert_eq!(world.script.runs().len(), 0);
    }
}

/// A process that dies between the upload and its ticket leaves a batch that the next one finds, by
/// the ticket or by the same request.
#[tokio::test]
async fn a_request_of_a_dead_process_is_found_and_never_handed_over_twice() {
    for by_ticket in [true, false] {
        let world = World::new(BatchRules { looks: Some(3), ..BatchRules::default() });
        let (first, asked) = (world.model(), fresh(1));
        // More batches than one page of the list holds are newer than it.
        let ticket = first.submit(&asked).await.unwrap();
        while world.script.batches().is_empty() {
            look(&first, &ticket).await;
        }
        for n in 2..=6 {
            let other = first.submit(&fresh(n)).await.unwrap();
            wait(&first, &other).await.unwrap();
        }
        drop(first);
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let later = world.model();
        let ticket = if by_ticket { ticket } else { later.submit(&asked).await.unwrap() };
        assert_eq!(wait(&later, &ticket).await.unwrap().text, "a batch's reply");
        assert_eq!(world.script.runs().get(&asked.id), Some(&1));
        assert_eq!(world.script.batches().len(), 6);
    }
}

#[tokio::test]
async fn a_request_that_never_left_costs_nothing_and_may_leave_later() {
    let world = World::new(BatchRules::default());
    let first = world.model_with(|batch| batch.collect_ms = 60_000);
    let old = request("t", 1, 0);
    let ticket = first.submit(&old).await.unwrap();
    for _ in 0..20 {
        look(&first, &ticket).await;
    }
    drop(first);
    let later = world.model();
    let error = wait(&later, &ticket).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::UnknownTicket, Charge::Nothing));
    let ticket = later.submit(&old).await.unwrap();
    assert_eq!(wait(&later, &ticket).await.unwrap().text, "a batch's reply");
    assert_eq!(world.script.runs().get("t-1-0"), Some(&1));
}

#[tokio::test]
async fn a_batch_whose_beginning_was_not_told_is_found_by_its_mark() {
    use ErrorClass::{Interrupted, RateLimited, Unavailable};
    for (begin, error) in [
        (Begin::Untold, None),
        (Begin::Broken, Some(Interrupted)),
        (Begin::Refused(429), Some(RateLimited)),
        (Begin::Refused(502), Some(Unavailable)),
    ] {
        let world = World::new(BatchRules { begin, ..BatchRules::default() });
        let model = world.model();
        let ticket = model.submit(&fresh(1)).await.unwrap();
        let found = wait(&model, &ticket).await;
        match error {
            None => assert_eq!(found.unwrap().text, "a batch's reply"),
            Some(class) => {
                let error = found.unwrap_err();
                let found = (error.class(), error.charge());
                assert_eq!(found, (class, Charge::Nothing), "{begin:?}: {error}");
            }
        }
        assert!(world.script.batches().len() <= 1, "{begin:?}");
    }
}

/// After its deadline a batch is cancelled: what it answered is taken, the rest goes to the other
/// lane as a call of its own.
#[tokio::test]
async fn a_late_batch_is_cancelled_and_the_rest_falls_back() {
    let rules = BatchRules {
        looks: None,
        run_before_cancel: 1,
        chat: Box::new(|asked| Play::answer(asked, "at once", Some(Usage::of(10, 20)))),
        ..BatchRules::default()
    };
    let world = World::new(rules);
    let model = world.model_with(|batch| batch.deadline_ms = Some(1));
    let (first, second) = (fresh(1), fresh(2));
    let tickets = [model.submit(&first).await.unwrap(), model.submit(&second).await.unwrap()];
    assert_eq!(wait(&model, &tickets[0]).await.unwrap().text, "a batch's reply");
    let error = wait(&model, &tickets[1]).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::Deadline, Charge::Nothing));
    assert_eq!(world.script.statuses(), ["cancelled"]);
    let next = model.describe_after("openai-batch", Some(error.class().name()));
    assert_eq!((next.provider.as_str(), next.price), ("openai", PRICE));
    assert!(!next.idempotent && next.deadline_ms.is_some());
    let again = Request { provider: next.provider, try_index: 1, ..fresh(3) };
    let ticket = model.submit(&again).await.unwrap();
    assert!(is_interactive(&ticket));
    let reply = wait(&model, &ticket).await.unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.cost_nusd),
        ("at once", PRICE.cost_nusd(Usage::of(10, 20)))
    );
    // Once there, it stays there; other failures stay in the batch lane.
    for (provider, failure, lane) in [
        ("openai", Some("rate_limited"), "openai"),
        ("openai", None, "openai"),
        ("openai-batch", Some("rate_limited"), "openai-batch"),
        ("openai-batch", Some("unknown_ticket"), "openai-batch"),
        ("openai-batch", None, "openai-batch"),
        ("another", Some("deadline"), "openai-batch"),
    ] {
        assert_eq!(
            model.describe_after(provider, failure).provider,
            lane,
            "{provider} {failure:?}"
        );
    }
}

#[tokio::test]
async fn what_is_given_up_never_leaves_and_a_batch_that_nobody_wants_is_cancelled() {
    let world = World::new(BatchRules { looks: None, ..BatchRules::default() });
    let model = world.model();
    let kept = model.submit(&fresh(1)).await.unwrap();
    let dropped = model.submit(&fresh(2)).await.unwrap();
    model.cancel(&dropped).await.unwrap();
    let error = model.poll(&dropped).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::Interrupted, Charge::Nothing));
    while world.script.batches().is_empty() || world.count("GET", "/v1/batches/") == 0 {
        look(&model, &kept).await;
    }
    model.cancel(&kept).await.unwrap();
    let error = wait(&model, &kept).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::Deadline, Charge::Nothing));
    let sizes: Vec<_> = world.script.batches().iter().map(Vec::len).collect();
    assert_eq!((sizes, world.script.statuses()), (vec![1], vec!["cancelled"]));
}

/// An outage while a batch is on loses nothing.
#[tokio::test]
async fn looks_that_fail_are_made_again() {
    let script = Arc::new(BatchScript::new(BatchRules::default()));
    let (player, failed) = (script.clone(), AtomicU32::new(0));
    let server = HttpScript::respond(move |asked| {
        let fails = asked.method == "GET" && failed.fetch_add(1, Ordering::SeqCst) % 5 < 3;
        if fails { Play::response(503, &[], "") } else { player.play(asked) }
    });
    let world = World { script, server: server.unwrap() };
    let model = world.model();
    let ticket = model.submit(&fresh(1)).await.unwrap();
    assert_eq!(wait(&model, &ticket).await.unwrap().text, "a batch's reply");
    assert_eq!(world.script.runs().len(), 1);
}
