//! Guard of the jobs of `peal run`: a process that kills their procs if `peal run` ends without having done
//! so, as by SIGKILL.
use crate::supervisor::own_program;
use anyhow::{Context, Result};
use std::{
    io::{self, Read, Write},
    process::{Child, ExitCode, Stdio},
};

/// Byte by which `peal run` dismisses its guard. The end of the connection without it is a death.
const DISMISSAL: u8 = b'd';

/// Guard of the jobs of this process.
#[derive(Debug)]
pub struct JobGuard(Child);

impl JobGuard {
    /// Starts the guard of the jobs of this server.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started.
    pub fn start(server: &str) -> io::Result<JobGuard> {
        let mut command = own_program();
        command
            .args(["job-guard", server])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            // Who reads the output of `peal run` must not wait for the guard.
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(JobGuard(command.spawn()?))
    }

    /// Ends the guard. All jobs have ended.
    pub fn dismiss(self) {
        let JobGuard(mut process) = self;
        // A guard that is gone needs no dismissal.
        let _ = process
            .stdin
            .take()
            .map(|mut connection| connection.write_all(&[DISMISSAL]));
        let _ = process.wait();
    }
}

/// Waits for the end of the parent, and kills the procs of its jobs unless it has dismissed this process.
pub fn watch(server: &str) -> Result<ExitCode> {
    // Signals of the terminal are for the parent.
    rustix::process::setsid().context("cannot leave the session")?;
    let mut byte = [0];
    let count = io::stdin()
        .read(&mut byte)
        .context("cannot read the standard input")?;
    if count == 0 {
        peal_launcher::kill_procs_of(server);
    }
    Ok(ExitCode::SUCCESS)
}
