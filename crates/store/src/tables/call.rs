//! Tables `call` and `message`: what was sent to a model, what it cost, what came back.

use pipeline::prompt::{Message, MessageRole, Prompt};
use pipeline::transcript::Usage;
use sqlx::SqliteConnection;

use super::{artifact, of_json, of_name, to_i64, to_json, to_u32, to_u64};
use crate::error::StoreError;
use crate::open::Work;
use crate::{
    AttemptId, CallFailure, CallId, CallRow, CallState, CallTarget, Reservation, Result,
    SettledReply,
};

/// A call as stored, with its reply.
pub(crate) struct StoredCall {
    pub(crate) row: CallRow,
    /// Artifact of the reply's text.
    pub(crate) reply: Option<String>,
    finish_reason: Option<String>,
    reply_model: Option<String>,
    latency_ms: Option<i64>,
    /// Artifacts.
    reasoning: Option<String>,
    http_log: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Stored {
    id: String,
    try_index: i64,
    provider: String,
    model: String,
    ticket: Option<String>,
    state: String,
    reserved_nusd: i64,
    reserved_tokens: i64,
    usage: Option<String>,
    cost_nusd: Option<i64>,
    reply: Option<String>,
    reply_model: Option<String>,
    finish_reason: Option<String>,
    latency_ms: Option<i64>,
    reasoning: Option<String>,
    http_log: Option<String>,
    drift: bool,
    error_class: Option<String>,
    error_message: Option<String>,
    created_us: i64,
    updated_us: i64,
}

impl Stored {
    fn error(&mut self) -> Result<Option<(String, String)>> {
        match (self.error_class.take(), self.error_message.take()) {
            (Some(class), Some(message)) => Ok(Some((class, message))),
            (None, None) => Ok(None),
            _ => Err(StoreError::damaged(format!("call {} has half an error", self.id))),
        }
    }

    fn call(mut self) -> Result<StoredCall> {
        let error = self.error()?;
        let usage = self.usage.as_deref().map(|json| of_json("usage of a call", json));
        let row = CallRow {
            id: CallId::from(self.id),
            try_index: to_u32("a call's try", self.try_index)?,
            provider: self.provider,
            model: self.model,
            ticket: self.ticket,
            state: of_name("state of a call", &self.state, CallState::from_name(&self.state))?,
            reservation: Reservation {
                tokens: to_u64("a reservation", self.reserved_tokens)?,
                nusd: self.reserved_nusd,
            },
            usage: usage.transpose()?,
            cost_nusd: self.cost_nusd,
            drift: self.drift,
            error,
            created_us: self.created_us,
            updated_us: self.updated_us,
        };
        let Self { reply, finish_reason, reply_model, latency_ms, reasoning, http_log, .. } = self;
        Ok(StoredCall { row, reply, finish_reason, reply_model, latency_ms, reasoning, http_log })
    }
}

/// Writes a call in state `reserved` with its messages.
pub(crate) async fn insert(
    work: &mut Work,
    attempt: &AttemptId,
    try_index: u32,
    target: CallTarget<'_>,
    reservation: Reservation,
    prompt: &Prompt,
) -> Result<CallId> {
    let id = CallId::from(work.new_id());
    let query = "INSERT INTO call
                 (id, attempt_id, try_index, provider, model, state, reserved_nusd,
                  reserved_tokens, price_row, created_us, updated_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11)";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(attempt.as_str())
        .bind(try_index)
        .bind(target.provider)
        .bind(target.model)
        .bind(CallState::Reserved.name())
        .bind(reservation.nusd)
        .bind(to_i64("a reservation", reservation.tokens)?)
        .bind(target.price_json)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    for (position, message) in (0..).zip(&prompt.messages) {
        insert_message(work, &id, position, message).await?;
    }
    Ok(id)
}

pub(crate) async fn set_reservation(
    work: &mut Work,
    call: &CallId,
    reservation: Reservation,
    target: CallTarget<'_>,
) -> Result<()> {
    let query = "UPDATE call SET provider = $2, model = $3, reserved_nusd = $4,
                 reserved_tokens = $5, price_row = $6, updated_us = $7 WHERE id = $1";
    sqlx::query(query)
        .bind(call.as_str())
        .bind(target.provider)
        .bind(target.model)
        .bind(reservation.nusd)
        .bind(to_i64("a reservation", reservation.tokens)?)
        .bind(target.price_json)
        .bind(work.now_us)
        .execute(work.connection())
        .await?;
    Ok(())
}

async fn insert_message(
    work: &mut Work,
    call: &CallId,
    position: u32,
    message: &Message,
) -> Result<()> {
    let content = artifact::put(work, message.content.as_bytes()).await?;
    let query = "INSERT INTO message (call_id, position, role, artifact, origin)
                 VALUES ($1, $2, $3, $4, $5)";
    sqlx::query(query)
        .bind(call.as_str())
        .bind(position)
        .bind(message.role.name())
        .bind(content.as_str())
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// The messages that a call sent.
pub(crate) async fn messages(
    connection: &mut SqliteConnection,
    call: &CallId,
) -> Result<Vec<Message>> {
    let query = "SELECT role, artifact FROM message WHERE call_id = $1 ORDER BY position";
    let rows: Vec<(String, String)> =
        sqlx::query_as(query).bind(call.as_str()).fetch_all(&mut *connection).await?;
    let mut messages = Vec::new();
    for (name, hash) in rows {
        let role = [MessageRole::System, MessageRole::User, MessageRole::Assistant]
            .into_iter()
            .find(|role| role.name() == name);
        let role = of_name("role of a message", &name, role)?;
        messages.push(Message { role, content: artifact::text(connection, &hash).await? });
    }
    Ok(messages)
}

/// Every call of an attempt, oldest first.
pub(crate) async fn all(
    connection: &mut SqliteConnection,
    attempt: &AttemptId,
) -> Result<Vec<StoredCall>> {
    let query = "SELECT * FROM call WHERE attempt_id = $1 ORDER BY try_index";
    let rows: Vec<Stored> =
        sqlx::query_as(query).bind(attempt.as_str()).fetch_all(connection).await?;
    rows.into_iter().map(Stored::call).collect()
}

/// The newest call of an attempt.
pub(crate) async fn newest(
    connection: &mut SqliteConnection,
    attempt: &AttemptId,
) -> Result<StoredCall> {
    let query = "SELECT * FROM call WHERE attempt_id = $1 ORDER BY try_index DESC LIMIT 1";
    let stored: Option<Stored> =
        sqlx::query_as(query).bind(attempt.as_str()).fetch_optional(connection).await?;
    let none = || StoreError::damaged(format!("attempt {attempt} has no call"));
    stored.ok_or_else(none)?.call()
}

/// The reply of a settled call.
pub(crate) async fn reply(
    connection: &mut SqliteConnection,
    call: &StoredCall,
) -> Result<Option<SettledReply>> {
    let Some(hash) = &call.reply else { return Ok(None) };
    let text = artifact::text(connection, hash).await?;
    let lacks =
        |what: &str| StoreError::damaged(format!("call {} has a reply but no {what}", call.row.id));
    let latency = call.latency_ms.ok_or_else(|| lacks("latency"))?;
    Ok(Some(SettledReply {
        text,
        usage: call.row.usage,
        finish_reason: call.finish_reason.clone().ok_or_else(|| lacks("finish reason"))?,
        model: call.reply_model.clone().ok_or_else(|| lacks("model"))?,
        latency_ms: to_u64("a latency", latency)?,
        cost_nusd: call.row.cost_nusd,
        drift: call.row.drift,
        reasoning: optional_text(connection, call.reasoning.as_deref()).await?,
        http_log: optional_text(connection, call.http_log.as_deref()).await?,
    }))
}

/// The text of an artifact; empty without one.
async fn optional_text(connection: &mut SqliteConnection, hash: Option<&str>) -> Result<String> {
    match hash {
        Some(hash) => artifact::text(connection, hash).await,
        None => Ok(String::new()),
    }
}

/// Stores a text that is mostly empty.
async fn put_optional(work: &mut Work, text: &str) -> Result<Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(artifact::put(work, text.as_bytes()).await?.to_string()))
}

