//! The filter of system calls. What it refuses fails with `EPERM`.
//!
//! The compiler's child gets more filters once its libraries are loaded, [`behind_the_gate`]; what
//! is installed first leaves it the calls for that, which can only take more away.

use std::collections::BTreeMap;

use libc::c_long;
use pipeline::confinement::LayerState;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter, sock_filter,
};

use super::calls::{
    BY_NAME, BY_NAME_OLDER, COMPUTING, COMPUTING_OLDER, NARROWING, NEW_NAMESPACES, REFUSED,
    REFUSED_OLDER, REFUSED_TO_ALL_BUT_WATCHERS, REFUSED_TO_DRIVERS, SPECIAL_FILES, TELLING,
    TELLING_OLDER, TERMINAL_INPUT,
};
use super::not_available;
use super::set::Calls;
use crate::system::gate;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Sockets of a GPU driver, and those of programs, whose network has nothing but themselves.
const FAMILIES: [libc::c_int; 1] = [libc::AF_UNIX];
const FAMILIES_OF_PROGRAMS: [libc::c_int; 4] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Operations of `prctl` that name threads and memory.
const NAMING: [u64; 2] = [libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64];
/// Operations of `fcntl` on descriptors of its own. Others send signals to whom they name.
const DESCRIPTORS: [libc::c_int; 10] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
    libc::F_GETLK,
    libc::F_SETLK,
];
/// Kinds of sockets of a driver that take a path with each message.
const WITHOUT_CONNECTION: [u64; 2] = [libc::SOCK_DGRAM as u64, libc::SOCK_RAW as u64];
/// The kind, without flags.
const KIND_MASK: u64 = 0xf;
/// What a special file is: which bits say it, and the kinds that nobody makes.
const KIND_OF_FILE: u64 = libc::S_IFMT as u64;
const DEVICES: [u64; 3] = [libc::S_IFCHR as u64, libc::S_IFBLK as u64, libc::S_IFSOCK as u64];

/// Filters the calls of this process and of all that come from it.
pub(super) fn filter(calls: Calls) -> LayerState {
    let lacks_gate = calls == Calls::Compiling && !gate::is_available();
    match install(calls) {
        Ok(count) if lacks_gate => not_available(format!(
            "{count} calls are allowed, but the kernel has no `openat2`, so that a source can \
             include what the compiler may read"
        )),
        Ok(count) => LayerState::Enforced(match calls {
            Calls::Computing => format!("{count} calls allowed"),
            Calls::Compiling => format!("{count} calls allowed; files by name: only headers"),
            Calls::Driver | Calls::Programs | Calls::Watching => format!("{count} calls refused"),
        }),
        Err(error) => not_available(error),
    }
}

fn install(calls: Calls) -> Result<usize, Error> {
    let permission = SeccompAction::Errno(libc::EPERM as u32);
    let (rules, action, otherwise) = match calls {
        Calls::Computing => (allowed()?, SeccompAction::Allow, permission),
        Calls::Compiling => (allowed_to_compilers()?, SeccompAction::Allow, permission),
        Calls::Driver | Calls::Programs | Calls::Watching => {
            (refused(calls)?, permission, SeccompAction::Allow)
        }
    };
    let count = rules.len();
    // Its arguments are in memory, where no filter sees them; without it the C library takes
    // `clone`, whose flags can be seen.
    let unseen = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    apply_filter(&no_other_numbers())?;
    apply_filter(&compile(unseen, unknown, SeccompAction::Allow)?)?;
    // The last one: it may refuse the call that installs filters.
    apply_filter(&compile(rules, action, otherwise)?)?;
    Ok(count)
}

fn compile(
    rules: Rules,
    action: SeccompAction,
    otherwise: SeccompAction,
) -> Result<BpfProgram, Error> {
    let arch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, action, arch)?.try_into()?)
}

