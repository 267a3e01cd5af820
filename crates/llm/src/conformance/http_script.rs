//! An HTTP server that plays what a test says, down to the byte: delays, cuts and nonsense
//! included. It counts and keeps what it was asked, and speaks OpenAI's chat completions.
//!
//! Threads and sockets of the standard library, so that tests without a runtime can use it too.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pipeline::transcript::Usage;
use serde_json::{Value, json};

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// How often a held connection is looked at, in milliseconds.
const HOLD_STEP_MS: u64 = 10;

/// One request as it arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    /// The value of a header; `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The text of the last message.
    #[must_use]
    pub fn prompt(&self) -> String {
        let json = self.json();
        let last = json["messages"].as_array().and_then(|messages| messages.last());
        last.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Bytes(Vec<u8>),
    WaitMs(u64),
    /// Silence until the other side gives up.
    Hold,
}

/// What the server does on one connection, after which it closes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Play {
    steps: Vec<Step>,
}

impl Play {
    /// Nothing: the connection is closed without a byte.
    #[must_use]
    pub fn close() -> Self {
        Self::default()
    }

    /// Bytes as they are, the status line included.
    #[must_use]
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().bytes(bytes)
    }

    /// A whole response.
    #[must_use]
    pub fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let length = ("content-length", body.len().to_string());
        let mut all = headers.to_vec();
        all.push((length.0, &length.1));
        Self::raw(head(status, &all)).bytes(body)
    }

    /// A whole response of JSON.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::response(status, &[("content-type", "application/json")], &body.to_string())
    }

    /// A chat completion in one piece.
    #[must_use]
    pub fn chat(text: &str, usage: Option<Usage>) -> Self {
        Self::json(200, &completion(text, usage))
    }

    /// The head of a stream of events; go on with [`Play::event`], end with [`Play::end`].
    #[must_use]
    pub fn events() -> Self {
        let headers = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")];
        Self::raw(head(200, &headers))
    }

    /// A whole chat completion as a stream, a chunk for each piece of the text.
    #[must_use]
    pub fn stream(pieces: &[&str], usage: Option<Usage>) -> Self {
        let mut play = Self::events();
        for piece in pieces {
            play = play.event(&chunk(json!({ "delta": { "content": piece } })));
        }
        play = play.event(&chunk(json!({ "delta": {}, "finish_reason": "stop" })));
        if let Some(usage) = usage {
            let mut last = chunk(json!({}));
            last["choices"] = json!([]);
            last["usage"] = counts(usage);
            play = play.event(&last);
        }
        play.piece("data: [DONE]\n\n").end()
    }

    /// The same answer in the form that the request asks for.
    #[must_use]
    pub fn answer(asked: &Asked, text: &str, usage: Option<Usage>) -> Self {
        match asked.json()["stream"].as_bool() {
            Some(true) => Self::stream(&[text], usage),
            Some(false) | None => Self::chat(text, usage),
        }
    }

    /// More bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Bytes(bytes.into()));
        self
    }

    /// A piece of a chunked body.
    #[must_use]
    pub fn piece(self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend(bytes);
        framed.extend(b"\r\n");
        self.bytes(framed)
    }

    /// An event of a stream.
    #[must_use]
    pub fn event(self, data: &Value) -> Self {
        self.piece(format!("data: {data}\n\n"))
    }

    /// The end of a chunked body; without it the body is cut off.
    #[must_use]
    pub fn end(self) -> Self {
        self.bytes("0\r\n\r\n")
    }

    /// Silence of so many milliseconds.
    #[must_use]
    pub fn wait(mut self, wait_ms: u64) -> Self {
        self.steps.push(Step::WaitMs(wait_ms));
        self
    }

    /// Silence until the other side gives up.
    #[must_use]
    pub fn hold(mut self) -> Self {
        self.steps.push(Step::Hold);
        self
    }
}

/// A chat completion as a server sends it in one piece.
pub(super) fn completion(text: &str, usage: Option<Usage>) -> Value {
    let message = json!({ "role": "assistant", "content": text });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    let mut body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [choice],
    });
    if let Some(usage) = usage {
        body["usage"] = counts(usage);
    }
    body
}

/// A chunk of a streamed completion around a choice.
fn chunk(choice: Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
        "choices": [choice],
    })
}

fn counts(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_input_tokens },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
    })
}

fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let lines: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Scripted\r\n{lines}connection: close\r\n\r\n")
}

type Respond = dyn Fn(&Asked) -> Play + Send + Sync;

/// A running server; it stops when it is dropped.
pub struct HttpScript {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    respond: Box<Respond>,
    asked: Mutex<Vec<Asked>>,
    is_over: AtomicBool,
}

impl HttpScript {
    /// Plays one after the other, and the last one again for ever.
    ///
    /// # Errors
    /// No free port on this machine.
    pub fn start(plays: Vec<Play>) -> io::Result<Self> {
        let next = Mutex::new(0_usize);
        Self::respond(move |_| {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            let play = plays.get(*next).or(plays.last()).cloned().unwrap_or_default();
            *next += 1;
            play
        })
    }

    /// Plays what `respond` makes of each request.
    ///
    /// # Errors
    /// No free port on this machine.
    pub fn respond(respond: impl Fn(&Asked) -> Play + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            respond: Box::new(respond),
            asked: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let server = shared.clone();
        thread::spawn(move || server.accept(&listener));
        Ok(Self { address, shared })
    }

    /// The address for a client, with `/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Requests so far, in the order of their arrival.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked().clone()
    }

    /// How many requests there were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.asked().len()
    }
}

impl Drop for HttpScript {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // A connection of our own wakes the thread that waits for one.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.is_over() {
                return;
            }
            let Ok(stream) = stream else { continue };
            let server = self.clone();
            // A client that goes away is part of the tests.
            thread::spawn(move || drop(server.serve(stream)));
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let asked = read_request(&mut stream)?;
        self.asked().push(asked.clone());
        for step in (self.respond)(&asked).steps {
            match step {
                Step::Bytes(bytes) => stream.write_all(&bytes).and_then(|()| stream.flush())?,
                Step::WaitMs(wait_ms) => thread::sleep(Duration::from_millis(wait_ms)),
                Step::Hold => self.hold(&mut stream)?,
            }
        }
        Ok(())
    }

    fn hold(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_millis(HOLD_STEP_MS)))?;
        while !self.is_over() {
            match stream.read(&mut [0; 64]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn read_request(stream: &mut TcpStream) -> io::Result<Asked> {
    let mut read = Vec::new();
    let head_end = loop {
        if let Some(at) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at;
        }
        read_some(stream, &mut read)?;
    };
    let head = String::from_utf8_lossy(&read[..head_end]).into_owned();
    let mut asked = parse_head(&head);
    let length = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while read.len() < head_end + 4 + length {
        read_some(stream, &mut read)?;
    }
    asked.body = read.split_off(head_end + 4);
    Ok(asked)
}

fn read_some(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 8 << 10];
    let count = stream.read(&mut piece)?;
    if count == 0 || read.len() > REQUEST_BYTES_MAX {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    read.extend_from_slice(&piece[..count]);
    Ok(())
}

fn parse_head(head: &str) -> Asked {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    Asked {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        headers: lines.filter_map(header).collect(),
        body: Vec::new(),
    }
}
