//! From the task and the history to the two messages that are sent.
//!
//! Every attempt is one fresh conversation: a system message that never changes within a run, then
//! one user message whose start is stable for the task. History arrives as a digest, never as chat.

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Code, Mode};
use crate::device_facts::DeviceFacts;
use crate::digest::Digest;
use crate::feedback::Feedback;
use crate::limits::{
    HINT_BYTES_MAX, HINTS_SHOWN_MAX, HISTORY_DETAIL_BYTES_MAX, HISTORY_LINES_MAX,
    MESSAGE_BYTES_MAX, PROMPT_ABOUT_BYTES_MAX, PROMPT_EXCERPT_BYTES_MAX, PROMPT_PLAN_BYTES_MAX,
    PROMPT_REFERENCE_BYTES_MAX, PROMPT_SOURCE_BYTES_MAX, capped,
};
use crate::next_step::Ask;
use crate::report::Score;
use crate::scrub::Scrubber;
use crate::task::Task;
use crate::task::spec::{Place, TaskSpec};
use crate::template::{TemplateError, Templates};
use crate::visible::visible;

/// What goes to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    pub mode: Mode,
    pub messages: Vec<Message>,
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub role: MessageRole,
    pub content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    System,
    User,
    Assistant,
}

impl MessageRole {
    /// The role's name, as in the wire format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// What a prompt tells of earlier attempts at its task.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// All of them, oldest first, if only in outline.
    pub attempts: &'a [Attempt],
    /// The one that the question starts from, as a whole.
    pub parent: Option<&'a Attempt>,
}

impl Prompt {
    /// Renders the prompt for one question, without what `scrubber` finds in any piece of it.
    ///
    /// # Errors
    /// A prompt file that does not render.
    pub fn render(
        templates: &Templates,
        task: &Task,
        device: &DeviceFacts,
        ask: &Ask,
        attempts: &[Attempt],
        scrubber: &Scrubber,
    ) -> Result<Self, TemplateError> {
        let parent = ask.parent.and_then(|seq| attempts.iter().find(|it| it.seq == seq));
        let earlier = Earlier { attempts, parent };
        Self::render_hinted(templates, task, device, ask, earlier, &[], scrubber)
    }

    /// As [`Prompt::render`], with what a person suggests in a part of its own.
    ///
    /// # Errors
    /// A prompt file that does not render.
    pub fn render_hinted(
        templates: &Templates,
        task: &Task,
        device: &DeviceFacts,
        ask: &Ask,
        Earlier { attempts, parent }: Earlier<'_>,
        hints: &[&str],
        scrubber: &Scrubber,
    ) -> Result<Self, TemplateError> {
        let shown = |text: &str, bytes_max| shown(scrubber, text, bytes_max);
        let context = context! {
            task => task_view(scrubber, &task.spec),
            reference_source => shown(&task.reference.source, PROMPT_REFERENCE_BYTES_MAX),
            reference_plan => reference_plan_note(&task.spec),
            device => Serde(device),
            history => history_lines(scrubber, attempts),
            history_cut => attempts.len().saturating_sub(HISTORY_LINES_MAX),
            parent => parent_view(scrubber, parent),
            subset_notice => ask.subset_notice,
            hints => hints_view(scrubber, hints),
        };
        let situation = match ask.mode {
            Mode::First => "first.md",
            Mode::Repair => "repair.md",
            Mode::Optimise => "optimise.md",
        };
        // The pieces are clean; this is for what only the whole shows.
        let message = |role, content: String| Message {
            role,
            content: scrubber.scrub(&content).into_owned(),
        };
        let system = templates.render("system.md", context! { device => Serde(device) })?;
        let user = templates.render(situation, context)?;
        Ok(Self {
            mode: ask.mode,
            messages: vec![message(MessageRole::System, system), message(MessageRole::User, user)],
        })
    }

    /// Hash of everything that is sent.
    #[must_use]
    pub fn hash(&self) -> Digest {
        let parts: Vec<&[u8]> = self
            .messages
            .iter()
            .flat_map(|m| [m.role.name().as_bytes(), m.content.as_bytes()])
            .collect();
        Digest::of_parts("prompt", &parts)
    }

