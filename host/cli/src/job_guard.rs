//! Guard of the jobs of `peal run`: a process that kills their procs if `peal run` ends without having done
//! so, as by SIGKILL.
use crate::supervisor::own_program;
use anyhow::{Context, Result};
use peal_launcher::StartObserver;
use peal_system::process::{ProcessId, RunningProcess};
use std::{
    io::{self, BufRead, Write},
    process::{Child, ChildStdin, ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

/// Line by which `peal run` dismisses its guard. The end of the connection without it is a death.
const DISMISSAL: &str = "dismissed";

/// Largest number of procs that are remembered. Those that have ended are forgotten first.
const MAX_PROCS: usize = 65_536;

/// Guard of the jobs of this process.
#[derive(Debug)]
pub struct JobGuard {
    process: Child,
    connection: GuardConnection,
}

/// Connection to a guard, unless it is gone. The host environment writes started procs to it.
type GuardConnection = Arc<Mutex<Option<ChildStdin>>>;

impl JobGuard {
    /// Starts a guard.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started.
    pub fn start() -> io::Result<JobGuard> {
        let mut command = own_program();
        command
            .arg("job-guard")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            // A reader of the output of `peal run` must not wait for the guard.
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        let connection = Arc::new(Mutex::new(process.stdin.take()));
        Ok(JobGuard {
            process,
            connection,
        })
    }

    /// Returns an observer of starts that tells this guard of each proc. A line is short and the guard reads
    /// it at once, so that the write does not block.
    pub fn observer(&self) -> StartObserver {
        let connection = self.connection.clone();
        Box::new(move |pid| {
            // A proc that has ended has an identity until it is waited for.
            let id = RunningProcess::of(pid).map(|process| process.id);
            if let Some(Ok(line)) = id.map(|id| serde_json::to_string(&id)) {
                write_line(&connection, &line);
            }
        })
    }

    /// Ends the guard. All jobs have ended.
    pub fn dismiss(self) {
        let JobGuard {
            mut process,
            connection,
        } = self;
        write_line(&connection, DISMISSAL);
        let _ = process.wait();
    }
}

/// Writes a line. A guard that is gone needs none.
fn write_line(connection: &GuardConnection, line: &str) {
    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(to) = &mut *connection
        && writeln!(to, "{line}").is_err()
    {
        *connection = None;
    }
}

/// Remembers procs until the end of the parent, and kills them then unless it has dismissed this process.
pub fn watch() -> Result<ExitCode> {
    // Signals of the terminal are for the parent.
    rustix::process::setsid().context("cannot leave the session")?;
    let mut procs: Vec<ProcessId> = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line.context("cannot read the standard input")?;
        if line == DISMISSAL {
            return Ok(ExitCode::SUCCESS);
        }
        let proc: ProcessId = serde_json::from_str(&line).context("the line is no process")?;
        procs.push(proc);
        if procs.len() > MAX_PROCS {
            procs.retain(|proc| proc.is_there());
            procs.truncate(MAX_PROCS);
        }
    }
    peal_launcher::kill_left_procs(&procs);
    Ok(ExitCode::SUCCESS)
}
