//! From the settings of a model to the provider that answers. Keys are read here and go nowhere
//! else.

use llm::Model;

use crate::limits::KEY_BYTES_MAX;
use crate::outcome::{BadInput, bad_input};
use crate::settings::model::{CommandSetting, KeySource, MailboxSetting, OpenAiSetting};
use crate::wiring::read_text;
use crate::{environment, terminal};

pub(crate) fn openai(_setting: &OpenAiSetting) -> anyhow::Result<Model> {
    Err(bad_input("not there yet"))
}

pub(crate) fn command(_setting: &CommandSetting) -> anyhow::Result<Model> {
    Err(bad_input("not there yet"))
}

pub(crate) fn mailbox(_setting: &MailboxSetting) -> anyhow::Result<Model> {
    Err(bad_input("not there yet"))
}
