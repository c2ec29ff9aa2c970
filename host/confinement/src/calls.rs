//! System calls that seccomp allows to a role. Others fail with `EPERM`, as if the caller had no
//! permission.
use crate::{
    ConfinementError, EnforcementLevel, ProcessRole, RefusedCalls,
    groups::{ArgumentCheck, ArgumentTest},
};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// Calls that fail with `ENOSYS`. Their flags and modes are in memory, which a filter cannot read.
/// Callers fall back to `clone` and `openat`.
const ABSENT: [libc::c_long; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// First number of calls that are younger than Linux 6.5, and the end of those that a later kernel
/// may have. They fail with `ENOSYS` as well: libraries that try one fall back to an older call.
const YOUNGER: std::ops::Range<libc::c_long> = 451..512;

/// Rules of a filter: system calls, each with its alternatives. A call without any is allowed with
/// all arguments.
type SystemCallRules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// Makes the kernel refuse all calls but those of the role, to the calling thread and all threads
/// and processes that it starts.
pub(crate) fn allow_only(
    role: ProcessRole,
    refused: RefusedCalls,
) -> Result<EnforcementLevel, ConfinementError> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(EnforcementLevel::Missing);
    };
    let absent: SystemCallRules = ABSENT
        .into_iter()
        .chain(YOUNGER)
        .map(|number| (number, Vec::new()))
        .collect();
    let mut allowed = rules(role).map_err(Error::from)?;
    // A filter has one error number, so there are two filters, and the stricter answer counts.
    allowed.extend(absent.clone());
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(absent, SeccompAction::Allow, missing, arch);
    if apply(filter)? == EnforcementLevel::Missing {
        return Ok(EnforcementLevel::Missing);
    }
    let refusal = match refused {
        RefusedCalls::Fail => SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        RefusedCalls::Log => SeccompAction::Log,
    };
    apply(SeccompFilter::new(
        allowed,
        refusal,
        SeccompAction::Allow,
        arch,
    ))
}

/// Returns the rules of a role.
fn rules(role: ProcessRole) -> Result<SystemCallRules, BackendError> {
    let groups = role.access().groups;
    let calls = groups
        .iter()
        .flat_map(|group| group.calls().into_iter().chain(group.older_calls()));
    let mut rules = SystemCallRules::new();
    let mut unconditional = Vec::new();
    for call in calls {
        if call.alternatives.is_empty() {
            unconditional.push(call.number);
        }
        let alternatives = call.alternatives.iter().map(|checks| rule(checks));
        rules
            .entry(call.number)
            .or_default()
            .extend(alternatives.collect::<Result<Vec<_>, _>>()?);
    }
    // A group that allows a call with all arguments outweighs others.
    for number in unconditional {
        rules.insert(number, Vec::new());
    }
    Ok(rules)
}

fn rule(checks: &[ArgumentCheck]) -> Result<SeccompRule, BackendError> {
    let condition = |check: &ArgumentCheck| {
        let (operator, value) = match check.test {
            ArgumentTest::Is(value) => (SeccompCmpOp::Eq, value),
            ArgumentTest::Bits { mask, value } => (SeccompCmpOp::MaskedEq(mask.into()), value),
        };
        SeccompCondition::new(
            check.position,
            SeccompCmpArgLen::Dword,
            operator,
            value.into(),
        )
    };
    SeccompRule::new(checks.iter().map(condition).collect::<Result<_, _>>()?)
}

fn apply(
    filter: Result<SeccompFilter, BackendError>,
) -> Result<EnforcementLevel, ConfinementError> {
    let program = BpfProgram::try_from(filter.map_err(Error::from)?).map_err(Error::from)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_all_roles_fit_into_the_kernel() {
        /// Limit of the kernel, in instructions.
        const MAX_INSTRUCTIONS: usize = 4096;
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        for role in ProcessRole::ALL {
            let rules = rules(role).unwrap();
            let calls = rules.len();
            let refusal = SeccompAction::Errno(1);
            let filter = SeccompFilter::new(rules, refusal, SeccompAction::Allow, arch).unwrap();
            let program = BpfProgram::try_from(filter).unwrap();
            assert!(
                program.len() < MAX_INSTRUCTIONS,
                "{role:?}: {} instructions for {calls} calls",
                program.len()
            );
        }
    }

    #[test]
    fn harmful_calls_are_in_no_role() {
        let harmful = [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_chroot,
            libc::SYS_pivot_root,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_io_uring_setup,
            libc::SYS_open_by_handle_at,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_reboot,
            libc::SYS_personality,
            libc::SYS_mknodat,
            libc::SYS_setxattr,
            libc::SYS_fsetxattr,
            libc::SYS_execveat,
            libc::SYS_pkey_mprotect,
        ];
        for role in ProcessRole::ALL {
            let rules = rules(role).unwrap();
            let found: Vec<_> = harmful
                .iter()
                .filter(|call| rules.contains_key(call))
                .collect();
            assert!(found.is_empty(), "{role:?}: {found:?}");
        }
    }
}
