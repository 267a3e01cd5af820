//! The requests of the batch lane, each made once: upload, begin, list, look, cancel, read.

use std::sync::Arc;

use async_openai::Client;
use async_openai::error::OpenAIError;
use async_openai::traits::RequestOptionsBuilder;
use async_openai::types::files::{CreateFileRequest, FileInput, FilePurpose};
use serde_json::{Map, Value, json};

use super::super::endpoint::Endpoint;
use super::super::wire::Wire;
use super::super::{Caller, of_stream};
use super::form::{ENDPOINT, Seen};
use crate::error::{ErrorClass, LlmError};
use crate::limits::{
    BATCH_FILE_BYTES_MAX, BATCH_PAGE_MAX, BATCH_PAGES_MAX, BATCH_RESULT_BYTES_MAX, BODY_BYTES_MAX,
};

/// How long a server may take for a batch: the only time that OpenAI's knows.
const WINDOW: &str = "24h";

/// Batches of the server, newest first, and whether these are all.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) batches: Vec<Seen>,
    pub(super) is_whole: bool,
}

impl Caller {
    /// Uploads the file of a batch; gives its id.
    pub(super) async fn upload(&self, name: &str, bytes: Vec<u8>) -> Result<String, LlmError> {
        if bytes.len() > BATCH_FILE_BYTES_MAX {
            return Err(LlmError::new(ErrorClass::Refused, "the batch's file is too long"));
        }
        let wire = Arc::new(Wire::starting_now());
        let client = self.whole_client(&wire, BODY_BYTES_MAX);
        let request = CreateFileRequest {
            file: FileInput::from_vec_u8(format!("{name}.jsonl"), bytes),
            purpose: FilePurpose::Batch,
            expires_after: None,
        };
        let found = client.files().create_byot::<_, Value>(request).await;
        let found = found.map_err(|error| self.why(&wire, &error))?;
        let id = found.get("id").and_then(Value::as_str).map(str::to_owned);
        id.ok_or_else(|| nameless("file"))
    }

    /// Begins a batch over an uploaded file.
    pub(super) async fn begin_batch(
        &self,
        file: &str,
        metadata: &Map<String, Value>,
    ) -> Result<Seen, LlmError> {
        let wire = Arc::new(Wire::starting_now());
        let client = self.whole_client(&wire, BODY_BYTES_MAX);
        let request = json!({
            "input_file_id": file, "endpoint": ENDPOINT, "completion_window": WINDOW,
            "metadata": metadata,
        });
        let found = client.batches().create_byot::<_, Value>(request).await;
        let found = found.map_err(|error| self.why(&wire, &error))?;
        Seen::of(&found).ok_or_else(|| nameless("batch"))
    }

    /// The server's batches.
    pub(super) async fn list_batches(&self) -> Result<Listed, LlmError> {
        let mut listed = Listed::default();
        let mut after: Option<String> = None;
        for _ in 0..BATCH_PAGES_MAX {
            let wire = Arc::new(Wire::starting_now());
            let client = self.whole_client(&wire, BODY_BYTES_MAX);
            let mut query = vec![("limit", BATCH_PAGE_MAX.to_string())];
            query.extend(after.take().map(|after| ("after", after)));
            let batches = client.batches().query(&query);
            let batches = batches.map_err(|error| self.why(&wire, &error))?;
            let page = batches.list_byot::<Value>().await;
            let page = page.map_err(|error| self.why(&wire, &error))?;
            let data = page.get("data").and_then(Value::as_array);
            let Some(data) = data else { return Err(nameless("list of batches")) };
            listed.batches.extend(data.iter().filter_map(Seen::of));
            let more = page.get("has_more").and_then(Value::as_bool).unwrap_or(false);
            match data.last().and_then(Seen::of).filter(|_| more) {
                Some(last) => after = Some(last.id),
                None => {
                    listed.is_whole = true;
                    break;
                }
            }
        }
        Ok(listed)
    }

    pub(super) async fn look_at_batch(&self, id: &str) -> Result<Seen, LlmError> {
        let wire = Arc::new(Wire::starting_now());
        let client = self.whole_client(&wire, BODY_BYTES_MAX);
        let found = client.batches().retrieve_byot::<_, Value>(id).await;
        let found = found.map_err(|error| self.why(&wire, &error))?;
        Seen::of(&found).ok_or_else(|| nameless("batch"))
    }

    pub(super) async fn cancel_batch(&self, id: &str) -> Result<(), LlmError> {
        let wire = Arc::new(Wire::starting_now());
        let client = self.whole_client(&wire, BODY_BYTES_MAX);
        let found = client.batches().cancel_byot::<_, Value>(id).await;
        found.map(drop).map_err(|error| self.why(&wire, &error))
    }

    pub(super) async fn read_file(&self, id: &str) -> Result<Vec<u8>, LlmError> {
        let wire = Arc::new(Wire::starting_now());
        let client = self.whole_client(&wire, BATCH_RESULT_BYTES_MAX);
        let found = client.files().content(id).await;
        found.map(|bytes| bytes.to_vec()).map_err(|error| self.why(&wire, &error))
    }

    /// A client whose answers are read whole.
    fn whole_client(&self, wire: &Arc<Wire>, bytes_max: usize) -> Client<Endpoint> {
        let service = self.service(wire);
        let client = Client::build(self.http.clone(), (*self.endpoint).clone());
        client.with_http_service(super::super::service::OneRequest {
            whole_bytes_max: Some(bytes_max),
            ..service
        })
    }

    fn why(&self, wire: &Wire, error: &OpenAIError) -> LlmError {
        self.shown(wire.failure().unwrap_or_else(|| of_stream(error)))
    }
}

fn nameless(what: &str) -> LlmError {
    LlmError::new(ErrorClass::Malformed, format!("the server's {what} has no id or no entries"))
}
