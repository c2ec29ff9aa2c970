//! Node of a lab: commands on it, its files, and its end.
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Node of a lab.
#[derive(Debug)]
pub struct LabNode {
    pub(crate) name: String,
    /// Process id of its first process outside of the lab.
    pub(crate) pid: u32,
}

impl LabNode {
    /// Returns its name, which is also its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id of its first process outside of the lab.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns a command that runs a program on the node, in the directory `/`. The program is killed with the command.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_in("/", program)
    }

    /// Returns a command that runs a program on the node, in this directory.
    pub fn command_in(&self, directory: impl AsRef<Path>, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.enter(&["--mount", "--uts", "--ipc", "--net", "--pid"]);
        // `nsenter` waits for the program and passes no signal on.
        command
            .args(["setpriv", "--pdeathsig", "KILL", "env", "-C"])
            .arg(directory.as_ref())
            .arg(program)
            .stdin(Stdio::null());
        command
    }

    /// Returns a command of the machine in some namespaces of the node.
    pub(crate) fn enter(&self, namespaces: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.pid.to_string()])
            .args(namespaces)
            .arg("--");
        command
    }

    /// Returns the path by which the machine reaches a file of the node. Absolute links on the way lead to files of the
    /// machine.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        Path::new("/proc")
            .join(self.pid.to_string())
            .join("root")
            .join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Writes a file of the node, and creates its directory.
    ///
    /// # Errors
    ///
    /// Names the file.
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> Result<()> {
        let file = self.path(&path);
        let wrote = fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))
            .and_then(|()| fs::write(&file, contents));
        wrote.with_context(|| format!("writing {} on {}", path.as_ref().display(), self.name))
    }

    /// Returns the text of a file of the node.
    ///
    /// # Errors
    ///
    /// Names the file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let bytes = fs::read(self.path(&path))
            .with_context(|| format!("reading {} on {}", path.as_ref().display(), self.name))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a command on the node that puts itself into the background.
    ///
    /// # Errors
    ///
    /// Holds the output of a command that fails.
    pub(crate) fn start_daemon(&self, words: &[&str]) -> Result<()> {
        // The daemon may keep the output open, so that it is a file.
        let output = format!("/run/start-{}", words.first().unwrap_or(&"daemon"));
        let status = self
            .command("sh")
            .args(["-c", "exec \"$@\" >\"$0\" 2>&1", &output])
            .args(words)
            .status()
            .with_context(|| format!("running {} on {}", words.join(" "), self.name))?;
        ensure!(
            status.success(),
            "`{}` on {} failed: {status}\n{}",
            words.join(" "),
            self.name,
            self.read(&output).unwrap_or_default()
        );
        Ok(())
    }

    /// Kills all processes of the node.
    pub(crate) fn kill(&self) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} is no process id", self.pid))?;
        let process = pidfd_open(pid, PidfdFlags::empty())
            .with_context(|| format!("looking for node {}", self.name))?;
        pidfd_send_signal(&process, Signal::KILL)
            .with_context(|| format!("killing node {}", self.name))
    }
}
