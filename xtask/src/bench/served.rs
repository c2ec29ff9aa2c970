//! `peal serve` as a measured server, and commands that use its admin socket.
use super::{
    launch::{self, Running, Scratch},
    programs::Programs,
};
use anyhow::{Result, ensure};
use std::{fs, os::unix::fs::chown, path::PathBuf, process::Command};

/// User of a supervised server, which Debian's base has.
const SERVER_USER: &str = "daemon";
const SERVER_UID: u32 = 1;

/// Directory of a server's configuration, socket and files.
pub struct ServerDirectory<'a> {
    programs: &'a Programs,
    scratch: &'a Scratch,
}

impl ServerDirectory<'_> {
    /// Creates the directory of a server that runs the built programs.
    pub fn new<'a>(programs: &'a Programs, scratch: &'a Scratch) -> ServerDirectory<'a> {
        ServerDirectory { programs, scratch }
    }

    /// Returns the path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Starts a server with this configuration, and waits until it answers.
    pub fn start(&self, config: &str) -> Result<Running> {
        let cache = self.path("cache");
        // The confinement is off: the components are in the repository, which may be in a home
        // directory.
        let mut server = self.serve(&format!(
            "{config}\n[sandbox]\ncache_dir = {cache:?}\n[confinement]\nmode = \"off\"\n"
        ))?;
        server.until("it serves", || {
            Ok(self
                .command(&["status"])
                .output()?
                .status
                .success()
                .then_some(()))
        })?;
        Ok(server)
    }

    fn serve(&self, config: &str) -> Result<Running> {
        let path = self.path("peal.toml");
        fs::write(&path, config)?;
        let mut serve = Command::new(&self.programs.peal);
        serve
            .arg("serve")
            .arg("--config")
            .arg(path)
            .arg("--socket")
            .arg(self.socket())
            .env_remove("PEAL_LOG");
        Running::start(serve, self.scratch)
    }

    /// Starts a server with this configuration as it is shipped: root supervises it, and it runs confined
    /// as a user of its own. Waits for the line that says that it is ready.
    pub fn start_supervised(&self, config: &str) -> Result<Running> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "only root can start a server of another user"
        );
        chown(self.path("."), Some(SERVER_UID), Some(SERVER_UID))?;
        let cache = self.path("cache");
        // The components are in the repository, which may be in a home directory.
        let components = &self.programs.components;
        let mut server = self.serve(&format!(
            "{config}\n[sandbox]\ncache_dir = {cache:?}\n[server]\nuser = {SERVER_USER:?}\n\
             [confinement]\nread_only_paths = [{components:?}]\n"
        ))?;
        server.until("it is ready", || {
            let printed = fs::read_to_string(self.path("stderr"))?;
            Ok(printed.contains("ready: ").then_some(()))
        })?;
        Ok(server)
    }

    /// Returns the verbs of `peal` that the processes run which a supervisor has started.
    pub fn children(&self, server: &Running) -> Result<Vec<String>> {
        let pid = server.pid();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let verbs = list.split_whitespace().map(|child| {
            let line = fs::read(format!("/proc/{child}/cmdline"))?;
            let verb = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
            Ok(String::from_utf8_lossy(verb).into_owned())
        });
        verbs.collect()
    }

    /// Runs `peal` with these arguments, and returns its output.
    pub fn ask(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output()?;
        ensure!(
            output.status.success(),
            "peal {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Measures events that a proc of a new job raises, until the server's handlers have raised the reply, in
    /// microseconds.
    pub fn pingpong(&self, count: u32, warm: u32) -> Result<f64> {
        self.ask(&["job", "register", "job", "-n", "1"])?;
        let environment = self.ask(&["job", "environment", "job", "--rank", "0"])?;
        let files = Scratch::new()?;
        let mut client = Command::new(&self.programs.bench);
        client
            .args(["proc", "pingpong", &count.to_string(), &warm.to_string()])
            .arg(files.path())
            .envs(environment.lines().filter_map(|line| line.split_once('=')));
        launch::value(&launch::finish(client, &files)?, "us")
    }

    /// Stops the server, and waits for its end.
    pub fn stop(&self, server: Running) -> Result<()> {
        self.ask(&["stop", "--wait"])?;
        server.finish(self.scratch)?;
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.path("run/admin.sock")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.peal);
        command
            .args(args)
            .env("PEAL_ADMIN_SOCKET", self.socket())
            .env_remove("PEAL_LOG");
        command
    }
}
