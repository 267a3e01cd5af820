//! The one list of all settings: `init` writes it as a commented file, `docs/settings.md` is made
//! from it, and a test holds it against what the parser takes.

use crate::settings::file::FILE_NAME;

mod more;

/// A part of the settings file.
struct Section {
    /// The TOML header; empty for the file's start.
    header: &'static str,
    about: &'static str,
    settings: &'static [Setting],
    /// True when `init` writes it without comment marks.
    active: bool,
}

/// One setting.
struct Setting {
    key: &'static str,
    /// An example as TOML: the default where there is one.
    example: &'static str,
    default: &'static str,
    /// Flag and variable that override it.
    also: &'static str,
    words: &'static str,
}

const fn setting(
    key: &'static str,
    example: &'static str,
    default: &'static str,
    also: &'static str,
    words: &'static str,
) -> Setting {
    Setting { key, example, default, also, words }
}

const SECTIONS: &[Section] = &[
    Section {
        header: "",
        about: "",
        settings: &[
            setting(
                "default_model",
                "\"gpt\"",
                "none",
                "`--model`, WARPWRIGHT_MODEL",
                "The model, or a list of models that attempts take in turn, when `run` names none",
            ),
            setting(
                "require_review",
                "false",
                "false",
                "WARPWRIGHT_REQUIRE_REVIEW",
                "Export and report a claim only after `review approve`",
            ),
            setting(
                "notify",
                "\"./tell-me.sh --night\"",
                "none",
                "`--notify`, `run.toml`",
                "A program that is started for each event of a run and gets it as one line of JSON \
                 (docs/living.md); no shell is involved",
            ),
        ],
        active: true,
    },
    Section {
        header: "model.gpt",
        about: "An OpenAI-compatible server: OpenAI, OpenRouter, DeepSeek, vLLM, llama.cpp, ...",
        settings: &[
            setting("kind", "\"openai\"", "none", "", "What kind of model this section is about"),
            setting("model", "\"gpt-5.2\"", "none", "", "The model's name at the server"),
            setting(
                "base_url",
                "\"https://api.openai.com/v1\"",
                "OpenAI",
                "OPENAI_BASE_URL for `openai:MODEL`",
                "Where the server is, /v1 included",
            ),
            setting(
                "key_env",
                "\"OPENAI_API_KEY\"",
                "OPENAI_API_KEY for OpenAI, else no key",
                "",
                "The environment variable that holds the key",
            ),
            setting(
                "price",
                "{ input = 2.0, cached_input = 0.5, output = 8.0 }",
                "unknown",
                "",
                "Dollars per million tokens, as your provider lists them (these are only an \
                 example), \"free\", or \"subscription\" for a flat fee; a dollar limit needs it",
            ),
            setting(
                "output_tokens_max",
                "32000",
                "32000",
                "",
                "The longest answer, reasoning included: asked for, and reserved before a call",
            ),
            setting(
                "reasoning_effort",
                "\"medium\"",
                "the server's",
                "",
                "How long the model thinks, as the server names it",
            ),
        ],
        active: true,
    },
    more::OPENAI,
    Section {
        header: "model.agent",
        about: "Any program that reads the prompt on standard input and prints the reply",
        settings: &[
            setting("kind", "\"command\"", "none", "", "What kind of model this section is about"),
            setting(
                "command",
                "[\"./answer.sh\", \"--quiet\"]",
                "none",
                "",
                "The program and its arguments; no shell is involved",
            ),
            setting("model", "\"agent\"", "the program", "", "The name that is stored"),
            setting(
                "working_folder",
                "\".\"",
                "where warpwright was started",
                "",
                "Where the program runs",
            ),
            setting(
                "environment",
                "[\"ANTHROPIC_API_KEY\"]",
                "none",
                "",
                "Variables that the program may see beside PATH, HOME and the language",
            ),
            setting("prompt_form", "\"text\"", "text", "", "What it reads: text or json"),
            setting("reply_form", "\"text\"", "text", "", "What it prints: text or json"),
            setting(
                "price",
                "\"subscription\"",
                "unknown",
                "",
                "As for a server; with dollars, the program should report its usage",
            ),
            setting("output_tokens_max", "32000", "32000", "", "The longest answer to reserve for"),
            setting("deadline_s", "1800", "1800", "", "Longest wait for one answer"),
        ],
        active: false,
    },
    Section {
        header: "model.me",
        about: "A folder in which a person or another program answers",
        settings: &[
            setting("kind", "\"mailbox\"", "none", "", "What kind of model this section is about"),
            setting("folder", "\"mailbox\"", "none", "", "Where questions appear"),
            setting("model", "\"mailbox\"", "mailbox", "", "The name that is stored"),
            setting("output_tokens_max", "32000", "32000", "", "The longest answer to count with"),
            setting(
                "deadline_s",
                "86400",
                "no deadline",
                "`--mailbox-deadline`",
                "Longest wait for one answer",
            ),
        ],
        active: false,
    },
    Section {
        header: "model.recorded",
        about: "A recorded transcript, replayed",
        settings: &[
            setting("kind", "\"replay\"", "none", "", "What kind of model this section is about"),
            setting("file", "\"replies.jsonl\"", "none", "", "The transcript"),
            setting(
                "strict",
                "false",
                "false",
                "`--strict-replay`",
                "Treat a reply to another prompt as an error",
            ),
        ],
        active: false,
    },
    Section {
        header: "budget",
        about: "What one run may spend; a limit is never crossed, also across a crash",
        settings: &[
            setting(
                "attempts",
                "20",
                "10 for each task",
                "`--attempts`, WARPWRIGHT_ATTEMPTS",
                "Attempts of all tasks together",
            ),
            setting(
                "tokens",
                "2000000",
                "no limit",
                "`--tokens`, WARPWRIGHT_TOKENS",
                "Input and output tokens together",
            ),
            setting(
                "dollars",
                "5.0",
                "no limit",
                "`--dollars`, WARPWRIGHT_DOLLARS",
                "Money; needs the price of every model",
            ),
            setting(
                "hours",
                "8",
                "no limit",
                "`--hours`, WARPWRIGHT_HOURS",
                "Time from the start of the run",
            ),
        ],
        active: false,
    },
    Section {
        header: "judge",
        about: "Where and with what kernels are judged",
        settings: &[
            setting(
                "device",
                "\"auto\"",
                "auto",
                "`--device`, WARPWRIGHT_DEVICE",
                "What runs the kernels: sim, cuda:N, cuda:all, or auto for the GPUs if any",
            ),
            setting(
                "evaluator",
                "\"local\"",
                "local",
                "`--evaluator`, WARPWRIGHT_EVALUATOR",
                "Who judges: local, or folder:DIR for a `worker --folder DIR`",
            ),
            setting(
                "toolchain",
                "\"pinned\"",
                "pinned",
                "`--toolchain`, WARPWRIGHT_TOOLCHAIN",
                "The CUDA compiler: pinned, any version that is found, or a folder",
            ),
            setting(
                "require_confinement",
                "3",
                "0",
                "`--require-confinement`, WARPWRIGHT_REQUIRE_CONFINEMENT",
                "Judge nothing where children are confined by less than this level, 0 to 4",
            ),
        ],
        active: false,
    },
    Section {
        header: "store",
        about: "Where things are kept",
        settings: &[
            setting(
                "ledger",
                "\"~/.local/share/warpwright/ledger.db\"",
                "in the user's data folder",
                "`--ledger`, WARPWRIGHT_LEDGER",
                "Every attempt",
            ),
            setting(
                "cache",
                "\"~/.cache/warpwright\"",
                "in the user's cache folder",
                "`--cache`, WARPWRIGHT_CACHE",
                "The CUDA compiler",
            ),
        ],
        active: false,
    },
];

