//! The one list of all settings: `init` writes it as a commented file, `docs/settings.md` is made
//! from it, and a test holds it against what the parser takes.

mod models;

use crate::settings::file::FILE_NAME;

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

const FIRST: &[Section] = &[Section {
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
}];

const REST: &[Section] = &[
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
            setting(
                "gpu_seconds",
                "3600",
                "no limit",
                "`--gpu-seconds`, WARPWRIGHT_GPU_SECONDS",
                "Time for which GPUs are held for its evaluations; without effect on the simulator",
            ),
        ],
        active: false,
    },
    Section {
        header: "search",
        about: "How a run searches",
        settings: &[
            setting(
                "in_flight",
                "4",
                "4; 1 with recorded replies",
                "`--in-flight`",
                "Attempts of one task at once; the next is asked before the others' ends are known",
            ),
            setting(
                "plateau",
                "16",
                "16",
                "`--plateau`",
                "Attempts without an improvement after which a task is left; 0 for never",
            ),
            setting(
                "model_order",
                "\"turns\"",
                "turns",
                "",
                "Which of several models is asked: turns, or first for the first that answers",
            ),
            setting(
                "accept",
                "true",
                "true; the simulator makes no claims",
                "`--accept`, `--no-accept`",
                "On GPUs: take the best kernels through the full protocol behind a claim, beside \
                 the search and after it, as far as the time goes (docs/living.md)",
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

/// Every section, in the order of the file.
fn sections() -> impl Iterator<Item = &'static Section> {
    FIRST.iter().chain(models::MODELS).chain(REST)
}

/// A commented settings file: what most people set is active, the rest has comment marks.
pub(crate) fn commented_file() -> String {
    let mut lines = vec![
        "# Settings of warpwright. Flags and environment variables win over this file.".to_owned(),
        "# Keys are never written here: name the variable or the file that holds them.".to_owned(),
        String::new(),
    ];
    let mut header = "";
    for section in sections() {
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
    for section in sections() {
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
