//! Compilation of user modules in separate processes. `peal serve` starts `peal compiler` before
//! the confinement and sends it components. `peal compiler` starts `peal compile` for each, kills
//! it at its time-out and reports the result.
mod child;
mod parent;

pub use child::compile;
pub use parent::work;

use crate::supervisor::{ProcessStarter, ServerAccount, StartOrder, StartedProcess, own_program};
use anyhow::{Context, Result};
use peal_config::{Config, Keyword};
use peal_modules::{CodePlace, CompileFailure, CompileLimits, ComponentCompiler, code_dir};
use peal_sandbox::CodeTarget;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Limit of the length of an order or reply, in bytes.
const MAX_LINE: u64 = 8192;
/// Time after a time-out within which a process must have reported it.
const SLACK: Duration = Duration::from_secs(30);

/// Order to compile a component, followed by its bytes.
#[derive(Serialize, Deserialize)]
struct CompileOrder {
    target: CodeTarget,
    place: CodePlace,
    /// Size of the component, in bytes.
    size: u64,
}

/// Result of an order.
#[derive(Serialize, Deserialize)]
enum CompileReply {
    /// The code is in the cache.
    Compiled,
    /// The component cannot be compiled.
    Refused(String),
    /// The compilation was killed at its time-out.
    TimedOut,
    /// The compilation ended with this exit status.
    Died(String),
}

/// Compiler processes. Each handles one order at a time.
pub struct CompilerProcesses {
    idle: Mutex<Vec<BufReader<UnixStream>>>,
    limits: CompileLimits,
    /// Starter of processes. A confined server without it has only those of its start.
    starter: Option<ProcessStarter>,
}

/// Returns the compiler processes, which live as long as this process. Returns `None` if there is nothing
/// to compile in them: compiled code is not cached, or a server that is not supervised has no modules of
/// users.
pub fn start(
    config: &Config,
    starter: Option<ProcessStarter>,
) -> Result<Option<CompilerProcesses>> {
    if code_dir(&config.sandbox).is_none() {
        return Ok(None);
    }
    let limits = CompileLimits::from(config);
    let idle = match (&starter, &config.deploy.user_modules_dir) {
        // They are started when there is something to compile.
        (Some(_), _) => Vec::new(),
        (None, None) => return Ok(None),
        (None, Some(_)) => (0..config.deploy.max_compilers.get())
            .map(|_| Ok(connected(spawn(config, None)?.connection, &limits)?))
            .collect::<Result<_>>()?,
    };
    Ok(Some(CompilerProcesses {
        idle: Mutex::new(idle),
        limits,
        starter,
    }))
}

/// Starts a compiler process, as the user of the server that it serves.
pub fn spawn(config: &Config, account: Option<&ServerAccount>) -> Result<StartedProcess> {
    let cache_dir = match account {
        Some(account) => account.code_dir(config),
        None => code_dir(&config.sandbox).context("compiled code has no directory")?,
    };
    let cache_dir =
        std::path::absolute(cache_dir).context("cannot find the directory of compiled code")?;
    let limits = CompileLimits::from(config);
    let mut command = own_program();
    command.arg("compiler").arg("--cache-dir").arg(&cache_dir);
    command.args(["--timeout-ms", &limits.timeout.as_millis().to_string()]);
    command.args(["--memory-bytes", &limits.memory.to_string()]);
    command.args(["--confinement", config.confinement.mode.name()]);
    if let Some(account) = account {
        command.uid(account.identity.uid).gid(account.identity.gid);
    }
    StartedProcess::start(command).context("cannot start the process that compiles")
}

fn connected(stream: UnixStream, limits: &CompileLimits) -> io::Result<BufReader<UnixStream>> {
    stream.set_read_timeout(Some(limits.timeout.saturating_add(SLACK)))?;
    stream.set_write_timeout(Some(SLACK))?;
    Ok(BufReader::new(stream))
}

impl CompilerProcesses {
    fn idle(&self) -> MutexGuard<'_, Vec<BufReader<UnixStream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process, where this server can.
    fn started(&self) -> Result<BufReader<UnixStream>, CompileFailure> {
        let starter = self.starter.as_ref().ok_or_else(gone)?;
        let started = starter
            .start(StartOrder::Compiler)
            .and_then(|process| Ok(connected(process.connection, &self.limits)?));
        started.map_err(|error| {
            CompileFailure::Unavailable(format!("no process that compiles was started: {error:#}"))
        })
    }

    /// Returns the failure of an order whose process was lost.
    fn lost(&self, error: &io::Error) -> CompileFailure {
        tracing::error!(%error, "compiler process lost");
        match self.starter {
            // The next order has another one started.
            Some(_) => {
                CompileFailure::Unavailable("the process that compiled has ended".to_owned())
            }
            None => gone(),
        }
    }
}

fn gone() -> CompileFailure {
    CompileFailure::Unavailable("a process that compiles has ended; restart the server".to_owned())
}

impl ComponentCompiler for CompilerProcesses {
    fn compile(
        &self,
        target: CodeTarget,
        place: CodePlace,
        component: &[u8],
    ) -> Result<(), CompileFailure> {
        // Not put back after an error: its next reply could be that to this order.
        let idle = self.idle().pop();
        let mut process = idle.map_or_else(|| self.started(), Ok)?;
        let reply = request_compilation(&mut process, (target, place), component)
            .map_err(|error| self.lost(&error))?;
        self.idle().push(process);
        match reply {
            CompileReply::Compiled => Ok(()),
            // The text comes from a process that a component may have taken over.
            CompileReply::Refused(why) => Err(CompileFailure::Refused(crate::plain(&why))),
            CompileReply::TimedOut => Err(CompileFailure::TimedOut(self.limits.timeout)),
            CompileReply::Died(status) => Err(CompileFailure::Died {
                status,
                memory: self.limits.memory,
            }),
        }
    }
}

fn request_compilation(
    process: &mut BufReader<UnixStream>,
    (target, place): (CodeTarget, CodePlace),
    component: &[u8],
) -> io::Result<CompileReply> {
    let stream = process.get_mut();
    stream.write_all(&line(&CompileOrder {
        target,
        place,
        size: component.len() as u64,
    })?)?;
    stream.write_all(component)?;
    let mut text = Vec::new();
    // A component that takes over the process could send without an end.
    if process.take(MAX_LINE).read_until(b'\n', &mut text)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&text)?)
}

fn line(what: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    Ok(text)
}
