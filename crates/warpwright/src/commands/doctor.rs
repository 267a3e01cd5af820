//! `doctor`: what works on this machine, each line found out by doing it.

use std::sync::Arc;

use device::toolchain;
use judge::{CancelFlag, Judge, Reached};
use llm::{Llm, LlmError, Reply, Request, complete};
use pipeline::attempt::Mode;
use pipeline::device_facts::DeviceFacts;
use pipeline::hardware::HardwareSheet;
use pipeline::price::Price;
use pipeline::prompt::{Message, MessageRole, Prompt};
use pipeline::reply::fences;
use sandbox::ChildKind;
use store::Store;

use crate::commands::status::dollars;
use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::settings::model::ModelSetting;
use crate::{embedded, environment, gpus, privacy, python, terminal, wiring};

/// Longest answer to the one question, in tokens: about a cent with most models.
const PROBE_TOKENS_MAX: u64 = 2_000;
/// Longest wait for it, in milliseconds.
const PROBE_DEADLINE_MS: u64 = 120_000;
const PROBE_SYSTEM: &str = "You check a connection. Do exactly what is asked, without thinking.";
const PROBE_USER: &str = "Answer with these two fences and nothing else:\n\n```cuda\nextern \"C\" \
__global__ void probe() {}\n```\n\n```toml\nplan = 1\n```\n";

const COST: &str = "cost of this question";

/// What was found, a line each.
#[derive(Default)]
struct Findings {
    missing: Vec<&'static str>,
    /// The same for scripts.
    records: Vec<serde_json::Value>,
}

impl Findings {
    fn good(&mut self, what: &'static str, text: &str) {
        self.say("ok", what, &terminal::one_line(&format!("  ok  {what}: {text}")), text);
    }

    fn remark(&mut self, what: &'static str, text: &str) {
        self.say("remark", what, &terminal::one_line(&format!("  --  {what}: {text}")), text);
    }

    fn bad(&mut self, what: &'static str, why: &str) {
        self.say("missing", what, &terminal::plain(&format!("  NO  {what}: {why}")), why);
        self.missing.push(what);
    }

    fn say(&mut self, state: &'static str, what: &'static str, line: &str, text: &str) {
        terminal::line(line);
        self.records.push(serde_json::json!({ "what": what, "state": state, "text": text }));
    }

    fn report<E: std::fmt::Display>(&mut self, what: &'static str, found: Result<String, E>) {
        match found {
            Ok(text) => self.good(what, &text),
            Err(error) => self.bad(what, &error.to_string()),
        }
    }

    fn outcome(self) -> Outcome {
        let outcome = if self.missing.is_empty() {
            Outcome::done()
        } else {
            let missing = self.missing.join(", ");
            Outcome::ended(Exit::NotAvailable, format!("missing: {missing}"))
        };
        outcome.with("findings", self.records)
    }
}

/// Checks everything that a run needs.
pub(crate) async fn perform(places: &Places) -> anyhow::Result<Outcome> {
    let mut findings = Findings::default();
    let file = places.file_path.as_ref().map_or_else(
        || "no settings file (`warpwright init` writes one)".to_owned(),
        |path| format!("{}, {} models", path.display(), places.file.model.len()),
    );
    findings.remark("settings", &file);
    let compiler = toolchain::find(&places.toolchain, &places.cache);
    let named = compiler.as_ref().map(|t| format!("NVRTC {} ({})", t.version, t.id));
    findings.report("CUDA compiler", named);
    match &compiler {
        Ok(found) => {
            findings.report("compile and simulate in children", golden(found, None).await);
            confinement_findings(found, None, &mut findings).await;
        }
        Err(_) => findings.remark("compile and simulate in children", "needs the compiler"),
    }
    findings.report("ledger", ledger(places).await);
    gpu_findings(places, compiler.as_ref().ok(), &mut findings).await;
    claim_findings(&mut findings);
    Ok(findings.outcome())
}

/// What a claim on a GPU is compared with and watched by; nothing else needs it.
fn claim_findings(findings: &mut Findings) {
    let named = python::program().display().to_string();
    match python::versions() {
        Ok((python, Some(torch))) => {
            findings.good("PyTorch", &format!("{torch}, for {named} (Python {python})"));
        }
        Ok((python, None)) => findings.remark(
            "PyTorch",
            &format!(
                "{named} (Python {python}) has none, so that kernels are not compared with it; \
                 WARPWRIGHT_PYTHON names another Python"
            ),
        ),
        Err(why) => {
            findings.remark("PyTorch", &format!("{why}; WARPWRIGHT_PYTHON names another Python"));
        }
    }
    match environment::library("libcublas.so") {
        Some(path) => findings.good("cuBLAS", &path.display().to_string()),
        None => findings.remark(
            "cuBLAS",
            "no libcublas.so in LD_LIBRARY_PATH or a toolkit's folder: matrix products are not \
             compared with it",
        ),
    }
    for tool in ["ncu", "compute-sanitizer"] {
        match judge::find_tool(tool) {
            Some(path) => findings.good(tool, &path.display().to_string()),
            None => findings.remark(
                tool,
                "not on the path, nor in /usr/local/cuda/bin: a claim says that it was not used",
            ),
        }
    }
}

