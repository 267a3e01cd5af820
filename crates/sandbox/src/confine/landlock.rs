//! Landlock: which files a child may open, no TCP, no signals and abstract sockets to others.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, PathBeneath,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use pipeline::confinement::LayerState;

use super::not_available;
use super::set::{Calls, ConfinementSet};

/// The newest rules that are asked for; older kernels enforce what they know.
const NEWEST: ABI = ABI::V9;
/// The oldest that counts as enforced: before, files could be cut short by name.
const OLDEST: i32 = 3;
/// TCP has rules from here on, and signals and abstract sockets have a scope.
const WITH_TCP: i32 = 4;
const WITH_SCOPES: i32 = 6;

/// Restricts this process to the files of the set.
pub(super) fn restrict(set: &ConfinementSet) -> LayerState {
    match restrict_to(set) {
        Ok(status) => state_of(&status, handles_tcp(set)),
        Err(error) => not_available(error),
    }
}

fn restrict_to(set: &ConfinementSet) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if handles_tcp(set) {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    rules
        .create()?
        .add_rules(path_beneath_rules(&set.readable, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(&set.writable, AccessFs::from_all(NEWEST)))?
        .restrict_self()
}

/// Restricts this process further: of the files that it may read, to those below some folders.
/// What holds it already stays.
pub(super) fn restrict_to_folders(folders: &[OwnedFd]) -> Result<(), String> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = folders.iter().map(|folder| Ok::<_, RulesetError>(PathBeneath::new(folder, read)));
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(Ruleset::create)
        .and_then(|created| created.add_rules(rules))
        .and_then(|created| created.restrict_self());
    match restricted.map_err(|error| error.to_string())?.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("nothing of it was enforced".to_owned()),
    }
}

/// Tools talk to the process that they watch over the loopback interface.
fn handles_tcp(set: &ConfinementSet) -> bool {
    set.calls != Calls::Watching
}

fn state_of(status: &RestrictionStatus, handles_tcp: bool) -> LayerState {
    let abi = match status.landlock {
        LandlockStatus::NotEnabled => return not_available("the kernel has it switched off"),
        LandlockStatus::NotImplemented => return not_available("the kernel has none"),
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            kernel_abi.unwrap_or(effective_abi as i32)
        }
    };
    match status.ruleset {
        RulesetStatus::NotEnforced => not_available("nothing of it was enforced"),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced if abi < OLDEST => {
            not_available(format!("ABI {abi} has rules for some of the calls; {OLDEST} has all"))
        }
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {
            LayerState::Enforced(words(abi, handles_tcp))
        }
    }
}

/// What an ABI enforces, in words, and what it does not know yet.
fn words(abi: i32, handles_tcp: bool) -> String {
    let tcp = [("TCP", WITH_TCP)];
    let others = [("files", OLDEST), ("signals", WITH_SCOPES), ("abstract sockets", WITH_SCOPES)];
    let wanted = others.iter().chain(tcp.iter().filter(|_| handles_tcp));
    let (known, unknown): (Vec<_>, Vec<_>) = wanted.partition(|(_, since)| abi >= *since);
    let list = |entries: Vec<&(&str, i32)>| {
        entries.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let lacks = if unknown.is_empty() { String::new() } else { format!("; not {}", list(unknown)) };
    format!("{}{lacks}; ABI {abi}", list(known))
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn what_an_older_kernel_does_not_know_is_said() {
        for (abi, handles_tcp, expected) in [
            (7, true, "files, signals, abstract sockets, TCP; ABI 7"),
            (6, false, "files, signals, abstract sockets; ABI 6"),
            (4, true, "files, TCP; not signals, abstract sockets; ABI 4"),
            (3, true, "files; not signals, abstract sockets, TCP; ABI 3"),
        ] {
            assert_eq!(words(abi, handles_tcp), expected);
        }
    }
}