    /// The most input tokens that this prompt can be: no byte-level tokenizer makes more tokens
    /// than bytes, and 64 cover the framing of a message.
    #[must_use]
    pub fn input_tokens_bound(&self) -> u64 {
        self.messages.iter().map(|message| message.content.len() as u64 + 64).sum()
    }
}

fn task_view(scrubber: &Scrubber, spec: &TaskSpec) -> Value {
    let cases: Vec<_> = spec
        .cases
        .iter()
        .map(|case| {
            context! {
                name => &case.name,
                dims => Serde(&case.dims),
                headline => case.name == "headline",
                simulated => case.on.contains(&Place::Sim),
            }
        })
        .collect();
    let classes: Vec<_> = spec.classes.iter().map(|class| class.name()).collect();
    context! {
        name => &spec.name,
        about => shown(scrubber, &spec.about, PROMPT_ABOUT_BYTES_MAX),
        inputs => Serde(&spec.inputs),
        scalars => Serde(&spec.scalars),
        outputs => Serde(&spec.outputs),
        dims => &spec.dims,
        classes => classes,
        may_overwrite => &spec.may_overwrite,
        hidden => Serde(&spec.hidden.ranges),
        cases => cases,
    }
}

/// Text from outside as it goes into a fence. It is cut last: what must not leave is found whole,
/// and what has no shape, which is written out, does not grow beyond the cap.
fn shown(scrubber: &Scrubber, text: &str, bytes_max: usize) -> String {
    capped(&visible(&scrubber.scrub(text)), bytes_max)
}

fn reference_plan_note(spec: &TaskSpec) -> String {
    let outputs: Vec<_> =
        spec.outputs.iter().map(|output| format!("`{0}_ref`", output.name)).collect();
    format!("It writes the exact result to {}.", outputs.join(", "))
}

fn history_lines(scrubber: &Scrubber, attempts: &[Attempt]) -> Vec<String> {
    let skipped = attempts.len().saturating_sub(HISTORY_LINES_MAX);
    attempts.iter().skip(skipped).map(|attempt| history_line(scrubber, attempt)).collect()
}

fn history_line(scrubber: &Scrubber, attempt: &Attempt) -> String {
    let parent = attempt.parent.map_or_else(String::new, |seq| format!(" from #{seq}"));
    let score = match attempt.score() {
        Score::None => String::new(),
        score @ (Score::Estimated(_) | Score::Measured(_)) => format!("; {}", score.describe()),
    };
    let first_line = attempt.verdict.detail.lines().next().unwrap_or("");
    let detail = shown(scrubber, first_line, HISTORY_DETAIL_BYTES_MAX);
    let colon = if detail.is_empty() { "" } else { ": " };
    format!(
        "#{} {}{parent}: {}{colon}{detail}{score}",
        attempt.seq,
        attempt.mode.name(),
        attempt.verdict
    )
}

fn hints_view(scrubber: &Scrubber, hints: &[&str]) -> Vec<String> {
    let hints = hints.iter().take(HINTS_SHOWN_MAX);
    hints.map(|text| shown(scrubber, text, HINT_BYTES_MAX)).collect()
}

fn parent_view(scrubber: &Scrubber, parent: Option<&Attempt>) -> Value {
    let Some(attempt) = parent else { return Value::from(()) };
    let feedback = Feedback::of(attempt);
    let shown = |text: &str, bytes_max| shown(scrubber, text, bytes_max);
    let (source, plan) = match &attempt.code {
        Some(Code { source, plan }) => (source.as_str(), plan.as_str()),
        None => ("", ""),
    };
    context! {
        seq => attempt.seq,
        has_code => attempt.code.is_some(),
        source => shown(source, PROMPT_SOURCE_BYTES_MAX),
        plan => shown(plan, PROMPT_PLAN_BYTES_MAX),
        reply => shown(&attempt.reply, PROMPT_EXCERPT_BYTES_MAX),
        headline => shown(&feedback.headline, MESSAGE_BYTES_MAX),
        advice => feedback.advice,
        facts => Serde(&feedback.facts),
    }
}

#[cfg(test)]
mod tests;
