//! A child that tries to get out: each attempt is made for real, and what came of it is reported.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a part that cannot go on panics, which is a crash; attempts are system calls"
)]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use sandbox::EXIT_OUR_BUG;
use sandbox::inside::Inside;
use serde::Deserialize;

/// What the test has laid out to be reached.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Targets {
    /// `all`, or what takes a child of its own.
    part: String,
    /// A file that everybody may read, as a ledger is, and one that only its owner may.
    open_file: String,
    private_file: String,
    /// A process that sleeps.
    victim: i32,
    /// Who started this child.
    #[serde(default)]
    parent: i32,
    tcp_port: u16,
    udp_port: u16,
    abstract_name: String,
    socket_path: String,
    shared_memory: i32,
    /// A folder of headers, of one of which a compiler would be told.
    #[serde(default)]
    headers: PathBuf,
}

type Attempt = fn(&Targets) -> io::Result<()>;

const ATTEMPTS: &[(&str, Attempt)] = &[
    ("ledger", |targets| File::open(&targets.open_file).map(drop)),
    ("home", |targets| File::open(&targets.private_file).map(drop)),
    ("shadow", |_| File::open("/etc/shadow").map(drop)),
    ("device", |_| File::open("/dev/full").map(drop)),
    ("environment", |targets| fs::read(format!("/proc/{}/environ", targets.victim)).map(drop)),
    ("memory_file", |targets| File::open(format!("/proc/{}/mem", targets.victim)).map(drop)),
    ("memory_call", read_memory),
    ("ptrace", |targets| trace(targets.victim)),
    ("signal", |targets| {
        done(call(libc::SYS_kill, [number(targets.victim), number(libc::SIGCONT), 0, 0]))
    }),
    ("parent_environment", |targets| {
        fs::read(format!("/proc/{}/environ", targets.parent)).map(drop)
    }),
    ("parent_memory_file", |targets| File::open(format!("/proc/{}/mem", targets.parent)).map(drop)),
    ("parent_ptrace", |targets| trace(targets.parent)),
    ("parent_signal", |targets| {
        done(call(libc::SYS_kill, [number(targets.parent), number(libc::SIGCONT), 0, 0]))
    }),
    ("servers", |_| {
        let absent = || io::Error::from_raw_os_error(libc::ENOENT);
        fs::read_dir("/run")?.next().ok_or_else(absent)?.map(drop)
    }),
    ("tcp", |targets| TcpStream::connect(("127.0.0.1", targets.tcp_port)).map(drop)),
    ("udp", |targets| {
        UdpSocket::bind("0.0.0.0:0")?.send_to(b"out", ("127.0.0.1", targets.udp_port)).map(drop)
    }),
    ("abstract_socket", |targets| {
        let address = SocketAddr::from_abstract_name(&targets.abstract_name)?;
        UnixStream::connect_addr(&address).map(drop)
    }),
    ("named_socket", |targets| UnixStream::connect(&targets.socket_path).map(drop)),
    ("datagram", |targets| {
        // It is there when it says that it takes no datagrams.
        let sent = UnixDatagram::unbound()?.send_to(b"out", &targets.socket_path);
        let there = Some(libc::EPROTOTYPE);
        sent.map(drop).or_else(
            |error| {
                if error.raw_os_error() == there { Ok(()) } else { Err(error) }
            },
        )
    }),
    ("packet_socket", |_| {
        let words = [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE, 0];
        opened(call(libc::SYS_socket, words.map(number)))
    }),
    ("shared_memory", |targets| {
        done(call(libc::SYS_shmat, [number(targets.shared_memory), 0, 0, 0]))
    }),
    ("fork_bomb", fork_bomb),
    ("program", |_| reached(call(libc::SYS_execve, [0, 0, 0, 0]), libc::EFAULT)),
    ("memory", fill_memory),
    ("large_file", |_| {
        // SAFETY: a signal that is ignored runs no code.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let mut file = File::create("large")?;
        (0..4).try_for_each(|_| file.write_all(&[1; 1 << 20]))
    }),
    ("many_files", |_| (0..1200).try_for_each(|i| File::create(format!("f{i}")).map(drop))),
    ("special_file", |_| special_file(libc::S_IFCHR)),
    ("other_user", |_| done(call(libc::SYS_setresuid, [0; 4]))),
    ("mount", |_| {
        let name = CString::new("tmpfs").unwrap();
        opened(call(libc::SYS_fsopen, [name.as_ptr().addr(), 0, 0, 0]))
    }),
    ("switches", |_| File::options().write(true).open("/proc/sys/kernel/core_pattern").map(drop)),
    ("module", |_| reached(call(libc::SYS_delete_module, [0, 0, 0, 0]), libc::EFAULT)),
    ("keys", |_| {
        let spec = (-3_isize).cast_unsigned();
        done(call(libc::SYS_keyctl, [0, spec, 1, 0]))
    }),
    ("bpf", |_| reached(call(libc::SYS_bpf, [usize::MAX >> 33, 0, 0, 0]), libc::EINVAL)),
    ("io_uring", |_| reached(call(libc::SYS_io_uring_setup, [1, 0, 0, 0]), libc::EFAULT)),
    ("performance", |_| reached(call(libc::SYS_perf_event_open, [0, 0, 0, 0]), libc::EFAULT)),
    ("namespace_of_a_child", |_| {
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        match call(libc::SYS_clone, [number(flags), 0, 0, 0]) {
            // SAFETY: the new process ends here.
            0 => unsafe { libc::_exit(0) },
            child => {
                done(child)?;
                done(call(libc::SYS_wait4, [child as usize, 0, 0, 0]))
            }
        }
    }),
    ("page_faults", |_| opened(call(libc::SYS_userfaultfd, [1, 0, 0, 0]))),
    // The last one: from then on this is in another world.
    ("namespace", |_| done(call(libc::SYS_unshare, [number(libc::CLONE_NEWUSER), 0, 0, 0]))),
];

