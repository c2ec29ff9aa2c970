//! Groups of system calls, of which the roles of processes are composed.
use libc::c_long;

/// System calls that serve one purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CallGroup {
    /// Memory of the process.
    Memory,
    /// Code that is loaded or compiled at run time.
    CompiledCode,
    /// Threads of the process, and its end.
    Threads,
    /// Signals that the process receives, and those that it sends to itself.
    OwnSignals,
    /// Clocks and delays.
    Time,
    /// Waiting for descriptors.
    Events,
    /// Use of open descriptors, connected sockets included.
    Descriptors,
    /// Questions about the machine and the process.
    Information,
    /// Lower limits and priorities of the process.
    Limits,
    /// Reading of files and directories.
    FileReads,
    /// Creation and change of files.
    FileChanges,
    /// Creating directories.
    DirectoryCreation,
    /// Removal of files.
    FileRemoval,
    /// Permissions of files.
    FileModes,
    /// Groups of files.
    FileGroups,
    /// Owners of files.
    FileOwners,
    /// Notices of changed files.
    FileWatches,
    /// New sockets.
    Sockets,
    /// Waiting for the end of processes.
    ProcessWatches,
    /// Signals to other processes.
    Signals,
    /// Change of user, of groups and of capabilities.
    Credentials,
    /// Processes of its own, and programs in them.
    Programs,
    /// Confinement of processes that start from here.
    Confinement,
}

/// Comparison of an argument, which the kernel takes as 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ArgumentTest {
    /// It is this value.
    Is(u32),
    /// The bits of the mask have this value.
    Bits { mask: u32, value: u32 },
}

/// Condition on an argument of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArgumentCheck {
    /// Position of the argument, from zero.
    pub(crate) position: u8,
    pub(crate) test: ArgumentTest,
}

/// System call that is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AllowedCall {
    /// Name of the number in libc.
    constant: &'static str,
    pub(crate) number: c_long,
    /// Alternatives, of which one must be met with all its conditions. Without any, the call is
    /// allowed with all arguments.
    pub(crate) alternatives: Vec<Vec<ArgumentCheck>>,
}

impl AllowedCall {
    pub(crate) fn name(&self) -> &'static str {
        self.constant.trim_start_matches("SYS_")
    }

    /// Allows the call only under these conditions, or under those of another alternative.
    fn only(mut self, conditions: impl IntoIterator<Item = ArgumentCheck>) -> AllowedCall {
        self.alternatives.push(conditions.into_iter().collect());
        self
    }
}

/// Names calls by their constants in libc.
macro_rules! calls {
    ($($call:ident)*) => { vec![$(call!($call)),*] };
}

macro_rules! call {
    ($call:ident) => {
        AllowedCall {
            constant: stringify!($call),
            number: libc::$call,
            alternatives: Vec::new(),
        }
    };
}

/// Bits of a mode that make a program run with the rights of the file's owner or group.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Operation of `ioctl` on `/proc/self/pagemap`, by which the engine finds the pages that an instance
/// wrote.
const PAGEMAP_SCAN: u32 = 0xc060_6610;

/// Mask of a socket's type, without its flags.
const SOCKET_TYPE: libc::c_int = 0xf;

/// Kinds of sockets by family, type and protocol. Other families and protocols give access to raw
/// packets, to virtual machines, and to little-used code of the kernel. Landlock restricts
/// connections of TCP alone.
const SOCKETS: [(libc::c_int, libc::c_int, &[libc::c_int]); 8] = [
    (libc::AF_UNIX, libc::SOCK_STREAM, &[0]),
    (libc::AF_UNIX, libc::SOCK_DGRAM, &[0]),
    (libc::AF_INET, libc::SOCK_STREAM, &[0, libc::IPPROTO_TCP]),
    (libc::AF_INET, libc::SOCK_DGRAM, &[0, libc::IPPROTO_UDP]),
    (libc::AF_INET6, libc::SOCK_STREAM, &[0, libc::IPPROTO_TCP]),
    (libc::AF_INET6, libc::SOCK_DGRAM, &[0, libc::IPPROTO_UDP]),
    (libc::AF_NETLINK, libc::SOCK_RAW, NETLINK),
    (libc::AF_NETLINK, libc::SOCK_DGRAM, NETLINK),
];

