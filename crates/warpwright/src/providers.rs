//! From the settings of a model to the provider that answers. Keys are read here and go nowhere
//! else.

use std::collections::BTreeMap;

use llm::{
    BatchModel, CommandModel, CommandSettings, Llm, MailboxModel, MailboxSettings, MaxTokensField,
    Model, ModelInfo, OpenAiModel, OpenAiSettings, PromptForm, ReplyForm, Secret,
};

use crate::environment;
use crate::limits::KEY_BYTES_MAX;
use crate::outcome::bad_input;
use crate::settings::model::{CommandSetting, Form, MailboxSetting, ModelSetting};
use crate::settings::openai::{KeySource, MaxTokens, OpenAiSetting};
use crate::wiring::read_text;

/// An OpenAI-compatible server.
pub(crate) fn openai(setting: &OpenAiSetting) -> anyhow::Result<Model> {
    let settings = OpenAiSettings {
        name: setting.name.clone(),
        base_url: setting.base_url.clone(),
        api_key: key(setting)?,
        model: setting.model.clone(),
        output_tokens_max: setting.output_tokens_max,
        max_tokens_field: match setting.max_tokens_field {
            MaxTokens::MaxCompletionTokens => MaxTokensField::MaxCompletionTokens,
            MaxTokens::MaxTokens => MaxTokensField::MaxTokens,
        },
        reasoning_effort: setting.reasoning_effort.clone(),
        temperature: setting.temperature,
        top_p: setting.top_p,
        extra_body: setting.extra_body.clone(),
        headers: headers(setting)?,
        price: setting.price,
        stream: setting.stream,
        connect_timeout_ms: setting.connect_timeout_ms,
        first_byte_timeout_ms: setting.first_byte_timeout_ms,
        idle_timeout_ms: setting.idle_timeout_ms,
        deadline_ms: setting.deadline_ms,
    };
    Ok(match setting.batch {
        Some(batch) => {
            Model::Batch(BatchModel::new(settings, batch.settings()).map_err(bad_input)?)
        }
        None => Model::OpenAi(OpenAiModel::new(settings).map_err(bad_input)?),
    })
}

/// Plain headers, and those whose values are in the environment.
fn headers(setting: &OpenAiSetting) -> anyhow::Result<BTreeMap<String, String>> {
    let mut headers = setting.headers.clone();
    for (name, variable) in &setting.header_env {
        let value = environment::value(variable).ok_or_else(|| {
            bad_input(format!(
                "the header `{name}` of the model `{}` needs the environment variable {variable}",
                setting.name
            ))
        })?;
        headers.insert(name.clone(), value);
    }
    Ok(headers)
}

/// The key, from where the settings say it is.
fn key(setting: &OpenAiSetting) -> anyhow::Result<Option<Secret>> {
    let text = match &setting.key {
        KeySource::None => return Ok(None),
        KeySource::Environment(variable) => environment::value(variable).ok_or_else(|| {
            // What is no usual name of a variable may be the key itself.
            let usual = !variable.chars().any(|c| c.is_ascii_lowercase());
            let variable = if usual { variable } else { "that its `key_env` names" };
            bad_input(format!(
                "the model `{}` needs a key: set the environment variable {variable}, or name \
                 another place with key_env or key_file in warpwright.toml",
                setting.name
            ))
        })?,
        KeySource::File(path) => read_text(path, KEY_BYTES_MAX)?,
    };
    let text = text.trim().to_owned();
    if text.is_empty() {
        return Err(bad_input(format!("the key of the model `{}` is empty", setting.name)));
    }
    Ok(Some(Secret::from(text)))
}

/// A program that answers. One that is not there is bad input, known before a run is stored.
pub(crate) fn command(setting: &CommandSetting) -> anyhow::Result<Model> {
    let program = setting.argv.first().map(String::as_str).unwrap_or_default();
    if !environment::has_program(program) {
        return Err(bad_input(format!(
            "the model `{}`: no program `{program}` is on the PATH or at that place",
            setting.name
        )));
    }
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

/// Calls are kept under provider and model, in each lane of both: what came of two that are equal
/// there could not be told apart, and after a restart one would wait for the other's answers.
pub(crate) fn refuse_equal(settings: &[ModelSetting], models: &[Model]) -> anyhow::Result<()> {
    for (at, one) in models.iter().enumerate() {
        let before = models.iter().position(|other| meets(one, other) || meets(other, one));
        let Some(before) = before.filter(|before| *before < at) else { continue };
        let ModelInfo { provider, model, .. } = one.describe();
        return Err(bad_input(format!(
            "the models `{}` and `{}` are both `{model}` of `{provider}`: usage and outcomes are \
             kept by these names and could not be told apart; leave one of them out, or let them \
             answer under different names of the model",
            settings[before].named(),
            settings[at].named()
        )));
    }
    Ok(())
}

/// True where a call of `other` may as well be one of `one`.
fn meets(one: &Model, other: &Model) -> bool {
    let (lane, info) = (one.describe_after(&other.describe().provider, None), other.describe());
    (lane.provider, lane.model) == (info.provider, info.model)
}
