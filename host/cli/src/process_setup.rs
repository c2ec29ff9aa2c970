//! Set-up of a server's process and of those that belong to it: no core files, hidden memory, no environment of
//! another user, an end with the parent, and the standard input.
use anyhow::{Context, Result};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, geteuid, getpriority_process, getrlimit, getuid,
    nice, set_dumpable_behavior, set_parent_process_death_signal, setpriority_process, setrlimit,
};
use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
};

/// Limit of a core file, in bytes. At zero the kernel writes no file; at one byte it does not run a
/// core handler either.
const CORE_BYTES: u64 = 1;

/// Variables in which sudo, pkexec and doas store the user that ran them.
const REQUESTERS: [&str; 3] = ["SUDO_UID", "PKEXEC_UID", "DOAS_USER"];

/// Nice value of processes that yield to others.
const LOW_PRIORITY: i32 = 10;

/// Values of these variables that mean root.
const ROOT: [&str; 2] = ["0", "root"];

/// Variables that are kept of another user's environment: they name no file that the server would
/// read or write.
const KEPT_VARIABLES: [&str; 10] = [
    "COLORTERM",
    "JOURNAL_STREAM",
    "LANG",
    "LANGUAGE",
    "NOTIFY_SOCKET",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "TERM",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Prefix of further variables that are kept.
const KEPT_PREFIX: &str = "LC_";

/// Value of `PATH` in the place of another user's.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Gives this process, and those that it starts, a priority above that of usual programs: the nice value
/// with the sign reversed. Without the right to do so, its priority stays.
pub fn raise_priority(priority: u32) {
    let nice = 0_i32.saturating_sub_unsigned(priority);
    let is_lower = getpriority_process(None).is_ok_and(|now| now > nice);
    if is_lower && let Err(error) = setpriority_process(None, nice) {
        tracing::info!(%error, priority, "priority of the server not raised");
    }
}

/// Gives this process the priority of usual programs, if it has a higher one.
///
/// # Errors
///
/// Fails if the system refuses.
pub fn lower_priority() -> io::Result<()> {
    if getpriority_process(None)? < 0 {
        setpriority_process(None, 0)?;
    }
    Ok(())
}

/// Gives this process a low priority, so that procs and the server come first. On a node whose procs never rest
/// a tenth of a core is left.
///
/// # Errors
///
/// Fails if the system refuses.
pub fn take_low_priority() -> io::Result<()> {
    lower_priority()?;
    nice(LOW_PRIORITY)?;
    Ok(())
}

/// Forbids core files of this process and its children: their memory holds keys, passwords and data
/// of procs.
pub fn forbid_core_files() -> Result<()> {
    // The maximum may already be lower, and only a privileged process can raise it.
    let most = getrlimit(Resource::Core)
        .maximum
        .map_or(CORE_BYTES, |most| most.min(CORE_BYTES));
    limit(Resource::Core, most).context("cannot forbid core files")
}

/// Hides the memory of this process: no core file has it, and other processes of its user can neither read
/// it nor trace this process.
pub fn hide_memory() -> Result<()> {
    forbid_core_files()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot hide the memory")
}

/// Lets this process end when its parent ends. If that has already happened, the standard input is closed.
pub fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot be ended with the parent")
}

/// Limits a resource of this process and its children for good.
///
/// # Errors
///
/// Fails if the present limit is lower, and this process may not raise it.
pub fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(resource, limit)?)
}

/// Executes this program again, in the same process, if its environment is that of a user with
/// other rights. Otherwise that user could choose the settings, the directory of temporary files
/// and the caches.
pub fn leave_foreign_environment() -> Result<()> {
    // A set-user-id program has the environment of the user that runs it.
    let is_root = geteuid().is_root();
    let is_lent = getuid() != geteuid();
    let variables: Vec<(OsString, OsString)> = env::vars_os().collect();
    let dropped: Vec<&OsStr> = variables
        .iter()
        .map(|(name, _)| name.as_os_str())
        .filter(|name| !is_kept(name))
        .collect();
    if dropped.is_empty() || !(is_lent || is_root && has_requester(&variables)) {
        return Ok(());
    }
    let settings = dropped
        .iter()
        .map(|name| name.to_string_lossy())
        .filter(|name| name.starts_with("PEAL_"));
    let settings = settings.collect::<Vec<_>>().join(", ");
    if !settings.is_empty() {
        crate::print_line(&format!(
            "the environment belongs to another user and is ignored: {} (use --config or --set instead)",
            crate::plain(&settings)
        ));
    }
    let kept = variables
        .iter()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name, value));
    // The first argument does not name the program: the other user chooses it.
    let program = env::current_exe()
        .context("cannot find this program, to start it in another environment")?;
    let mut args = env::args_os();
    let mut command = Command::new(program);
    command
        .arg0(args.next().unwrap_or_default())
        .args(args)
        .env_clear()
        .envs(kept)
        .env("PATH", PATH);
    // `exec` returns only if it fails.
    Err(command.exec()).context("cannot start this program anew in another environment")
}

/// Returns true if a user other than root started this process, which runs as root.
fn has_requester(variables: &[(OsString, OsString)]) -> bool {
    let requesters = variables
        .iter()
        .filter(|(name, _)| REQUESTERS.iter().any(|requester| name == requester));
    requesters
        .filter(|(_, value)| !value.is_empty())
        .any(|(_, value)| ROOT.iter().all(|root| value != root))
}

fn is_kept(name: &OsStr) -> bool {
    // PATH is replaced. If it counted as dropped, the new program would execute itself without end.
    name == "PATH"
        || KEPT_VARIABLES.iter().any(|kept| name == *kept)
        || name.as_encoded_bytes().starts_with(KEPT_PREFIX.as_bytes())
}

/// Returns the standard input of this process: a connection to the process that started it.
///
/// # Errors
///
/// Fails if there is none.
pub fn standard_input() -> Result<OwnedFd> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    input.context("requests come on standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requester_other_than_root_is_distinguished_from_root() {
        let has = |name: &str, value: &str| has_requester(&[(name.into(), value.into())]);
        for (name, value) in [
            ("SUDO_UID", "1000"),
            ("PKEXEC_UID", "1000"),
            ("DOAS_USER", "ada"),
        ] {
            assert!(has(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("SUDO_UID", "0"),
            ("DOAS_USER", "root"),
            ("SUDO_UID", ""),
            ("USER", "ada"),
        ] {
            assert!(!has(name, value), "{name}={value}");
        }
    }

    #[test]
    fn variables_that_name_files_or_settings_are_not_kept() {
        for name in [
            "PEAL_CONFIG",
            "TMPDIR",
            "XDG_CACHE_HOME",
            "HOME",
            "SSL_CERT_FILE",
            "SUDO_UID",
            "LD_PRELOAD",
            "TZ",
        ] {
            assert!(!is_kept(OsStr::new(name)), "{name}");
        }
        for name in ["LANG", "LC_ALL", "TERM", "NOTIFY_SOCKET", "WATCHDOG_USEC"] {
            assert!(is_kept(OsStr::new(name)), "{name}");
        }
    }
}
