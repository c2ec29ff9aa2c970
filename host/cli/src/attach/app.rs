//! The program: started, sent the signals that we get, and what its end becomes.
use crate::{
    interrupts::{Interrupts, UserSignal},
    run,
};
use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, getpgrp, getpid, kill_process, setrlimit};
use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};
use tokio::process::{Child, Command};

/// The program that runs.
pub struct AttachedApp {
    child: Child,
    pid: Pid,
    signals: Interrupts,
}

/// Why there is none.
pub enum NotStarted {
    /// The program: what it is called and what the system says.
    Program(OsString, io::Error),
    /// We ourselves.
    Us(anyhow::Error),
}

impl AttachedApp {
    /// Starts it with these changes of our environment. It stays in our process group: whoever signals that, as launchers do, means it.
    pub fn start<'a>(
        program: &[OsString],
        environment: impl Iterator<Item = (&'a str, Option<String>)>,
    ) -> Result<AttachedApp, NotStarted> {
        let signals = Interrupts::new()
            .context("cannot listen to signals")
            .map_err(NotStarted::Us)?;
        let (name, args) = program
            .split_first()
            .context("a program is needed")
            .map_err(NotStarted::Us)?;
        let mut command = Command::new(name);
        command.args(args);
        for (variable, value) in environment {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        let child = command
            .spawn()
            .map_err(|error| NotStarted::Program(name.clone(), error))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid
            .context("the program has no process")
            .map_err(NotStarted::Us)?;
        Ok(AttachedApp {
            child,
            pid,
            signals,
        })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits for its end and passes signals on until then.
    pub async fn end(&mut self) -> io::Result<ExitStatus> {
        // Launchers and terminals signal whole groups: of one that we lead the program has had its signal.
        let had_already = getpgrp() == getpid();
        loop {
            let number = tokio::select! {
                status = self.child.wait() => return status,
                wish = self.signals.next() => match wish {
                    // What ends programs is passed on always, what means something to one alone is not where it has had it.
                    UserSignal::Forward(_) if had_already => continue,
                    UserSignal::End(number) | UserSignal::Forward(number) => number,
                },
            };
            if let Some(signal) = Signal::from_named_raw(number) {
                // Until it is waited for its number is nobody else's.
                let _ = kill_process(self.pid, signal);
            }
        }
    }
}

/// Ends as the program has: whoever started us sees how, as far as can be.
pub fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(number) = status.signal() {
        // The program has left a core file if one was wanted.
        let _ = setrlimit(
            Resource::Core,
            Rlimit {
                current: Some(0),
                maximum: Some(0),
            },
        );
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = kill_process(getpid(), signal);
        }
        // One that we listen to or ignore.
        return ExitCode::from(
            u8::try_from(number).map_or(u8::MAX, |number| number.saturating_add(128)),
        );
    }
    ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX),
    )
}

/// Says that there is no program, with the exit status that shells have for it.
pub fn not_started(why: NotStarted) -> Result<ExitCode> {
    match why {
        NotStarted::Us(error) => Err(error),
        NotStarted::Program(name, error) => {
            crate::print_line(&format!(
                "cannot start {}: {error}",
                crate::plain(&name.to_string_lossy())
            ));
            let missing = error.kind() == io::ErrorKind::NotFound;
            Ok(ExitCode::from(if missing {
                run::NOT_FOUND
            } else {
                run::NOT_EXECUTABLE
            }))
        }
    }
}