/// What GPUs there are, and whether the reference gives the golden values on them. None is only
/// missing where one was asked for.
async fn gpu_findings(
    places: &Places,
    compiler: Option<&toolchain::Toolchain>,
    findings: &mut Findings,
) {
    let sheets = match gpus::chosen(places, &places.device) {
        Ok(Some(sheets)) => sheets,
        Ok(None) => {
            let why = gpus::why_none(&places.device);
            return findings.remark("GPU", &format!("none: {why}; kernels run on the simulator"));
        }
        Err(error) => return findings.bad("GPU", &format!("{error:#}")),
    };
    for sheet in &sheets {
        let facts = &sheet.facts;
        let known = if sheet.ceilings.is_some() { "ceilings measured" } else { "not measured yet" };
        findings.good(
            "GPU",
            &format!(
                "{} ({}), driver {}, {known}, {}",
                facts.model, facts.arch, sheet.driver, sheet.uuid
            ),
        );
    }
    if let Some(compiler) = compiler {
        let checked = golden(compiler, Some(sheets.clone())).await;
        findings.report("compile and run on the GPU in children", checked);
        confinement_findings(compiler, Some(sheets), findings).await;
    }
}

/// What holds real children, and whether they get at what is not theirs.
async fn confinement_findings(
    found: &toolchain::Toolchain,
    gpus: Option<Vec<HardwareSheet>>,
    findings: &mut Findings,
) {
    let kinds: &[(ChildKind, &'static str)] = match gpus {
        None => &[
            (ChildKind::Build, "confinement of the compiler"),
            (ChildKind::Candidate, "confinement of kernels on the simulator"),
        ],
        Some(_) => &[(ChildKind::Candidate, "confinement of kernels on the GPU")],
    };
    let judge = match judge_of(found, gpus) {
        Ok(judge) => Arc::new(judge),
        Err(error) => return findings.bad("confinement", &error.to_string()),
    };
    for (kind, what) in kinds {
        let (judge, kind) = (Arc::clone(&judge), *kind);
        let tried = tokio::task::spawn_blocking(move || judge.reach(kind, &CancelFlag::default()));
        match tried.await {
            Ok(Ok(reached)) => say_reached(findings, what, &reached),
            Ok(Err(error)) => findings.bad(what, &error.to_string()),
            Err(error) => findings.bad(what, &error.to_string()),
        }
    }
}

fn say_reached(findings: &mut Findings, what: &'static str, reached: &Reached) {
    let (held, open) = (&reached.confinement, reached.open());
    let tries = reached.attempts.len();
    if open.is_empty() {
        findings.good(what, &format!("{held}; {tries} attempts to get out failed"));
    } else {
        findings.remark(what, &format!("{held}; a child can {}", open.join(", ")));
    }
}

fn judge_of(
    found: &toolchain::Toolchain,
    gpus: Option<Vec<HardwareSheet>>,
) -> anyhow::Result<Judge> {
    match gpus {
        None => wiring::judge_for(found, DeviceFacts::simulated_h200(), None),
        Some(sheets) => gpus::judge_of(found, sheets),
    }
}

/// Runs the reference of the built-in task on its golden case, in real children.
async fn golden(
    found: &toolchain::Toolchain,
    gpus: Option<Vec<HardwareSheet>>,
) -> Result<String, String> {
    let judge = judge_of(found, gpus).map_err(|error| error.to_string())?;
    let loaded = wiring::load_task(embedded::DEMO_TASK).map_err(|error| error.to_string())?;
    let checked = tokio::task::spawn_blocking(move || {
        judge.check_golden(&loaded.task, &CancelFlag::default())
    });
    let report = checked.await.map_err(|error| error.to_string())?;
    let report = report.map_err(|error| error.to_string())?;
    if report.deviations.is_empty() {
        return Ok(format!("{} golden values agree", report.compared));
    }
    Err(format!("{} of {} golden values differ", report.deviations.len(), report.compared))
}

async fn ledger(places: &Places) -> Result<String, String> {
    let path = places.ledger.display();
    if !places.ledger.exists() {
        return Ok(format!("{path} will be made by the first run"));
    }
    let store = Store::open_read_only(&places.ledger).await.map_err(|error| error.to_string())?;
    let runs = store.list_runs().await.map_err(|error| error.to_string())?;
    Ok(format!("{path}, {} runs", runs.len()))
}

/// Asks a model one small question: key, price, limits, usage fields and the form of the reply.
pub(crate) async fn check_model(places: &Places, name: &str) -> anyhow::Result<Outcome> {
    let setting = ModelSetting::resolve(name, &places.file)?;
    let model = wiring::model(&setting)?;
    let mut findings = Findings::default();
    let info = model.describe();
    findings.good("settings", &setting.describe());
    findings.remark("price", &price_in_words(info.price));
    findings.remark("longest answer of a run", &format!("{} tokens", info.output_tokens_max));
    if let ModelSetting::Mailbox(mailbox) = &setting {
        let folder = mailbox.folder.display();
        findings.remark("mailbox", &format!("{folder} can be used; nobody is asked there"));
        return Ok(findings.outcome());
    }
    let request = probe(info.output_tokens_max);
    let outcome = match complete(&model, &request, PROBE_DEADLINE_MS).await {
        Ok(reply) => {
            check_reply(&mut findings, &reply, info.price, request.output_tokens_max);
            findings.outcome().with("model", reply.model).with("cost_nusd", reply.cost_nusd)
        }
        Err(error) => {
            let scrubber = privacy::scrubber(places);
            let error = error.map_message(|text| scrubber.scrub(text).into_owned());
            findings.bad("answer", &in_words(&error));
            findings.outcome().with("class", error.class().name())
        }
    };
    Ok(outcome)
}

fn probe(output_tokens_max: u64) -> Request {
    let message = |role, content: &str| Message { role, content: content.to_owned() };
    Request {
        id: "doctor".to_owned(),
        task: "doctor".to_owned(),
        seq: 1,
        try_index: 0,
        prompt: Prompt {
            mode: Mode::First,
            messages: vec![
                message(MessageRole::System, PROBE_SYSTEM),
                message(MessageRole::User, PROBE_USER),
            ],
        },
        output_tokens_max: output_tokens_max.min(PROBE_TOKENS_MAX),
        deadline_ms: Some(PROBE_DEADLINE_MS),
        // Where a model has lanes, the one that answers at once.
        provider: "openai".to_owned(),
    }
}

fn in_words(error: &LlmError) -> String {
    match error.wanted_wait_ms() {
        Some(wait_ms) => format!("{error} (it asks to wait {:.1} s)", wait_ms as f64 / 1e3),
        None => error.to_string(),
    }
}

fn check_reply(findings: &mut Findings, reply: &Reply, price: Price, asked_tokens: u64) {
    let seconds = reply.latency_ms as f64 / 1e3;
    findings.good("key and address", &format!("`{}` answered in {seconds:.1} s", reply.model));
    match reply.usage {
        None => findings.bad(
            "usage",
            "the answer says nothing about tokens: each call is booked at its worst case",
        ),
        Some(usage) => {
            let how = if usage.estimated { "estimated from lengths" } else { "counted" };
            let text = format!(
                "{} in ({} cached), {} out ({} reasoning), {how}",
                usage.input_tokens,
                usage.cached_input_tokens,
                usage.output_tokens,
                usage.reasoning_tokens
            );
            findings.good("usage", &text);
            if !usage.estimated && usage.output_tokens > asked_tokens {
                findings.bad("limit", "it answered more tokens than it was allowed to");
            }
        }
    }
    match reply.cost_nusd {
        Some(nusd) => findings.good(COST, &format!("{} dollars", dollars(nusd))),
        None if price == Price::Unknown => {
            findings.remark(COST, "unknown, because the price is; no dollar limit can be kept");
        }
        None => findings.remark(COST, "the answer does not say"),
    }
    match fences(&reply.text) {
        Ok(_) => findings.good("reply format", "both fences are read"),
        Err(_) if reply.finish_reason == "length" => findings.remark(
            "reply format",
            &format!(
                "it used all {asked_tokens} tokens of this question before an answer, as models \
                 do that think at length"
            ),
        ),
        Err(why) => findings.bad("reply format", &why.to_string()),
    }
}

fn price_in_words(price: Price) -> String {
    match price {
        Price::Free => "free".to_owned(),
        Price::Subscription => "a flat fee that is paid anyway".to_owned(),
        Price::Unknown => "unknown; a dollar limit needs it in the settings file".to_owned(),
        Price::PerMillionTokens { input_nusd, cached_input_nusd, output_nusd } => format!(
            "{} dollars per million input tokens ({} cached), {} output",
            dollars(input_nusd),
            dollars(cached_input_nusd),
            dollars(output_nusd)
        ),
    }
}