/// Netlink protocols: addresses of the machine, and owners of sockets.
const NETLINK: &[libc::c_int] = &[libc::NETLINK_ROUTE, libc::NETLINK_INET_DIAG];

/// Flags of `clone` that create namespaces. `CLONE_NEWTIME` is none of them: `clone` takes its bit
/// for a part of the signal number.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Operations of `prctl` that concern the calling thread alone.
const THREAD_OPTIONS: [libc::c_int; 6] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_READ,
    libc::PR_SET_VMA,
];

/// Operations of `prctl` that take rights away.
const CONFINING_OPTIONS: [libc::c_int; 6] = [
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_SET_SECCOMP,
    libc::PR_CAPBSET_DROP,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
];

/// Operations of `ioctl`: modes of descriptors, bytes that can be read, the size of a terminal.
const DESCRIPTOR_OPERATIONS: [libc::Ioctl; 6] = [
    libc::FIONBIO,
    libc::FIONREAD,
    libc::FIOCLEX,
    libc::FIONCLEX,
    libc::TCGETS,
    libc::TIOCGWINSZ,
];

impl CallGroup {
    /// All groups.
    pub const ALL: &[CallGroup] = &[
        CallGroup::Memory,
        CallGroup::CompiledCode,
        CallGroup::Threads,
        CallGroup::OwnSignals,
        CallGroup::Time,
        CallGroup::Events,
        CallGroup::Descriptors,
        CallGroup::Information,
        CallGroup::Limits,
        CallGroup::FileReads,
        CallGroup::FileChanges,
        CallGroup::DirectoryCreation,
        CallGroup::FileRemoval,
        CallGroup::FileModes,
        CallGroup::FileGroups,
        CallGroup::FileOwners,
        CallGroup::FileWatches,
        CallGroup::Sockets,
        CallGroup::ProcessWatches,
        CallGroup::Signals,
        CallGroup::Credentials,
        CallGroup::Programs,
        CallGroup::Confinement,
    ];

