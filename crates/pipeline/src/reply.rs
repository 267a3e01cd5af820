//! From the model's Markdown to a candidate.
//!
//! A reply must hold exactly one CUDA fence and one TOML fence. Anything else is a
//! [`Malformed`] with a message that says how to mend it; no text of a reply can be an error.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::candidate::Candidate;
use crate::limits::{REFUSAL_BYTES_MAX, REPLY_BYTES_MAX, SOURCE_BYTES_MAX, capped};
use crate::plan::Plan;
use crate::task::signature::Signature;
use crate::verdict::{Reason, Verdict};

/// Why a reply holds no candidate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the reply is empty; answer with one ```cuda fence and one ```toml fence")]
    Empty,
    #[error("the reply is {0} bytes; at most {REPLY_BYTES_MAX} are read: send two fences")]
    TooLong(usize),
    #[error("the reply has no ```cuda fence; put the whole kernel source into one")]
    NoCuda,
    #[error("the reply has no ```toml fence; put the launch plan into one")]
    NoPlan,
    #[error("the reply has {0} ```cuda fences; exactly one is read: merge them into one")]
    ManyCuda(usize),
    #[error("the reply has {0} ```toml fences; exactly one is read: merge them into one")]
    ManyPlans(usize),
    #[error(
        "the last fence of the reply is never closed by the mark that opened it (``` or ~~~); if \
         the answer was cut off, make it shorter"
    )]
    Unclosed,
    #[error("the CUDA source is {0} bytes; at most {SOURCE_BYTES_MAX} are compiled")]
    SourceTooLong(usize),
    #[error("the CUDA source is empty")]
    SourceEmpty,
    #[error("the CUDA source contains a NUL character")]
    SourceNul,
    #[error("{0}")]
    Plan(#[from] crate::plan::PlanError),
}

impl Malformed {
    /// The verdict that this is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let reason = match self {
            Self::Plan(_) => Reason::Plan,
            Self::Empty | Self::TooLong(_) | Self::NoCuda | Self::NoPlan => Reason::Reply,
            Self::ManyCuda(_) | Self::ManyPlans(_) | Self::Unclosed => Reason::Reply,
            Self::SourceTooLong(_) | Self::SourceEmpty | Self::SourceNul => Reason::Reply,
        };
        Verdict::failed(reason, self.to_string())
    }
}

/// How an answer ended, as far as that explains what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At the output limit.
    CutOff,
    /// By the model or its provider, who would not answer.
    Refused,
    /// In any other way, or whole.
    Other,
}

impl Ending {
    /// The ending that a provider's finish reason means, in any of the words in use.
    #[must_use]
    pub fn of(finish_reason: &str) -> Self {
        match finish_reason {
            "length" | "max_tokens" | "MAX_TOKENS" | "model_length" => Self::CutOff,
            "refusal" | "content_filter" | "safety" | "SAFETY" => Self::Refused,
            _ => Self::Other,
        }
    }
}

/// Says what the provider says about how the answer ended, where that explains why nothing can be
/// read out of it: cut off at the limit, or a refusal.
#[must_use]
pub fn explained(malformed: &Malformed, reply: &str, finish_reason: &str) -> Verdict {
    let mut verdict = malformed.verdict();
    let why = match Ending::of(finish_reason) {
        Ending::CutOff => "the answer was cut off at the output limit: make it shorter".to_owned(),
        Ending::Refused => {
            let text = capped(reply.trim(), REFUSAL_BYTES_MAX);
            let said = if text.is_empty() { String::new() } else { format!(": {text}") };
            format!("the model refused to answer{said}")
        }
        Ending::Other => return verdict,
    };
    verdict.detail = format!("{why} ({})", verdict.detail);
    verdict
}

/// The two fences of a reply, unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fences {
    pub source: String,
    pub plan: String,
}