/// Makes a file of a kind in the working folder; its device is that of `/dev/full`.
fn special_file(kind: libc::mode_t) -> io::Result<()> {
    let name = CString::new("special").unwrap();
    let mode = (kind | 0o600) as usize;
    let folder = (libc::AT_FDCWD as isize).cast_unsigned();
    done(call(libc::SYS_mknodat, [folder, name.as_ptr().addr(), mode, 0x107]))?;
    fs::remove_file("special")
}

fn main() -> ExitCode {
    let Ok(mut inside) = Inside::begin() else { return ExitCode::from(EXIT_OUR_BUG) };
    let targets: Targets = inside.read_request().unwrap();
    let code = match targets.part.as_str() {
        "daemon" => daemon(inside),
        "headers" => headers(inside, &targets),
        "make_memory" => {
            let made = call(libc::SYS_shmget, [number(libc::IPC_PRIVATE), 4096, 0o666, 0]);
            inside.write_report(&made).unwrap()
        }
        "drop_memory" => {
            let words = [targets.shared_memory, libc::IPC_RMID, 0, 0];
            let dropped = call(libc::SYS_shmctl, words.map(number));
            inside.write_report(&dropped).unwrap()
        }
        "named_pipe" => {
            let made = special_file(libc::S_IFIFO);
            inside.write_report(&made.err().and_then(|error| error.raw_os_error())).unwrap()
        }
        "who" => {
            let who = [libc::SYS_geteuid, libc::SYS_getuid, libc::SYS_getegid, libc::SYS_getgid];
            let numbers = who.map(|it| call(it, [0; 4]));
            let groups = call(libc::SYS_getgroups, [0; 4]);
            inside.write_report(&(numbers, groups)).unwrap()
        }
        "fill" => {
            // Files that are short enough each.
            let write = |i: usize| fs::write(format!("part{i}"), vec![1; 1 << 20]);
            let written = (0..80).map_while(|i| write(i).ok()).count();
            inside.write_report(&written).unwrap()
        }
        _ => {
            let outcomes: BTreeMap<_, _> =
                ATTEMPTS.iter().map(|(name, attempt)| (name, outcome(attempt(&targets)))).collect();
            inside.write_report(&outcomes).unwrap()
        }
    };
    ExitCode::from(code)
}

