//! From the settings of a model to the provider that answers. Keys are read here and go nowhere
//! else.

use llm::{
    CommandModel, CommandSettings, MailboxModel, MailboxSettings, Model, PromptForm, ReplyForm,
};

use crate::outcome::bad_input;
use crate::settings::model::{CommandSetting, Form, MailboxSetting, OpenAiSetting};

pub(crate) fn openai(_setting: &OpenAiSetting) -> anyhow::Result<Model> {
    Err(bad_input("not there yet"))
}

/// A program that answers.
pub(crate) fn command(setting: &CommandSetting) -> anyhow::Result<Model> {
    let model = CommandModel::new(CommandSettings {
        name: setting.name.clone(),
        argv: setting.argv.clone(),
        model: setting.model.clone(),
        working_folder: setting.working_folder.clone(),
        environment: setting.environment.clone(),
        prompt_form: match setting.prompt_form {
            Form::Text => PromptForm::Text,
            Form::Json => PromptForm::Json,
        },
        reply_form: match setting.reply_form {
            Form::Text => ReplyForm::Text,
            Form::Json => ReplyForm::Json,
        },
        price: setting.price,
        output_tokens_max: setting.output_tokens_max,
        deadline_ms: setting.deadline_ms,
    });
    Ok(Model::Command(model.map_err(bad_input)?))
}

/// A folder in which somebody answers.
pub(crate) fn mailbox(setting: &MailboxSetting) -> anyhow::Result<Model> {
    let model = MailboxModel::open(MailboxSettings {
        name: setting.name.clone(),
        folder: setting.folder.clone(),
        model: setting.model.clone(),
        deadline_ms: setting.deadline_ms,
        output_tokens_max: setting.output_tokens_max,
    });
    Ok(Model::Mailbox(model.map_err(bad_input)?))
}