/// Finds the two fences.
///
/// # Errors
/// A missing, repeated, unclosed or oversized fence.
pub fn fences(reply: &str) -> Result<Fences, Malformed> {
    if reply.trim().is_empty() {
        return Err(Malformed::Empty);
    }
    if reply.len() > REPLY_BYTES_MAX {
        return Err(Malformed::TooLong(reply.len()));
    }
    let found = collect_fences(reply.trim_start_matches('\u{feff}'));
    if found.unclosed {
        return Err(Malformed::Unclosed);
    }
    let source = match found.cuda.as_slice() {
        [] => return Err(Malformed::NoCuda),
        [source] => source.clone(),
        many => return Err(Malformed::ManyCuda(many.len())),
    };
    let plan = match found.toml.as_slice() {
        [] => return Err(Malformed::NoPlan),
        [plan] => plan.clone(),
        many => return Err(Malformed::ManyPlans(many.len())),
    };
    Ok(Fences { source, plan })
}

/// Reads a candidate out of a reply.
///
/// # Errors
/// The first thing that is not as asked, with the way out.
pub fn candidate(reply: &str, signature: &Signature) -> Result<Candidate, Malformed> {
    let Fences { source, plan } = fences(reply)?;
    candidate_of_parts(&source, &plan, signature)
}

/// Builds a candidate from source and plan text.
///
/// # Errors
/// As [`candidate`].
pub fn candidate_of_parts(
    source: &str,
    plan: &str,
    signature: &Signature,
) -> Result<Candidate, Malformed> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Malformed::SourceTooLong(source.len()));
    }
    if source.trim().is_empty() {
        return Err(Malformed::SourceEmpty);
    }
    if source.contains('\0') {
        return Err(Malformed::SourceNul);
    }
    let checked = Plan::parse(plan, signature)?;
    Ok(Candidate::new(source, plan, checked))
}

/// The reply that holds this source and plan, as a model would send it.
#[must_use]
pub fn compose(source: &str, plan: &str) -> String {
    let longest = |text: &str| text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let mark = "`".repeat(longest(source).max(longest(plan)).max(2) + 1);
    let fence = |word: &str, text: &str| format!("{mark}{word}\n{}\n{mark}\n", text.trim_end());
    format!("{}\n{}", fence("cuda", source), fence("toml", plan))
}

#[derive(Default)]
struct FoundFences {
    cuda: Vec<String>,
    toml: Vec<String>,
    unclosed: bool,
}

#[derive(Clone, Copy)]
enum FenceKind {
    Cuda,
    Toml,
}

fn collect_fences(reply: &str) -> FoundFences {
    let mut found = FoundFences::default();
    let mut open: Option<(FenceKind, String)> = None;
    for (event, range) in Parser::new(reply).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                open = fence_kind(&info).map(|kind| (kind, String::new()));
            }
            Event::Text(text) => {
                if let Some((_, content)) = &mut open {
                    content.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some((kind, content)) = open.take() else { continue };
                found.unclosed |= !is_closed(&reply[range]);
                match kind {
                    FenceKind::Cuda => found.cuda.push(content),
                    FenceKind::Toml => found.toml.push(content),
                }
            }
            _ => {}
        }
    }
    found
}

/// The places of the fences with a kernel or a plan, in order.
pub(crate) fn fence_places(reply: &str) -> Vec<Range<usize>> {
    let text = reply.trim_start_matches('\u{feff}');
    let cut = reply.len() - text.len();
    let places = Parser::new(text).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
            fence_kind(&info).map(|_| range.start + cut..range.end + cut)
        }
        _ => None,
    });
    places.collect()
}

fn fence_kind(info: &str) -> Option<FenceKind> {
    let word = info.split([' ', ',', '\t', '{']).next().unwrap_or("").to_ascii_lowercase();
    match word.as_str() {
        "cuda" | "cu" | "cpp" | "c++" => Some(FenceKind::Cuda),
        "toml" => Some(FenceKind::Toml),
        _ => None,
    }
}

