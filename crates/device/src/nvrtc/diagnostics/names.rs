//! Turns the errors of name expressions into one diagnostic for each name.
//!
//! NVRTC looks names up in a file of its own, `__nv_name_map`, and reports two or more errors for
//! a name that fails.

use super::diagnostic;
use crate::nvrtc::{Diagnostic, Severity, kernels};

const NAME_MAP: &str = "__nv_name_map";
const PRAGMA: &str = "#pragma nv_mangled_name ";

/// Replaces the errors of the name map by one for each name, at the end.
pub(super) fn merge(found: Vec<Diagnostic>, source: &str) -> Vec<Diagnostic> {
    let (in_map, mut others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|each| each.file == NAME_MAP);
    let mut named: Vec<&str> = Vec::new();
    for each in &in_map {
        let name = expression(each);
        if named.contains(&name) {
            continue;
        }
        named.push(name);
        others.push(explain(name, &each.message, source));
    }
    others
}

fn expression(found: &Diagnostic) -> &str {
    let in_excerpt = found.excerpt.lines().find_map(|line| line.trim().strip_prefix(PRAGMA));
    in_excerpt.unwrap_or(&found.message).trim()
}

fn explain(name: &str, reason: &str, source: &str) -> Diagnostic {
    let known = kernels::declared_kernels(source);
    let known = match known.is_empty() {
        true => "the source defines no kernel".to_owned(),
        false => format!("the source defines {}", known.join(", ")),
    };
    let message = match reason.starts_with("identifier ") {
        true => format!("no kernel `{name}`; {known}"),
        false => format!("no kernel `{name}` ({reason}); {known}"),
    };
    diagnostic(Severity::Error, "", None, &message)
}