/// What a child opens and finds once it has left itself a folder of headers, with a name.
fn headers(inside: Inside, targets: &Targets) -> u8 {
    let name = "/dev/null/headers";
    let named = inside.leave_folders(&[(targets.headers.clone(), name.into())]).unwrap();
    let below = |rest: &str| format!("{name}/{rest}");
    let (by_path, outside) = (targets.headers.join("a.h"), &targets.open_file);
    let open = |path: &str| outcome(File::open(path).map(drop));
    let find = |path: &str| outcome(fs::metadata(path).map(drop));
    let text = fs::read_to_string(below("a.h")).unwrap_or_default();
    let length = fs::File::open(below("a.h")).and_then(|file| file.metadata());
    let absolute = CString::new(outside.as_str()).unwrap();
    let how = [libc::O_RDONLY as u64, 0, 0];
    let words = [0, absolute.as_ptr().addr(), how.as_ptr().addr(), size_of_val(&how)];
    let past = opened(call(libc::SYS_openat2, words));
    let mut status = [0_u64; 64];
    let mut look = |path: &str| {
        let path = CString::new(path).unwrap();
        let here = (libc::AT_FDCWD as isize).cast_unsigned();
        let words = [here, path.as_ptr().addr(), status.as_mut_ptr().addr(), 0];
        outcome(done(call(libc::SYS_newfstatat, words)))
    };
    let report = serde_json::json!({
        "named": named,
        "text": text,
        "length": length.map_or(0, |found| found.len()),
        "header_by_path": open(by_path.to_str().unwrap()),
        "file": open(outside),
        "absent": open("/dev/null/headers/b.h"),
        "climbing": open(&below("../ledger.db")),
        "climbing_within": open(&below("folder/../a.h")),
        "link": open(&below("link")),
        "found": find(outside),
        "looked_at": look(outside),
        "header_looked_at": look(&below("a.h")),
        "folder_looked_at": look(name),
        "past_the_gate": outcome(past),
        "written": outcome(File::create(below("new")).map(drop)),
        "more_rules": outcome(reached(
            call(libc::SYS_landlock_create_ruleset, [0, 0, 2, 0]), libc::EINVAL)),
        "more_filters": outcome(reached(call(libc::SYS_seccomp, [99, 0, 0, 0]), libc::EINVAL)),
    });
    inside.write_report(&report).unwrap()
}

/// 0 where it worked.
fn outcome(result: io::Result<()>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn done(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn opened(fd: i64) -> io::Result<()> {
    done(fd)?;
    done(call(libc::SYS_close, [fd as usize, 0, 0, 0]))
}

/// A call with arguments that make no sense is there when the kernel says so.
fn reached(result: i64, sign: i32) -> io::Result<()> {
    match done(result) {
        Err(error) if error.raw_os_error() == Some(sign) => Ok(()),
        other => other,
    }
}

fn number(word: i32) -> usize {
    word.unsigned_abs() as usize
}

fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> i64 {
    // SAFETY: no attempt hands memory of this process to the kernel for writing, but for its own
    // words, which live until the call is over.
    unsafe { libc::syscall(number, a, b, c, d, 0) }
}

/// Forks; 0 in the new process.
fn fork() -> i32 {
    // SAFETY: this process has one thread.
    unsafe { libc::fork() }
}

fn read_memory(targets: &Targets) -> io::Result<()> {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Nothing is mapped there, which is only found out by who may look.
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(8), iov_len: 1 };
    // SAFETY: both lists have one entry, and the byte of the first is ours.
    let read = unsafe { libc::process_vm_readv(targets.victim, &local, 1, &remote, 1, 0) };
    reached(read as i64, libc::EFAULT)
}

fn trace(victim: i32) -> io::Result<()> {
    let victim = number(victim);
    let trace = |what: libc::c_uint| call(libc::SYS_ptrace, [what as usize, victim, 0, 0]);
    done(trace(libc::PTRACE_SEIZE))?;
    trace(libc::PTRACE_INTERRUPT);
    call(libc::SYS_wait4, [victim, 0, number(libc::__WALL), 0]);
    done(trace(libc::PTRACE_DETACH))
}

/// More processes than the limit of the test allows.
fn fork_bomb(_: &Targets) -> io::Result<()> {
    let mut children = Vec::new();
    let mut result = Ok(());
    for _ in 0..40 {
        match fork() {
            -1 => {
                result = Err(io::Error::last_os_error());
                break;
            }
            0 => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            child => children.push(child),
        }
    }
    for child in children {
        call(libc::SYS_kill, [number(child), number(libc::SIGKILL), 0, 0]);
        call(libc::SYS_wait4, [number(child), 0, 0, 0]);
    }
    result
}

/// More memory than the limit of the test allows.
fn fill_memory(_: &Targets) -> io::Result<()> {
    const BYTES: usize = 256 << 20;
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(BYTES).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// Leaves a process behind that has left the group and counts in shared memory for seconds.
fn daemon(inside: Inside) -> u8 {
    let mut memory = inside.bulk(0).unwrap();
    match fork() {
        -1 => return inside.write_report(&outcome(done(-1))).unwrap(),
        0 => {
            let own_session = call(libc::SYS_setsid, [0; 4]);
            let mut map = memory.map_mut().unwrap();
            map[1] = u8::from(own_session > 0);
            // It ends by itself in the end, where nothing ends it.
            for _ in 0..3000 {
                map[0] = map[0].wrapping_add(1);
                std::thread::sleep(Duration::from_millis(1));
            }
            return 0;
        }
        _ => {}
    }
    std::thread::sleep(Duration::from_millis(50));
    inside.write_report(&0).unwrap()
}