/// CommonMark closes a fence silently at the end of the document; a cut-off reply looks so.
fn is_closed(block: &str) -> bool {
    let mut lines = block.trim_end().lines();
    let opener = lines.next().unwrap_or("").trim_start();
    let mark = opener.chars().next().unwrap_or('`');
    let width = opener.chars().take_while(|c| *c == mark).count();
    // Inside a block quote every line but the first still carries its marks.
    let last = lines.next_back().unwrap_or("").trim_start_matches(['>', ' ', '\t']).trim_end();
    last.len() >= width && last.chars().all(|c| c == mark)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Malformed, compose, explained, fences};

    const GOOD: &str =
        "Because.\n\n```cuda\n__global__ void k() {}\n```\n\n```toml\nplan = 1\n```\n";

    #[test]
    fn finds_the_two_fences() {
        let found = fences(GOOD).unwrap();
        assert_eq!(found.source, "__global__ void k() {}\n");
        assert_eq!(found.plan, "plan = 1\n");
        for word in ["cu", "cpp", "C++", "CUDA {.line}"] {
            assert!(fences(&GOOD.replace("```cuda", &format!("```{word}"))).is_ok(), "{word}");
        }
        let block_quote: String = GOOD.lines().map(|line| format!("> {line}\n")).collect();
        assert_eq!(fences(&block_quote).unwrap().plan, "plan = 1\n");
        let quoted = GOOD.replace("```cuda", "```python\nprint()\n```\n~~~cuda").replacen(
            "\n```\n\n```toml",
            "\n~~~\n\n```toml",
            1,
        );
        assert_eq!(fences(&quoted).unwrap().source, "__global__ void k() {}\n");
    }

    #[test]
    fn how_the_answer_ended_explains_why_nothing_is_in_it() {
        for (reply, finish_reason, wanted) in [
            ("", "stop", "the reply is empty"),
            (
                "",
                "length",
                "the answer was cut off at the output limit: make it shorter (the reply",
            ),
            ("I can't.", "refusal", "the model refused to answer: I can't. (the reply has no"),
            ("", "content_filter", "the model refused to answer (the reply is empty"),
            ("words", "anything", "the reply has no ```cuda fence"),
        ] {
            let verdict = explained(&fences(reply).unwrap_err(), reply, finish_reason);
            assert!(verdict.detail.starts_with(wanted), "{}", verdict.detail);
        }
    }

    #[test]
    fn what_is_composed_is_found_again() {
        for source in ["__global__ void k() {}", "// ```cuda\n```` `x`\nint y;"] {
            let found = fences(&compose(source, "plan = 1\n")).unwrap();
            assert_eq!(found.source.trim_end(), source);
            assert_eq!(found.plan, "plan = 1\n");
        }
    }

    #[test]
    fn says_what_is_missing_or_too_much() {
        for (reply, error) in [
            (String::new(), Malformed::Empty),
            ("plain words".to_owned(), Malformed::NoCuda),
            (GOOD.replace("```toml", "```yaml"), Malformed::NoPlan),
            (format!("{GOOD}\n{GOOD}"), Malformed::ManyCuda(2)),
            (format!("{GOOD}\n```toml\n```\n"), Malformed::ManyPlans(2)),
            (GOOD.trim_end().trim_end_matches('`').to_owned(), Malformed::Unclosed),
            ("`".repeat(600_000), Malformed::TooLong(600_000)),
        ] {
            assert_eq!(fences(&reply), Err(error));
        }
    }

    #[test]
    fn two_hundred_kilobytes_of_fences_are_counted_not_parsed_for_ever() {
        let reply = "```cuda\nx\n```\n".repeat(14_000);
        assert_eq!(fences(&reply), Err(Malformed::ManyCuda(14_000)));
        let nested = "> ".repeat(100_000);
        assert_eq!(fences(&nested), Err(Malformed::NoCuda));
    }

    proptest! {
        #[test]
        fn no_reply_panics(reply in "(```cuda|```toml|```|~~~|> |[a-z \n\u{80}]){0,64}") {
            let _ = fences(&reply);
        }
    }
}
