//! Files and batches as OpenAI's server has them, for a [`super::HttpScript`]: uploads, begins,
//! lists, ends and cancels, and counts what it ran.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use pipeline::transcript::Usage;
use serde_json::{Value, json};

use super::http_script::{Asked, Play, completion};

/// What becomes of one request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// It is run and answered.
    Chat { text: String, usage: Usage },
    /// It is run, and this comes of it.
    Status { status: u16, body: Value },
    /// It is not run before the batch ends.
    NotRun,
    /// It is not run, and no file says anything of it.
    Unsaid,
    /// It is run, and no file says anything of it.
    Swallowed,
    /// It is run, and its line does not read.
    Garbled,
}

/// How a batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With an answer.
    Told,
    /// It begins, and the connection breaks before that is said.
    Untold,
    /// It does not begin, and the connection breaks.
    Broken,
    /// It is refused with this status.
    Refused(u16),
}

/// What a line of a batch is answered with, from the custom id and the request.
pub type Answer = Box<dyn Fn(&str, &Value) -> Line + Send + Sync>;

/// The rules of a server.
pub struct BatchRules {
    /// Looks at a batch that find it under way; `None` finds it so for ever.
    pub looks: Option<u32>,
    /// The state in which it ends.
    pub end: &'static str,
    /// Why it fails as a whole, as the server lists it.
    pub errors: Value,
    /// True where the server says how many requests of a batch it ran.
    pub counts: bool,
    /// Requests that have been run when it is cancelled.
    pub run_before_cancel: usize,
    pub begin: Begin,
    /// What becomes of a request, by its id and body.
    pub answer: Answer,
    /// What the interactive lane answers.
    pub chat: Box<dyn Fn(&Asked) -> Play + Send + Sync>,
}

impl Default for BatchRules {
    /// Answers every request after one look, and nothing interactively.
    fn default() -> Self {
        let answer = |_: &str, _: &Value| Line::Chat {
            text: "a batch's reply".to_owned(),
            usage: Usage::of(10, 20),
        };
        Self {
            looks: Some(1),
            end: "completed",
            errors: Value::Null,
            counts: true,
            run_before_cancel: 0,
            begin: Begin::Told,
            answer: Box::new(answer),
            chat: Box::new(|_| Play::close()),
        }
    }
}

/// The far side: what it was asked and did.
pub struct BatchScript {
    rules: BatchRules,
    state: Mutex<State>,
}

impl fmt::Debug for BatchScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchScript").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    batches: Vec<Batch>,
    /// How often each request was run, by its id.
    runs: BTreeMap<String, u32>,
}

#[derive(Debug)]
struct Batch {
    id: String,
    /// Id and body of each request.
    requests: Vec<(String, Value)>,
    metadata: Value,
    status: &'static str,
    looks: u32,
    created_s: i64,
    /// Requests that were run, well or not.
    run: u32,
    output: Option<String>,
    errors: Option<String>,
}

impl BatchScript {
    /// A server with these rules.
    #[must_use]
    pub fn new(rules: BatchRules) -> Self {
        Self { rules, state: Mutex::default() }
    }

    /// How often each request was run, by its id.
    #[must_use]
    pub fn runs(&self) -> BTreeMap<String, u32> {
        self.state().runs.clone()
    }

    /// The ids of each batch's requests, oldest batch first.
    #[must_use]
    pub fn batches(&self) -> Vec<Vec<String>> {
        let ids = |batch: &Batch| batch.requests.iter().map(|(id, _)| id.clone()).collect();
        self.state().batches.iter().map(ids).collect()
    }

