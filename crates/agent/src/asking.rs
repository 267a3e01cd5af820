//! Whether a question may be asked now: a model that is to be had, and a worst case that fits into
//! what is left of the run's budget beside all calls that are open.

use std::time::Duration;

use llm::{Llm, ModelInfo};
use pipeline::attempt::{Attempt, Mode};
use pipeline::budget::{Admission, CallWish, Spent};
use pipeline::next_step::Ask;
use pipeline::price::Price;
use pipeline::prompt::{Earlier, Prompt};
use pipeline::tell::Told;
use pipeline::transcript::Usage;
use store::{AttemptRow, Booking, CallTarget, Reservation, RunId, SettledReply};
use tokio::sync::MutexGuard;

use crate::engine::{Engine, Known, Operator, RunEnd};
use crate::error::AgentError;
use crate::limits::ADMISSION_WAIT_MS;
use crate::models::{Choice, Chosen};

/// Who answers where a search starts from a known kernel.
const LEDGER: &str = "ledger";

/// What came of the wish to open an attempt.
pub(crate) enum Opening {
    To(Box<AttemptRow>),
    /// Not now; worth another try when a call has ended, or at this time of the models' clock.
    Wait {
        until_ms: Option<u64>,
    },
    Stop(RunEnd),
}

/// A call that fits, until its booking is stored.
pub(crate) struct Admitted<'a> {
    pub(crate) chosen: Chosen,
    pub(crate) reservation: Reservation,
    price_json: String,
    model: ModelInfo,
    /// Nobody else looks at what is booked meanwhile.
    _turn: MutexGuard<'a, ()>,
}

/// Whether a call may be made.
enum Admit<'a> {
    Fits(Admitted<'a>),
    Wait { until_ms: Option<u64> },
    Stop(RunEnd),
}

/// Where the last try of a question went, and how it ended.
#[derive(Clone, Copy)]
pub(crate) struct Lane<'a> {
    /// The model, if it is one of the run's.
    pub(crate) model: Option<usize>,
    pub(crate) provider: &'a str,
    /// Class of its failure.
    pub(crate) failure: Option<&'a str>,
}

/// A question that somebody wants to put to a model.
struct Wish<'a> {
    run: &'a RunId,
    mode: Mode,
    prompt: &'a Prompt,
    /// `None` for a first try.
    lane: Option<Lane<'a>>,
    /// What is given back when it is booked.
    released: Reservation,
}

impl Admitted<'_> {
    pub(crate) fn target(&self) -> CallTarget<'_> {
        let ModelInfo { provider, model, .. } = &self.model;
        CallTarget { provider, model, price_json: &self.price_json }
    }
}

impl<L: Llm + Sync> Engine<L> {
    /// Renders the question and makes it durable with its reservation.
    pub(crate) async fn open(
        &self,
        run: &RunId,
        operator: &Operator,
        ask: &Ask,
        attempts: &[Attempt],
        told: &Told,
    ) -> Result<Opening, AgentError> {
        let chosen = match self.models.choose(ask.seq, ask.mode, &[]) {
            Choice::Model(chosen) => chosen,
            Choice::Wait { until_ms } => return Ok(Opening::Wait { until_ms }),
            Choice::GivenUp { class, message } => {
                return Ok(Opening::Stop(RunEnd::Provider { class, message }));
            }
        };
        let (device, scrubber) = (&self.judge.config().device, self.store.scrubber());
        let (task, templates) = (&operator.task, &self.templates);
        let hints = told.hints(&task.hash);
        let texts: Vec<_> = hints.iter().map(|hint| hint.text.as_str()).collect();
        let parent = match ask.parent {
            Some(seq) => Some(self.store.closed_attempt_of(run, &task.hash, seq).await?),
            None => None,
        };
        let earlier = Earlier { attempts, parent: parent.as_ref() };
        let prompt =
            Prompt::render_hinted(templates, task, device, ask, earlier, &texts, scrubber)?;
        let released = Reservation::default();
        let wish = Wish { run, mode: ask.mode, prompt: &prompt, lane: None, released };
        let admitted = match self.admit(chosen, &wish).await? {
            Admit::Fits(admitted) => admitted,
            Admit::Wait { until_ms } => return Ok(Opening::Wait { until_ms }),
            Admit::Stop(end) => return Ok(Opening::Stop(end)),
        };
        let target = admitted.target();
        let opened = self
            .store
            .open_attempt(run, &task.hash, ask, &prompt, admitted.reservation, target)
            .await?;
        self.here.note_reserved(&opened.call.id, admitted.chosen);
        let positions: Vec<_> = hints.iter().map(|hint| hint.position).collect();
        self.note_shown(run, &task.hash, ask.seq, &positions).await?;
        Ok(Opening::To(Box::new(opened)))
    }

