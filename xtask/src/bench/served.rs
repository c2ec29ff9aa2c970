//! `peal serve` as a measured server, and commands that use its admin socket.
use super::{
    launch::{Running, Scratch},
    programs::Programs,
};
use anyhow::{Result, ensure};
use std::{fs, path::PathBuf, process::Command};

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
        let path = self.path("peal.toml");
        let cache = self.path("cache");
        // The confinement is off: the components are in the repository, which may be in a home
        // directory.
        fs::write(
            &path,
            format!("{config}\n[sandbox]\ncache_dir = {cache:?}\n[confinement]\nmode = \"off\"\n"),
        )?;
        let mut serve = Command::new(&self.programs.peal);
        serve
            .arg("serve")
            .arg("--config")
            .arg(path)
            .arg("--socket")
            .arg(self.socket())
            .env_remove("PEAL_LOG");
        let mut server = Running::start(serve, self.scratch)?;
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
