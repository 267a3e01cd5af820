//! A model that takes its time and answers at length, with a kernel or without one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use llm::{ErrorClass, Llm, LlmError, ModelInfo, Poll, Price, Reply, Request, Ticket};
use pipeline::reply;
use pipeline::transcript::Usage;

/// Length of a reply, in bytes.
const REPLY_BYTES: usize = 12_000;

/// What an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A kernel that compiles and differs from every other one.
    Kernel,
    /// Words alone, so that the attempt ends without a compiler.
    Words,
}

#[derive(Debug)]
pub(crate) struct SlowModel {
    pub(crate) latency: Duration,
    pub(crate) holds: Holds,
    asked: Mutex<BTreeMap<String, Instant>>,
}

impl SlowModel {
    pub(crate) fn new(latency: Duration, holds: Holds) -> Self {
        Self { latency, holds, asked: Mutex::default() }
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reply of its full length, different for each `seed`.
pub(crate) fn text(seed: &str, holds: Holds) -> String {
    let mut text = words(seed);
    if holds == Holds::Kernel {
        let (source, plan) = kernel(seed);
        text.push_str(&reply::compose(&source, &plan));
    }
    text
}

/// A kernel for `vector_add`; a number in it makes its PTX differ from the others.
pub(crate) fn kernel(seed: &str) -> (String, String) {
    let number = seed
        .bytes()
        .fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    let source = format!(
        "extern \"C\" __global__ void add(const float* a, const float* b, float* y, int n) {{\n\
         \x20   int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
         \x20   if (i < n && n != -{}) y[i] = a[i] + b[i];\n}}\n",
        number >> 1
    );
    let plan = "plan = 1\nprecision = \"fp32\"\n\n[[step]]\nkernel = \"add\"\n\
        grid = [\"ceil_div(n, 256)\", \"1\", \"1\"]\nblock = [\"256\", \"1\", \"1\"]\n\
        args = [\"a\", \"b\", \"y\", \"n\"]\n";
    (source, plan.to_owned())
}

/// Words in no order, which pack as badly as a model's.
fn words(seed: &str) -> String {
    const WORDS: [&str; 16] = [
        "tile",
        "warp",
        "shared",
        "the",
        "load",
        "of",
        "vector",
        "bank",
        "stride",
        "and",
        "register",
        "pressure",
        "is",
        "coalesced",
        "unrolled",
        "occupancy",
    ];
    let mut state = seed.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let mut text = String::new();
    while text.len() < REPLY_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (state >> 33) as usize;
        text.push_str(WORDS[at % WORDS.len()]);
        text.push_str(if at % 97 < 7 { ".\n" } else { " " });
        text.push_str(&(at % 1_013).to_string());
        text.push(' ');
    }
    text.push('\n');
    text
}

impl Llm for SlowModel {
    async fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        self.asked().insert(request.id.clone(), Instant::now());
        Ok(Ticket::from(request.id.clone()))
    }

    async fn poll(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        let id = ticket.as_str();
        let asked = self.asked().get(id).copied();
        let asked = asked.ok_or_else(|| LlmError::new(ErrorClass::UnknownTicket, id))?;
        let left = self.latency.saturating_sub(asked.elapsed());
        if !left.is_zero() {
            let next_poll_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            return Ok(Poll::Pending { next_poll_ms });
        }
        self.asked().remove(id);
        Ok(Poll::Done(Reply {
            text: text(id, self.holds),
            finish_reason: "stop".to_owned(),
            usage: Some(Usage::of(3_000, 4_000)),
            model: "slow".to_owned(),
            latency_ms: u64::try_from(self.latency.as_millis()).unwrap_or(0),
            cost_nusd: Some(1),
            drift: false,
            reasoning: String::new(),
            http_log: String::new(),
        }))
    }

    async fn cancel(&self, ticket: &Ticket) -> Result<(), LlmError> {
        self.asked().remove(ticket.as_str());
        Ok(())
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "scripted".to_owned(),
            model: "slow".to_owned(),
            idempotent: false,
            price: Price::PerMillionTokens { input_nusd: 1, cached_input_nusd: 1, output_nusd: 1 },
            output_tokens_max: 32_000,
            deadline_ms: None,
        }
    }
}