    /// The state of each batch, oldest first.
    #[must_use]
    pub fn statuses(&self) -> Vec<&'static str> {
        self.state().batches.iter().map(|batch| batch.status).collect()
    }

    /// What the server does with a request.
    #[must_use]
    pub fn play(&self, asked: &Asked) -> Play {
        let path = asked.path.split('?').next().unwrap_or_default();
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        match (asked.method.as_str(), parts.as_slice()) {
            ("POST", ["v1", "files"]) => self.take_file(asked),
            ("GET", ["v1", "files", id, "content"]) => self.file(id),
            ("POST", ["v1", "batches"]) => self.begin(asked),
            ("GET", ["v1", "batches"]) => self.list(asked),
            ("GET", ["v1", "batches", id]) => self.look(id),
            ("POST", ["v1", "batches", id, "cancel"]) => self.cancel(id),
            ("POST", ["v1", "chat", "completions"]) => (self.rules.chat)(asked),
            _ => unknown(),
        }
    }

    fn take_file(&self, asked: &Asked) -> Play {
        let mut state = self.state();
        let id = format!("file-{}", state.files.len() + 1);
        let Some(content) = file_of_form(&asked.body) else {
            return Play::json(400, &json!({ "error": { "message": "no file in the form" } }));
        };
        state.files.insert(id.clone(), content);
        Play::json(200, &json!({ "id": id, "object": "file", "purpose": "batch" }))
    }

    fn file(&self, id: &str) -> Play {
        match self.state().files.get(id) {
            Some(content) => Play::response(200, &[], &String::from_utf8_lossy(content)),
            None => unknown(),
        }
    }

    fn begin(&self, asked: &Asked) -> Play {
        let (mut state, body) = (self.state(), asked.json());
        match self.rules.begin {
            Begin::Broken => return Play::close(),
            Begin::Refused(status) => {
                return Play::json(status, &json!({ "error": { "message": "not now" } }));
            }
            Begin::Told | Begin::Untold => {}
        }
        let input = body["input_file_id"].as_str().and_then(|id| state.files.get(id));
        let Some(input) = input else { return unknown() };
        let request = |line: &[u8]| {
            let value: Value = serde_json::from_slice(line).ok()?;
            Some((value["custom_id"].as_str()?.to_owned(), value["body"].clone()))
        };
        let batch = Batch {
            id: format!("batch_{}", state.batches.len() + 1),
            requests: input.split(|byte| *byte == b'\n').filter_map(request).collect(),
            metadata: body["metadata"].clone(),
            status: "validating",
            looks: 0,
            created_s: Timestamp::now().as_second(),
            run: 0,
            output: None,
            errors: None,
        };
        let told = batch.json(&self.rules);
        state.batches.push(batch);
        if self.rules.begin == Begin::Untold { Play::close() } else { Play::json(200, &told) }
    }

    /// Newest first, two on a page.
    fn list(&self, asked: &Asked) -> Play {
        let state = self.state();
        let after = asked.path.split("after=").nth(1).map(|rest| rest.split('&').next());
        let newest = state.batches.iter().rev();
        let rest: Vec<_> = match after.flatten() {
            Some(id) => newest.skip_while(|batch| batch.id != id).skip(1).collect(),
            None => newest.collect(),
        };
        let page: Vec<_> = rest.iter().take(2).map(|batch| batch.json(&self.rules)).collect();
        let more = rest.len() > page.len();
        Play::json(200, &json!({ "object": "list", "data": page, "has_more": more }))
    }

    fn look(&self, id: &str) -> Play {
        let mut state = self.state();
        let Some(at) = state.batches.iter().position(|batch| batch.id == id) else {
            return unknown();
        };
        let batch = &mut state.batches[at];
        batch.looks += 1;
        let over = self.rules.looks.is_some_and(|looks| batch.looks > looks);
        match batch.status {
            "cancelling" => state.end(at, "cancelled", &self.rules),
            "validating" | "in_progress" if over => state.end(at, self.rules.end, &self.rules),
            "validating" => batch.status = "in_progress",
            _ => {}
        }
        Play::json(200, &state.batches[at].json(&self.rules))
    }

    fn cancel(&self, id: &str) -> Play {
        let mut state = self.state();
        let Some(batch) = state.batches.iter_mut().find(|batch| batch.id == id) else {
            return unknown();
        };
        if matches!(batch.status, "validating" | "in_progress") {
            batch.status = "cancelling";
        }
        Play::json(200, &batch.json(&self.rules))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&mut self, at: usize, status: &'static str, rules: &BatchRules) {
        let batch = &mut self.batches[at];
        batch.status = status;
        if status == "failed" {
            return;
        }
        let (mut output, mut errors) = (String::new(), String::new());
        for (number, (id, body)) in batch.requests.iter().enumerate() {
            let stopped = status == "cancelled" && number >= rules.run_before_cancel;
            let line = if stopped { Line::NotRun } else { (rules.answer)(id, body) };
            let (to, rest) = match line {
                Line::Unsaid => continue,
                Line::Swallowed | Line::Garbled => {
                    *self.runs.entry(id.clone()).or_default() += 1;
                    batch.run += 1;
                    let said = if line == Line::Garbled { "{\"custom_id\": \n" } else { "" };
                    output.push_str(said);
                    continue;
                }
                Line::NotRun => {
                    let code = format!("batch_{status}");
                    let error = json!({ "code": code, "message": "this request was not run" });
                    (&mut errors, json!({ "response": null, "error": error }))
                }
                Line::Status { status, body } => {
                    batch.run += 1;
                    let response = json!({ "status_code": status, "body": body });
                    (&mut errors, json!({ "response": response, "error": null }))
                }
                Line::Chat { text, usage } => {
                    *self.runs.entry(id.clone()).or_default() += 1;
                    batch.run += 1;
                    let body = completion(&text, Some(usage));
                    let response =
                        json!({ "status_code": 200, "request_id": "req_1", "body": body });
                    (&mut output, json!({ "response": response, "error": null }))
                }
            };
            let mut line = rest;
            line["custom_id"] = id.as_str().into();
            to.push_str(&format!("{line}\n"));
        }
        for (text, place) in [(output, &mut batch.output), (errors, &mut batch.errors)] {
            if !text.is_empty() {
                let id = format!("file-{}", self.files.len() + 1);
                self.files.insert(id.clone(), text.into_bytes());
                *place = Some(id);
            }
        }
    }
}

impl Batch {
    fn json(&self, rules: &BatchRules) -> Value {
        let failed = self.status == "failed";
        let errors = json!({ "object": "list", "data": rules.errors });
        let counts = json!({ "total": self.requests.len(), "completed": self.run, "failed": 0 });
        json!({
            "id": self.id, "object": "batch", "status": self.status, "metadata": self.metadata,
            "created_at": self.created_s, "completed_at": self.created_s + 7,
            "output_file_id": self.output,
            "error_file_id": self.errors, "errors": if failed { errors } else { Value::Null },
            "request_counts": if rules.counts { counts } else { Value::Null },
        })
    }
}

fn unknown() -> Play {
    Play::json(404, &json!({ "error": { "message": "no such object" } }))
}

/// The file in a multipart form.
fn file_of_form(body: &[u8]) -> Option<Vec<u8>> {
    let find = |text: &[u8], from: usize| {
        let at = body.get(from..)?.windows(text.len()).position(|window| window == text)?;
        Some(from + at)
    };
    let boundary = &body[..find(b"\r\n", 0)?];
    let part = find(b"name=\"file\"", 0)?;
    let start = find(b"\r\n\r\n", part)? + 4;
    let end = find(&[b"\r\n", boundary].concat(), start)?;
    Some(body[start..end].to_vec())
}
