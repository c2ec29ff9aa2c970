//! Runs of a measuring program, and parsing of its output.
use super::arm::Values;
use anyhow::{Context, Result, bail};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, mknodat, openat},
    io::{Errno, read, write},
    process::{Pid, Signal, kill_process_group},
};
use std::{
    env, fs,
    fs::File,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time limit of a program.
const PATIENCE: Duration = Duration::from_secs(120);

/// Interval of the checks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Directory of one run. It holds the output of the program, and the files by which its procs
/// synchronize (`tests/c/bench/arrivals.h`).
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory; in memory if possible, so that no disk is measured.
    pub fn new() -> Result<Scratch> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            env::temp_dir()
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("peal-bench-{}-{number}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        let scratch = Scratch(path);
        for file in ["tally", "times"] {
            File::create(scratch.path().join(file))?;
        }
        for pipe in ["last", "leave", "turn", "over"] {
            mknodat(
                CWD,
                scratch.path().join(pipe),
                FileType::Fifo,
                Mode::RUSR | Mode::WUSR,
                0,
            )?;
        }
        Ok(scratch)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Opens one of the pipes for reading and writing, without waiting for procs.
    pub fn pipe(&self, name: &str) -> Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(CWD, self.path().join(name), flags, Mode::empty())?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed holds few bytes, and is in memory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end, and returns its standard output.
pub fn finish(command: Command, scratch: &Scratch) -> Result<String> {
    Running::start(command, scratch)?.finish(scratch)
}

/// Command in a process group of its own, so that it can be ended with its descendants.
pub struct Running(Child);

impl Running {
    /// Starts a command; its output goes to files.
    pub fn start(mut command: Command, scratch: &Scratch) -> Result<Running> {
        let file = |name| File::create(scratch.path().join(name));
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file("stdout")?)
            .stderr(file("stderr")?);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        Ok(Running(child))
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for the end, and returns the standard output.
    pub fn finish(mut self, scratch: &Scratch) -> Result<String> {
        let status = self.wait()?;
        let read = |name| {
            fs::read(scratch.path().join(name))
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        if !status.success() {
            bail!(
                "{status}: {}",
                read("stderr")?.lines().last().unwrap_or("it wrote nothing")
            );
        }
        Ok(read("stdout")?)
    }

    /// Waits for a message of procs in a pipe. Fails if the command ends before.
    pub fn message<const BYTES: usize>(
        &mut self,
        what: &str,
        pipe: &OwnedFd,
    ) -> Result<[u8; BYTES]> {
        self.until(what, || {
            let mut message = [0; BYTES];
            match read(pipe, &mut message) {
                Ok(_) => Ok(Some(message)),
                Err(Errno::AGAIN) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Waits for the end, whatever the status is.
    pub fn ended(mut self) -> Result<()> {
        self.wait().map(|_| ())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        found("its end", || Ok(self.0.try_wait()?))
    }

    /// Waits until `look` finds something. Fails if the command ends before.
    pub fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        found(what, || match (look()?, self.0.try_wait()?) {
            (None, Some(status)) => {
                bail!("the program ended with {status} before this happened: {what}")
            }
            (seen, _) => Ok(seen),
        })
    }
}

/// Lets this number of procs continue, which each read a byte from the pipe.
pub fn release(pipe: &OwnedFd, procs: u32) -> Result<()> {
    write(pipe, &vec![0; procs as usize])?;
    Ok(())
}

/// Calls `look` repeatedly until it finds something.
fn found<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if start.elapsed() > PATIENCE {
            bail!("this did not happen within {PATIENCE:?}: {what}");
        }
        thread::sleep(LOOK);
    }
}

impl Drop for Running {
    /// Ends the process group, first by a signal that lets a server end its procs.
    fn drop(&mut self) {
        let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        for signal in [Signal::TERM, Signal::KILL] {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            // The group may have ended just now.
            let _ = kill_process_group(group, signal);
            thread::sleep(Duration::from_secs(1));
        }
        let _ = self.0.wait();
    }
}

/// Returns the value of this name in lines `NAME VALUE`.
pub fn value(written: &str, name: &str) -> Result<f64> {
    let found = values(written)?.into_iter().find(|value| value.0 == name);
    Ok(found.with_context(|| format!("no result {name:?}"))?.1)
}

/// Parses lines `NAME VALUE`.
pub fn values(written: &str) -> Result<Values> {
    let value = |line: &str| -> Result<(String, f64)> {
        let (name, value) = line
            .split_once(' ')
            .with_context(|| format!("no result: {line:?}"))?;
        Ok((
            name.to_owned(),
            value
                .trim()
                .parse()
                .with_context(|| format!("no result: {line:?}"))?,
        ))
    };
    written.lines().map(value).collect()
}
