//! The names that a plan may make up: workspaces, tensor maps, tunables, kernels.

use super::{PlanError, rule};
use crate::limits::KERNEL_NAME_CHARS_MAX;

pub(super) fn check_own_name(what: &str, name: &str) -> Result<(), PlanError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let first = name.starts_with(|c: char| c.is_ascii_lowercase());
    if first && name.len() <= 64 && name.chars().all(allowed) {
        return Ok(());
    }
    Err(rule(format!("{what} `{name}`"), "use lower-case letters, digits and `_`, a letter first"))
}

/// `^[A-Z][A-Z0-9]*_[A-Z0-9_]+$`: the underscore keeps -D macros out of library headers.
pub(super) fn check_tunable(name: &str, values: &[i64]) -> Result<(), PlanError> {
    let place = format!("tunable `{name}`");
    let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let underscore = name.find('_').is_some_and(|at| at > 0 && at + 1 < name.len());
    let first = name.starts_with(|c: char| c.is_ascii_uppercase());
    if !first || !underscore || name.len() > 64 || !name.chars().all(allowed) {
        return Err(rule(place, "use upper case with an underscore inside, as in TILE_M"));
    }
    if values.is_empty() {
        return Err(rule(place, "needs at least one value; the first is the default"));
    }
    if values.iter().any(|value| i32::try_from(*value).is_err()) {
        return Err(rule(place, "values must fit in a C int"));
    }
    Ok(())
}

/// `^[A-Za-z_][A-Za-z0-9_:]*(<[A-Za-z0-9_:, ]+>)?$`: the name is compiler input.
pub(super) fn check_kernel_name(place: &str, name: &str) -> Result<(), PlanError> {
    let (base, template) = match name.split_once('<') {
        None => (name, None),
        Some((base, rest)) => (base, Some(rest.strip_suffix('>').unwrap_or(""))),
    };
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let first = base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let arguments =
        |text: &str| !text.is_empty() && text.chars().all(|c| word(c) || c == ',' || c == ' ');
    let fits = name.len() <= KERNEL_NAME_CHARS_MAX;
    if first && fits && base.chars().all(word) && template.is_none_or(arguments) {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    Err(rule(place, format!("`{shown}` is no kernel name; write `name` or `name<64, float>`")))
}
