//! The gate of files: the kernel hands each call that names a file to a handler in this process,
//! which opens what is below a few folders, under names of our own, and knows of nothing else.
//!
//! It is for a program that does what a foreign text says, as a compiler that includes files: the
//! text can name nothing else, and cannot even learn whether it is there. It is no wall against
//! code that runs in this process; Landlock is. Start at [`open`].

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::limits::{GATE_FOLDERS_MAX, GATE_TRIES_MAX};

/// What stays below a folder, whatever links and `..` a name holds.
const BENEATH: u64 = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
/// What is not told as an absence: it says nothing of a file.
const TOLD: [c_int; 3] = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];

/// The names of folders, and the folders.
static FOLDERS: OnceLock<Vec<(Vec<u8>, OwnedFd)>> = OnceLock::new();

/// Whether the kernel has the call by which the gate opens.
pub(crate) fn is_available() -> bool {
    let opened = beneath(libc::AT_FDCWD, c".", libc::O_PATH);
    if let Ok(fd) = c_int::try_from(opened)
        && fd >= 0
    {
        // SAFETY: the descriptor was made above and has no other owner.
        unsafe { libc::close(fd) };
    }
    opened != -i64::from(libc::ENOSYS)
}

/// Installs the handler, which knows these folders by these names. It is called once the kernel
/// refuses the calls, which is the filter's part.
pub(crate) fn open<'a>(folders: impl Iterator<Item = (&'a Path, OwnedFd)>) -> Result<(), String> {
    let folders = folders.map(|(name, fd)| (name.as_os_str().as_bytes().to_vec(), fd));
    let folders: Vec<_> = folders.take(GATE_FOLDERS_MAX).collect();
    FOLDERS.set(folders).map_err(|_| "it was done before".to_owned())?;
    // SAFETY: all of its fields are numbers or empty sets, for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = answer;
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the handler takes no lock, allocates nothing, and leaves the error number as it was.
    match unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().to_string()),
    }
}

/// Answers one call in the place of the kernel.
extern "C" fn answer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over the registers of the thread that made the call, which waits.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // SAFETY: the address of this thread's error number.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's alone.
    let before = unsafe { *error };
    let (number, arguments) = registers::call(context);
    registers::set_result(context, perform(number, arguments));
    // SAFETY: as above.
    unsafe { *error = before };
}

fn perform(number: i64, [a, b, c]: [usize; 3]) -> i64 {
    match number {
        libc::SYS_openat => open_named(b, c),
        libc::SYS_newfstatat => look_at(b, c),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => open_named(a, b),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_stat | libc::SYS_lstat => look_at(a, b),
        _ => {
            let _ = a;
            -i64::from(libc::ENOSYS)
        }
    }
}

/// Opens for reading.
fn open_named(name: usize, flags: usize) -> i64 {
    let flags = flags as c_int;
    if flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != libc::O_RDONLY {
        return -i64::from(libc::EACCES);
    }
    named(name, libc::O_RDONLY | libc::O_CLOEXEC)
}

/// Writes what there is to say of a file to where the caller wants it.
fn look_at(name: usize, status: usize) -> i64 {
    let fd = named(name, libc::O_PATH | libc::O_CLOEXEC);
    if fd < 0 {
        return fd;
    }
    let status: *mut c_void = std::ptr::with_exposed_provenance_mut(status);
    // SAFETY: the caller gave the address for just this; the descriptor is closed once, here.
    unsafe {
        let told = result(libc::syscall(libc::SYS_fstat, fd, status));
        libc::close(fd as c_int);
        told
    }
}

/// Opens what has this name; of what cannot be opened nothing is told, not even that it is there.
fn named(name: usize, flags: c_int) -> i64 {
    let absent = -i64::from(libc::ENOENT);
    if name == 0 {
        return -i64::from(libc::EFAULT);
    }
    // SAFETY: the caller's name of a file ends in NUL, and it waits until the call is over.
    let name = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance::<c_char>(name)) };
    let folders = FOLDERS.get().map_or(&[][..], Vec::as_slice);
    let found = folders.iter().find_map(|(folder, fd)| Some((fd, below(name, folder)?)));
    let Some((folder, rest)) = found else { return absent };
    let opened = beneath(folder.as_raw_fd(), rest, flags);
    match opened {
        0.. => opened,
        error if TOLD.iter().any(|it| error == -i64::from(*it)) => error,
        _ => absent,
    }
}

/// The rest of a name below a folder's.
fn below<'a>(name: &'a CStr, folder: &[u8]) -> Option<&'a CStr> {
    let rest = name.to_bytes_with_nul().strip_prefix(folder)?;
    match rest {
        [0] => Some(c"."),
        [b'/', ..] => {
            let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
            let rest = CStr::from_bytes_with_nul(&rest[slashes..]).ok()?;
            Some(if rest.is_empty() { c"." } else { rest })
        }
        _ => None,
    }
}

/// Opens what is below a folder, wherever a name leads.
fn beneath(folder: c_int, name: &CStr, flags: c_int) -> i64 {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from(flags.unsigned_abs());
    how.resolve = BENEATH;
    let size = size_of::<libc::open_how>();
    for _ in 0..GATE_TRIES_MAX {
        let words = (folder, name.as_ptr(), &raw const how, size);
        // SAFETY: the name ends in NUL, and the kernel reads both until the call is over.
        let raw = unsafe { libc::syscall(libc::SYS_openat2, words.0, words.1, words.2, words.3) };
        let opened = result(raw);
        // Somebody moved a file just now, and whether this stays below is not sure.
        if opened != -i64::from(libc::EAGAIN) {
            return opened;
        }
    }
    -i64::from(libc::EAGAIN)
}

/// A result as the kernel gives it.
fn result(raw: i64) -> i64 {
    if raw >= 0 {
        return raw;
    }
    // SAFETY: it is this thread's error number.
    -i64::from(unsafe { *libc::__errno_location() })
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use libc::{REG_RAX, REG_RDI, REG_RDX, REG_RSI, greg_t, ucontext_t};

    fn register(context: &ucontext_t, index: libc::c_int) -> greg_t {
        context.uc_mcontext.gregs[index as usize]
    }

    pub(super) fn call(context: &ucontext_t) -> (i64, [usize; 3]) {
        let argument = |index| register(context, index).cast_unsigned() as usize;
        (register(context, REG_RAX), [REG_RDI, REG_RSI, REG_RDX].map(argument))
    }

    pub(super) fn set_result(context: &mut ucontext_t, result: i64) {
        context.uc_mcontext.gregs[REG_RAX as usize] = result;
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use libc::ucontext_t;

    pub(super) fn call(context: &ucontext_t) -> (i64, [usize; 3]) {
        let registers = &context.uc_mcontext.regs;
        (registers[8].cast_signed(), [0, 1, 2].map(|index| registers[index] as usize))
    }

    pub(super) fn set_result(context: &mut ucontext_t, result: i64) {
        context.uc_mcontext.regs[0] = result.cast_unsigned();
    }
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_name_is_below_a_folder_or_nothing() {
        for (name, rest) in [
            (c"/dev/null/<cuda>/a/b.h", Some(c"a/b.h")),
            (c"/dev/null/<cuda>//a", Some(c"a")),
            (c"/dev/null/<cuda>", Some(c".")),
            (c"/dev/null/<cuda>/", Some(c".")),
            (c"/dev/null/<cuda>x/a", None),
            (c"/dev/null/a", None),
            (c"/etc/passwd", None),
            (c"a", None),
            (c"", None),
        ] {
            assert_eq!(below(name, b"/dev/null/<cuda>"), rest, "{name:?}");
        }
    }
}
