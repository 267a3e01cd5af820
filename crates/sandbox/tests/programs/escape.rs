//! A child that tries to get out: each attempt is made for real, and what came of it is reported.
#![allow(clippy::unwrap_used, reason = "a part that cannot go on panics, which is a crash")]
#![allow(
    unsafe_code,
    reason = "the attempts are system calls, most of them made as an attacker would"
)]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
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
    tcp_port: u16,
    udp_port: u16,
    abstract_name: String,
    socket_path: String,
    shared_memory: i32,
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
    ("ptrace", trace),
    ("signal", |targets| done(unsafe { libc::kill(targets.victim, libc::SIGCONT) })),
    ("tcp", |targets| TcpStream::connect(("127.0.0.1", targets.tcp_port)).map(drop)),
    ("udp", |targets| {
        UdpSocket::bind("0.0.0.0:0")?.send_to(b"out", ("127.0.0.1", targets.udp_port)).map(drop)
    }),
    ("abstract_socket", |targets| {
        let address = SocketAddr::from_abstract_name(&targets.abstract_name)?;
        UnixStream::connect_addr(&address).map(drop)
    }),
    ("named_socket", |targets| UnixStream::connect(&targets.socket_path).map(drop)),
    ("packet_socket", |_| {
        opened(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE) })
    }),
    ("shared_memory", |targets| {
        let at = unsafe { libc::shmat(targets.shared_memory, std::ptr::null(), libc::SHM_RDONLY) };
        done(if at.addr() == usize::MAX { -1 } else { 0 })
    }),
    ("fork_bomb", fork_bomb),
    ("program", |_| reached(call(libc::SYS_execve, [0, 0, 0, 0]), libc::EFAULT)),
    ("memory", fill_memory),
    ("large_file", |_| {
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let mut file = File::create("large")?;
        (0..4).try_for_each(|_| file.write_all(&[1; 1 << 20]))
    }),
    ("many_files", |_| (0..1200).try_for_each(|i| File::create(format!("f{i}")).map(drop))),
    ("other_user", |_| done(unsafe { libc::setresuid(0, 0, 0) })),
    ("mount", |_| {
        let name = CString::new("tmpfs").unwrap();
        opened(call(libc::SYS_fsopen, [name.as_ptr().addr(), 0, 0, 0]) as i32)
    }),
    ("module", |_| reached(call(libc::SYS_delete_module, [0, 0, 0, 0]), libc::EFAULT)),
    ("keys", |_| {
        let spec = (-3_isize).cast_unsigned();
        done(call(libc::SYS_keyctl, [0, spec, 1, 0]) as i32)
    }),
    ("bpf", |_| reached(call(libc::SYS_bpf, [usize::MAX >> 33, 0, 0, 0]), libc::EINVAL)),
    ("io_uring", |_| reached(call(libc::SYS_io_uring_setup, [1, 0, 0, 0]), libc::EFAULT)),
    ("performance", |_| reached(call(libc::SYS_perf_event_open, [0, 0, 0, 0]), libc::EFAULT)),
    ("page_faults", |_| opened(call(libc::SYS_userfaultfd, [1, 0, 0, 0]) as i32)),
    // The last one: from then on this is in another world.
    ("namespace", |_| done(unsafe { libc::unshare(libc::CLONE_NEWUSER) })),
];

fn main() -> ExitCode {
    let Ok(mut inside) = Inside::begin() else { return ExitCode::from(EXIT_OUR_BUG) };
    let targets: Targets = inside.read_request().unwrap();
    let code = match targets.part.as_str() {
        "daemon" => daemon(inside),
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

/// 0 where it worked.
fn outcome(result: io::Result<()>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn opened(fd: i32) -> io::Result<()> {
    done(fd)?;
    done(unsafe { libc::close(fd) })
}

/// A call with arguments that make no sense is there when the kernel says so.
fn reached(result: i64, sign: i32) -> io::Result<()> {
    match done(result as i32) {
        Err(error) if error.raw_os_error() == Some(sign) => Ok(()),
        other => other,
    }
}

fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> i64 {
    unsafe { libc::syscall(number, a, b, c, d, 0) }
}

fn read_memory(targets: &Targets) -> io::Result<()> {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Nothing is mapped there, which is only found out by who may look.
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(8), iov_len: 1 };
    let read = unsafe { libc::process_vm_readv(targets.victim, &local, 1, &remote, 1, 0) };
    reached(read as i64, libc::EFAULT)
}

fn trace(targets: &Targets) -> io::Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    done(unsafe { libc::ptrace(libc::PTRACE_SEIZE, targets.victim, nothing, nothing) } as i32)?;
    unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, targets.victim, nothing, nothing) };
    let mut status = 0;
    unsafe { libc::waitpid(targets.victim, &raw mut status, libc::__WALL) };
    done(unsafe { libc::ptrace(libc::PTRACE_DETACH, targets.victim, nothing, nothing) } as i32)
}

/// More processes than the limit of the test allows.
fn fork_bomb(_: &Targets) -> io::Result<()> {
    let mut children = Vec::new();
    let mut result = Ok(());
    for _ in 0..40 {
        match unsafe { libc::fork() } {
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
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    result
}

/// More memory than the limit of the test allows.
fn fill_memory(_: &Targets) -> io::Result<()> {
    const BYTES: usize = 256 << 20;
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let at = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
    done(if at == libc::MAP_FAILED { -1 } else { 0 })?;
    done(unsafe { libc::munmap(at, BYTES) })
}

/// Leaves a process behind that has left the group and counts in shared memory for seconds.
fn daemon(inside: Inside) -> u8 {
    let mut memory = inside.bulk(0).unwrap();
    match unsafe { libc::fork() } {
        -1 => return inside.write_report(&outcome(done(-1))).unwrap(),
        0 => {
            let own_session = unsafe { libc::setsid() };
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
