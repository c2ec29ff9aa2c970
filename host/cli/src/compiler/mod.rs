//! Compilation of user modules in separate processes. `peal serve` starts `peal compiler` before
//! the confinement and sends it components. `peal compiler` starts `peal compile` for each, kills
//! it at its time-out and reports the result.
mod child;
mod parent;

pub use child::compile;
pub use parent::work;

use crate::supervisor::{ProcessStarter, ServerAccount, StartOrder, StartedProcess, USUAL_CACHE};
use anyhow::{Context, Result};
use peal_config::{Config, Keyword};
use peal_modules::{CompileFailure, CompileLimits, ComponentCompiler, code_dir};
use peal_sandbox::CodeTarget;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    process::Command,
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
    /// Starter of a process in the place of a lost one. A confined server without it can start none.
    starter: Option<ProcessStarter>,
}

/// Starts the compiler processes, which live as long as this process. Returns `None` if users
/// install no modules or compiled code is not cached.
pub fn start(
    config: &Config,
    starter: Option<ProcessStarter>,
) -> Result<Option<CompilerProcesses>> {
    if config.deploy.user_modules_dir.is_none() || code_dir(&config.sandbox).is_none() {
        return Ok(None);
    }
    let limits = CompileLimits::from(config);
    let started = |_| {
        let stream = match &starter {
            Some(starter) => starter.start(StartOrder::Compiler)?,
            None => spawn(config, None)?.connection,
        };
        Ok(connected(stream, &limits)?)
    };
    let idle = (0..config.deploy.max_compilers.get())
        .map(started)
        .collect::<Result<_>>()?;
    Ok(Some(CompilerProcesses {
        idle: Mutex::new(idle),
        limits,
        starter,
    }))
}

/// Starts a compiler process, as the user of the server that it serves.
pub fn spawn(config: &Config, account: Option<&ServerAccount>) -> Result<StartedProcess> {
    let cache_dir = match account {
        // The environment of this process is that of root.
        Some(_) => config
            .sandbox
            .cache_dir
            .clone()
            .unwrap_or_else(|| USUAL_CACHE.into()),
        None => code_dir(&config.sandbox).context("compiled code has no directory")?,
    };
    let cache_dir =
        std::path::absolute(cache_dir).context("cannot find the directory of compiled code")?;
    let limits = CompileLimits::from(config);
    let mut command = Command::new("/proc/self/exe");
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

    /// Returns the failure of an order whose process was lost. Starts another process for the next
    /// order where this server can.
    fn lost(&self, error: &io::Error) -> CompileFailure {
        tracing::error!(%error, "compiler process lost");
        let Some(starter) = &self.starter else {
            return gone();
        };
        let started = starter
            .start(StartOrder::Compiler)
            .and_then(|stream| Ok(connected(stream, &self.limits)?));
        match started {
            Ok(process) => {
                self.idle().push(process);
                CompileFailure::Unavailable(
                    "the process that compiled has ended; another one was started".to_owned(),
                )
            }
            Err(error) => CompileFailure::Unavailable(format!(
                "no other process that compiles was started: {error:#}"
            )),
        }
    }
}

fn gone() -> CompileFailure {
    CompileFailure::Unavailable("a process that compiles has ended; restart the server".to_owned())
}

impl ComponentCompiler for CompilerProcesses {
    fn compile(&self, target: CodeTarget, component: &[u8]) -> Result<(), CompileFailure> {
        // Not put back after an error: its next reply could be that to this order.
        let mut process = self.idle().pop().ok_or_else(gone)?;
        let reply = request_compilation(&mut process, target, component)
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
    target: CodeTarget,
    component: &[u8],
) -> io::Result<CompileReply> {
    let stream = process.get_mut();
    stream.write_all(&line(&CompileOrder {
        target,
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