    /// Returns the name of the group in documents.
    pub fn name(self) -> &'static str {
        match self {
            CallGroup::Memory => "memory",
            CallGroup::CompiledCode => "compiled code",
            CallGroup::Threads => "threads",
            CallGroup::OwnSignals => "own signals",
            CallGroup::Time => "time",
            CallGroup::Events => "events",
            CallGroup::Descriptors => "descriptors",
            CallGroup::Information => "information",
            CallGroup::Limits => "limits",
            CallGroup::FileReads => "file reads",
            CallGroup::FileChanges => "file changes",
            CallGroup::DirectoryCreation => "directory creation",
            CallGroup::FileRemoval => "file removal",
            CallGroup::FileModes => "file modes",
            CallGroup::FileGroups => "file groups",
            CallGroup::FileOwners => "file owners",
            CallGroup::FileWatches => "file watches",
            CallGroup::Sockets => "sockets",
            CallGroup::ProcessWatches => "process watches",
            CallGroup::Signals => "signals",
            CallGroup::Credentials => "credentials",
            CallGroup::Programs => "programs",
            CallGroup::Confinement => "confinement",
        }
    }

    /// Returns the restriction of arguments, in words; none if there is none.
    pub fn restriction(self) -> &'static str {
        match self {
            CallGroup::Memory => "memory is not executable",
            CallGroup::CompiledCode => {
                "memory is not executable and writable at the same time; `ioctl` finds written pages"
            }
            CallGroup::Threads => {
                "`clone` makes threads; `prctl` names them and reads what they may"
            }
            CallGroup::OwnSignals => "`tgkill` only to the process itself",
            CallGroup::Events => "`socketpair` makes streams",
            CallGroup::Descriptors => {
                "`ioctl` only for modes, readable bytes and the size of a terminal"
            }
            CallGroup::Information | CallGroup::Limits => "of the process itself",
            CallGroup::FileReads => "files are opened for reading and not created",
            CallGroup::FileChanges | CallGroup::DirectoryCreation | CallGroup::FileModes => {
                "without set-user-ID and set-group-ID bits"
            }
            CallGroup::FileGroups => "the owner stays",
            CallGroup::Sockets => {
                "Unix, TCP and UDP, and netlink for addresses and owners of sockets"
            }
            CallGroup::ProcessWatches => "`prctl` adopts orphans of its processes",
            CallGroup::Programs => "no namespaces",
            CallGroup::Confinement => "`prctl` takes rights away",
            _ => "",
        }
    }

    /// Returns the names of the calls, without the older forms that some
    /// architectures have.
    pub fn call_names(self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.calls().iter().map(AllowedCall::name).collect();
        names.sort_unstable();
        names
    }

    /// Returns the calls of the group.
    pub(crate) fn calls(self) -> Vec<AllowedCall> {
        match self {
            CallGroup::Memory => {
                let mut calls =
                    calls![SYS_munmap SYS_mremap SYS_madvise SYS_brk SYS_mincore SYS_membarrier];
                let plain = [bits(2, libc::PROT_EXEC, 0)];
                calls.push(call!(SYS_mmap).only(plain));
                calls.push(call!(SYS_mprotect).only(plain));
                calls
            }
            CallGroup::CompiledCode => {
                let constant = [bits(2, libc::PROT_WRITE, 0)];
                vec![
                    call!(SYS_mmap).only(constant),
                    call!(SYS_mprotect).only(constant),
                    // Images of memories that instances share.
                    call!(SYS_memfd_create),
                    call!(SYS_ioctl).only([is(1, PAGEMAP_SCAN)]),
                ]
            }
            CallGroup::Threads => {
                let mut calls = calls![
                    SYS_futex SYS_set_robust_list SYS_get_robust_list SYS_set_tid_address SYS_rseq
                    SYS_gettid SYS_sched_yield SYS_sched_getaffinity SYS_exit SYS_exit_group
                ];
                let thread = libc::CLONE_THREAD;
                calls
                    .push(call!(SYS_clone).only([bits(0, thread, thread), bits(0, NAMESPACES, 0)]));
                calls.push(prctl(&THREAD_OPTIONS));
                calls
            }
            CallGroup::OwnSignals => {
                let mut calls = calls![
                    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending
                    SYS_rt_sigtimedwait SYS_rt_sigsuspend SYS_sigaltstack SYS_restart_syscall
                ];
                calls.push(call!(SYS_tgkill).only([is(0, std::process::id())]));
                calls
            }
            CallGroup::Time => calls![
                SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep
                SYS_gettimeofday
            ],
            CallGroup::Events => {
                let mut calls = calls![
                    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2
                    SYS_ppoll SYS_pselect6 SYS_pipe2
                ];
                // Tokio wakes itself through a pair. A pair of datagram sockets could send to
                // others.
                let stream = [is_family(libc::AF_UNIX), is_type(libc::SOCK_STREAM)];
                calls.push(call!(SYS_socketpair).only(stream));
                calls
            }
            CallGroup::Descriptors => {
                let mut calls = calls![
                    SYS_read SYS_write SYS_readv SYS_writev SYS_close SYS_close_range SYS_dup
                    SYS_dup3 SYS_fcntl SYS_fstat SYS_lseek SYS_sendto SYS_recvfrom SYS_sendmsg
                    SYS_recvmsg SYS_sendmmsg SYS_recvmmsg SYS_shutdown SYS_getsockopt
                    SYS_getsockname SYS_getpeername SYS_sendfile SYS_splice SYS_copy_file_range
                ];
                let operations = DESCRIPTOR_OPERATIONS.iter();
                calls.push(operations.fold(call!(SYS_ioctl), |call, operation| {
                    call.only([is(1, truncated(*operation))])
                }));
                calls
            }
            CallGroup::Information => {
                let mut calls = calls![
                    SYS_getpid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid
                    SYS_getresuid SYS_getresgid SYS_getgroups SYS_getpgid SYS_getsid SYS_getrusage
                    SYS_times SYS_uname SYS_sysinfo SYS_getrandom SYS_capget SYS_getpriority
                    SYS_getcpu
                ];
                calls.push(call!(SYS_prlimit64).only([is(0, 0)]));
                calls
            }
            CallGroup::Limits => vec![
                call!(SYS_prlimit64).only([is(0, 0)]),
                call!(SYS_setpriority).only([is(0, 0), is(1, 0)]),
            ],
            CallGroup::FileReads => {
                let mut calls = calls![
                    SYS_newfstatat SYS_statx SYS_faccessat SYS_faccessat2 SYS_readlinkat
                    SYS_getdents64 SYS_getcwd SYS_pread64 SYS_preadv SYS_preadv2 SYS_fadvise64
                    SYS_readahead SYS_statfs SYS_fstatfs SYS_flock
                ];
                let changing =
                    libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | temporary();
                calls.push(call!(SYS_openat).only([bits(2, changing, 0)]));
                calls
            }
            CallGroup::FileChanges => {
                let mut calls = calls![
                    SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_ftruncate SYS_truncate SYS_fallocate
                    SYS_fsync SYS_fdatasync SYS_renameat2 SYS_linkat SYS_utimensat SYS_umask
                ];
                calls.push(call!(SYS_openat).only([without_set_id(3)]));
                calls
            }
            CallGroup::DirectoryCreation => vec![call!(SYS_mkdirat).only([without_set_id(2)])],
            CallGroup::FileRemoval => calls![SYS_unlinkat],
            CallGroup::FileModes => vec![
                call!(SYS_fchmod).only([without_set_id(1)]),
                call!(SYS_fchmodat).only([without_set_id(2)]),
            ],
            // Minus one means that the owner stays.
            CallGroup::FileGroups => vec![call!(SYS_fchownat).only([is(2, u32::MAX)])],
            CallGroup::FileOwners => calls![SYS_fchownat SYS_fchown],
            CallGroup::FileWatches => calls![
                SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
            ],
            CallGroup::Sockets => {
                let mut calls = calls![
                    SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_setsockopt
                ];
                let kinds = SOCKETS.iter().flat_map(|(family, kind, protocols)| {
                    protocols
                        .iter()
                        .map(move |protocol| (family, kind, protocol))
                });
                let socket = kinds.fold(call!(SYS_socket), |call, (family, kind, protocol)| {
                    let protocol = is(2, protocol.cast_unsigned());
                    call.only([is_family(*family), is_type(*kind), protocol])
                });
                calls.push(socket);
                calls.push(call!(SYS_socketpair).only([is_family(libc::AF_UNIX)]));
                calls
            }
            CallGroup::ProcessWatches => {
                let mut calls = calls![SYS_pidfd_open SYS_waitid SYS_wait4];
                calls.push(prctl(&[libc::PR_SET_CHILD_SUBREAPER]));
                calls
            }
            CallGroup::Signals => calls![SYS_kill SYS_tgkill SYS_pidfd_send_signal],
            CallGroup::Credentials => calls![
                SYS_setuid SYS_setgid SYS_setgroups SYS_setresuid SYS_setresgid SYS_capset
            ],
            CallGroup::Programs => {
                let mut calls = calls![SYS_execve SYS_setpgid SYS_setsid SYS_chdir];
                calls.push(call!(SYS_clone).only([bits(0, NAMESPACES, 0)]));
                calls
            }
            CallGroup::Confinement => {
                let mut calls = calls![
                    SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
                    SYS_seccomp SYS_capset
                ];
                calls.push(prctl(&CONFINING_OPTIONS));
                calls
            }
        }
    }

    /// Returns the calls that do the same as others of the group and exist on this architecture.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn older_calls(self) -> Vec<AllowedCall> {
        match self {
            CallGroup::Threads => calls![SYS_arch_prctl],
            CallGroup::Time => calls![SYS_time],
            CallGroup::Events => calls![
                SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_poll SYS_select SYS_pipe
            ],
            CallGroup::Descriptors => calls![SYS_dup2],
            CallGroup::Information => calls![SYS_getpgrp SYS_getrlimit],
            CallGroup::Limits => calls![SYS_setrlimit],
            CallGroup::FileReads => {
                let mut calls = calls![SYS_stat SYS_lstat SYS_access SYS_readlink];
                let changing =
                    libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | temporary();
                calls.push(call!(SYS_open).only([bits(1, changing, 0)]));
                calls
            }
            CallGroup::FileChanges => vec![
                call!(SYS_open).only([without_set_id(2)]),
                call!(SYS_rename),
                call!(SYS_renameat),
                call!(SYS_link),
            ],
            CallGroup::DirectoryCreation => vec![call!(SYS_mkdir).only([without_set_id(1)])],
            CallGroup::FileRemoval => calls![SYS_unlink SYS_rmdir],
            CallGroup::FileModes => vec![call!(SYS_chmod).only([without_set_id(1)])],
            CallGroup::FileGroups => vec![call!(SYS_chown).only([is(1, u32::MAX)])],
            CallGroup::FileOwners => calls![SYS_chown],
            CallGroup::FileWatches => calls![SYS_inotify_init],
            CallGroup::Programs => calls![SYS_fork SYS_vfork],
            _ => Vec::new(),
        }
    }

    /// Returns the calls that do the same as others of the group and exist on this architecture.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn older_calls(self) -> Vec<AllowedCall> {
        /// Number in Linux's table for new architectures. The C library calls it, and the crate
        /// libc has no name for it.
        const RENAMEAT: c_long = 38;
        match self {
            CallGroup::FileChanges => vec![AllowedCall {
                constant: "SYS_renameat",
                number: RENAMEAT,
                alternatives: Vec::new(),
            }],
            _ => Vec::new(),
        }
    }
}

