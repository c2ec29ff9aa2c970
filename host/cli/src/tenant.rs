//! Processes of a supervised server that run users' modules, each as its user.
use crate::{
    args::TenantArgs,
    confinement::refused_calls,
    process_setup,
    supervisor::{ProcessStarter, ServerAccount, StartOrder, StartedProcess, own_program},
};
use anyhow::{Context, Result, bail};
use peal_config::{Config, Keyword, TenantProcess};
use peal_confinement::{Confinement, ProcessRole};
use peal_modules::user_code_dir;
use peal_system::tenant_cgroup::TenantShares;
use peal_tenant::{StartRuntime, StartedRuntime};
use rustix::process::Resource;
use std::{
    collections::BTreeSet, fs::File, io, os::unix::process::CommandExt, process::ExitCode,
    sync::Arc,
};

/// Memory of a process beside that of its instances, in bytes.
const OWN_MEMORY: u64 = 512 << 20;

/// Largest number of open files of a process.
const MAX_FILES: u64 = 128;

/// Returns the function by which a server starts the processes of users; none if their modules run in the
/// server.
///
/// # Errors
///
/// Fails if the configuration demands processes that this server cannot start.
pub fn starter(config: &Config, starter: Option<ProcessStarter>) -> Result<Option<StartRuntime>> {
    match (config.tenant.process, starter) {
        (Some(TenantProcess::Shared), _) | (None, None) => Ok(None),
        (Some(TenantProcess::Own), None) => bail!(
            "tenant.process is \"own\", which needs a server that root starts as another user: set server.user, or \"shared\""
        ),
        (Some(TenantProcess::Own) | None, Some(starter)) => {
            let start = move |uid: u32| {
                let started = starter.start(StartOrder::TenantRuntime { uid });
                let started = started.map_err(|error| io::Error::other(format!("{error:#}")))?;
                Ok(StartedRuntime {
                    connection: started.connection,
                    pid: started.pid,
                })
            };
            Ok(Some(Arc::new(start)))
        }
    }
}

/// Returns the shares of the process of a user.
pub fn shares(config: &Config) -> TenantShares {
    TenantShares {
        cpu_weight: config.tenant.cpu_weight,
        memory_bytes: memory_limit(config),
    }
}

/// Returns the limit of the memory of a process. A user may have several owners of modules: jobs, too.
fn memory_limit(config: &Config) -> u64 {
    let instances = u64::try_from(config.tenant.max_memory_bytes).unwrap_or(u64::MAX);
    instances.saturating_mul(2).saturating_add(OWN_MEMORY)
}

/// Starts the process of a user.
///
/// # Errors
///
/// Fails if the user is root or that of the server: the server is not believed blindly, and a process that
/// it took over must gain nothing.
pub fn spawn(config: &Config, account: &ServerAccount, uid: u32) -> Result<StartedProcess> {
    if uid == 0 || uid == account.identity.uid {
        bail!("no process runs modules as user {uid}, which is root or the server's user");
    }
    let mut command = own_program();
    let code_dir = user_code_dir(&account.code_dir(config)).join(uid.to_string());
    command
        .arg("tenant")
        .arg("--code-dir")
        .arg(code_dir)
        .args(["--memory-bytes", &memory_limit(config).to_string()])
        .args(["--confinement", config.confinement.mode.name()])
        .uid(uid)
        // The group of the server may read the code that was compiled for the user. The process can read
        // nothing else.
        .gid(account.identity.gid);
    StartedProcess::start(command).with_context(|| format!("cannot start a process as user {uid}"))
}

/// Runs a user's modules for the server at the other end of the standard input.
pub fn run(args: TenantArgs) -> Result<ExitCode> {
    let first = process_setup::standard_input()?;
    let nowhere = File::options()
        .write(true)
        .open("/dev/null")
        .context("cannot open /dev/null")?;
    process_setup::lower_priority().context("cannot lower the priority")?;
    confine(&args)?;
    // From here on lines go to the server, which bounds them. A component that took over the process could
    // otherwise fill the log of the service.
    nix::unistd::dup2_stderr(&nowhere).context("cannot close the standard error")?;
    peal_tenant::serve_tenant(first.into())?;
    Ok(ExitCode::SUCCESS)
}

fn confine(args: &TenantArgs) -> Result<()> {
    process_setup::end_with_parent()?;
    process_setup::hide_memory()?;
    for (resource, most) in [
        (Resource::Data, args.memory_bytes),
        (Resource::Nofile, MAX_FILES),
    ] {
        process_setup::limit(resource, most).context("cannot limit resources")?;
    }
    if let Some(refused) = refused_calls(args.confinement) {
        Confinement {
            refused,
            read: BTreeSet::from([args.code_dir.clone()]),
            ..Confinement::of(ProcessRole::TenantRuntime)
        }
        .enforce()
        .context("cannot confine the process of a user")?;
    }
    Ok(())
}