    /// Opens an attempt whose reply is there already: nobody is asked, and nothing is paid. A
    /// process that dies in between leaves a question that a model answers.
    pub(crate) async fn open_known(
        &self,
        run: &RunId,
        operator: &Operator,
        ask: &Ask,
        known: &Known,
    ) -> Result<Opening, AgentError> {
        let (device, scrubber) = (&self.judge.config().device, self.store.scrubber());
        let task = &operator.task;
        let prompt = Prompt::render(&self.templates, task, device, ask, &[], scrubber)?;
        let price_json = serde_json::to_string(&Price::Free).unwrap_or_default();
        let target = CallTarget { provider: LEDGER, model: &known.origin, price_json: &price_json };
        let none = Reservation::default();
        let opened = self.store.open_attempt(run, &task.hash, ask, &prompt, none, target).await?;
        self.store.mark_sent(&opened.id).await?;
        let reply = SettledReply {
            text: known.reply.clone(),
            usage: Some(Usage::default()),
            finish_reason: "stop".to_owned(),
            model: known.origin.clone(),
            latency_ms: 0,
            cost_nusd: Some(0),
            drift: false,
            reasoning: String::new(),
            http_log: String::new(),
        };
        self.store.settle_reply(&opened.id, &reply).await?;
        Ok(Opening::To(Box::new(self.store.attempt(&opened.id).await?)))
    }

    /// Waits until an attempt's question may be put to a model again, after what became of it on
    /// `lane` and to none of those that `refused` it; `released` is given back.
    pub(crate) async fn admit_again(
        &self,
        attempt: &AttemptRow,
        refused: &[usize],
        lane: Lane<'_>,
        released: Reservation,
    ) -> Result<Result<Admitted<'_>, RunEnd>, AgentError> {
        let Ask { seq, mode, .. } = attempt.ask;
        let (run, prompt) = (&attempt.run_id, &attempt.prompt);
        let wish = Wish { run, mode, prompt, lane: Some(lane), released };
        loop {
            let call_ended = self.here.call_ended();
            let wait = match self.models.choose(seq, mode, refused) {
                Choice::Model(chosen) => match self.admit(chosen, &wish).await? {
                    Admit::Fits(admitted) => return Ok(Ok(admitted)),
                    Admit::Wait { until_ms } => until_ms,
                    Admit::Stop(end) => return Ok(Err(end)),
                },
                Choice::Wait { until_ms } => until_ms,
                Choice::GivenUp { class, message } => {
                    return Ok(Err(RunEnd::Provider { class, message }));
                }
            };
            let wait_ms = wait.map_or(ADMISSION_WAIT_MS, |until_ms| self.models.until_ms(until_ms));
            tokio::select! {
                () = call_ended => {}
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.interrupt.requested() => return Ok(Err(RunEnd::Interrupted)),
            }
        }
    }

    /// The most that a call can cost, if that fits.
    async fn admit(&self, chosen: Chosen, wish: &Wish<'_>) -> Result<Admit<'_>, AgentError> {
        let turn = self.here.booking_turn().await;
        let model = match wish.lane {
            Some(Lane { model: Some(index), provider, failure }) if index == chosen.index => {
                self.models.llm(index).describe_after(provider, failure)
            }
            Some(_) | None => self.models.info(chosen.index).clone(),
        };
        // Without a cap nothing is counted: a run of many thousand calls need not sum them up.
        let capped = self.budget.tokens_max.is_some() || self.budget.nusd_max.is_some();
        let booked = match capped {
            true => self.store.bookings(wish.run).await?.total(),
            false => Booking::default(),
        };
        let spent = Spent {
            tokens: booked.tokens.saturating_sub(wish.released.tokens),
            nusd: booked.nusd.saturating_sub(wish.released.nusd),
            now_us: self.store.now_us(),
            gpu_us: 0,
        };
        let [output_tokens, useful_tokens] =
            self.here.output_limits(wish.mode, model.output_tokens_max);
        let input_tokens = wish.prompt.input_tokens_bound();
        let call = CallWish { input_tokens, output_tokens, useful_tokens, price: model.price };
        let budget = self.budget_now(wish.run).await?;
        match budget.admission(&spent, &call, self.here.calls_open()) {
            Admission::Fits(worst) => Ok(Admit::Fits(Admitted {
                chosen,
                reservation: Reservation { tokens: worst.tokens, nusd: worst.nusd },
                price_json: serde_json::to_string(&model.price).unwrap_or_default(),
                model,
                _turn: turn,
            })),
            Admission::Wait => {
                self.models.give_back(chosen);
                Ok(Admit::Wait { until_ms: None })
            }
            Admission::Stop(reason) => {
                self.models.give_back(chosen);
                Ok(Admit::Stop(RunEnd::Finished(reason)))
            }
        }
    }
}