/// A commented settings file: what most people set is active, the rest has comment marks.
pub(crate) fn commented_file() -> String {
    let mut lines = vec![
        "# Settings of warpwright. Flags and environment variables win over this file.".to_owned(),
        "# Keys are never written here: name the variable or the file that holds them.".to_owned(),
        String::new(),
    ];
    let mut header = "";
    for section in SECTIONS {
        let mark = if section.active { "" } else { "# " };
        if section.header != header {
            lines.push(String::new());
            lines.push(format!("# {}", section.about));
            lines.push(format!("{mark}[{}]", section.header));
            header = section.header;
        }
        for setting in section.settings {
            lines.push(format!("# {} (default: {})", setting.words, setting.default));
            // Nobody's price may be another model's, and nobody has the example's program.
            let mark = if matches!(setting.key, "price" | "notify") { "# " } else { mark };
            lines.push(format!("{mark}{} = {}", setting.key, setting.example));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Every setting as Markdown.
pub(crate) fn markdown() -> String {
    let mut lines = vec![
        "# Settings".to_owned(),
        String::new(),
        format!(
            "`warpwright init` writes a commented `{FILE_NAME}`. It is read from the working \
             folder, then from `~/.config/warpwright/`, or from `--settings FILE` \
             (WARPWRIGHT_SETTINGS). Later wins: defaults, this file, `run.toml`, environment, \
             flags. Paths are relative to the file. The resolved settings are stored with each \
             run; keys never are. This page is `warpwright init --reference`."
        ),
        String::new(),
        "Two things are set by a variable alone: WARPWRIGHT_PYTHON names the Python whose PyTorch \
         kernels are compared with, and so which [baselines](tasks.md) there are (default: \
         `python3` on the path); WARPWRIGHT_CONFINEMENT leaves out the layers of \
         [confinement](security.md) above a level (default: 4, none is left out)."
            .to_owned(),
    ];
    let mut header = None;
    for section in SECTIONS {
        if header != Some(section.header) {
            header = Some(section.header);
            let title = match section.header {
                "" => "At the start of the file".to_owned(),
                header => format!("`[{header}]`: {}", section.about),
            };
            lines.push(format!("\n## {title}\n"));
            lines.push("| setting | default | also | what |\n|---|---|---|---|".to_owned());
        }
        for Setting { key, example, default, also, words } in section.settings {
            lines.push(format!("| `{key} = {example}` | {default} | {also} | {words} |"));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests;
