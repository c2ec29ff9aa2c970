//! Runs a measuring program to its end and reads what it measured.
use super::arm::Values;
use anyhow::{Context, Result, bail};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Signal, kill_process_group},
};
use std::{
    env, fs,
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long a program may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A directory for one run: what the program writes, and the files by which its procs know of each other
/// (`tests/c/bench/arrivals.h`).
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one; in memory where there is a place for that, so that no disk is measured.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed takes a few bytes until the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end: what it wrote on standard output.
pub fn finish(command: Command, scratch: &Scratch) -> Result<String> {
    Running::start(command, scratch)?.finish(scratch)
}

/// A command that runs in a process group of its own, so that it can be ended with all it started.
pub struct Running(Child);

impl Running {
    /// Starts it; what it writes goes to files.
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

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end: what it wrote on standard output.
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

    fn wait(&mut self) -> Result<ExitStatus> {
        found("its end", || Ok(self.0.try_wait()?))
    }

    /// Waits until something is there, which it does not come to if the command ends.
    pub fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        found(what, || match (look()?, self.0.try_wait()?) {
            (None, Some(status)) => bail!("{status} before this: {what}"),
            (seen, _) => Ok(seen),
        })
    }
}

/// Looks again and again.
fn found<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if start.elapsed() > PATIENCE {
            bail!("this did not come within {PATIENCE:?}: {what}");
        }
        thread::sleep(LOOK);
    }
}

impl Drop for Running {
    /// First in a way that lets a server end its procs.
    fn drop(&mut self) {
        let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        for signal in [Signal::TERM, Signal::KILL] {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            // It may have ended just now.
            let _ = kill_process_group(group, signal);
            thread::sleep(Duration::from_secs(1));
        }
        let _ = self.0.wait();
    }
}

/// The numbers in lines `NAME VALUE`.
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
