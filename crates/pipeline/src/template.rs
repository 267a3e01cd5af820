//! The closed registry of prompt files, and how they are rendered.
//!
//! Templates are strict: an undefined variable is an error, never an empty string, and a missing
//! or unknown file is refused before a run starts. Texts are passed in; nothing is read here.

use std::collections::BTreeMap;

use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, syntax::SyntaxConfig};

use crate::digest::Digest;
use crate::limits::{BACKTICKS_MAX, PROMPT_BYTES_MAX, TEMPLATE_FUEL};
use crate::visible::visible;

/// Every file of `prompts/`, with its purpose.
pub const REGISTRY: [(&str, &str); 7] = [
    ("system.md", "the stable start: the role, the reply format, the plan format, what is judged"),
    ("first.md", "asks for the first kernel of a task"),
    ("repair.md", "asks to make the parent correct"),
    ("optimise.md", "asks to make the parent faster"),
    ("_task.md", "included: the task, its reference and the device"),
    ("_history.md", "included: the digest of earlier attempts"),
    ("_hints.md", "included: what a person suggests, where somebody did"),
];

/// The prompt files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates(BTreeMap<String, String>);

/// Why prompt files are not acceptable or do not render.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the prompt file `{0}` is missing")]
    Missing(&'static str),
    #[error("the prompt file `{0}` is not one of the registry; remove it")]
    Unknown(String),
    #[error("the prompt file `{name}` does not render: {why}")]
    Render { name: String, why: String },
    #[error("the prompt from `{name}` is {bytes} bytes; at most {PROMPT_BYTES_MAX} are sent")]
    TooLong { name: String, bytes: usize },
}

impl Templates {
    /// Takes the texts by file name.
    ///
    /// # Errors
    /// A file of the registry that is missing, or one that is not in it.
    pub fn new(files: BTreeMap<String, String>) -> Result<Self, TemplateError> {
        if let Some((name, _)) = REGISTRY.iter().find(|(name, _)| !files.contains_key(*name)) {
            return Err(TemplateError::Missing(name));
        }
        let known = |name: &String| REGISTRY.iter().any(|(registered, _)| registered == name);
        match files.keys().find(|name| !known(name)) {
            Some(name) => Err(TemplateError::Unknown(name.clone())),
            None => Ok(Self(files)),
        }
    }

    /// Hash of all texts; stored with every prompt.
    #[must_use]
    pub fn hash(&self) -> Digest {
        let parts: Vec<&[u8]> =
            self.0.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]).collect();
        Digest::of_parts("prompts", &parts)
    }

    /// Renders one file.
    ///
    /// # Errors
    /// An undefined variable, a syntax error (both with the line), or a prompt over the cap.
    pub fn render(&self, name: &str, context: Value) -> Result<String, TemplateError> {
        let failed = |error: minijinja::Error| TemplateError::Render {
            name: name.to_owned(),
            why: format!("{error:#}"),
        };
        let environment = self.environment().map_err(failed)?;
        let template = environment.get_template(name).map_err(failed)?;
        let text = template.render(context).map_err(failed)?;
        if text.len() > PROMPT_BYTES_MAX {
            return Err(TemplateError::TooLong { name: name.to_owned(), bytes: text.len() });
        }
        Ok(text)
    }

    fn environment(&self) -> Result<Environment<'_>, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(TEMPLATE_FUEL));
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()?;
        environment.set_syntax(syntax);
        environment.add_filter("fence", fence);
        for (name, text) in &self.0 {
            environment.add_template(name, text)?;
        }
        Ok(environment)
    }
}

/// Puts text into a Markdown fence that the text itself cannot close; what has no shape is
/// written out.
#[must_use]
pub fn fence(text: &str, language: &str) -> String {
    let clean = without_long_runs(&visible(text));
    let longest = clean.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let mark = "`".repeat(longest.max(2) + 1);
    let end = if clean.ends_with('\n') { "" } else { "\n" };
    format!("{mark}{language}\n{clean}{end}{mark}")
}

/// A fence must be longer than any run of backticks inside: absurd ones are counted instead.
fn without_long_runs(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find('`') {
        let run = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        shown.push_str(&rest[..start]);
        if run > BACKTICKS_MAX {
            shown.push_str(&format!("[{run} backticks]"));
        } else {
            shown.push_str(&rest[start..start + run]);
        }
        rest = &rest[start + run..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use minijinja::context;

    use super::{REGISTRY, TemplateError, Templates, fence};

    fn files(system: &str) -> BTreeMap<String, String> {
        let mut files: BTreeMap<_, _> =
            REGISTRY.iter().map(|(name, _)| ((*name).to_owned(), String::new())).collect();
        files.insert("system.md".to_owned(), system.to_owned());
        files
    }

    #[test]
    fn undefined_variables_are_errors_with_a_line() {
        let templates = Templates::new(files("one\n{{ absent }}\n")).unwrap();
        let error = templates.render("system.md", context! {}).unwrap_err().to_string();
        assert!(
            error.contains("`absent` is undefined") && error.contains("system.md:2"),
            "{error}"
        );
    }

    #[test]
    fn the_registry_is_closed() {
        let mut extra = files("");
        extra.insert("other.md".to_owned(), String::new());
        assert!(
            matches!(Templates::new(extra), Err(TemplateError::Unknown(name)) if name == "other.md")
        );
        let mut short = files("");
        short.remove("repair.md");
        assert!(matches!(Templates::new(short), Err(TemplateError::Missing("repair.md"))));
    }

    #[test]
    fn a_fence_cannot_be_closed_from_inside() {
        assert_eq!(fence("int x;\n", "cuda"), "```cuda\nint x;\n```");
        assert_eq!(fence("a ```` b\u{1b}[0m", ""), "`````\na ```` b\\u{1b}[0m\n`````");
        assert_eq!(fence(&"`".repeat(90_000), "cuda"), "```cuda\n[90000 backticks]\n```");
    }
}