pub(crate) async fn set_sent(work: &mut Work, call: &CallId) -> Result<()> {
    let query = "UPDATE call SET state = $2, updated_us = $3 WHERE id = $1";
    sqlx::query(query)
        .bind(call.as_str())
        .bind(CallState::Sent.name())
        .bind(work.now_us)
        .execute(work.connection())
        .await?;
    Ok(())
}

pub(crate) async fn set_ticket(work: &mut Work, call: &CallId, ticket: &str) -> Result<()> {
    let query = "UPDATE call SET ticket = $2, updated_us = $3 WHERE id = $1";
    sqlx::query(query)
        .bind(call.as_str())
        .bind(ticket)
        .bind(work.now_us)
        .execute(work.connection())
        .await?;
    Ok(())
}

/// Books a reply; `text` is the artifact of its text.
pub(crate) async fn set_settled(
    work: &mut Work,
    call: &CallId,
    reply: &SettledReply,
    text: &str,
) -> Result<()> {
    let reasoning = put_optional(work, &reply.reasoning).await?;
    let http_log = put_optional(work, &reply.http_log).await?;
    let query = "UPDATE call SET state = $2, usage = $3, cost_nusd = $4, reply = $5,
                 reply_model = $6, finish_reason = $7, latency_ms = $8, drift = $9,
                 updated_us = $10, reasoning = $11, http_log = $12 WHERE id = $1";
    sqlx::query(query)
        .bind(call.as_str())
        .bind(CallState::Settled.name())
        .bind(usage_json(reply.usage)?)
        .bind(reply.cost_nusd)
        .bind(text)
        .bind(&reply.model)
        .bind(&reply.finish_reason)
        .bind(to_i64("a latency", reply.latency_ms)?)
        .bind(reply.drift)
        .bind(work.now_us)
        .bind(reasoning)
        .bind(http_log)
        .execute(work.connection())
        .await?;
    Ok(())
}

/// Ends a call without a reply, as `failed` or `lost`.
pub(crate) async fn set_ended(
    work: &mut Work,
    call: &CallId,
    state: CallState,
    failure: CallFailure<'_>,
) -> Result<()> {
    let (usage, cost_nusd) = failure.paid.unzip();
    let query = "UPDATE call SET state = $2, error_class = $3, error_message = $4,
                 updated_us = $5, usage = $6, cost_nusd = $7 WHERE id = $1";
    sqlx::query(query)
        .bind(call.as_str())
        .bind(state.name())
        .bind(failure.class)
        .bind(failure.message)
        .bind(work.now_us)
        .bind(usage_json(usage)?)
        .bind(cost_nusd.flatten())
        .execute(work.connection())
        .await?;
    Ok(())
}

fn usage_json(usage: Option<Usage>) -> Result<Option<String>> {
    usage.map(|usage| to_json("the usage of a call", &usage)).transpose()
}