fn is(position: u8, value: u32) -> ArgumentCheck {
    ArgumentCheck {
        position,
        test: ArgumentTest::Is(value),
    }
}

/// Returns a condition on the family of a new socket.
fn is_family(family: libc::c_int) -> ArgumentCheck {
    is(0, family.cast_unsigned())
}

/// Returns a condition on the type of a new socket. Its flags are free.
fn is_type(kind: libc::c_int) -> ArgumentCheck {
    bits(1, SOCKET_TYPE, kind)
}

fn bits(position: u8, mask: libc::c_int, value: libc::c_int) -> ArgumentCheck {
    let (mask, value) = (mask.cast_unsigned(), value.cast_unsigned());
    ArgumentCheck {
        position,
        test: ArgumentTest::Bits { mask, value },
    }
}

/// Returns a condition on the mode of a file.
fn without_set_id(position: u8) -> ArgumentCheck {
    ArgumentCheck {
        position,
        test: ArgumentTest::Bits {
            mask: SET_ID,
            value: 0,
        },
    }
}

/// Returns the bit of `O_TMPFILE` without that of `O_DIRECTORY`, which it includes.
fn temporary() -> libc::c_int {
    libc::O_TMPFILE & !libc::O_DIRECTORY
}

fn prctl(options: &[libc::c_int]) -> AllowedCall {
    let options = options.iter();
    options.fold(call!(SYS_prctl), |call, option| {
        call.only([is(0, option.cast_unsigned())])
    })
}

/// Returns an operation of `ioctl` in the 32 bits that the kernel takes.
fn truncated(operation: libc::Ioctl) -> u32 {
    u32::try_from(operation).unwrap_or(u32::MAX)
}
