//! Settings of an OpenAI-compatible server that few people need.

use super::{Section, setting};

pub(super) const OPENAI: Section = Section {
    header: "model.gpt",
    about: "more settings of an OpenAI-compatible server",
    settings: &[
        setting("key_file", "\"~/.keys/openai\"", "none", "", "A file that holds the key"),
        setting(
            "max_tokens_field",
            "\"max_completion_tokens\"",
            "max_completion_tokens",
            "",
            "The field that carries the output limit; older servers want max_tokens",
        ),
        setting("temperature", "1.0", "the server's", "", "Sampling temperature"),
        setting("top_p", "1.0", "the server's", "", "Nucleus sampling"),
        setting(
            "stream",
            "true",
            "true",
            "",
            "Have the answer sent piece by piece, so that silence is noticed",
        ),
        setting(
            "extra_body",
            "{ service_tier = \"flex\" }",
            "none",
            "",
            "More fields of the request, as the server documents them",
        ),
        setting(
            "headers",
            "{ \"X-Title\" = \"warpwright\" }",
            "none",
            "",
            "More headers of the request",
        ),
        setting(
            "header_env",
            "{ \"api-key\" = \"AZURE_KEY\" }",
            "none",
            "",
            "Headers whose values are secrets, each with the variable that holds it",
        ),
        setting("connect_timeout_s", "10", "10", "", "Longest wait for a connection"),
        setting(
            "first_byte_timeout_s",
            "600",
            "600; without stream deadline_s",
            "",
            "Longest wait until the answer begins",
        ),
        setting("idle_timeout_s", "600", "600", "", "Longest silence in the middle of an answer"),
        setting("deadline_s", "1800", "1800", "", "Longest wait for one whole answer"),
        setting(
            "lane",
            "\"batch\"",
            "interactive",
            "",
            "Ask at once (interactive) or in files that are answered within a day for less (batch; \
             docs/models.md)",
        ),
        setting(
            "batch_price",
            "0.5",
            "1.0",
            "",
            "What a batch costs: a share of `price`, or a price in the same form",
        ),
        setting(
            "batch_deadline_minutes",
            "240",
            "the server's",
            "",
            "How long a batch may take before it is cancelled and the rest of it asked at once",
        ),
        setting("batch_collect_s", "10", "10", "", "How long a request waits for others"),
        setting("batch_poll_s", "30", "30", "", "Time between two looks at a batch"),
        setting("batch_requests_max", "195", "195", "", "Most requests of one batch"),
    ],
    active: false,
};
