//! Program of `peal attach`: start, signals, and exit status.
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

/// Running program.
pub struct AttachedApp {
    child: Child,
    pid: Pid,
    signals: Interrupts,
}

/// Reason why the program did not start.
pub enum NotStarted {
    /// The program cannot be executed: its name and the error of the operating system.
    Program(OsString, io::Error),
    /// `peal attach` itself failed.
    Us(anyhow::Error),
}

impl AttachedApp {
    /// Starts the program with these changes of the environment. It stays in this process group,
    /// since launchers send signals to that group.
    pub fn start<'a>(
        program: &[OsString],
        environment: impl Iterator<Item = (&'a str, Option<String>)>,
    ) -> Result<AttachedApp, NotStarted> {
        // Before the program starts: a signal in between would end this process alone.
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

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits until the program has ended, and forwards signals until then.
    pub async fn end(&mut self) -> io::Result<ExitStatus> {
        // Launchers and terminals signal whole groups. If this process leads the group, the program
        // has received the signal too.
        let had_already = getpgrp() == getpid();
        loop {
            let number = tokio::select! {
                status = self.child.wait() => return status,
                signal = self.signals.next() => match signal {
                    // Signals that end programs are always forwarded. User signals are not where
                    // the program has received them: it would handle them twice.
                    UserSignal::Forward(_) if had_already => continue,
                    UserSignal::End(number) | UserSignal::Forward(number) => number,
                },
            };
            if let Some(signal) = Signal::from_named_raw(number) {
                // The process id cannot be reused before the child is waited for.
                let _ = kill_process(self.pid, signal);
            }
        }
    }
}

/// Ends this process in the same way as the program, as far as possible, so that its parent sees
/// the same status.
pub fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(number) = status.signal() {
        // The program has already left a core file if one was wanted.
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
        // The signal did not end this process, since it is handled or ignored.
        return ExitCode::from(
            // Shells report an end by a signal in this way.
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

/// Prints why the program did not start, and returns the exit status that shells use for it.
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
