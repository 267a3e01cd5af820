//! Which system calls are left to children, and which are refused.

use libc::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER,
    CLONE_NEWUTS, c_long,
};

/// What computing in threads takes, with any arguments.
pub(super) const COMPUTING: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munmap,
    // Files; which ones, the other layers say.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Threads of this process, and waiting.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Refused by a filter of its own, so that the C library takes the older one.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettimeofday,
    libc::SYS_membarrier,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    // What it is and what it has.
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
];

/// The same, where a processor has older forms.
#[cfg(target_arch = "x86_64")]
pub(super) const COMPUTING_OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const COMPUTING_OLDER: &[c_long] = &[];

/// What the compiler's child takes besides, to narrow itself once its libraries are loaded.
pub(super) const NARROWING: &[c_long] = &[
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_seccomp,
];

/// Calls that open or look for a file by its name: behind the gate a handler answers them.
pub(super) const BY_NAME: &[c_long] = &[libc::SYS_openat];
/// The same, where a processor has older forms.
#[cfg(target_arch = "x86_64")]
pub(super) const BY_NAME_OLDER: &[c_long] = &[libc::SYS_lstat, libc::SYS_open, libc::SYS_stat];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const BY_NAME_OLDER: &[c_long] = &[];

/// Calls that tell of a file by its name and that no compiler needs: behind the gate there is none.
pub(super) const TELLING: &[c_long] =
    &[libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_statfs];
/// The same, where a processor has older forms.
#[cfg(target_arch = "x86_64")]
pub(super) const TELLING_OLDER: &[c_long] = &[libc::SYS_access, libc::SYS_readlink];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const TELLING_OLDER: &[c_long] = &[];

/// What nothing of ours needs, whatever drives a GPU.
pub(super) const REFUSED: &[c_long] = &[
    // Mounts and roots.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_umount2,
    // Namespaces.
    libc::SYS_setns,
    libc::SYS_unshare,
    // Keys.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Modules and kernels.
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    // Wide doors of the kernel.
    libc::SYS_bpf,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_lookup_dcookie,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    // Files by handle.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Another user.
    libc::SYS_capset,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    // The machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_personality,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
];

/// The same, where a processor has older forms.
#[cfg(target_arch = "x86_64")]
pub(super) const REFUSED_OLDER: &[c_long] = &[
    libc::SYS__sysctl,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_modify_ldt,
    libc::SYS_sysfs,
    libc::SYS_uselib,
    libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REFUSED_OLDER: &[c_long] = &[];

/// Other processes' memory and descriptors.
pub(super) const REFUSED_TO_ALL_BUT_WATCHERS: &[c_long] = &[
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
];

/// Leaving the group that is killed, and calling on servers of this machine.
pub(super) const REFUSED_TO_DRIVERS: &[c_long] =
    &[libc::SYS_connect, libc::SYS_setpgid, libc::SYS_setsid];

/// Calls that make special files, with the place of the argument that says of which kind.
#[cfg(target_arch = "x86_64")]
pub(super) const SPECIAL_FILES: &[(c_long, u8)] = &[(libc::SYS_mknodat, 2), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const SPECIAL_FILES: &[(c_long, u8)] = &[(libc::SYS_mknodat, 2)];

/// Flags that make a new process the first of a namespace.
pub(super) const NEW_NAMESPACES: [libc::c_int; 7] = [
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
];

/// Requests that put words into somebody's terminal.
pub(super) const TERMINAL_INPUT: [u64; 2] = [libc::TIOCSTI, 0x541C];
