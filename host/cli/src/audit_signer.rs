//! Signer of the audit trail of `peal serve`: a process that has the secret key, which the server
//! does not have.
use crate::{
    args::AuditSignerArgs,
    audit_trail, config,
    confinement::refused_calls,
    process_setup,
    supervisor::{ProcessStarter, StartOrder, StartedProcess, only_start, own_program},
};
use anyhow::{Context, Result};
use peal_audit::{Keys, SignerMemory, SignerRules, SignerState, TrailSigner, serve_signer};
use peal_config::{Config, Keyword};
use peal_confinement::{Confinement, ProcessRole};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid},
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Starts the signer of a server that is about to be confined, if it has an audit trail. Without a
/// supervisor it is started now, lives as long as this process, and no second one can be started.
pub fn start(config: &Config, starter: Option<ProcessStarter>) -> Result<Option<TrailSigner>> {
    let Some(key) = audit_trail::key_path(config) else {
        return Ok(None);
    };
    if let Some(starter) = starter {
        let start = move || starter.connect(StartOrder::AuditSigner);
        return Ok(Some(TrailSigner::process(start)));
    }
    if refused_calls(config.confinement.mode).is_none() {
        // This process can read the key anyway.
        return Ok(Some(TrailSigner::here(key)));
    }
    let only = only_start(spawn(config, &key, memory()?)?);
    Ok(Some(TrailSigner::process(only)))
}

/// Makes the memory of signers: a file without a name.
fn memory() -> Result<OwnedFd> {
    memfd_create(c"peal-audit-signer", MemfdFlags::CLOEXEC)
        .context("cannot make the memory of the audit trail's signer")
}

/// Starts a signer.
fn spawn(config: &Config, key: &Path, memory: OwnedFd) -> Result<StartedProcess> {
    let SignerRules {
        oldest_age,
        passing_age,
    } = config::trail_retention(config).signer_rules();
    let key = std::path::absolute(key).context("cannot find the key of the audit trail")?;
    let mut command = own_program();
    command.arg("audit-signer").arg("--key").arg(key);
    command.args(["--oldest-age-ms", &oldest_age.as_millis().to_string()]);
    command.args(["--passing-age-ms", &passing_age.as_millis().to_string()]);
    command.args(["--confinement", config.confinement.mode.name()]);
    StartedProcess::start_with_output(command, Stdio::from(memory))
        .context("cannot start the signer of the audit trail")
}

/// Signers of a supervised server, one after another. They share a memory that the server does not
/// have, so that a server cannot have a later one sign what contradicts an earlier one.
pub struct SupervisedSigners {
    memory: OwnedFd,
    last: Mutex<Option<OwnedFd>>,
}

impl SupervisedSigners {
    /// Creates a missing key, while this process has all rights of root. The server's user may own
    /// the directory.
    ///
    /// # Errors
    ///
    /// Fails if the key belongs to another user than root, or cannot be created.
    pub fn prepare(config: &Config) -> Result<SupervisedSigners> {
        if let Some(key) = audit_trail::key_path(config) {
            Keys::open(&key).with_context(|| {
                format!(
                    "audit.key: root's server gives it to the signer alone; `chown root {}` mends a key of the server's user",
                    key.display()
                )
            })?;
        }
        Ok(SupervisedSigners {
            memory: memory()?,
            last: Mutex::default(),
        })
    }

    /// Starts a signer in the place of the last one.
    ///
    /// # Errors
    ///
    /// Fails if there is no audit trail, or the system refuses the process.
    pub fn start(&self, config: &Config) -> Result<StartedProcess> {
        let key = audit_trail::key_path(config).context("the configuration has no audit trail")?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signer) = last.take() {
            end(&signer).context("cannot end the last signer of the audit trail")?;
        }
        let memory = self.memory.try_clone()?;
        let started = spawn(config, &key, memory)?;
        let pid = rustix::process::Pid::from_child(&started.child);
        *last = Some(pidfd_open(pid, PidfdFlags::empty())?);
        Ok(started)
    }
}

/// Ends a signer. Two at once could sign what contradicts each other.
fn end(signer: &OwnedFd) -> rustix::io::Result<()> {
    match pidfd_send_signal(signer, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error),
    }
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    match waitid(WaitId::PidFd(signer.as_fd()), ended) {
        // It was waited for elsewhere.
        Ok(_) | Err(rustix::io::Errno::CHILD) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Serves the server at the other end of the standard input. The standard output is the memory.
pub fn sign(args: AuditSignerArgs) -> Result<ExitCode> {
    // The key is in it.
    process_setup::hide_memory()?;
    let requests = process_setup::standard_input()?;
    let memory = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .context("the standard output is no memory")?;
    let mut memory = SignerMemory::new(File::from(memory));
    let remembered = memory.read().context("the standard output is no memory")?;
    let keys = Keys::open(&args.key)?;
    if let Some(refused) = refused_calls(args.confinement) {
        Confinement {
            refused,
            ..Confinement::of(ProcessRole::AuditSigner)
        }
        .enforce()
        .context("cannot confine the signer of the audit trail")?;
    }
    let rules = SignerRules {
        oldest_age: Duration::from_millis(args.oldest_age_ms),
        passing_age: Duration::from_millis(args.passing_age_ms),
    };
    serve_signer(
        requests.into(),
        SignerState::new(keys, rules, remembered),
        memory,
    )?;
    Ok(ExitCode::SUCCESS)
}
