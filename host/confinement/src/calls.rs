//! System calls that seccomp refuses with `EPERM`, as if the caller had no permission.
use crate::{ConfinementError, EnforcementLevel};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// System calls that a server never makes but an attacker in it would: run programs, access other
/// processes, mount, enter or leave namespaces, load code into the kernel, bypass this filter, open
/// files by handle, change the machine.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_vhangup,
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// x32 numbers of the refused calls on x86-64: most calls have a second number with this bit, and
/// some have numbers of their own. These are the ones of `execve`, `ptrace`, `kexec_load`,
/// `process_vm_readv`, `process_vm_writev` and `execveat`.
#[cfg(target_arch = "x86_64")]
const X32: (libc::c_long, [libc::c_long; 6]) = (0x4000_0000, [520, 521, 528, 539, 540, 545]);

/// Allowed socket families. Others give access to raw packets, virtual machines and little-used
/// code of the kernel.
const SOCKETS: [libc::c_int; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Flags of `clone` that create namespaces. Threads are created without them.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    // Not `CLONE_NEWTIME`: `clone` takes its bit for a part of the signal number.
];

/// Rules of a filter: system calls, each refused always (without rules) or for certain arguments.
type SystemCallRules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// Makes the kernel refuse the calls for the calling thread and all threads and processes that it
/// starts.
pub(crate) fn refuse() -> Result<EnforcementLevel, ConfinementError> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(EnforcementLevel::Missing);
    };
    let mut refused: SystemCallRules = numbers().map(|number| (number, Vec::new())).collect();
    let other = |kind: &libc::c_int| condition(SeccompCmpOp::Ne, *kind as u64);
    let other = SOCKETS
        .iter()
        .map(other)
        .collect::<Result<_, _>>()
        .map_err(Error::from)?;
    // The conditions of one rule hold together: the family is none of those that are allowed.
    refused.insert(
        libc::SYS_socket,
        vec![SeccompRule::new(other).map_err(Error::from)?],
    );
    let has = |flag: &libc::c_int| {
        let flag = *flag as u64;
        SeccompRule::new(vec![condition(SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    let namespaces = NAMESPACES
        .iter()
        .map(has)
        .collect::<Result<_, _>>()
        .map_err(Error::from)?;
    refused.insert(libc::SYS_clone, namespaces);
    // The flags of `clone3` are in memory, which a filter cannot read. On `ENOSYS` callers fall
    // back to `clone`.
    let unknown = SystemCallRules::from([(libc::SYS_clone3, Vec::new())]);
    // A filter has one error number, so there are two filters.
    if apply(unknown, libc::ENOSYS, arch)? == EnforcementLevel::Missing {
        return Ok(EnforcementLevel::Missing);
    }
    apply(refused, libc::EPERM, arch)
}

#[cfg(target_arch = "x86_64")]
fn numbers() -> impl Iterator<Item = libc::c_long> {
    let (bit, own) = X32;
    let seconds = REFUSED
        .iter()
        .copied()
        .chain(own)
        .map(move |number| number | bit);
    REFUSED.iter().copied().chain(seconds)
}

#[cfg(not(target_arch = "x86_64"))]
fn numbers() -> impl Iterator<Item = libc::c_long> {
    REFUSED.iter().copied()
}

/// Returns a condition on the first argument of a call, which the kernel takes as 32 bits.
fn condition(operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value)
}

fn apply(
    refused: SystemCallRules,
    errno: libc::c_int,
    arch: TargetArch,
) -> Result<EnforcementLevel, ConfinementError> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let filter =
        SeccompFilter::new(refused, SeccompAction::Allow, answer, arch).map_err(Error::from)?;
    let program = BpfProgram::try_from(filter).map_err(Error::from)?;
    match apply_filter(&program) {
        Ok(()) => Ok(EnforcementLevel::Full),
        // The kernel was built without seccomp.
        Err(Error::Seccomp(error) | Error::Prctl(error))
            if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) =>
        {
            Ok(EnforcementLevel::Missing)
        }
        Err(error) => Err(error.into()),
    }
}