/// Refuses the calls of another convention of the same processor, whose numbers begin here: a list
/// of what is refused would not know them.
fn no_other_numbers() -> BpfProgram {
    const FIRST_OTHER: u32 = 0x4000_0000;
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    let statement = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        // The number of the call; then one of two answers.
        statement((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0),
        statement((libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16, 0, 1, FIRST_OTHER),
        statement((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, refused.into()),
        statement((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, SeccompAction::Allow.into()),
    ]
}

/// What is allowed where nothing else is.
fn allowed() -> Result<Rules, Error> {
    let calls = COMPUTING.iter().chain(COMPUTING_OLDER);
    let mut rules: Rules = calls.map(|call| (*call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    let flag = libc::CLONE_THREAD as u64;
    let thread = condition(0, SeccompCmpOp::MaskedEq(flag), flag)?;
    for (call, conditions) in [
        // A thread is no process: nothing can be left behind.
        (libc::SYS_clone, vec![thread]),
        (libc::SYS_tgkill, vec![condition(0, SeccompCmpOp::Eq, own)?]),
        (libc::SYS_prlimit64, vec![condition(0, SeccompCmpOp::Eq, 0)?]),
    ] {
        rules.insert(call, vec![SeccompRule::new(conditions)?]);
    }
    let naming: Result<_, Error> = NAMING.iter().map(|name| equals(0, *name)).collect();
    rules.insert(libc::SYS_prctl, naming?);
    let own: Result<_, Error> =
        DESCRIPTORS.iter().map(|word| equals(1, word.unsigned_abs().into())).collect();
    rules.insert(libc::SYS_fcntl, own?);
    Ok(rules)
}

/// As that, and what it takes to leave itself less.
fn allowed_to_compilers() -> Result<Rules, Error> {
    let mut rules = allowed()?;
    rules.extend(NARROWING.iter().map(|call| (*call, Vec::new())));
    // Which files the gate opens, it says itself, and below it the other layers.
    rules.insert(libc::SYS_openat2, Vec::new());
    let naming = rules.entry(libc::SYS_prctl).or_default();
    naming.push(equals(0, libc::PR_SET_NO_NEW_PRIVS as u64)?);
    Ok(rules)
}

/// Leaves this process no file by name but through the gate, whose handler is there already, and
/// no further change of what holds it.
pub(super) fn behind_the_gate() -> Result<(), Error> {
    let whole = |calls: &[c_long]| -> Rules { calls.iter().map(|it| (*it, Vec::new())).collect() };
    // By a descriptor everything may be looked at that is open.
    let by_name = |argument: u8| masked(argument, libc::AT_EMPTY_PATH as u64, 0);
    let mut answered = whole(&[BY_NAME, BY_NAME_OLDER].concat());
    answered.insert(libc::SYS_newfstatat, vec![by_name(3)?]);
    let mut absent = whole(&[TELLING, TELLING_OLDER].concat());
    absent.insert(libc::SYS_statx, vec![by_name(2)?]);
    let errno = |error: libc::c_int| SeccompAction::Errno(error as u32);
    apply_filter(&compile(answered, SeccompAction::Trap, SeccompAction::Allow)?)?;
    apply_filter(&compile(absent, errno(libc::ENOENT), SeccompAction::Allow)?)?;
    // The last one: it refuses the call that installs filters.
    apply_filter(&compile(whole(NARROWING), errno(libc::EPERM), SeccompAction::Allow)?)
}

/// What is refused where the rest is allowed.
fn refused(calls: Calls) -> Result<Rules, Error> {
    let watches = calls == Calls::Watching;
    let starts_programs = watches || calls == Calls::Programs;
    let all = REFUSED.iter().chain(REFUSED_OLDER);
    let others: &[c_long] = if watches { &[] } else { REFUSED_TO_ALL_BUT_WATCHERS };
    let leaving: &[c_long] = if starts_programs { &[] } else { REFUSED_TO_DRIVERS };
    let calls = all.chain(others).chain(leaving);
    let mut rules: Rules = calls.map(|call| (*call, Vec::new())).collect();
    let new_namespaces: Result<_, Error> = NEW_NAMESPACES
        .iter()
        .map(|flag| flag.unsigned_abs().into())
        .map(|flag: u64| one(condition(0, SeccompCmpOp::MaskedEq(flag), flag)?))
        .collect();
    rules.insert(libc::SYS_clone, new_namespaces?);
    let terminal: Result<_, Error> = TERMINAL_INPUT.iter().map(|word| equals(1, *word)).collect();
    rules.insert(libc::SYS_ioctl, terminal?);
    let families = if starts_programs { &FAMILIES_OF_PROGRAMS[..] } else { &FAMILIES[..] };
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let family = |family: &libc::c_int| condition(0, SeccompCmpOp::Ne, *family as u64);
        let others: Result<_, Error> = families.iter().map(family).collect();
        let mut refused = vec![SeccompRule::new(others?)?];
        for kind in WITHOUT_CONNECTION.iter().filter(|_| !starts_programs) {
            refused.push(masked(1, KIND_MASK, *kind)?);
        }
        rules.insert(call, refused);
    }
    for (call, kind) in SPECIAL_FILES {
        // Tools talk to what they start through named pipes, which are files like others.
        let devices = DEVICES.iter().filter(|_| watches);
        let refused: Result<_, Error> =
            devices.map(|it| masked(*kind, KIND_OF_FILE, *it)).collect();
        rules.insert(*call, refused?);
    }
    if !starts_programs {
        // Its end with its parent is not its own to undo.
        rules.insert(libc::SYS_prctl, vec![equals(0, libc::PR_SET_PDEATHSIG as u64)?]);
    }
    Ok(rules)
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompRule, Error> {
    one(condition(argument, SeccompCmpOp::MaskedEq(mask), value)?)
}

fn equals(argument: u8, value: u64) -> Result<SeccompRule, Error> {
    one(condition(argument, SeccompCmpOp::Eq, value)?)
}

fn one(condition: SeccompCondition) -> Result<SeccompRule, Error> {
    Ok(SeccompRule::new(vec![condition])?)
}

/// Of the lower half of an argument, which is all that the kernel looks at here.
fn condition(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)?)
}
