//! Compilation of user modules in separate processes. `peal serve` starts `peal compiler` before
//! the confinement and sends it components. `peal compiler` starts `peal compile` for each, kills
//! it at its time-out and reports the result.
mod child;
mod parent;

pub use child::compile;
pub use parent::work;

use anyhow::{Context, Result};
use peal_config::{Config, Keyword};
use peal_modules::{CompileFailure, CompileLimits, ComponentCompiler, code_dir};
use peal_sandbox::CodeTarget;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
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
}

/// Starts the compiler processes, which live as long as this process. Returns `None` if users
/// install no modules or compiled code is not cached.
pub fn start(config: &Config) -> Result<Option<CompilerProcesses>> {
    let Some(cache_dir) = config
        .deploy
        .user_modules_dir
        .as_ref()
        .and_then(|_| code_dir(&config.sandbox))
    else {
        return Ok(None);
    };
    let cache_dir =
        std::path::absolute(cache_dir).context("cannot find the directory of compiled code")?;
    let limits = CompileLimits::from(config);
    let start = |_| -> Result<BufReader<UnixStream>> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
        ours.set_read_timeout(Some(limits.timeout.saturating_add(SLACK)))?;
        ours.set_write_timeout(Some(SLACK))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("compiler").arg("--cache-dir").arg(&cache_dir);
        command.args(["--timeout-ms", &limits.timeout.as_millis().to_string()]);
        command.args(["--memory-bytes", &limits.memory.to_string()]);
        command.args(["--confinement", config.confinement.mode.name()]);
        command
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null());
        // An interrupt from a terminal must not end a process that the server still needs.
        command.process_group(0);
        // The child is not waited for: it ends with this process, since its socket is closed then.
        command
            .spawn()
            .context("cannot start the process that compiles")?;
        Ok(BufReader::new(ours))
    };
    let idle = (0..config.deploy.max_compilers.get())
        .map(start)
        .collect::<Result<_>>()?;
    Ok(Some(CompilerProcesses {
        idle: Mutex::new(idle),
        limits,
    }))
}

impl ComponentCompiler for CompilerProcesses {
    fn compile(&self, target: CodeTarget, component: &[u8]) -> Result<(), CompileFailure> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || {
            CompileFailure::Unavailable(
                "a process that compiles has ended; restart the server".to_owned(),
            )
        };
        // Not put back after an error: its next reply could be that to this order.
        let mut process = idle().pop().ok_or_else(gone)?;
        let reply = ask(&mut process, target, component).map_err(|error| {
            tracing::error!(%error, "compiler process lost");
            gone()
        })?;
        idle().push(process);
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

fn ask(
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
